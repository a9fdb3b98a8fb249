"""Stop some programs of this host, such as those of one stage of a stop of all hosts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.host import daemon, orphans, programs
from indico_zodbrepl.host.interface import DryRun, Tell, ignore
from indico_zodbrepl.host.locking import exclusive
from indico_zodbrepl.host.orphans import Orphan

SECONDS = 120.0


def stop_stage(
    cluster: Cluster,
    installation: Installation,
    names: Sequence[str],
    progress: Tell = ignore,
    seconds: float = SECONDS,
) -> list[str]:
    """Stop programs at the same time, also those that a killed supervisord left.

    Args:
        progress: called with each program that stopped, one line.
        seconds: time limit for all of it.

    Returns:
        The names of those that were running.

    Raises:
        OperatorError: exit 7, something did not stop in time, or supervisord is frozen.
    """
    deadline = time.monotonic() + seconds
    if not Layout(cluster).run.is_dir():
        return []
    with exclusive(Layout(cluster).lock, seconds, progress):
        supervised, left = _running(cluster, installation, names)
        ended = programs.end(cluster, supervised, deadline, progress) if supervised else []
        orphans.end(cluster, left.values(), deadline, progress)
        return [*ended, *left]


def dry_run(
    cluster: Cluster, installation: Installation, _name: str, names: Sequence[str]
) -> DryRun:
    """Return which of the programs ``stop_stage`` would stop; change nothing."""
    supervised, left = _running(cluster, installation, names)
    return DryRun((), tuple(f"stop {each}" for each in (*supervised, *left.values())))


def _running(
    cluster: Cluster, installation: Installation, names: Sequence[str]
) -> tuple[list[str], Mapping[str, Orphan]]:
    """Return which programs supervisord runs, and which a killed one left."""
    supervised: list[str] = []
    if daemon.is_running(cluster):
        supervised = programs.running(cluster, names)
    if len(supervised) == len(names):
        return supervised, {}
    found = orphans.find(cluster, installation, supervised)
    return supervised, {name: each for name, each in found.items() if name in names}
