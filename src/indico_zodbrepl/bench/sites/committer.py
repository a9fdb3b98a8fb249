"""A program that commits continuously while something else is measured."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from indico_zodbrepl.bench.sites.site import Site
from indico_zodbrepl.bench.sites.together import Program

MODULE = "commits"
SECONDS = 120.0
"""Time limit of each answer, in addition to the requested working time."""
END_SECONDS = 120.0


class Committer:
    """Context manager: the program is ready on entry and stopped on exit.

    Args:
        arguments: of ``dataplane.benchmarks.commits``, without the configuration.
        seconds: time limit from ``go`` to the answer, in addition to ``SECONDS``.

    Raises:
        OperatorError: exit 1, it failed; exit 7, it did not answer or exit in time.
    """

    def __init__(self, site: Site, arguments: Sequence[str], seconds: float = 0.0) -> None:
        self._seconds = SECONDS + seconds
        self._program = Program(site, MODULE, "alone", [site.zodb_conf, *arguments])

    @property
    def pid(self) -> int:
        return self._program.pid

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as failing:
            failing.enter_context(self._program)
            self._program.wait_until_ready(SECONDS)
            failing.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._program:
            if kind is None:
                # It removes its objects now; a failure is reported.
                self._program.wait_for_end(END_SECONDS)

    def go(self) -> None:
        """Start committing."""
        self._program.tell("go")

    def next_window(self) -> None:
        """Restart counting; for a program without a time limit."""
        self._program.tell("next")

    def end(self) -> None:
        """Stop committing; for a program without a time limit."""
        self._program.tell("end")

    def answer(self) -> Mapping[str, Any]:
        """Wait for the result and return it."""
        return self._program.next_answer(self._seconds)
