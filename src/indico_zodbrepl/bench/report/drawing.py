"""Draw figures, as SVG parts of a page and as PNG files."""

from __future__ import annotations

import collections
import dataclasses
import io
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, cast

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True)
class Drawn:
    """A figure.

    Attributes:
        name: file name without suffix.
        caption: what it shows and how to read it.
    """

    name: str
    caption: str
    figure: Figure


def lay_out(figure: Figure) -> None:
    """Compute the layout of a figure once for both of its forms; this is the slow part."""
    with applied():
        figure.draw_without_rendering()
        figure.set_layout_engine("none")


def svg(figure: Figure, prefix: str, label: str) -> str:
    """Return an ``<svg>`` element that uses the page's text and line colours.

    Args:
        prefix: put before each id, so that ids are unique in the page.
        label: text for screen readers.
    """
    text = io.StringIO()
    with applied():
        figure.savefig(text, format="svg", metadata={"Date": None}, transparent=True)
    found = text.getvalue()
    found = found[found.index("<svg") :]
    found = re.sub(r"<metadata>.*?</metadata>", "", found, flags=re.DOTALL)
    found = re.sub(r"<!--.*?-->|<style.*?</style>", "", found, flags=re.DOTALL)
    found = re.sub(r'<g id="[^"]*"', "<g", found)
    found = re.sub(r'<path d="[^"]*" style="fill: none"/>', "", found)  # nothing is to be seen
    found = _with_markers_once(_without_groups(found))
    ids: dict[str, int] = {}
    found = re.sub(
        r'(\bid="|xlink:href="#|url\(#)([^")]*)',
        lambda each: f"{each[1]}{prefix}-{ids.setdefault(each[2], len(ids))}",
        found,
    )
    found = re.sub(r'clip-path="([^"]*)" style="([^"]*)"', r'style="\2; clip-path: \1"', found)
    found = re.sub(r'(?<= )(?:d|x|y)="[^"]*"', lambda each: _short(each.group()), found)
    found = found.replace(INK, "currentColor").replace(GRID, "var(--grid)")
    found = found.replace(f"'{FONT}'", f"'{FONT}', Verdana, sans-serif")
    found = re.sub(r' transform="rotate\(-0 [^"]*\)"', "", found)
    found = _with_classes(re.sub(r"\s*\n\s*", "\n", found), prefix)
    return found.replace("<svg ", f'<svg role="img" aria-label="{_escaped(label)}" ', 1)


def _without_groups(drawn: str) -> str:
    """Return a drawing without those of its groups that have no attribute."""
    kept: list[bool] = []

    def tag(found: re.Match[str]) -> str:
        if not found[0].startswith("</"):
            kept.append(bool(found[1]))
            return found[0] if kept[-1] else ""
        return found[0] if kept.pop() else ""

    return re.sub(r"<g( [^>]*[^/>])?>|</g>", tag, drawn.replace("<g/>", ""))


def _with_markers_once(drawn: str) -> str:
    """Return a drawing that defines each form of a marker once; each use of it has the style."""
    ids: dict[str, str] = {}
    same: dict[str, str] = {}

    def definition(found: re.Match[str]) -> str:
        name, form = found.groups()
        same[name] = ids.setdefault(form, name)
        return f'<defs><path id="{name}" d="{form}"/></defs>' if same[name] == name else ""

    marker = r'<defs>\s*<path id="([^"]*)" d="([^"]*)" style="[^"]*"/>\s*</defs>'
    drawn = re.sub(marker, definition, drawn)
    return re.sub(r'(?<=xlink:href="#)[^"]*', lambda found: same.get(found[0], found[0]), drawn)


def _with_classes(drawn: str, prefix: str) -> str:
    """Return a drawing that names its repeated styles once; they take a fifth of a page."""
    counts = collections.Counter(re.findall(r'style="([^"]*)"', drawn))
    repeated = [style for style, count in counts.items() if count > 2]
    for number, style in enumerate(repeated):
        drawn = drawn.replace(f'style="{style}"', f'class="{prefix}-s{number}"')
    rules = "".join(f".{prefix}-s{number}{{{style}}}" for number, style in enumerate(repeated))
    return drawn.replace(">", f"><style>{rules}</style>", 1)


def _short(coordinates: str) -> str:
    """Return coordinates with two decimals instead of six; a figure has 72 units an inch."""
    return re.sub(r"(\.\d\d)\d+", r"\1", coordinates)


def png(figure: Figure) -> bytes:
    """Return the same figure as a PNG on white, at twice the resolution of the page."""
    made = io.BytesIO()
    with applied():
        figure.savefig(made, format="png", dpi=192, facecolor="white", metadata={"Software": None})
    return made.getvalue()


def _escaped(text: str) -> str:
    return (
        text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    )


FONT = "DejaVu Sans"
"""Comes with matplotlib.  Readers without it get Verdana, whose letters are as wide."""
INK = "#1b1f24"
GRID = "#d3d8de"
"""Pages show these two in the colours of the reader's theme; PNGs are as they are, on white."""

LIMIT = "#c8332b"
WIDTH = 5.4
"""Inches; pages scale figures to the available width."""

SETTINGS: Mapping[str, Any] = {
    "svg.hashsalt": "zodbrepl",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": FONT,
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "text.color": INK,
    "axes.titlecolor": INK,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "lines.linewidth": 1.6,
    "axes.formatter.useoffset": False,
}


@dataclasses.dataclass(frozen=True)
class Style:
    """The style of a storage.  Colours have a contrast of 3 or more on white and on dark."""

    colour: str
    marker: str = "o"
    line: str = "-"


STYLES: Mapping[str, Style] = {
    "in-memory": Style("#7a7f87"),
    "filestorage": Style("#9a6b2f"),
    "zeo": Style("#1f78d1"),
    "zrs-0": Style("#d9541e", "D", "-"),
    "zrs": Style("#d9541e"),
    "zrs-sync": Style("#d9541e", "P", "--"),
    "zrs-archive": Style("#d9541e", "v", "-."),
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
"""For items other than storages, such as the two directories of a comparison of devices."""


def applied() -> AbstractContextManager[None]:
    """Context in which figures are created and written with SETTINGS."""
    return matplotlib.rc_context(cast("Any", dict(SETTINGS)))


def style(storage: str) -> Style:
    """Return the style of a storage; grey for an unknown one."""
    return STYLES.get(storage, OTHER)


def panels(count: int, height: float, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """Return a figure with this number of axes.

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
    """Add one legend below all panels, without duplicate labels."""
    handles: dict[str, Any] = {}
    for each in axes:
        for handle, label in zip(*each.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if handles:
        figure.legend(
            list(handles.values()),
            list(handles),
            loc="outside lower left",
            ncols=min(columns, len(handles)),
        )
