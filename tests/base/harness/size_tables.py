"""The tables of what `make size-figures` has measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cells import Cells

Lines = Sequence[Mapping[str, Any]]
GIB, MIB = float(1 << 30), float(1 << 20)
PRIMARY, FOLLOWER, INDICO = "a", "b", "indico-one"
ROWS = (
    ("loading", "loading in bulk"),
    ("starting", "`up` after it"),
    ("first_synchronisation", "first synchronisation"),
    ("restart_of_indico", "`restart` of an Indico, until it shows a page"),
    ("cold_restart_of_indico", "the same, with nothing in memory"),
    ("restart", "`restart` of the primary"),
    ("full_backup", "full backup"),
    ("incremental_backup", "incremental backup"),
    ("statistics", "`stats`"),
    ("pack", "`pack`"),
    ("longest_pause_of_pack", "longest pause between commits meanwhile"),
    ("failover", "`failover`, 20 transactions exported"),
    ("rejoin", "`rejoin` of the former primary"),
    ("clone", "`clone`"),
)


def table(lines: Lines) -> Cells:
    """Return the seconds of each operation, by storage and size."""
    rows = [
        (what, *(f"{each[key]:.2f}" if key in each else "-" for each in lines))
        for key, what in ROWS
    ]
    columns = (f"{_storage(each)}, {each['bytes'] / GIB:.2f} GiB" for each in lines)
    return Cells(("seconds", *columns), rows)


def room(lines: Lines) -> Cells:
    """Return what each storage takes of the disk (GiB) and of the memory (MiB), by size.

    The disk is measured after all operations, with what a pack and a recovery export leave; the
    memory too.
    """
    rows = [
        (
            _storage(each),
            f"{each['bytes'] / GIB:.2f}",
            *(_of(each["disk"], node, GIB, 2) for node in (PRIMARY, FOLLOWER)),
            *(
                _of(each.get("memory", {}), program, MIB, 0)
                for program in (f"node-{PRIMARY}", f"node-{FOLLOWER}", INDICO)
            ),
        )
        for each in lines
    ]
    disk = ("database, GiB", "disk of one node, GiB", "of the other")
    memory = ("memory of one server, MiB", "of the other", "of an Indico")
    return Cells(("storage", *disk, *memory), rows)


def _storage(line: Mapping[str, Any]) -> str:
    return str(line["storage"]).removeprefix("relstorage-")


def _of(found: Mapping[str, int], name: str, unit: float, digits: int) -> str:
    return f"{found[name] / unit:.{digits}f}" if name in found else "-"
