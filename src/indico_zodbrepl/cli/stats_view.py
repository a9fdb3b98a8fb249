"""What ``zodbrepl stats`` prints, from what was summed; 80 columns are enough."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from ..node.statistics import HISTORY, Source


def view(where: Source, found: Mapping[str, Any], top: int) -> Iterator[RenderableType]:
    """Totals, classes, modules, largest objects; the latter three at most ``top`` each."""
    yield Text(_origin(where, found), overflow="fold")
    yield Text(_totals(found))
    if top:
        yield Text()
        yield _sums("CLASS", found["classes"], found["bytes"], top)
        yield Text()
        yield _sums("MODULE", found["modules"], found["bytes"], top)
        yield Text()
        yield _largest(found["largest"])


def _origin(where: Source, found: Mapping[str, Any]) -> str:
    whose = f"node {where.node}" if where.node else "the database"
    rate = found["records"] / found["seconds"] if found["seconds"] else 0.0
    return (f"{whose}, read from {where.path}: {found['records']:,} records in "
            f"{found['seconds']:.1f} s ({rate:,.0f}/s)")


def _totals(found: Mapping[str, Any]) -> str:
    lines = [f"{found['objects']:>14,} objects, {decimal(found['bytes'])}"]
    older = HISTORY[found["history"]]
    if not older:
        older = f"older states, {decimal(found['revision_bytes'])}"
        lines.append(f"{found['revisions']:>14,} {older}")
    else:
        lines.append(f"{'':>14} {older}")
    if found["transactions"] is not None:
        lines.append(f"{found['transactions']:>14,} transactions"
                     + (f", a file of {decimal(found['file_bytes'])}"
                        if found["file_bytes"] is not None else ""))
    return "\n".join(lines)


def _sums(title: str, rows: Sequence[Mapping[str, Any]], total: int, top: int) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(title, overflow="fold", ratio=1)
    for heading in ("OBJECTS", "BYTES", "%", "MEAN", "OLDER"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows[:top]:
        table.add_row(*_row(row["name"], row, total))
    rest = rows[top:]
    if rest:
        numbers = {key: sum(row[key] for row in rest)
                   for key in ("objects", "bytes", "revisions", "revision_bytes")}
        table.add_row(*_row(f"({len(rest)} more)", numbers, total))
    return table


def _row(name: str, row: Mapping[str, Any], total: int) -> tuple[str, ...]:
    mean = decimal(round(row["bytes"] / row["objects"])) if row["objects"] else ""
    share = f"{100 * row['bytes'] / total:.0f}" if total else ""
    return (name, f"{row['objects']:,}", _size(row["bytes"]), share, _brief(mean),
            _size(row["revision_bytes"]) if row["revisions"] else "")


def _size(number: int) -> str:
    return _brief(decimal(number))


def _brief(size: str) -> str:
    """'532 bytes' as '532 B': a column is narrow."""
    return size.replace(" bytes", " B").replace(" byte", " B")


def _largest(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("OID", no_wrap=True)
    table.add_column("BYTES", justify="right", no_wrap=True)
    table.add_column("LARGEST OBJECTS", overflow="fold", ratio=1)
    for row in rows:
        what = row["what"]
        told = f"{row['class']}: {what}" if what else row["class"]
        table.add_row(row["oid"], _size(row["bytes"]), Text(told))
    return table
