"""Phases: a table of seconds, rows of phases and columns of storages, with a tint for how long."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from ...summary import Row
from .. import look, wording
from ..drawing import Drawn
from ..subject import Subject

CREATE = "create"
PARTS = (("create_seconds", "create: make"), ("commit_seconds", "create: commit"))
SHORT, LONG = (0xF1, 0xF5, 0xFA), (0xF0, 0xA0, 0x6C)
ON_TINT = "#16181c"
"""Text on a tint, which is the same in all themes."""


def table(subject: Subject) -> Iterator[Drawn]:
    """Seconds of each phase on each storage."""
    found = _seconds(subject.rows)
    phases = list(dict.fromkeys(phase for phase, _ in found))
    storages = [name for name in subject.storages if any(name == each for _, each in found)]
    if not phases:
        return
    figure, (axes,) = look.panels(1, 1.5 + 0.32 * len(phases))
    for line, phase in enumerate(phases):
        values = [found[phase, name] for name in storages if found.get((phase, name), 0) > 0]
        for column, name in enumerate(storages):
            value = found.get((phase, name))
            if value is not None:
                _cell(axes, (column, line), value, min(values, default=0), max(values, default=0))
    axes.set_xlim(0, len(storages))
    axes.set_ylim(len(phases), 0)
    axes.set_xticks([each + 0.5 for each in range(len(storages))],
                    [wording.short(subject.title_of(name), 30) for name in storages],
                    rotation=35, ha="left", rotation_mode="anchor")
    axes.xaxis.tick_top()
    axes.set_yticks([each + 0.5 for each in range(len(phases))],
                    [wording.short(phase, 36) for phase in phases])
    axes.tick_params(length=0)
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    yield Drawn(wording.slug(subject.run.label, "seconds"),
                "Seconds of each phase, medians of the rounds. The darker, the longer, compared "
                "with the other storages in the same line.", figure)


def _seconds(rows: tuple[Row, ...]) -> Mapping[tuple[str, str], float]:
    """By phase and storage; what makes the data is two phases."""
    found: dict[tuple[str, str], float] = {}
    for row in rows:
        label = ", ".join([row.test, *wording.parameters_of(row.parameters)])
        parts = [(title, name) for name, title in PARTS if name in row.metrics] \
            if row.test == CREATE else []
        for title, name in parts or [(label, "seconds")]:
            if name in row.metrics:
                found[title, row.storage] = row.metrics[name].median
    return found


def _cell(axes: Axes, place: tuple[int, int], value: float, least: float, most: float) -> None:
    column, line = place
    part = math.log(value / least) / math.log(most / least) if least < value and least else 0.0
    tint = "#" + "".join(f"{round(low + part * (high - low)):02x}"
                         for low, high in zip(SHORT, LONG, strict=True))
    axes.add_patch(Rectangle((column + 0.02, line + 0.04), 0.96, 0.92, facecolor=tint,
                             edgecolor="none"))
    axes.text(column + 0.5, line + 0.52, wording.number(value), ha="center", va="center",
              color=ON_TINT)
