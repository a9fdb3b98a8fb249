"""The report: runs as one page with figures, and each figure as a file beside it.

``make`` is all that others need.  ``subject`` says what a run is about, ``sentences``,
``comparisons`` and ``special`` what it shows, ``figures`` draws it, ``page`` puts it together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ...cluster.files import write_atomically
from ...errors import OperatorError
from .. import results
from . import drawing, page, wording
from .drawing import Drawn

PAGE = "index.html"
FOLDER = "report"


def make(folder: Path, output: Path | None = None,
         told: Callable[[int, int], None] = lambda *_: None) -> Path:
    """Make the report of a folder of results.

    Args:
        folder: of one run, or of the runs of several suites.
        output: where the page and its pictures go, made if need be; FOLDER/report without one.
        told: called after each figure, with how many are done and how many there are.

    Returns:
        The path of the page.

    Raises:
        OperatorError: exit 2, there are no results; exit 1, the report can't be written.
    """
    runs = results.read_folder(folder)
    output = output or folder / FOLDER
    anchors = _distinct([wording.slug(run.label) for run in runs])
    sections = [page.section(run, anchor) for run, anchor in zip(runs, anchors, strict=True)]
    names = _distinct([each.name for section in sections for each in section.drawn])
    shown: dict[str, list[tuple[Drawn, str]]] = {}
    pictures: dict[str, bytes] = {}
    for section in sections:
        for drawn in section.drawn:
            name = names[len(pictures)]
            drawing.lay_out(drawn.figure)
            shown.setdefault(section.anchor, []).append(
                (drawn, drawing.svg(drawn.figure, f"f{len(pictures)}", drawn.caption)))
            pictures[f"{name}.png"] = drawing.png(drawn.figure)
            told(len(pictures), len(names))
    text = page.html(sections, shown)
    try:
        output.mkdir(parents=True, exist_ok=True)
        for name, picture in pictures.items():
            (output / name).write_bytes(picture)
        write_atomically(output / PAGE, text)
    except OSError as error:
        raise OperatorError("the report can't be written", f"{output}: {error.strerror}",
                            "make room there, or name another folder with --output") from error
    return output / PAGE


def _distinct(names: Sequence[str]) -> list[str]:
    """The names, with a number behind those that are there already."""
    found: list[str] = []
    for name in names:
        free, number = name, 1
        while free in found:
            number += 1
            free = f"{name}-{number}"
        found.append(free)
    return found
