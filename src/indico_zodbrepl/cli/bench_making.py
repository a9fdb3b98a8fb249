"""Makes a suite for a command: on scratch sites, or inside the Indico that runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..bench import in_app, runner
from ..bench.live import LiveSite
from ..bench.results import FILE, Run
from ..bench.sites import Sites
from ..bench.storages import Storage
from ..bench.suite import Settings, Suite
from ..cluster.layout import Layout
from ..errors import OperatorError
from .app import App
from .bench_progress import BenchProgress


def make(app: App, suite: Suite, settings: Settings, storages: Sequence[Storage], sites: Sites, *,
         folder: Path, progress: BenchProgress) -> Run:
    """A run on scratch sites; see ``runner.make``."""
    return runner.make(suite, storages, settings, sites, cluster=app.cluster, folder=folder,
                       told=progress.told, begun=progress.begun)


def make_inside(app: App, settings: Settings, *, folder: Path, progress: BenchProgress) -> Run:
    """A run inside the Indico of the cluster itself.

    Raises:
        OperatorError: exit 6, it does not run; exit 8, it can't be measured now.
    """
    site = LiveSite(app.cluster, app.installation)
    with Sites(app.installation, Layout(app.cluster).var, progress.say) as sites:
        sites.give(site)
        return make(app, in_app.SUITE, settings, [site.storage], sites, folder=folder,
                    progress=progress)


def runs(app: App) -> bool:
    """Whether the cluster's first Indico instance runs here."""
    instances = app.cluster.indico[:1]
    pids = LiveSite(app.cluster, app.installation).pids() if instances else {}
    return any(instance.program in pids for instance in instances)


def complain(run: Run, *, named: bool) -> None:
    """Raise OperatorError (exit 1) for a run in which something failed.

    Args:
        named: whether its storages were asked for by name, so that each of them is wanted.
    """
    if run.failed:
        raise OperatorError(
            f"{len(run.failed)} of {run.planned} measurements failed", run.failed[-1].error,
            f"{run.folder / FILE} says of each why")
    if run.left_out and (named or not run.measurements):
        count = len(run.left_out)
        raise OperatorError(
            f"{count} storage{'' if count == 1 else 's'} could not be measured",
            "\n".join(f"{name}: {why}" for name, why in run.left_out.items()))
