"""How far a benchmark is: a bar on a terminal, lines elsewhere; on standard error."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import click
import rich.progress
from rich.console import Console

from ..bench.runner import Step, Told


class BenchProgress:
    """A context.  Suites are counted when there are several.

    Args:
        suites: how many suites are made.
    """

    def __init__(self, suites: int = 1) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._suites = suites
        self._number = 0
        self._suite = ""
        self._bar = rich.progress.Progress(
            rich.progress.BarColumn(bar_width=16), rich.progress.MofNCompleteColumn(),
            rich.progress.TimeRemainingColumn(elapsed_when_finished=True),
            rich.progress.TextColumn("{task.description}", markup=False),
            console=self._console, transient=True, disable=not self._console.is_terminal)
        self._task = self._bar.add_task("", total=None, visible=False)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Take the bar away, before something else is printed; may be repeated."""
        self._bar.stop()

    def suite(self, name: str) -> None:
        """The next suite begins."""
        self._number += 1
        self._suite = f"{name} ({self._number}/{self._suites}) " if self._suites > 1 else ""
        self._bar.reset(self._task, total=None, visible=False)
        if self._suites > 1:
            self.say(f"suite {self._number} of {self._suites}: {name}")

    def say(self, line: str) -> None:
        """Tell what goes on between measurements."""
        if self._console.is_terminal:
            self._bar.console.print(line, markup=False)
        else:
            click.echo(line, err=True)

    def begun(self, step: Step, done: int, planned: int) -> None:
        """Before a measurement."""
        if done == 0:
            self._bar.reset(self._task, total=planned, visible=True)
        self._bar.update(self._task, description=f"{self._suite}{step}")

    def told(self, told: Told) -> None:
        """After a measurement."""
        self._bar.update(self._task, completed=told.done)
        if not self._console.is_terminal:
            failed = f": failed: {told.measurement.error}" if told.measurement.error else ""
            click.echo(f"{told.done}/{told.planned} {self._suite}{told.step}, "
                       f"{told.measurement.took:.1f} s{failed}", err=True)
        elif told.measurement.error:
            self.say(f"{told.step} failed: {told.measurement.error}")
