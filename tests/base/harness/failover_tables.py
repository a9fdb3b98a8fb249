"""The tables of what faults cost a cluster that replaces its primary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from cells import Cells

from indico_zodbrepl.bench.summary import nearest_rank

Lines = Sequence[Mapping[str, Any]]
FAULTS = (
    "server killed",
    "server frozen",
    "host killed",
    "host killed with etcd's leader",
    "host isolated",
    "host isolated with etcd's leader",
    "host cut from etcd",
    "automation frozen",
    "host frozen",
    "etcd member killed",
    "leading etcd member killed",
)
ORDER = ("zrs", "relstorage-postgresql", "relstorage-mariadb", "neo")
LOSSES = ("server killed", "host killed", "host isolated", "host frozen")
LEASE = 3.0
ENOUGH = 20
"""With fewer rounds, 95 % is the worst."""


def rounds(lines: Lines, **settings: object) -> Cells:
    """Return what the rounds with some settings took, in seconds, by their fault."""
    rows = []
    for fault in FAULTS:
        found = [each for each in lines if _has(each, fault=fault, **settings)]
        if found:
            rows.append(
                (
                    fault,
                    str(len(found)),
                    *_seconds([each["first"] for each in found if each["first"] is not None]),
                    f"{max(each['pause'] for each in found):.2f}",
                    *_seconds([each["read_gap"] for each in found]),
                )
            )
    columns = ("fault", "rounds", *_three("first commit"), "write pause, worst")
    return Cells((*columns, *_three("read pause")), rows)


def promises(lines: Lines) -> Cells:
    """Return what became of the commits of some rounds, by their fault, and the machine's load."""
    rows = []
    for fault in FAULTS:
        found = [each for each in lines if each["fault"] == fault]
        if found:
            times = Counter(each["takeovers"] for each in found)
            loads = [each["load"] for each in found]
            counted = ("acknowledged", "missing", "unaccounted", "by_no_leader")
            rows.append(
                (
                    fault,
                    ", ".join(f"{many} with {each}" for each, many in sorted(times.items())),
                    *(f"{sum(each[key] for each in found):,}" for key in counted),
                    f"{min(loads):.0f} to {max(loads):.0f}",
                )
            )
    commits = ("acknowledged", "missing", "of these not exported", "by a former primary")
    return Cells(("fault", "rounds, by failovers", *commits, "load"), rows, texts=2)


def by_storage(lines: Lines) -> Cells:
    """Return what the loss of a primary costs each storage, and what became of commits.

    A median is that of all rounds; with an even number of them, the lower one of the middle.
    """
    rows = []
    settings = {(each["backend"], each["synchronous"]) for each in lines}
    for backend, synchronous in sorted(settings, key=order):
        for fault in LOSSES:
            found = [
                each
                for each in lines
                if _has(each, backend=backend, synchronous=synchronous, lease=LEASE, fault=fault)
            ]
            if found:
                median, _most, worst = _seconds([each["first"] for each in found])
                counted = ("acknowledged", "missing", "unaccounted")
                rows.append(
                    (
                        f"`{backend}`, `synchronous {synchronous}`",
                        fault,
                        str(len(found)),
                        median,
                        worst,
                        *(f"{sum(each[key] for each in found):,}" for key in counted),
                    )
                )
    seconds = ("time to the first commit, median, s", "worst, s")
    commits = ("acknowledged", "missing at the new primary", "of these in no recovery export")
    return Cells(("storage", "fault", "rounds", *seconds, *commits), rows, texts=2)


def order(setting: tuple[str, int]) -> tuple[int, int]:
    """Return the place of a backend with a value of ``synchronous`` among the others."""
    backend, synchronous = setting
    return ORDER.index(backend), -synchronous


def _has(line: Mapping[str, Any], **settings: object) -> bool:
    return all(line.get(key, 0.0) == value for key, value in settings.items())


def _three(name: str) -> tuple[str, str, str]:
    """Return the names of the columns for ``_seconds``."""
    return f"{name}, median, s", f"{name}, 95 %", f"{name}, worst"


def _seconds(values: Sequence[float]) -> tuple[str, str, str]:
    """Return median, 95 % (nearest rank) and the highest value; dashes without enough values."""
    if not values:
        return "-", "-", "-"
    counts = Counter(values)
    median, most = (f"{nearest_rank(counts, part):.2f}" for part in (0.5, 0.95))
    return median, most if len(values) >= ENOUGH else "-", f"{max(values):.2f}"
