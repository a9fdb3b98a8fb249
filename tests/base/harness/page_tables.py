"""The tables in pages of the docs that are made from kept figures.

A table stands between two comments, the first of which has its name.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import commit_tables
import control_tables
import failover_tables
import figure_tables
import file_tables
import kept_lines
import network_tables
import size_tables
import storage_tables
from cells import Cells

DOCS = Path(__file__).resolve().parents[3] / "docs"
KEPT = DOCS / "benchmarks"
PAGES = (*sorted((DOCS / "explanation").glob("*.md")), KEPT / "README.md")
BLOCK = re.compile(r"(<!-- table: (\S+) -->\n\n).*?\n(<!-- end of the table -->\n)", re.DOTALL)


@functools.cache
def _failovers(name: str) -> list[dict[str, Any]]:
    return kept_lines.read(KEPT / f"automatic-failover/{name}.jsonl")


@functools.cache
def _sizes(name: str) -> list[dict[str, Any]]:
    return kept_lines.read(KEPT / f"sizes/{name}.jsonl")


TABLES: Mapping[str, Callable[[], Cells]] = {
    "commit-times": lambda: commit_tables.table(kept_lines.read(KEPT / "commit-times/zeo.jsonl")),
    "controls": lambda: control_tables.table(kept_lines.read(KEPT / "controls/commits.jsonl")),
    "dead-servers": lambda: figure_tables.dead_servers(KEPT / "dead-servers/storages.json"),
    "files": lambda: file_tables.table(KEPT / "files"),
    "hours-of-faults": lambda: storage_tables.hours_of_faults(
        kept_lines.read(KEPT / "random-faults/runs.jsonl")
    ),
    "inside-indico": lambda: storage_tables.inside(KEPT / "in-app"),
    "inside-indico-pinned": lambda: storage_tables.inside_pinned(
        [KEPT / name for name in ("in-app-pinned", "in-app-pinned-2", "in-app-pinned-3")]
    ),
    "lowest-ratios": lambda: storage_tables.lowest(KEPT),
    "lost-servers": lambda: failover_tables.by_storage(
        [*_failovers("rounds"), *_failovers("database-servers")]
    ),
    "rounds-of-3-s": lambda: failover_tables.rounds(_failovers("rounds"), lease=3.0, synchronous=1),
    "rounds-of-2-s": lambda: failover_tables.rounds(_failovers("rounds"), lease=2.0, synchronous=1),
    "rounds-with-a-delay-of-2-ms": lambda: failover_tables.rounds(
        _failovers("network-delay"), round_trip_ms=2.0
    ),
    "rounds-with-a-delay-of-10-ms": lambda: failover_tables.rounds(
        _failovers("network-delay"), round_trip_ms=10.0
    ),
    "rounds-with-a-delay-of-40-ms": lambda: failover_tables.rounds(
        _failovers("network-delay"), round_trip_ms=40.0
    ),
    "rounds-of-postgresql": lambda: failover_tables.rounds(
        _failovers("database-servers"), backend="relstorage-postgresql"
    ),
    "rounds-of-mariadb": lambda: failover_tables.rounds(
        _failovers("database-servers"), backend="relstorage-mariadb"
    ),
    "network": lambda: network_tables.table(kept_lines.read(KEPT / "network/commits.jsonl")),
    "sizes": lambda: size_tables.table(_sizes("zrs")),
    "rates-by-size": lambda: size_tables.rates(_sizes("zrs")),
    "room": lambda: size_tables.room(_sizes("zrs")),
    "one-size": lambda: size_tables.table(_sizes("storages")),
    "rates-of-one-size": lambda: size_tables.rates(_sizes("storages")),
    "room-of-one-size": lambda: size_tables.room(_sizes("storages")),
    "measured": lambda: storage_tables.measured(KEPT),
    "replication": lambda: storage_tables.replication(KEPT / "replication"),
    "replication-controls": lambda: storage_tables.replication(KEPT / "replication-controls"),
    "replication-pinned": lambda: storage_tables.replication(KEPT / "replication-pinned"),
    "speed": lambda: storage_tables.speed(KEPT / "raw"),
}


def write(pages: Iterable[Path]) -> None:
    """Write the tables of pages again."""
    for path in pages:
        before = path.read_text()
        after = written(before)
        if after != before:
            path.write_text(after)


def written(page: str) -> str:
    """Return a page with its tables as they have to be."""
    return BLOCK.sub(lambda found: f"{found[1]}{TABLES[found[2]]().markdown()}\n{found[3]}", page)
