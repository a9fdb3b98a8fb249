"""Labs for tests, of which nothing is left afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from traces import traces_of

from indico_zodbrepl.demo.lab import Lab

MakeLab = Callable[[int], Lab]


@contextlib.contextmanager
def labs_in(folder: Path) -> Iterator[MakeLab]:
    """A function that makes labs; afterwards all are closed and nothing of them is left."""
    made: list[Lab] = []
    with contextlib.ExitStack() as opened:

        def make(count: int) -> Lab:
            place = folder / f"lab-{len(made) + 1}"
            place.mkdir()
            made.append(opened.enter_context(Lab(place, count)))
            return made[-1]

        yield make
    assert [] == [trace for lab in made for trace in traces_of(lab.folder)]
