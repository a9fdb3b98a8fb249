"""What ``zodbrepl bench`` prints of a run; 100 columns are enough."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ..bench.results import FILE, Run
from ..bench.summary import Summary, summaries


def table(run: Run) -> Iterator[RenderableType]:
    """A line for each test and state of the caches, then where the results are."""
    yield Text(_origin(run), overflow="fold")
    found = summaries(run)
    grid = Table(box=None, pad_edge=False)
    grid.add_column("TEST", no_wrap=True)
    grid.add_column("CACHES", no_wrap=True)
    for heading in ("RATE/s", "±%", "p50 ms", "p90", "p99", "max", "LOADS", "STORES", "CONFL"):
        grid.add_column(heading, justify="right", no_wrap=True)
    for each in found:
        grid.add_row(*_row(each))
    yield grid
    for each in found:
        if each.error:
            yield Text(f"{each.test}, {each.caches}: {each.error}", overflow="fold")
    yield Text("Rates are of category names, rooms, contributions or modifications; loads and "
               "stores of the storage are those of one operation.", overflow="fold")
    yield Text(f"kept in {run.folder / FILE}", overflow="fold", no_wrap=True)


def _origin(run: Run) -> str:
    told = (f"indico-{run.instance} of {run.cluster} on {run.backend}: "
            f"{len(run.measurements)} of {run.planned} measurements of "
            f"{run.settings['seconds']:g} s, {run.settings['rounds']} round"
            f"{'' if run.settings['rounds'] == 1 else 's'}")
    modified = sorted({each.modify for each in run.measurements if each.modify})
    return told + (f"; modified: {', '.join(modified)}" if modified else "")


def _row(each: Summary) -> tuple[str, ...]:
    if not each.rounds:
        return each.test, each.caches, "failed"
    latency = each.latency_ms
    return (each.test, each.caches, "" if each.rate is None else _number(each.rate),
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
