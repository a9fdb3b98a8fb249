"""What ``zodbrepl bench`` prints of a run; 80 columns are enough."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ..bench.results import FILE, Run
from ..bench.summary import Summary, summaries

COLUMNS = {"CACHES": 6, "RATE/s": 8, "±%": 4, "p50 ms": 7, "p90": 6, "p99": 6, "max": 6,
           "LOADS": 6, "STORES": 6, "CONFL": 5}
"""Headings and widths: 78 columns with what is between them."""


def view(run: Run) -> Iterator[RenderableType]:
    """For each test a line and a row for each state of the caches, then where the results are."""
    yield Text(_origin(run))
    found = summaries(run)
    for number, (test, rows) in enumerate(itertools.groupby(
            sorted(found, key=lambda each: run.settings["tests"].index(each.test)),
            key=lambda each: each.test)):
        having = list(rows)
        yield Text(f"\n{test}: {having[0].unit or 'nothing measured'}")
        yield _grid(having, header=number == 0)
    yield Text()
    for each in found:
        if each.error:
            yield Text(f"{each.test}, {each.caches}: {each.error}")
    yield Text("Rates are a second; loads from the storage and stores to it are those of one "
               "operation.")
    yield Text(f"kept in {run.folder / FILE}")


def _grid(rows: Sequence[Summary], *, header: bool) -> Table:
    grid = Table(box=None, pad_edge=False, show_header=header)
    for heading, width in COLUMNS.items():
        grid.add_column(heading, width=width, no_wrap=True,
                        justify="left" if heading == "CACHES" else "right")
    for each in rows:
        grid.add_row(*_row(each))
    return grid


def _origin(run: Run) -> str:
    told = (f"indico-{run.instance} of {run.cluster} on {run.backend}: "
            f"{len(run.measurements)} of {run.planned} measurements of "
            f"{run.settings['seconds']:g} s, {run.settings['rounds']} round"
            f"{'' if run.settings['rounds'] == 1 else 's'}")
    modified = sorted({each.modify for each in run.measurements if each.modify})
    return told + (f"; modified: {', '.join(modified)}" if modified else "")


def _row(each: Summary) -> tuple[str, ...]:
    if not each.rounds:
        return each.caches, "failed"
    latency = each.latency_ms
    return (each.caches, "" if each.rate is None else _number(each.rate),
            "" if each.spread is None else f"{50 * each.spread:.0f}",
            *(_number(latency[name]) if name in latency else ""
              for name in ("p50", "p90", "p99", "max")),
            _number(each.loads), _number(each.stores), str(each.conflicts))


def _number(value: float) -> str:
    """With as many digits as are worth reading."""
    if value == 0:
        return "0"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.3g}"
