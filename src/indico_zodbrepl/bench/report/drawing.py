"""Figures as parts of a page and as files of their own."""

from __future__ import annotations

import dataclasses
import io
import re

from matplotlib.figure import Figure

from . import look


@dataclasses.dataclass(frozen=True)
class Drawn:
    """A figure.

    Attributes:
        name: of its file, without the suffix.
        caption: what it shows, and how to read it.
    """

    name: str
    caption: str
    figure: Figure


def lay_out(figure: Figure) -> None:
    """Give everything in a figure its place, once for both of its forms; it takes longest."""
    with look.applied():
        figure.draw_without_rendering()
        figure.set_layout_engine("none")


def svg(figure: Figure, prefix: str, label: str) -> str:
    """An ``<svg>`` element to be put into a page, whose colours of text and lines are the page's.

    Args:
        prefix: put before each id in it, so that no two figures of a page have the same.
        label: for those who can't see it.
    """
    text = io.StringIO()
    with look.applied():
        figure.savefig(text, format="svg", metadata={"Date": None}, transparent=True)
    found = text.getvalue()
    found = found[found.index("<svg"):]
    found = re.sub(r"<metadata>.*?</metadata>", "", found, flags=re.DOTALL)
    found = re.sub(r"<!--.*?-->|<style.*?</style>", "", found, flags=re.DOTALL)
    found = re.sub(r'\bid="', f'id="{prefix}-', found)
    found = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{prefix}-", found)
    found = found.replace(look.INK, "currentColor").replace(look.GRID, "var(--grid)")
    found = re.sub(r"\s*\n\s*", "\n", found)
    return found.replace("<svg ", f'<svg role="img" aria-label="{_escaped(label)}" ', 1)


def png(figure: Figure) -> bytes:
    """The same as a picture on white, twice as fine as a page shows it."""
    made = io.BytesIO()
    with look.applied():
        figure.savefig(made, format="png", dpi=192, facecolor="white", metadata={"Software": None})
    return made.getvalue()


def _escaped(text: str) -> str:
    return (text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
            .replace('"', "&quot;"))
