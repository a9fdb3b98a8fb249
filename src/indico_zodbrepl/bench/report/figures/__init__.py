"""Which figures a suite has: those that any has, and those of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from .. import look
from ..drawing import Drawn
from ..special import COMPRESSION
from ..subject import Subject
from . import concurrency, generic, heat, http, over_time, sizes, within

Figures = Callable[[Subject], Iterator[Drawn]]

GENERIC: Sequence[Figures] = (generic.main, generic.latencies, generic.ratios)
SPECIFIC: Mapping[str, Sequence[Figures]] = {
    "zodbshootout": (concurrency.rates, generic.ratios),
    "phases": (heat.table, generic.ratios),
    "http": (http.highest, http.curves, generic.latencies, generic.ratios,
             generic.one("worker_cpu_ms")),
    "devices": (within.ratios("directory", ["rate"]), over_time.devices, generic.main,
                generic.latencies),
    "compression": (within.ratios("compression", COMPRESSION), generic.main, generic.latencies),
    "writes": (sizes.histograms, generic.one("fsyncs"), generic.one("written_bytes"),
               generic.one("amplification", 1.0)),
    "backup": (generic.one("rate_ratio", 1.0), over_time.backups, generic.main,
               generic.latencies, generic.one("backup_seconds")),
    "replication": (generic.ratios, generic.lags, generic.one("primary_cpu_ms"), generic.main,
                    generic.latencies),
}
"""By suite; all of its figures, in their order."""


def of(subject: Subject) -> tuple[list[Drawn], list[str]]:
    """The figures of a run, and what could not be drawn, and why."""
    drawn: list[Drawn] = []
    problems: list[str] = []
    with look.applied():
        for draw in SPECIFIC.get(subject.run.suite, GENERIC):
            try:
                drawn += draw(subject)
            except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
                what = (draw.__doc__ or draw.__name__).splitlines()[0]
                problems.append(f"{what}  Not drawn: {type(error).__name__}: {error}")
    return drawn, problems
