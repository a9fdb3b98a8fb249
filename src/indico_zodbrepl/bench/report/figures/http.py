"""HTTP figures: latency over offered rate, and the highest rate with its bottleneck."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from indico_zodbrepl.bench.report import drawing, wording
from indico_zodbrepl.bench.report.drawing import Drawn
from indico_zodbrepl.bench.report.figures.generic import logarithmic
from indico_zodbrepl.bench.report.subject import Subject
from indico_zodbrepl.bench.report.wording import drawable, mapping, records
from indico_zodbrepl.bench.results import Measurement


@dataclasses.dataclass(frozen=True)
class Point:
    """A trial: requests per second, milliseconds, and whether it met the limit."""

    rate: float
    latency: float
    held: bool


def curves(subject: Subject) -> Iterator[Drawn]:
    """Draw latency over offered rate, one panel for each number of workers."""
    by_workers: dict[object, list[Measurement]] = {}
    for made in subject.run.measurements:
        if records(made.details.get("trials")):
            by_workers.setdefault(made.parameters.get("workers"), []).append(made)
    if not by_workers:
        return
    limits = [mapping(made.details.get("limit")) for group in by_workers.values() for made in group]
    percentile = next(
        (each["percentile"] for each in limits if drawable(each.get("percentile"))), 99
    )
    figure, panels = drawing.panels(len(by_workers), 2.6)
    for axes, (workers, group) in zip(panels, by_workers.items(), strict=True):
        for storage in subject.storages:
            style = drawing.style(storage)
            found = sorted(
                (
                    point
                    for made in group
                    if made.storage == storage
                    for point in _points(made, f"p{percentile}")
                ),
                key=lambda point: point.rate,
            )
            if not found:
                continue
            for held, fill in ((True, style.colour), (False, "none")):
                chosen = [each for each in found if each.held is held]
                axes.plot(
                    [each.rate for each in chosen],
                    [each.latency for each in chosen],
                    style.marker,
                    color=style.colour,
                    markerfacecolor=fill,
                    markersize=5,
                    label=subject.title_of(storage) if held else None,
                )
        for limit in {value for each in limits if (value := drawable(each.get("ms")))}:
            axes.axhline(
                limit,
                color=drawing.LIMIT,
                linestyle="--",
                linewidth=1.2,
                label=f"limit, {limit:g} ms",
            )
        axes.set_title("one worker" if workers == 1 else f"{workers} workers")
        axes.set_xlabel("offered (requests/s)")
        axes.set_ylabel(f"p{percentile} (ms)")
        axes.set_xlim(left=0)
        logarithmic(axes, "y")
    drawing.legend(figure, panels)
    yield Drawn(
        wording.slug(subject.run.label, "latency-over-rate"),
        f"p{percentile} of the latency, from the moment at which a request was due, over "
        "the rate at which requests were due; a marker for each trial of all rounds, "
        "filled if it held, hollow if it did not: because of the limit, or because "
        "requests were dropped or failed.",
        figure,
    )


def highest(subject: Subject) -> Iterator[Drawn]:
    """Draw the highest rate within the limit by workers, with the bottleneck above it."""
    rows = [
        row
        for row in subject.rows
        if "rate" in row.metrics and isinstance(subject.detail(row, "saturated"), str)
    ]
    if not rows:
        return
    figure, (axes,) = drawing.panels(1, 0.95 + 0.3 * len(rows))
    labels = []
    for place, row in enumerate(rows):
        style, values = drawing.style(row.storage), subject.values(row, "rate")
        axes.barh([place], [row.metrics["rate"].median], 0.62, color=style.colour, alpha=0.45)
        axes.plot(values, [place] * len(values), style.marker, color=style.colour, markersize=5)
        axes.annotate(
            str(subject.detail(row, "saturated")),
            (max(values), place),
            (7, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
        )
        labels.append(
            wording.short(
                f"{subject.title_of(row.storage)}, "
                f"{', '.join(wording.parameters_of(row.parameters))}"
            )
        )
    axes.set_yticks(range(len(rows)), labels)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, 1.35 * max(row.metrics["rate"].most for row in rows))
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("requests/s")
    yield Drawn(
        wording.slug(subject.run.label, "highest-rate"),
        "The highest rate that held the limit (median, and a marker for each round), and "
        "what was saturated at the next higher one in the last round.",
        figure,
    )


def _points(made: Measurement, percentile: str) -> Iterator[Point]:
    for trial in records(made.details.get("trials")):
        rate = drawable(trial.get("rate"))
        latency = drawable(mapping(trial.get("latency_ms")).get(percentile))
        if rate and latency and latency > 0:
            yield Point(rate, latency, not trial.get("broken"))
