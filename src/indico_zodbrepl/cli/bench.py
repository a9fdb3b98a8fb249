"""``zodbrepl bench``: a command for each suite, and commands for their results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from indico_zodbrepl.bench import suite as suites
from indico_zodbrepl.bench.suite import Suite
from indico_zodbrepl.cli import bench_options
from indico_zodbrepl.cli.app import App, pass_app

INSIDE = "in-app"
"""The suite that measures inside the running Indico."""

PATH = click.Path(path_type=Path)


class _Suites(click.Group):
    """A group that imports a suite when its command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*suites.known(), *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in suites.known():
            return command_of(suites.suite(cmd_name))
        return super().get_command(ctx, cmd_name)


@click.group(cls=_Suites)
def bench() -> None:
    """Measure storages, and Indico on them.

    Each run has a folder in var/bench with its results.
    """


def command_of(suite: Suite) -> click.Command:
    """Return the command that runs a suite."""

    @pass_app
    def callback(
        app: App,
        /,
        *,
        storages: tuple[str, ...],
        rounds: int | None,
        seconds: float | None,
        quick: bool,
        data_directory: Path | None,
        as_json: bool,
        **own: Any,
    ) -> None:
        from indico_zodbrepl.cli.bench_run import run_suite

        settings = suites.settings_of(
            suite,
            quick=quick,
            rounds=rounds,
            seconds=seconds,
            options=bench_options.given(suite, own),
        )
        run_suite(app, suite, settings, storages, data_directory, as_json=as_json)

    return click.Command(
        suite.name,
        callback=callback,
        short_help=f"Measure {suite.title}.",
        params=[*bench_options.common(suite), *bench_options.own(suite)],
        help=_help(suite),
    )


def _help(suite: Suite) -> str:
    codes = (
        "Exit code: 0 measured; 1 a measurement failed, or a named storage could not be measured"
    )
    if suite.name == INSIDE:
        return (
            f"Measure {suite.title}.\n\n"
            "Each test runs with cold, warm and hot caches.  It runs in the cluster's running "
            "Indico, or with --storages in scratch clusters.  Write tests change only data of "
            "the bulk loader, and restore them.  Ctrl-C stops the current test and keeps "
            "earlier results.\n\n"
            f"{codes}; 6 Indico is not running; 8 another measurement is running; 130 "
            "interrupted."
        )
    return (
        f"Measure {suite.title}.\n\nStorages run in scratch folders, which are removed at the "
        f"end.  Ctrl-C keeps earlier results.\n\n{codes}; 130 interrupted."
    )


@bench.command("all", params=list(bench_options.everywhere()))
@pass_app
def run_all(app: App, /, *, quick: bool, data_directory: Path | None, as_json: bool) -> None:
    """Run every suite with its defaults, into one folder.

    Each suite runs as its own command runs it.  The tests inside Indico use the cluster's Indico
    if it is running, else scratch clusters.  A suite that fails is reported, and the others
    continue.  Ctrl-C keeps earlier results.

    Exit code: 0 measured; 1 a suite or a measurement failed; 130 interrupted.
    """
    from indico_zodbrepl.cli import bench_run

    bench_run.run_all(app, data_directory, quick=quick, as_json=as_json)


@bench.command(
    params=[
        click.Argument(["folder"], type=PATH),
        bench_options.data_directory(),
        bench_options.as_json(),
    ]
)
@pass_app
def resume(app: App, /, *, folder: Path, data_directory: Path | None, as_json: bool) -> None:
    """Continue an interrupted run in FOLDER, a folder in var/bench.

    It measures what is missing, with the settings of the run, and adds it to the results.  A
    measurement that failed is not repeated.  Machine, disk and version have to be the same.

    Exit code: 0 measured; 1 a suite or a measurement failed; 2 there is no run in the folder; 6
    Indico is not running; 8 the run was made elsewhere, or a benchmark works in the folder; 130
    interrupted.
    """
    from indico_zodbrepl.cli import bench_run

    bench_run.resume(app, folder.absolute(), data_directory, as_json=as_json)


@bench.command(
    params=[
        click.Argument(["old"], type=PATH),
        click.Argument(["new"], type=PATH),
        bench_options.as_json(),
    ]
)
def compare(old: Path, new: Path, *, as_json: bool) -> None:
    """Compare the results in OLD and NEW, folders in var/bench.

    A difference counts only if the ranges of all rounds do not overlap; a single round shows
    none.  Folders of `bench all` are compared suite by suite.

    Exit code: 0 compared; 2 a folder has no results.
    """
    from indico_zodbrepl.cli.bench_view import show_comparison

    show_comparison(old, new, as_json=as_json)


@bench.command()
@click.argument("folder", type=PATH)
@click.option(
    "--output",
    type=PATH,
    metavar="DIR",
    help="Where to write the page and its pictures.  [default: FOLDER/report]",
)
def report(folder: Path, *, output: Path | None) -> None:
    """Write a page with figures and medians of the results in FOLDER, a folder in var/bench.

    The page needs no other file and no network.  Each figure is also written as a PNG file.

    Exit code: 0 written; 1 it cannot be written; 2 there are no results.
    """
    from indico_zodbrepl.bench import report as page
    from indico_zodbrepl.cli.bench_run import figures_progress

    with figures_progress() as tell:
        written = page.make(folder, output, tell)
    click.echo(f"{written}")
