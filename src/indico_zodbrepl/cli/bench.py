"""``zodbrepl bench``: how fast Indico is on its storage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
import rich.progress
from rich.console import Console
from rich.text import Text

from ..bench import in_app, results
from ..bench.endpoint import Endpoint
from ..bench.in_app import Cell, Settings
from ..bench.results import Measurement, Run
from ..errors import ExitCode, OperatorError
from .app import App, pass_app
from .bench_view import view

DEFAULTS = Settings()


@click.group()
def bench() -> None:
    """Measure how fast Indico is on its storage.

    Results are kept in var/bench, a folder for each run.
    """


@bench.command("in-app")
@click.option("--instance", "name", metavar="NAME",
              help="The Indico instance that is measured.  [default: the first one]")
@click.option("--test", "tests", multiple=True, type=click.Choice(in_app.TESTS), metavar="NAME",
              help="Make this test only; may be repeated.  One of: " + ", ".join(in_app.TESTS))
@click.option("--seconds", type=click.FloatRange(0.05, 300), default=DEFAULTS.seconds,
              show_default=True, metavar="S", help="How long each measurement takes.")
@click.option("--repetitions", type=click.IntRange(1, 10000), default=DEFAULTS.repetitions,
              show_default=True, metavar="N",
              help="Modifications in a measurement of testWriteConferencesLatency.")
@click.option("--modify", type=click.Choice(in_app.MODIFY), default=DEFAULTS.modify,
              show_default=True, help="What the tests of writing modify in a conference.")
@click.option("--rounds", type=click.IntRange(1, 100), default=DEFAULTS.rounds,
              show_default=True, metavar="N", help="How often each test is made.")
@click.option("--quick", is_flag=True,
              help="One short round: shows whether it works, not how fast it is.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as one JSON object.")
@pass_app
def in_app_command(app: App, *, name: str | None, tests: tuple[str, ...], seconds: float,
            repetitions: int, modify: str, rounds: int, quick: bool, as_json: bool) -> None:
    """Have a running Indico read and modify its own objects, and count.

    Each test is made with cold, warm and hot caches.  What the tests of writing modify was made
    by the bulk loader, and is put back.  Ctrl-C ends the test that runs; what was measured before
    is kept.

    Exit code: 0 measured, 1 some tests failed, 6 Indico does not run, 8 it is being measured
    already, 130 interrupted.
    """
    settings = Settings(tests or in_app.TESTS, seconds, repetitions, modify, rounds)
    if quick:
        settings = settings.quick()
    instance = in_app.instance_of(app.cluster, name)
    endpoint = Endpoint.of(app.cluster, instance)
    made: list[Measurement] = []
    with _progress(len(in_app.plan(settings))) as tell:
        def told(cell: Cell, measurement: Measurement) -> None:
            made.append(measurement)
            tell(cell)
        try:
            run = in_app.measure(app.cluster, instance, settings, endpoint.measure, told)
        except (KeyboardInterrupt, OperatorError):
            if made:
                _show(results.read_all(app.cluster)[0], as_json=as_json)
            raise
    _show(run, as_json=as_json)
    if run.failed:
        raise OperatorError(
            f"{len(run.failed)} of {run.planned} measurements failed", run.failed[-1].error,
            f"{run.folder / results.FILE} says of each why", ExitCode.FAILED)


def _show(run: Run, *, as_json: bool) -> None:
    if as_json:
        click.echo(results.as_json(run), nl=False)
        return
    console = Console(highlight=False)
    for part in view(run):
        console.print(part, soft_wrap=isinstance(part, Text))


@contextmanager
def _progress(total: int) -> Iterator[Callable[[Cell], None]]:
    """A bar on a terminal's standard error; a line a measurement where it is none."""
    console = Console(stderr=True, highlight=False)
    bar = rich.progress.Progress(
        rich.progress.BarColumn(bar_width=16), rich.progress.MofNCompleteColumn(),
        rich.progress.TextColumn("{task.description}"), rich.progress.TimeRemainingColumn(),
        console=console, transient=True, disable=not console.is_terminal)
    with bar:
        task = bar.add_task("", total=total)
        done = 0

        def tell(cell: Cell) -> None:
            nonlocal done
            done += 1
            what = f"{cell.test} {cell.caches}, round {cell.round}"
            bar.update(task, advance=1, description=what)
            if not console.is_terminal:
                click.echo(f"{done}/{total} {what}", err=True)

        yield tell
