"""``zodbrepl bench``: the suites of benchmarks, each a command, and what reads their results."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import click

from ..bench import asking, in_app, results, suites
from ..bench.sites import Sites
from ..bench.suite import Settings, Suite
from ..node.interruption import as_keyboard_interrupt
from . import bench_options
from .app import App, pass_app
from .bench_making import complain, make, make_inside
from .bench_progress import BenchProgress
from .bench_view import show

OTHERS = {"all": "bench_all", "compare": "bench_compare", "report": "bench_report"}
"""Commands that are no suites: modules of this package, each with its ``command``."""


class _Suites(click.Group):
    """A group that imports a suite, or a command's module, when it is asked for."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return [*suites.known(), *OTHERS]

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in suites.known():
            return command_of(suites.suite(cmd_name))
        if cmd_name not in OTHERS:
            return None
        module = importlib.import_module(f"{__package__}.{OTHERS[cmd_name]}")
        found: click.Command = module.command
        return found


@click.group(cls=_Suites)
def bench() -> None:
    """Measure storages, and Indico on them.

    Results are kept in var/bench, a folder for each run.
    """


def command_of(suite: Suite) -> click.Command:
    """The command that makes a suite."""
    @pass_app
    def callback(app: App, /, *, storages: tuple[str, ...], rounds: int | None,
                 seconds: float | None, quick: bool, data_directory: Path | None, as_json: bool,
                 **own: Any) -> None:
        settings = asking.settings_of(suite, quick=quick, rounds=rounds, seconds=seconds,
                                      options=bench_options.given(suite, own))
        with as_keyboard_interrupt():
            _make(app, suite, settings, storages, data_directory, as_json=as_json)

    return click.Command(
        suite.name, callback=callback, short_help=_sentence(suite.title),
        params=[*bench_options.common(suite), *bench_options.own(suite)], help=_help(suite))


def _make(app: App, suite: Suite, settings: Settings, names: tuple[str, ...],
          data_directory: Path | None, *, as_json: bool) -> None:
    app.installation.check()
    inside = suite.name == in_app.SUITE.name and not names
    if inside:
        settings = in_app.for_running(app.cluster, settings)
    storages = asking.storages_of(suite, names, app.cluster, quick=settings.quick)
    folder = results.new_folder(app.cluster, suite.name)
    with BenchProgress() as progress:
        try:
            if inside:
                make_inside(app, settings, folder=folder, progress=progress)
            else:
                with Sites(app.installation, data_directory, progress.say) as sites:
                    make(app, suite, settings, storages, sites, folder=folder, progress=progress)
        finally:
            progress.stop()
            made = results.read(folder)
            if made.measurements or made.left_out:
                show(made, suite, app, as_json=as_json)
    complain(made, named=bool(names))


def _help(suite: Suite) -> str:
    codes = ("Exit code: 0 measured, 1 some measurements failed, or a storage that was named "
             "could not be measured")
    if suite.name == in_app.SUITE.name:
        return (f"{_sentence(suite.title)}\n\n"
                "Each test is made with cold, warm and hot caches, in the running Indico of the "
                "cluster, or with --storages in scratch clusters of their own.  What the tests of "
                "writing modify was made by the bulk loader, and is put back.  Ctrl-C ends the "
                "test that runs; what was measured before is kept.\n\n"
                f"{codes}, 6 Indico does not run, 8 it is being measured already, 130 "
                "interrupted.")
    return (f"{_sentence(suite.title)}\n\nStorages are brought up in scratch folders, and "
            f"removed at the end.  Ctrl-C keeps what was measured.\n\n{codes}, 130 interrupted.")


def _sentence(title: str) -> str:
    return f"Measure {title}."
