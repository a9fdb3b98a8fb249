"""The figures of each suite: the generic ones and the suite's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from indico_zodbrepl.bench.report import drawing
from indico_zodbrepl.bench.report.drawing import Drawn
from indico_zodbrepl.bench.report.figures import generic, http, over_time, special
from indico_zodbrepl.bench.report.special import COMPRESSION
from indico_zodbrepl.bench.report.subject import Subject

Figures = Callable[[Subject], Iterator[Drawn]]

GENERIC: Sequence[Figures] = (generic.main, generic.latencies, generic.ratios)
SPECIFIC: Mapping[str, Sequence[Figures]] = {
    "zodbshootout": (special.rates, generic.ratios),
    "phases": (special.table, generic.ratios),
    "http": (
        http.highest,
        http.curves,
        generic.latencies,
        generic.ratios,
        generic.one("worker_cpu_ms"),
    ),
    "devices": (
        special.ratios("directory", ["rate"]),
        over_time.devices,
        generic.main,
        generic.latencies,
    ),
    "compression": (special.ratios("compression", COMPRESSION), generic.main, generic.latencies),
    "writes": (
        special.histograms,
        generic.one("fsyncs"),
        generic.one("written_bytes"),
        generic.one("amplification", 1.0),
    ),
    "backup": (
        generic.one("rate_ratio", 1.0),
        over_time.backups,
        generic.main,
        generic.latencies,
        generic.one("backup_seconds"),
    ),
    "replication": (
        generic.ratios,
        generic.lags,
        generic.one("primary_cpu_ms"),
        generic.main,
        generic.latencies,
    ),
}
"""By suite; all of its figures, in their order."""


def of(subject: Subject) -> tuple[list[Drawn], list[str]]:
    """Return the figures of a run, and the reason for each one that could not be drawn."""
    drawn: list[Drawn] = []
    problems: list[str] = []
    with drawing.applied():
        for draw in SPECIFIC.get(subject.run.suite, GENERIC):
            try:
                drawn += draw(subject)
            except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
                what = (draw.__doc__ or draw.__name__).splitlines()[0]
                problems.append(f"{what}  Not drawn: {type(error).__name__}: {error}")
    return drawn, problems
