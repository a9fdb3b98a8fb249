"""``zodbrepl bench all``: every suite in turn, into one folder."""

from __future__ import annotations

import json
import traceback
from pathlib import Path

import click

from ..bench import asking, in_app, results, suites
from ..bench.results import Run
from ..bench.sites import Sites
from ..bench.suite import Suite
from ..cluster.commands import Commands
from ..errors import OperatorError
from ..node.interruption import as_keyboard_interrupt
from . import bench_options
from .app import App, pass_app
from .bench_making import make, make_inside, runs
from .bench_progress import BenchProgress


@click.command("all", params=list(bench_options.everywhere()))
@pass_app
def command(app: App, /, *, quick: bool, data_directory: Path | None, as_json: bool) -> None:
    """Make every suite, with its defaults, into one folder.

    Each is made as its own command makes it; the tests inside Indico are made in the cluster's
    Indico when it runs, else in scratch clusters.  A suite that fails is told, and the others go
    on.  Ctrl-C keeps what was measured.

    Exit code: 0 measured, 1 something failed, 130 interrupted.
    """
    app.installation.check()
    with as_keyboard_interrupt():
        folder = results.new_folder(app.cluster, "all")
        failures: dict[str, str] = {}
        try:
            _make_all(app, folder, failures, data_directory, quick=quick)
        finally:
            _show(app, folder, failures, as_json=as_json)
    failed = {run.suite: f"{len(run.failed)} of {run.planned} measurements failed"
              for run in _made(folder) if run.failed} | failures
    if failed:
        raise OperatorError(f"{len(failed)} of {len(suites.known())} suites failed",
                            "\n".join(f"{name}: {why}" for name, why in failed.items()))


def _make_all(app: App, folder: Path, failures: dict[str, str], data_directory: Path | None, *,
              quick: bool) -> None:
    made = [suites.suite(name) for name in suites.known()]
    inside = runs(app)
    with BenchProgress(len(made)) as progress, \
            Sites(app.installation, data_directory, progress.say,
                  shared=_instances(made, inside=inside) if quick else None) as sites:
        for suite in made:
            progress.suite(suite.name)
            try:
                _make(app, suite, sites, folder / suite.name, progress, inside=inside,
                      quick=quick)
            except OperatorError as error:
                failures[suite.name] = " ".join(filter(None, (error.notice, error.detail)))
            except Exception as error:  # noqa: BLE001  # hours of other suites would be lost
                progress.say(traceback.format_exc())
                failures[suite.name] = repr(error)
            finally:
                if not quick:
                    sites.close_all()
            if suite.name in failures:
                progress.say(f"{suite.name} failed: {failures[suite.name]}")


def _make(app: App, suite: Suite, sites: Sites, folder: Path, progress: BenchProgress, *,
          inside: bool, quick: bool) -> None:
    settings = asking.settings_of(suite, quick=quick)
    if inside and suite.name == in_app.SUITE.name:
        make_inside(app, in_app.for_running(app.cluster, settings), folder=folder,
                    progress=progress)
    else:
        make(app, suite, settings, asking.storages_of(suite, (), app.cluster, quick=quick), sites,
             folder=folder, progress=progress)


def _instances(made: list[Suite], *, inside: bool) -> dict[str, int]:
    """How many Indico instances some suite needs in a quick run, by the names of storages."""
    needed: dict[str, int] = {}
    for suite in made:
        if not (inside and suite.name == in_app.SUITE.name):
            for name in suite.quick_storages:
                needed[name] = max(suite.indico, needed.get(name, 0))
    return needed


def _made(folder: Path) -> list[Run]:
    return results.read_folder(folder) if any(folder.glob(f"*/{results.FILE}")) else []


def _show(app: App, folder: Path, failures: dict[str, str], *, as_json: bool) -> None:
    made = _made(folder)
    if as_json:
        click.echo(json.dumps({run.suite: json.loads(results.as_json(run)) for run in made},
                              indent=1))
        return
    for run in made:
        failed = f", {len(run.failed)} failed" if run.failed else ""
        took = f" in {run.ended - run.began:.0f} s" if run.ended else ""
        click.echo(f"{run.suite:<13} {len(run.measurements)} of {run.planned} measurements{took}"
                   f"{failed}")
        for name, why in run.left_out.items():
            click.echo(f"{'':<13} left out: {name}: {why}")
    for name, why in failures.items():
        click.echo(f"{name:<13} failed: {why}")
    click.echo(f"kept in {folder}")
    if made:
        command_line = Commands(app.cluster, app.installation.home).zodbrepl
        click.echo(f"with tables and figures, as a page: "
                   f"{command_line('bench', 'report', str(folder))}")
