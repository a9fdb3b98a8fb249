"""Run suites on scratch sites or inside the running Indico, with progress on standard error."""

from __future__ import annotations

import contextlib
import dataclasses
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import click
import rich.progress
from rich.console import Console

from indico_zodbrepl.bench import results, resuming, runner
from indico_zodbrepl.bench import suite as suites
from indico_zodbrepl.bench.results import FILE, Run
from indico_zodbrepl.bench.runner import Step, Told
from indico_zodbrepl.bench.sites.pool import LiveSite, Sites
from indico_zodbrepl.bench.sites.storages import RUNNING, Storage
from indico_zodbrepl.bench.suite import Settings, Suite
from indico_zodbrepl.bench.suites import in_app
from indico_zodbrepl.cli.app import App
from indico_zodbrepl.cli.bench_view import show, show_all
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.locking import as_keyboard_interrupt


@dataclasses.dataclass(frozen=True)
class Request:
    """A request for a run: a suite, its settings and its storages.

    Attributes:
        storages: in scratch sites.
        inside: True to measure the cluster's own Indico instead.
        earlier: the interrupted run that is continued, if any.
    """

    suite: Suite
    settings: Settings
    storages: tuple[Storage, ...] = ()
    inside: bool = False
    earlier: Run | None = None

    @property
    def is_done(self) -> bool:
        """Return True if nothing is left to be measured."""
        return self.earlier is not None and self.earlier.is_complete


def run_suite(
    app: App,
    suite: Suite,
    settings: Settings,
    names: tuple[str, ...],
    data_directory: Path | None,
    *,
    as_json: bool,
) -> None:
    """Run a suite and print its results, also after an interruption.

    Args:
        names: of storages; empty for the suite's own.
        data_directory: as of ``Sites``.

    Raises OperatorError: exit 1, a measurement failed; exit 6, Indico is not running; exit 8, it
    cannot be measured now.
    """
    app.installation.check()
    if suite.name == in_app.SUITE.name and not names:
        request = _inside(app, settings)
    else:
        storages = suites.storages_of(suite, names, app.cluster, quick=settings.quick)
        request = Request(suite, settings, storages)
    folder = results.new_folder(app.cluster, suite.name)
    _run(app, request, folder, data_directory, as_json=as_json, named=bool(names))


def run_all(app: App, data_directory: Path | None, *, quick: bool, as_json: bool) -> None:
    """Run every suite and print a summary, also after an interruption.

    Raises OperatorError (exit 1) if a suite or a measurement failed.
    """
    app.installation.check()
    folder = results.new_folder(app.cluster, "all")
    results.note_all(folder, quick=quick)
    _run_all(app, folder, data_directory, quick=quick, as_json=as_json)


def resume(app: App, folder: Path, data_directory: Path | None, *, as_json: bool) -> None:
    """Continue an interrupted run, of one suite or of all, and print its results.

    Raises OperatorError: exit 2, there is no run in the folder, or it cannot be read; exit 8, it
    was made elsewhere, or a benchmark works in it; others as ``run_suite`` and ``run_all``.
    """
    app.installation.check()
    quick = results.quick_all(folder)
    if quick is not None:
        _run_all(app, folder, data_directory, quick=quick, as_json=as_json)
        return
    if not (folder / FILE).is_file():
        raise OperatorError(
            f"there is no run in {folder}",
            f"it has neither {FILE} nor {results.ALL_FILE}",
            "name a folder of var/bench, such as `ls var/bench` shows them",
            ExitCode.BAD_CONFIG,
        )
    request = _continued(app, results.read(folder))
    _run(app, request, folder, data_directory, as_json=as_json, named=False)


def _continued(app: App, run: Run) -> Request:
    suite, settings, names = resuming.request_of(run)
    if names == (RUNNING,):
        return dataclasses.replace(_inside(app, settings), earlier=run)
    quick = settings.quick
    storages = suites.storages_of(suite, names, app.cluster, quick=quick) if names else ()
    return Request(suite, settings, storages, earlier=run)


def _inside(app: App, settings: Settings) -> Request:
    """Return the request to measure the cluster's own Indico."""
    return Request(in_app.SUITE, in_app.for_running(app.cluster, settings), inside=True)


def _run(
    app: App,
    request: Request,
    folder: Path,
    data_directory: Path | None,
    *,
    as_json: bool,
    named: bool,
) -> None:
    with as_keyboard_interrupt(), results.held(folder), BenchProgress() as progress:
        try:
            if not request.is_done:
                with Sites(app.installation, data_directory, progress.say) as sites:
                    _make(app, request, sites, folder, progress)
        finally:
            progress.stop()
            made = results.read(folder)
            if made.measurements or made.left_out:
                show(made, request.suite, app, as_json=as_json)
    _complain(made, named=named)


def _run_all(
    app: App, folder: Path, data_directory: Path | None, *, quick: bool, as_json: bool
) -> None:
    with as_keyboard_interrupt(), results.held(folder):
        failures: dict[str, str] = {}
        try:
            _make_all(app, folder, failures, data_directory, quick=quick)
        finally:
            made = results.read_folder(folder) if any(folder.glob(f"*/{FILE}")) else []
            show_all(app, folder, made, failures, as_json=as_json)
    failed = {
        run.suite: f"{len(run.failed)} of {run.planned} measurements failed"
        for run in made
        if run.failed
    } | failures
    if failed:
        raise OperatorError(
            f"{len(failed)} of {len(suites.known())} suites failed",
            "\n".join(f"{name}: {why}" for name, why in failed.items()),
        )


def _make_all(
    app: App, folder: Path, failures: dict[str, str], data_directory: Path | None, *, quick: bool
) -> None:
    made = [suites.suite(name) for name in suites.known()]
    inside = runs(app)
    shared = _instances(made, inside=inside) if quick else None
    with (
        BenchProgress(len(made)) as progress,
        Sites(app.installation, data_directory, progress.say, shared=shared) as sites,
    ):
        for suite in made:
            progress.suite(suite.name)
            own = folder / suite.name
            try:
                request = _of_all(app, suite, own, inside=inside, quick=quick)
                if not request.is_done:
                    _make(app, request, sites, own, progress)
            except OperatorError as error:
                failures[suite.name] = " ".join(filter(None, (error.notice, error.detail)))
            except Exception as error:  # noqa: BLE001  # It would end hours of other suites.
                progress.say(traceback.format_exc())
                failures[suite.name] = repr(error)
            finally:
                if not quick:
                    sites.close_all()
            if suite.name in failures:
                progress.say(f"{suite.name} failed: {failures[suite.name]}")


def _of_all(app: App, suite: Suite, own: Path, *, inside: bool, quick: bool) -> Request:
    """Return what a suite of ``bench all`` measures, or what is left of it in its folder."""
    if (own / FILE).is_file():
        return _continued(app, results.read(own))
    settings = suites.settings_of(suite, quick=quick)
    if inside and suite.name == in_app.SUITE.name:
        return _inside(app, settings)
    return Request(suite, settings, suites.storages_of(suite, (), app.cluster, quick=quick))


def _instances(made: list[Suite], *, inside: bool) -> dict[str, int]:
    """Return the number of Indico instances that a quick run needs on each storage."""
    needed: dict[str, int] = {}
    for suite in made:
        if not (inside and suite.name == in_app.SUITE.name):
            for name in suite.quick_storages:
                needed[name] = max(suite.indico, needed.get(name, 0))
    return needed


def _make(app: App, request: Request, sites: Sites, folder: Path, progress: BenchProgress) -> None:
    """Execute a run; see ``runner.make``."""
    with contextlib.ExitStack() as closing:
        storages: tuple[Storage, ...] = request.storages
        if request.inside:
            live = LiveSite(app.cluster, app.installation)
            storages = (live.storage,)
            own = Sites(app.installation, Layout(app.cluster).var, progress.say)
            sites = closing.enter_context(own)
            sites.give(live)
        runner.make(
            request.suite,
            storages,
            request.settings,
            sites,
            cluster=app.cluster,
            folder=folder,
            told=progress.told,
            begun=progress.begun,
            earlier=request.earlier,
        )


def runs(app: App) -> bool:
    """Return True if the cluster's first Indico instance runs on this host."""
    instances = app.cluster.indico[:1]
    pids = LiveSite(app.cluster, app.installation).pids() if instances else {}
    return any(instance.program in pids for instance in instances)


def _complain(run: Run, *, named: bool) -> None:
    if run.failed:
        raise OperatorError(
            f"{len(run.failed)} of {run.planned} measurements failed",
            run.failed[-1].error,
            f"see the reason of each in {run.folder / FILE}",
        )
    if run.left_out and (named or not run.measurements):
        count = len(run.left_out)
        raise OperatorError(
            f"{count} storage{'' if count == 1 else 's'} could not be measured",
            "\n".join(f"{name}: {why}" for name, why in run.left_out.items()),
        )


class BenchProgress:
    """A context manager that shows progress: a bar on a terminal, else lines.

    Args:
        suites: how many suites run; several are numbered.
    """

    def __init__(self, suites: int = 1) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._suites = suites
        self._number = 0
        self._suite = ""
        self._bar = rich.progress.Progress(
            rich.progress.BarColumn(bar_width=16),
            rich.progress.MofNCompleteColumn(),
            rich.progress.TimeRemainingColumn(elapsed_when_finished=True),
            rich.progress.TextColumn("{task.description}", markup=False),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("", total=None, visible=False)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Remove the bar before other output.  Idempotent."""
        self._bar.stop()

    def suite(self, name: str) -> None:
        """Announce the next suite."""
        self._number += 1
        self._suite = f"{name} ({self._number}/{self._suites}) " if self._suites > 1 else ""
        self._bar.reset(self._task, total=None, visible=False)
        if self._suites > 1:
            self.say(f"suite {self._number} of {self._suites}: {name}")

    def say(self, line: str) -> None:
        """Print a line between measurements."""
        if self._console.is_terminal:
            self._bar.console.print(line, markup=False)
        else:
            click.echo(line, err=True)

    def begun(self, step: Step, done: int, planned: int) -> None:
        """Show the measurement that starts."""
        if not self._bar.tasks[self._task].visible:
            self._bar.reset(self._task, total=planned, completed=done, visible=True)
        self._bar.update(self._task, description=f"{self._suite}{step}")

    def told(self, told: Told) -> None:
        """Show the measurement that ended."""
        self._bar.update(self._task, completed=told.done)
        if not self._console.is_terminal:
            failed = f": failed: {told.measurement.error}" if told.measurement.error else ""
            click.echo(
                f"{told.done}/{told.planned} {self._suite}{told.step}, "
                f"{told.measurement.took:.1f} s{failed}",
                err=True,
            )
        elif told.measurement.error:
            self.say(f"{told.step} failed: {told.measurement.error}")


@contextlib.contextmanager
def figures_progress() -> Iterator[Callable[[int, int], None]]:
    """Show a bar of the figures drawn, on standard error if that is a terminal."""
    console = Console(stderr=True, highlight=False)
    with rich.progress.Progress(
        rich.progress.BarColumn(bar_width=16),
        rich.progress.MofNCompleteColumn(),
        rich.progress.TextColumn("figures"),
        rich.progress.TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, planned: bar.update(task, completed=done, total=planned)
