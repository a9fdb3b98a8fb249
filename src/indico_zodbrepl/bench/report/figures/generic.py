"""Figures of every suite: main metric, latencies, ratios to the control."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from indico_zodbrepl.bench.report import drawing, wording
from indico_zodbrepl.bench.report.drawing import Drawn
from indico_zodbrepl.bench.report.subject import Subject
from indico_zodbrepl.bench.suite import Better, Metric
from indico_zodbrepl.bench.summary import Row

MOST_LINES = 44
"""Most lines in one figure; more go to further ones."""


WIDE = 50
"""Ratio of values above which a figure has a logarithmic axis."""


@dataclasses.dataclass(frozen=True)
class Line:
    """A line of a figure: a row, or the heading of a case."""

    label: str
    row: Row | None = None


def main(subject: Subject) -> Iterator[Drawn]:
    """Draw the main metric of each case: a dot per round, and the median."""
    for rows in by_test(subject).values():
        metric = next(filter(None, map(subject.main_of, rows)))
        yield from of_metric(subject, rows, metric)


def one(name: str, mark: float | None = None) -> Callable[[Subject], Iterator[Drawn]]:
    """Draw another metric, one figure for each test that has it.

    Args:
        mark: position of a reference line.
    """

    def draw(subject: Subject) -> Iterator[Drawn]:
        """Draw the rounds of a metric."""
        for metric in subject.metrics:
            if metric.name == name:
                for rows in by_test(subject).values():
                    yield from of_metric(subject, rows, metric, mark)

    return draw


def of_metric(
    subject: Subject, rows: Sequence[Row], metric: Metric, mark: float | None = None
) -> Iterator[Drawn]:
    """Draw a metric of one test: a dot per round, and the median."""
    having = [row for row in rows if metric.name in row.metrics]
    if having:
        test = having[0].test
        for part, chosen in parts(lines(subject, having)):
            figure, axes = _lined(chosen)
            for place, row in _placed(chosen):
                style = drawing.style(row.storage)
                values = subject.values(row, metric.name)
                median = row.metrics[metric.name].median
                axes.plot(
                    [median, median],
                    [place - 0.34, place + 0.34],
                    color=style.colour,
                    linewidth=3,
                    solid_capstyle="butt",
                )
                axes.plot(
                    values,
                    [place] * len(values),
                    style.marker,
                    color=style.colour,
                    alpha=0.75,
                    markersize=5,
                    markeredgecolor="none",
                )
            if mark is not None:
                axes.axvline(mark, color=drawing.INK, linewidth=1.2)
            wide = _is_wide(
                [value for _, row in _placed(chosen) for value in subject.values(row, metric.name)]
            )
            if wide:
                logarithmic(axes, "x")
            else:
                axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
            axes.set_xlabel(wording.axis(metric))
            axes.set_title(wording.short(test, 60))
            yield Drawn(
                wording.slug(subject.run.label, metric.name, test, part),
                f"{test}: \u201c{metric.title}\u201d of each round (dots), and the median "
                f"(bar){', on a logarithmic axis' if wide else ''}{_good(metric)}",
                figure,
            )


def latencies(subject: Subject) -> Iterator[Drawn]:
    """Draw median to p99 and the maximum, on a logarithmic axis."""
    yield from _ranges(subject, "latency", ("p50_ms", "p99_ms", "max_ms"))


def lags(subject: Subject) -> Iterator[Drawn]:
    """Draw the lag of followers like latencies."""
    yield from _ranges(subject, "lag", ("lag_p50_ms", "lag_p99_ms", "lag_max_ms"))


def _ranges(subject: Subject, what: str, names: tuple[str, str, str]) -> Iterator[Drawn]:
    for test, rows in by_test(subject).items():
        having = [
            row
            for row in rows
            if names[0] in row.metrics
            and names[1] in row.metrics
            and row.metrics[names[1]].median > 0
        ]
        floor = (
            min(
                (
                    found.median
                    for row in having
                    for name in names[:2]
                    if (found := row.metrics[name]).median > 0
                ),
                default=1.0,
            )
            / 2
        )
        for part, chosen in parts(lines(subject, having)):
            figure, axes = _lined(chosen)
            for place, row in _placed(chosen):
                style = drawing.style(row.storage)
                least, most = (row.metrics[name].median for name in names[:2])
                fill = style.colour if least > 0 else "none"
                least = max(least, floor)
                axes.plot([least, most], [place, place], color=style.colour, linewidth=2.4)
                axes.plot(
                    [least],
                    [place],
                    style.marker,
                    color=style.colour,
                    markersize=6,
                    markerfacecolor=fill,
                )
                axes.plot(
                    [most], [place], "|", color=style.colour, markersize=10, markeredgewidth=2.4
                )
                if (longest := row.metrics.get(names[2])) and longest.median > 0:
                    axes.plot([longest.median], [place], "x", color=style.colour, markersize=5)
            logarithmic(axes, "x")
            axes.set_xlabel(f"{what} (ms)")
            axes.set_title(wording.short(test, 60))
            yield Drawn(
                wording.slug(subject.run.label, what, test, part),
                f"{test}: {what} from the median (marker) to p99 (bar), and the longest "
                "(cross); medians of all rounds, on a logarithmic axis. A hollow marker "
                "stands for 0. Further left is better.",
                figure,
            )


def ratios(subject: Subject) -> Iterator[Drawn]:
    """Draw the ratio of the main metric to the control's, with its range over the rounds."""
    for test, rows in by_test(subject).items():
        found = {
            id(row): ratio
            for row in rows
            if (metric := subject.main_of(row))
            and (ratio := subject.ratio(row, metric.name))
            and ratio.low > 0
        }
        having = [row for row in rows if id(row) in found]
        for part, chosen in parts(lines(subject, having)):
            figure, axes = _lined(chosen)
            axes.axvline(1, color=drawing.INK, linewidth=1.2)
            for place, row in _placed(chosen):
                style, ratio = drawing.style(row.storage), found[id(row)]
                axes.plot([ratio.low, ratio.high], [place, place], color=style.colour, linewidth=2)
                axes.plot([ratio.median], [place], style.marker, color=style.colour, markersize=7)
            shown = [found[id(row)] for _, row in _placed(chosen)]
            if max(each.high for each in shown) > 5 * min(1.0, *(each.low for each in shown)):
                logarithmic(axes, "x")
            controls = dict.fromkeys(subject.control_of(row) for _, row in _placed(chosen))
            control = wording.listed([*map(subject.title_of, controls)])
            if len(controls) > 1:
                control = f"the plain storage ({control})"
            metric = subject.main_of(having[0])
            what = metric.title if metric else ""
            axes.set_xlabel(f"{what}, in times that of {control.partition(' (')[0]}")
            axes.set_title(wording.short(test, 60))
            yield Drawn(
                wording.slug(subject.run.label, "ratio", test, part),
                f"{test}: {what} in times that of {control}, which is the line at 1; "
                f"{wording.SPANS}. A line that crosses 1 shows no difference.",
                figure,
            )


def by_test(subject: Subject) -> dict[str, list[Row]]:
    """Return the rows with any metric, grouped by test."""
    found: dict[str, list[Row]] = {}
    for row in subject.rows:
        if row.metrics:
            found.setdefault(row.test, []).append(row)
    return found


def lines(subject: Subject, rows: Sequence[Row]) -> list[Line]:
    """Return the lines of a figure: each case followed by its storages."""
    cases: dict[tuple[tuple[str, object], ...], list[Row]] = {}
    for row in rows:
        cases.setdefault(tuple(row.parameters.items()), []).append(row)
    found = []
    for group in cases.values():
        if heading := ", ".join(wording.parameters_of(group[0].parameters)):
            found.append(Line(heading))
        order = {name: place for place, name in enumerate(subject.storages)}
        found += [
            Line(subject.title_of(row.storage), row)
            for row in sorted(group, key=lambda row: order.get(row.storage, 0))
        ]
    return found


def parts(found: Sequence[Line]) -> Iterator[tuple[str, Sequence[Line]]]:
    """Split the lines into figures of limited length; keep a case together if possible."""
    part: list[Line] = []
    number = 1
    for each in found:
        if (each.row is None and len(part) > MOST_LINES * 0.6) or len(part) > MOST_LINES:
            yield (str(number), part)
            part, number = [], number + 1
        part.append(each)
    if any(each.row for each in part):
        yield ("" if number == 1 else str(number), part)


def _is_wide(values: Sequence[float]) -> bool:
    """Return True if the smallest values could not be told apart on a linear axis."""
    return bool(values) and 0 < min(values) < max(values) / WIDE


def logarithmic(axes: Axes, which: str) -> None:
    """Make an axis logarithmic, with plain numbers as labels."""
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
    axis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:g}" if value < 1e4 else f"{value:,.0f}")
    )
    if high < 40 * low:
        axis.set_minor_formatter(FuncFormatter(_few))
        axis.set_tick_params(which="minor", length=0, labelsize=8, labelcolor=drawing.INK)
    else:
        axis.set_minor_formatter(NullFormatter())
        axis.set_tick_params(which="minor", length=0)


def _few(value: float, _place: int | None) -> str:
    """Label only the minor ticks 2 and 5."""
    return f"{value:g}" if f"{value:e}"[0] in "25" else ""


def _lined(found: Sequence[Line]) -> tuple[Figure, Axes]:
    figure, (axes,) = drawing.panels(1, 0.95 + 0.215 * len(found))
    axes.set_ylim(len(found) - 0.4, -0.6)
    axes.set_yticks(
        range(len(found)), [wording.short(each.label) if each.row else "" for each in found]
    )
    for place, each in enumerate(found):
        if each.row is None:
            axes.text(
                0.005,
                place,
                wording.short(each.label, 60),
                fontstyle="italic",
                va="center",
                transform=axes.get_yaxis_transform(),
            ).set_in_layout(False)
    axes.grid(visible=False, axis="y")
    return figure, axes


def _placed(found: Sequence[Line]) -> Iterator[tuple[int, Row]]:
    for place, each in enumerate(found):
        if each.row:
            yield place, each.row


def _good(metric: Metric) -> str:
    return {
        Better.HIGHER: ". Further right is better.",
        Better.LOWER: ". Further left is better.",
        Better.NEITHER: ".",
    }[metric.better]
