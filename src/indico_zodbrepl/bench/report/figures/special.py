"""Figures of single suites: concurrency, phases, sizes of writes, ratios within a storage."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from indico_zodbrepl.bench.report import drawing, wording
from indico_zodbrepl.bench.report.drawing import Drawn
from indico_zodbrepl.bench.report.figures.generic import logarithmic
from indico_zodbrepl.bench.report.sentences import pairs
from indico_zodbrepl.bench.report.subject import Subject
from indico_zodbrepl.bench.report.wording import by_number, drawable, mapping
from indico_zodbrepl.bench.summary import Row


def rates(subject: Subject) -> Iterator[Drawn]:
    """Draw the rate by concurrency: a figure per count of objects, a panel per test."""
    main = subject.main
    counts = dict.fromkeys(row.parameters.get("objects") for row in subject.rows)
    for objects in counts:
        rows = [
            row
            for row in subject.rows
            if row.parameters.get("objects") == objects and main and main.name in row.metrics
        ]
        tests = dict.fromkeys(row.test for row in rows)
        if main is None or not tests:
            continue
        figure, panels = drawing.panels(len(tests), 2.2, min(2, len(tests)))
        places = sorted(
            {
                place
                for row in rows
                if (place := drawable(row.parameters.get("concurrency"))) is not None
            }
        )
        for axes, test in zip(panels, tests, strict=True):
            for storage in subject.storages:
                found = sorted(
                    (place, row.metrics[main.name])
                    for row in rows
                    if (row.test, row.storage) == (test, storage)
                    and (place := drawable(row.parameters.get("concurrency"))) is not None
                )
                if not found:
                    continue
                style = drawing.style(storage)
                axes.errorbar(
                    [each for each, _ in found],
                    [each.median for _, each in found],
                    [
                        [each.median - each.least for _, each in found],
                        [each.most - each.median for _, each in found],
                    ],
                    color=style.colour,
                    marker=style.marker,
                    linestyle=style.line,
                    markersize=4,
                    elinewidth=1,
                    label=subject.title_of(storage),
                )
            axes.set_title(test)
            logarithmic(axes, "y")
            if places and places[0] > 0:
                axes.set_xscale("log")
                axes.minorticks_off()
                axes.set_xticks(places, [wording.number(each) for each in places])
            axes.set_xlabel("at once")
            axes.set_ylabel(wording.axis(main))
        drawing.legend(figure, panels)
        text = f"{objects} objects a transaction" if objects is not None else "all transactions"
        yield Drawn(
            wording.slug(subject.run.label, "concurrency", str(objects or "")),
            f"{text}: {main.title} by how many work at once; median and range of the "
            "rounds, both axes logarithmic. Higher is better.",
            figure,
        )


CREATE = "create"
PARTS = (("create_seconds", "create: make"), ("commit_seconds", "create: commit"))
SHORT, LONG = (0xF1, 0xF5, 0xFA), (0xF0, 0xA0, 0x6C)
ON_TINT = "#16181c"
"""Text on a tint, which is the same in all themes."""


def table(subject: Subject) -> Iterator[Drawn]:
    """Draw the seconds of each phase on each storage as a table."""
    found = _seconds(subject.rows)
    phases = list(dict.fromkeys(phase for phase, _ in found))
    storages = [name for name in subject.storages if any(name == each for _, each in found)]
    if not phases:
        return
    figure, (axes,) = drawing.panels(1, 1.5 + 0.32 * len(phases))
    for line, phase in enumerate(phases):
        values = [found[phase, name] for name in storages if found.get((phase, name), 0) > 0]
        for column, name in enumerate(storages):
            value = found.get((phase, name))
            if value is not None:
                _cell(axes, (column, line), value, min(values, default=0), max(values, default=0))
    axes.set_xlim(0, len(storages))
    axes.set_ylim(len(phases), 0)
    axes.set_xticks(
        [each + 0.5 for each in range(len(storages))],
        [wording.short(subject.title_of(name), 30) for name in storages],
        rotation=35,
        ha="left",
        rotation_mode="anchor",
    )
    axes.xaxis.tick_top()
    axes.set_yticks(
        [each + 0.5 for each in range(len(phases))], [wording.short(phase, 36) for phase in phases]
    )
    axes.tick_params(length=0)
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    yield Drawn(
        wording.slug(subject.run.label, "seconds"),
        "Seconds of each phase, medians of the rounds. The darker, the longer, compared "
        "with the other storages in the same line.",
        figure,
    )


def _seconds(rows: tuple[Row, ...]) -> Mapping[tuple[str, str], float]:
    """Return seconds by phase and storage; making the data counts as two phases."""
    found: dict[tuple[str, str], float] = {}
    for row in rows:
        label = ", ".join([row.test, *wording.parameters_of(row.parameters)])
        parts = (
            [(title, name) for name, title in PARTS if name in row.metrics]
            if row.test == CREATE
            else []
        )
        for title, name in parts or [(label, "seconds")]:
            if name in row.metrics:
                found[title, row.storage] = row.metrics[name].median
    return found


def _cell(axes: Axes, place: tuple[int, int], value: float, least: float, most: float) -> None:
    column, line = place
    part = math.log(value / least) / math.log(most / least) if least < value and least else 0.0
    tint = "#" + "".join(
        f"{round(low + part * (high - low)):02x}" for low, high in zip(SHORT, LONG, strict=True)
    )
    axes.add_patch(
        Rectangle((column + 0.02, line + 0.04), 0.96, 0.92, facecolor=tint, edgecolor="none")
    )
    axes.text(
        column + 0.5, line + 0.52, wording.number(value), ha="center", va="center", color=ON_TINT
    )


KINDS = ("data", "write-ahead log", "binary log", "rollback journal", "index", "other")
"""Kinds of files in data directories; others, such as sockets, are not counted."""

Sizes = Mapping[str, Mapping[float, float]]
"""By kind of file: number of writes per commit, by power of two of their bytes.
"""


def histograms(subject: Subject) -> Iterator[Drawn]:
    """Draw the number of writes per size in a commit, one panel for each storage."""
    cases: dict[str, list[tuple[str, Sizes]]] = {}
    for row in subject.rows:
        if sizes := _sizes(subject, row):
            about = wording.case(row.test, row.parameters)
            cases.setdefault(about, []).append((subject.title_of(row.storage), sizes))
    for about, found in cases.items():
        figure, panels = drawing.panels(len(found), 1.75, 1 if len(found) == 1 else 2)
        classes = sorted({size for _, sizes in found for each in sizes.values() for size in each})
        for axes, (title, sizes) in zip(panels, found, strict=True):
            _bars(axes, sizes, classes)
            axes.set_title(title)
        drawing.legend(figure, panels)
        yield Drawn(
            wording.slug(subject.run.label, "sizes", about),
            f"{about}: writes in a commit to files of data directories, by the power of "
            "two of bytes that they are within; all rounds together.",
            figure,
        )


def _bars(axes: Axes, sizes: Sizes, classes: Sequence[float]) -> None:
    below = [0.0] * len(classes)
    for kind in KINDS:
        if each := sizes.get(kind):
            heights = [each.get(size, 0.0) for size in classes]
            axes.bar(
                range(len(classes)),
                heights,
                0.85,
                below,
                color=drawing.SEQUENCE[KINDS.index(kind)],
                label=kind,
            )
            below = [low + high for low, high in zip(below, heights, strict=True)]
    step = math.ceil(len(classes) / 7)
    axes.set_xticks(range(0, len(classes), step), [_short(size) for size in classes[::step]])
    axes.grid(visible=False, axis="x")
    axes.set_ylabel("writes/commit")


def _short(size: float) -> str:
    return wording.bytes_of(size).replace(" bytes", " B").replace("iB", "").replace(" ", "")


def _sizes(subject: Subject, row: Row) -> Sizes:
    """Return the sizes of all rounds together."""
    found: dict[str, defaultdict[float, float]] = {}
    commits = 0.0
    for made in subject.made(row):
        commits += drawable(made.details.get("commits")) or 0
        for kind, counts in mapping(made.details.get("files")).items():
            for size, count in by_number(mapping(counts).get("sizes")):
                if kind in KINDS:
                    found.setdefault(kind, defaultdict(float))[size] += count
    if not commits:
        return {}
    return {
        kind: {size: count / commits for size, count in each.items()}
        for kind, each in found.items()
    }


def ratios(parameter: str, names: Sequence[str]) -> Callable[[Subject], Iterator[Drawn]]:
    """Draw all pairs that differ in one parameter, for some metrics."""

    def draw(subject: Subject) -> Iterator[Drawn]:
        """Draw ratios between values of a parameter."""
        for name in names:
            found = [each for each in pairs(subject, parameter, [name]) if each.ratio.low > 0]
            if not found:
                continue
            figure, (axes,) = drawing.panels(1, 0.95 + 0.26 * len(found))
            axes.axvline(1, color=drawing.INK, linewidth=1.2)
            for place, each in enumerate(found):
                style = drawing.style(each.storage)
                axes.plot(
                    [each.ratio.low, each.ratio.high],
                    [place, place],
                    color=style.colour,
                    linewidth=2,
                )
                axes.plot(
                    [each.ratio.median], [place], style.marker, color=style.colour, markersize=7
                )
            axes.set_yticks(
                range(len(found)),
                [
                    wording.short(
                        f"{subject.title_of(each.storage)}: "
                        f"{wording.case(each.test, each.others)}, {each.value}"
                    )
                    for each in found
                ],
            )
            axes.set_ylim(len(found) - 0.4, -0.6)
            axes.grid(visible=False, axis="y")
            least, most = (
                choose(bound)
                for choose, bound in (
                    (min, [each.ratio.low for each in found]),
                    (max, [each.ratio.high for each in found]),
                )
            )
            if max(most, 1) > 5 * min(least, 1):
                logarithmic(axes, "x")
            else:
                axes.set_xlim(left=0)
            metric = found[0].metric
            axes.set_xlabel(f"{metric.title}, in times that with {parameter} {found[0].first}")
            yield Drawn(
                wording.slug(subject.run.label, "by", parameter, name),
                f"{metric.title} in times that with {parameter} {found[0].first}, which "
                f"is the line at 1; {wording.SPANS}.",
                figure,
            )

    return draw
