"""How figures look: a colour and a marker for each storage, the same in all of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, cast

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK = "#1b1f24"
GRID = "#d3d8de"
"""Pages show these two in the colours of the reader's theme; PNGs are as they are, on white."""

LIMIT = "#c8332b"
WIDTH = 5.4
"""Inches; pages show figures as wide as there is room for."""

SETTINGS: Mapping[str, Any] = {
    "svg.hashsalt": "zodbrepl", "svg.fonttype": "path", "text.parse_math": False,
    "font.family": "DejaVu Sans", "font.size": 9, "axes.titlesize": 9.5, "axes.titleweight": "bold",
    "axes.titlelocation": "left", "axes.labelsize": 9, "legend.fontsize": 8.5,
    "legend.frameon": False, "axes.edgecolor": GRID, "axes.labelcolor": INK, "text.color": INK,
    "axes.titlecolor": INK, "xtick.color": GRID, "ytick.color": GRID, "xtick.labelcolor": INK,
    "ytick.labelcolor": INK, "grid.color": GRID, "grid.linewidth": 0.7, "axes.grid": True,
    "axes.axisbelow": True, "axes.spines.top": False, "axes.spines.right": False,
    "axes.facecolor": "none", "figure.facecolor": "none", "lines.linewidth": 1.6,
    "axes.formatter.useoffset": False,
}


@dataclasses.dataclass(frozen=True)
class Style:
    """Of one storage.  Its colour has a contrast of 3 or more both on white and on dark."""

    colour: str
    marker: str = "o"
    line: str = "-"


STYLES: Mapping[str, Style] = {
    "in-memory": Style("#7a7f87"),
    "filestorage": Style("#9a6b2f"),
    "zeo": Style("#1f78d1"),
    "zrs": Style("#d9541e"),
    "zrs-2-direct": Style("#d9541e", "s", "--"),
    "zrs-2-serial": Style("#d9541e", "^", ":"),
    "neo": Style("#0a9371"),
    "neo-1": Style("#0a9371", "s", "--"),
    "neo-2": Style("#0a9371", "^", ":"),
    "sqlite": Style("#8a63d2"),
    "postgresql": Style("#2a96b8"),
    "postgresql-async": Style("#2a96b8", "s", "--"),
    "postgresql-sync": Style("#2a96b8", "^", ":"),
    "mariadb": Style("#c9579b"),
    "mariadb-async": Style("#c9579b", "s", "--"),
    "mariadb-sync": Style("#c9579b", "^", ":"),
    "configured": Style("#b8860b", "D", "-."),
}
OTHER = Style("#7a7f87", "X", "-.")
SEQUENCE = ("#1f78d1", "#d9541e", "#0a9371", "#8a63d2", "#c9579b", "#b8860b", "#2a96b8")
"""For what is no storage, such as the two directories of a comparison of devices."""


def applied() -> AbstractContextManager[None]:
    """Within, figures are made and written with SETTINGS."""
    return matplotlib.rc_context(cast("Any", dict(SETTINGS)))


def style(storage: str) -> Style:
    """That of a storage; of one that isn't known a grey one."""
    return STYLES.get(storage, OTHER)


def panels(count: int, height: float, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure with so many axes.

    Args:
        height: of one panel, in inches.
    """
    rows = -(-count // columns)
    figure = Figure(figsize=(WIDTH, height * rows), layout="constrained")
    axes = [figure.add_subplot(rows, columns, number + 1) for number in range(count)]
    for each in axes:
        each.tick_params(length=0)
    return figure, axes


def legend(figure: Figure, axes: list[Axes], columns: int = 2) -> None:
    """One legend below all panels, each label once."""
    handles: dict[str, Any] = {}
    for each in axes:
        for handle, label in zip(*each.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if handles:
        figure.legend(list(handles.values()), list(handles), loc="outside lower left",
                      ncols=min(columns, len(handles)))
