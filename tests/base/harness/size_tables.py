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
    ("start_of_a_secondary", "start of a secondary without its primary, until it answers"),
    ("failover", "`failover`, 20 transactions exported"),
    ("rejoin", "`rejoin` of the former primary"),
    ("clone", "`clone`"),
    ("restore", "`restore` of the packed database"),
)
READS, WRITES = "testReadConferenceRoomsThroughput", "testWriteConferencesThroughput"
IN_APP = (
    (f"{READS} cold", "reads of a conference's room, cold caches"),
    (f"{READS} hot", "the same, hot caches"),
    (f"{WRITES} cold", "modifications of a conference, cold caches"),
    (f"{WRITES} hot", "the same, hot caches"),
)
COMMITS = (
    ("commits_before_pack", "commits of one client before a pack"),
    ("commits_during_pack", "the same, during it"),
    ("commits_after_pack", "the same, after it"),
)


def table(lines: Lines) -> Cells:
    """Return the seconds of each operation, by storage and size."""
    rows = [
        (what, *(f"{each[key]:.2f}" if key in each else "-" for each in lines))
        for key, what in ROWS
    ]
    return Cells(("seconds", *_columns(lines)), rows)


def rates(lines: Lines) -> Cells:
    """Return how often a second Indico reads and modifies, and clients commit, as ``table``."""
    rows = [
        *((what, *(_rate(each.get("in_app", {}), key) for each in lines)) for key, what in IN_APP),
        *((what, *(_rate(each, key) for each in lines)) for key, what in COMMITS),
    ]
    return Cells(("a second", *_columns(lines)), rows)


def _columns(lines: Lines) -> Sequence[str]:
    return [f"{_storage(each)}, {each['bytes'] / GIB:.2f} GiB" for each in lines]


def _rate(found: Mapping[str, Any], name: str) -> str:
    return f"{found[name]:,.0f}" if name in found else "-"


def room(lines: Lines) -> Cells:
    """Return what each storage takes of the disk (GiB) and of the memory (MiB), by size.

    The disk is measured after all operations, with what a pack and a recovery export leave; the
    memory too, except the most that a follower had in its first synchronisation.
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
            _of(each.get("peaks_of_synchronisation", {}), f"node-{FOLLOWER}", MIB, 0),
        )
        for each in lines
    ]
    disk = ("database, GiB", "disk of one node, GiB", "of the other")
    memory = ("memory of one server, MiB", "of the other", "of an Indico", "most, in a first copy")
    return Cells(("storage", *disk, *memory), rows)


def _storage(line: Mapping[str, Any]) -> str:
    return str(line["storage"]).removeprefix("relstorage-")


def _of(found: Mapping[str, int], name: str, unit: float, digits: int) -> str:
    return f"{found[name] / unit:.{digits}f}" if name in found else "-"
