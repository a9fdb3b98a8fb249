"""The report: one page with figures for some runs, and each figure as a file beside it.

``make`` is the entry point.  ``subject`` defines what a run is about, ``sentences`` and
``special`` what it shows, ``figures`` draws it, ``page`` assembles it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from indico_zodbrepl.bench import results
from indico_zodbrepl.bench.report import drawing, page, wording
from indico_zodbrepl.bench.report.drawing import Drawn
from indico_zodbrepl.cluster.files import write_atomically
from indico_zodbrepl.errors import OperatorError

PAGE = "index.html"
FOLDER = "report"


def make(
    folder: Path, output: Path | None = None, told: Callable[[int, int], None] = lambda *_: None
) -> Path:
    """Create the report of a folder of results and return the path of the page.

    Args:
        folder: of one run, or of the runs of several suites.
        output: folder for the page and its pictures, created if needed; default FOLDER/report.
        told: called after each figure with the number done and the total.

    Raises:
        OperatorError: exit 2, there are no results; exit 1, the report cannot be written.
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
                (drawn, drawing.svg(drawn.figure, f"f{len(pictures)}", drawn.caption))
            )
            pictures[f"{name}.png"] = drawing.png(drawn.figure)
            told(len(pictures), len(names))
    text = page.html(sections, shown)
    try:
        output.mkdir(parents=True, exist_ok=True)
        for name, picture in pictures.items():
            (output / name).write_bytes(picture)
        write_atomically(output / PAGE, text)
    except OSError as error:
        raise OperatorError(
            "the report can't be written",
            f"{output}: {error.strerror}",
            "make room there, or name another folder with --output",
        ) from error
    return output / PAGE


def _distinct(names: Sequence[str]) -> list[str]:
    """Return the names, with a number appended to duplicates."""
    found: list[str] = []
    for name in names:
        free, number = name, 1
        while free in found:
            number += 1
            free = f"{name}-{number}"
        found.append(free)
    return found
