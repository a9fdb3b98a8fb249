"""Writes: histograms of the sizes of what storages write in a commit."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from matplotlib.axes import Axes

from ...summary import Row
from .. import look, wording
from ..details import by_number, mapping, number
from ..drawing import Drawn
from ..subject import Subject

KINDS = ("data", "write-ahead log", "binary log", "rollback journal", "index", "other")
"""Of files in data directories; other things that programs write, such as sockets, don't count."""

Sizes = Mapping[str, Mapping[float, float]]
"""By kind of file: how many writes in a commit, by the power of two of bytes that they are within.
"""


def histograms(subject: Subject) -> Iterator[Drawn]:
    """Writes of each size in a commit, a panel for each storage."""
    cases: dict[str, list[tuple[str, Sizes]]] = {}
    for row in subject.rows:
        if sizes := _sizes(subject, row):
            about = wording.case(row.test, row.parameters)
            cases.setdefault(about, []).append((subject.title_of(row.storage), sizes))
    for about, found in cases.items():
        figure, panels = look.panels(len(found), 1.75, 1 if len(found) == 1 else 2)
        classes = sorted({size for _, sizes in found for each in sizes.values() for size in each})
        for axes, (title, sizes) in zip(panels, found, strict=True):
            _bars(axes, sizes, classes)
            axes.set_title(title)
        look.legend(figure, panels)
        yield Drawn(wording.slug(subject.run.label, "sizes", about),
                    f"{about}: writes in a commit to files of data directories, by the power of "
                    "two of bytes that they are within; all rounds together.", figure)


def _bars(axes: Axes, sizes: Sizes, classes: Sequence[float]) -> None:
    below = [0.0] * len(classes)
    for kind in KINDS:
        if each := sizes.get(kind):
            heights = [each.get(size, 0.0) for size in classes]
            axes.bar(range(len(classes)), heights, 0.85, below,
                     color=look.SEQUENCE[KINDS.index(kind)], label=kind)
            below = [low + high for low, high in zip(below, heights, strict=True)]
    step = math.ceil(len(classes) / 7)
    axes.set_xticks(range(0, len(classes), step),
                    [_short(size) for size in classes[::step]])
    axes.grid(visible=False, axis="x")
    axes.set_ylabel("writes/commit")


def _short(size: float) -> str:
    return wording.bytes_of(size).replace(" bytes", " B").replace("iB", "").replace(" ", "")


def _sizes(subject: Subject, row: Row) -> Sizes:
    """Of all rounds together."""
    found: dict[str, defaultdict[float, float]] = {}
    commits = 0.0
    for made in subject.made(row):
        commits += number(made.details.get("commits")) or 0
        for kind, counts in mapping(made.details.get("files")).items():
            for size, count in by_number(mapping(counts).get("sizes")):
                if kind in KINDS:
                    found.setdefault(kind, defaultdict(float))[size] += count
    if not commits:
        return {}
    return {kind: {size: count / commits for size, count in each.items()}
            for kind, each in found.items()}
