"""Rates over time: devices side by side, and commits around backups."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from indico_zodbrepl.bench.report import drawing, wording
from indico_zodbrepl.bench.report.drawing import Drawn
from indico_zodbrepl.bench.report.subject import Subject
from indico_zodbrepl.bench.report.wording import drawable, numbers, records
from indico_zodbrepl.bench.results import Measurement

LEAST_SECONDS = 3
"""Shortest measurement that is drawn over time."""


def devices(subject: Subject) -> Iterator[Drawn]:
    """Draw operations per second over time, one line for each directory."""
    panels: dict[str, dict[str, list[list[float]]]] = {}
    for made in subject.run.measurements:
        slices = whole(made.details)
        if len(slices) >= LEAST_SECONDS:
            others = {name: value for name, value in made.parameters.items() if name != "directory"}
            title = f"{subject.title_of(made.storage)}: {wording.case(made.test, others)}"
            panels.setdefault(title, {}).setdefault(
                str(made.parameters.get("directory", "")), []
            ).append(slices)
    if not panels:
        return
    figure, found = drawing.panels(len(panels), 2.1)
    names = list(dict.fromkeys(name for each in panels.values() for name in each))
    for axes, (title, directories) in zip(found, panels.items(), strict=True):
        for name, rounds in directories.items():
            colour = drawing.SEQUENCE[names.index(name) % len(drawing.SEQUENCE)]
            _line(axes, rounds, colour, ("-", "--", ":")[names.index(name) % 3], name)
        axes.set_title(title)
        axes.set_ylabel("operations/s")
    found[-1].set_xlabel("seconds")
    yield _drawn(
        subject,
        figure,
        found,
        "Operations that ended in each second: the median of the rounds, and their range.",
    )


def backups(subject: Subject) -> Iterator[Drawn]:
    """Draw commits per second before, during and after backups."""
    panels: dict[str, list[Measurement]] = {}
    for made in subject.run.measurements:
        windows = records(made.details.get("windows"))
        if len(windows) == 3 and len(whole(windows[1])) >= LEAST_SECONDS:
            panels.setdefault(
                f"{subject.title_of(made.storage)}: "
                f"{', '.join(wording.parameters_of(made.parameters))}",
                [],
            ).append(made)
    if not panels:
        return
    figure, found = drawing.panels(len(panels), 1.9)
    for axes, (title, group) in zip(found, panels.items(), strict=True):
        for made in group:
            _windows(axes, made)
        axes.set_title(title)
        axes.set_ylabel("commits/s")
    found[-1].set_xlabel("seconds from the beginning of the window in the middle")
    yield _drawn(
        subject,
        figure,
        found,
        "Commits in each second, a line for each round; in the "
        "window in the middle backups are made, if any.",
    )


def _drawn(subject: Subject, figure: Figure, found: list[Axes], caption: str) -> Drawn:
    for axes in found:
        axes.set_ylim(bottom=0)
    drawing.legend(figure, found)
    return Drawn(wording.slug(subject.run.label, "over-time"), caption, figure)


def whole(told: Mapping[str, Any]) -> list[float]:
    """Return the operations of each whole second; the incomplete last one is left out.

    Args:
        told: has ``slices`` and the duration ``seconds``.
    """
    slices = numbers(told.get("slices"))
    seconds = drawable(told.get("seconds"))
    return slices if seconds is None else slices[: int(seconds)]


def _windows(axes: Axes, made: Measurement) -> None:
    first, middle, last = map(whole, records(made.details["windows"]))
    style = drawing.style(made.storage)
    begin = -len(first)
    for values, colour, label in (
        (first, drawing.OTHER.colour, "before and after"),
        (middle, style.colour, "in the middle"),
        (last, drawing.OTHER.colour, "before and after"),
    ):
        axes.plot(
            [begin + place for place in range(len(values))],
            values,
            ".-",
            color=colour,
            linewidth=1.2,
            markersize=4,
            alpha=0.8,
            label=label,
        )
        begin += len(values)


def _line(
    axes: Axes, rounds: Sequence[Sequence[float]], colour: str, line: str, label: str
) -> None:
    """Draw median and range of several rounds in each second that all of them have."""
    seconds = list(zip(*rounds, strict=False))
    places = [place + 0.5 for place in range(len(seconds))]
    axes.plot(
        places,
        [statistics.median(each) for each in seconds],
        line,
        color=colour,
        linewidth=1.4,
        label=label,
    )
    if len(rounds) > 1:
        axes.fill_between(
            places,
            [min(each) for each in seconds],
            [max(each) for each in seconds],
            color=colour,
            alpha=0.2,
            linewidth=0,
        )
