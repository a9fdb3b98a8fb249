"""Starting and ending one node or one Indico instance under supervisor."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

from ..backends import backend_of, can, engine_of
from ..cluster import Cluster, IndicoInstance
from ..cluster.installation import Installation
from ..errors import ExitCode, OperatorError
from . import readiness, replacing, run, state, supervised
from .supervised import Progress, ignore
from .supervisor import Supervisor

START_SECONDS = 60.0
STOP_SECONDS = 40.0
CHANGE_SECONDS = STOP_SECONDS + START_SECONDS


def start_node(cluster: Cluster, installation: Installation, name: str, *,
               progress: Progress = ignore, seconds: float = START_SECONDS) -> bool:
    """Start a node under supervisor, in the role of its state file, and wait until it listens.

    Guard and lineage check decide whether it may.

    Returns:
        Whether it was started; False when it ran already.

    Raises:
        OperatorError: exit 2, no such node; exit 6, supervisord doesn't run; exit 8, the node
            refuses, with its own words; exit 7, time ran out; exit 1, its server died.
    """
    node = run.node_with_program(cluster, name)
    installation.check()
    present = run.prepare(cluster, node)
    endpoints = tuple(backend_of(cluster).listens_on(cluster, present))
    deadline = time.monotonic() + seconds
    started = _start(cluster, node.program, functools.partial(readiness.listening, endpoints),
                     progress, seconds)
    engine = engine_of(cluster)
    if engine is not None:
        engine.settle(cluster, installation, state.current(cluster, node), deadline)
    return started


def stop_node(cluster: Cluster, name: str, *,
              progress: Progress = ignore, seconds: float = STOP_SECONDS) -> bool:
    """End a node's server in order: it hands its followers what they lack first.

    Returns:
        Whether it was ended; False when it didn't run.

    Raises:
        OperatorError: exit 2, no such node; exit 6, supervisord doesn't run; exit 7, time
            ran out.
    """
    node = run.node_with_program(cluster, name)
    return bool(supervised.end(cluster, [node.program], time.monotonic() + seconds, progress))


def restart_node(cluster: Cluster, installation: Installation, name: str, *,
                 progress: Progress = ignore, seconds: float = CHANGE_SECONDS) -> None:
    """End a node's server if it runs, then start it; see ``stop_node`` and ``start_node``.

    Both together take ``seconds`` at most.
    """
    deadline = time.monotonic() + seconds
    stop_node(cluster, name, progress=progress, seconds=min(seconds, STOP_SECONDS))
    start_node(cluster, installation, name, progress=progress,
               seconds=deadline - time.monotonic())


def restart_instance(cluster: Cluster, name: str, *,
                     progress: Progress = ignore, seconds: float = START_SECONDS) -> None:
    """Let an Indico instance drop all it has cached, and wait until it answers.

    A new worker takes over from the old one while it serves.  An instance that doesn't work is
    restarted as a whole, and so is one whose storage only one process can have open.

    Raises:
        OperatorError: exit 2, no such instance; exit 6, supervisord doesn't run; exit 7, time
            ran out; exit 1, it died.
    """
    instance = instance_named(cluster, name)
    deadline = time.monotonic() + seconds
    program = Supervisor(cluster).states().get(instance.program)
    if program is not None and program.pid is not None and can(cluster, "two-instances"):
        half = time.monotonic() + seconds / 2
        if replacing.replace_worker(instance, program.pid, half):
            progress(f"{instance.program} has a new worker")
            return
    supervised.end(cluster, [instance.program], deadline, progress)
    _start(cluster, instance.program, functools.partial(readiness.indico_answers, instance),
           progress, deadline - time.monotonic())


def _start(cluster: Cluster, program: str, ready: Callable[[], str | None], progress: Progress,
           seconds: float) -> bool:
    done = supervised.start(cluster, [(program, ready)], [program],
                            time.monotonic() + seconds, progress)
    for error in done.failures.values():
        raise error
    return bool(done.programs)


def instance_named(cluster: Cluster, name: str) -> IndicoInstance:
    """The Indico instance of that name; OperatorError (exit 2) when there is none."""
    for instance in cluster.indico:
        if instance.name == name:
            return instance
    known = ", ".join(instance.name for instance in cluster.indico) or "none"
    raise OperatorError(f"no Indico instance {name!r} in {cluster.source}", f"it has: {known}",
                        exit_code=ExitCode.BAD_CONFIG)
