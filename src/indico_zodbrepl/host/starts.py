"""Start, stop and restart one node or one Indico instance under supervisor.

gunicorn starts one more worker on SIGTTIN, and stops the oldest one cleanly on SIGTTOU
(https://docs.gunicorn.org/en/stable/signals.html).
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import os
import signal
import time
from collections.abc import Callable
from typing import Any

from indico_zodbrepl import __version__
from indico_zodbrepl.backends import backend_of, can
from indico_zodbrepl.cluster import Cluster, IndicoInstance
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.lookup import instance_named, node_with_program
from indico_zodbrepl.cluster.rendering import INDICO_DRAIN_SECONDS
from indico_zodbrepl.host import daemon, guarded, ports, programs, readiness, run, state
from indico_zodbrepl.host.interface import (
    CHANGE_SECONDS,
    START_SECONDS,
    STOP_SECONDS,
    DryRun,
    Tell,
    ignore,
)
from indico_zodbrepl.host.supervisor import Supervisor
from indico_zodbrepl.probing.probes import indico_release
from indico_zodbrepl.probing.process_state import children_of
from indico_zodbrepl.probing.waiting import wait_until

TURN_SECONDS = 5.0
"""A worker that is asked to stop takes no new connections after a second or so."""

ANSWER_SECONDS = 2.0
"""A worker that begins does not answer for the others that serve."""

KILL_AFTER = 2.0
"""Seconds that a worker may need to exit after the time for its requests is over."""


def start_node(
    cluster: Cluster,
    installation: Installation,
    name: str,
    *,
    progress: Tell = ignore,
    seconds: float = START_SECONDS,
) -> bool:
    """Start a node under supervisor, in the role of its state file, and wait until it listens.

    The start-up check decides whether it may.

    Returns:
        True if it was started; False if it ran already.

    Raises:
        OperatorError: exit 2, no such node; exit 6, supervisord doesn't run; exit 8, the node
            refuses, with its own words; exit 7, time ran out; exit 1, its server died.
    """
    node = node_with_program(cluster, name)
    installation.check()
    present = run.prepare(cluster, node)
    endpoints = tuple(backend_of(cluster).listens_on(cluster, present))
    deadline = time.monotonic() + seconds
    started = _start(
        cluster, node.program, functools.partial(readiness.listening, endpoints), progress, seconds
    )
    present = state.current(cluster, node)
    backend_of(cluster).settle(guarded.promised(cluster, present), installation, present, deadline)
    return started


def check_start(cluster: Cluster, installation: Installation, name: str) -> DryRun:
    """Make the checks of ``start_node`` and of the node's program; change nothing."""
    if programs.running(cluster, [node_with_program(cluster, name).program]):
        return DryRun((f"node {name} runs already",))
    return check_restart_node(cluster, installation, name)


def check_restart_node(cluster: Cluster, installation: Installation, name: str) -> DryRun:
    """Make the checks of the start that follows the stop of a node; change nothing."""
    node = node_with_program(cluster, name)
    installation.check()
    return run.dry_run(cluster, installation, state.current(cluster, node))


def stop_node(
    cluster: Cluster, name: str, *, progress: Tell = ignore, seconds: float = STOP_SECONDS
) -> bool:
    """Stop a node's server cleanly: it sends its followers what they lack first.

    Returns:
        True if it was stopped; False if it did not run.

    Raises:
        OperatorError: exit 2, no such node; exit 6, supervisord doesn't run; exit 7, time
            ran out.
    """
    node = node_with_program(cluster, name)
    return bool(programs.end(cluster, [node.program], time.monotonic() + seconds, progress))


def check_stop(cluster: Cluster, _installation: Installation, name: str) -> DryRun:
    """Make the checks of ``stop_node``; change nothing."""
    program = node_with_program(cluster, name).program
    if not programs.running(cluster, [program]):
        return DryRun((f"node {name} does not run",))
    return DryRun((f"node {name} runs",), (f"stop {program}",))


def restart_node(
    cluster: Cluster,
    installation: Installation,
    name: str,
    *,
    progress: Tell = ignore,
    seconds: float = CHANGE_SECONDS,
) -> None:
    """Stop a node's server if it runs, then start it; see ``stop_node`` and ``start_node``.

    Both together take ``seconds`` at most.
    """
    deadline = time.monotonic() + seconds
    stop_node(cluster, name, progress=progress, seconds=min(seconds, STOP_SECONDS))
    start_node(cluster, installation, name, progress=progress, seconds=deadline - time.monotonic())


def restart_instance(
    cluster: Cluster, name: str, *, progress: Tell = ignore, seconds: float = START_SECONDS
) -> None:
    """Make an Indico instance drop its caches, and wait until it answers.

    New workers take over from the old ones while these serve.  An instance that does not work or
    runs another release is restarted as a whole, and so is one whose storage only one process can
    open.  The scheduler that runs beside it is restarted too.

    Raises:
        OperatorError: exit 2, no such instance; exit 6, supervisord doesn't run; exit 7, time
            ran out; exit 1, it died.
    """
    instance = instance_named(cluster, name)
    deadline = time.monotonic() + seconds
    _restart_serving(cluster, instance, progress, seconds)
    scheduler = instance.scheduler_program
    if instance.scheduler and scheduler in Supervisor(cluster).states():
        programs.end(cluster, [scheduler], deadline, progress)
        _start(cluster, scheduler, lambda: None, progress, deadline - time.monotonic())


def _restart_serving(
    cluster: Cluster, instance: IndicoInstance, progress: Tell, seconds: float
) -> None:
    deadline = time.monotonic() + seconds
    master = _replaceable(cluster, instance)
    if master is not None and replace_worker(instance, master, time.monotonic() + seconds / 2):
        progress(f"the workers of {instance.program} are new")
        return
    programs.end(cluster, [instance.program], deadline, progress)
    _start(
        cluster,
        instance.program,
        functools.partial(readiness.indico_answers, instance),
        progress,
        deadline - time.monotonic(),
    )


def check_restart_instance(cluster: Cluster, _installation: Installation, name: str) -> DryRun:
    """Make the checks of ``restart_instance``; change nothing."""
    instance = instance_named(cluster, name)
    runs = bool(programs.running(cluster, [instance.program]))
    return DryRun(
        (f"Indico instance {name} {'runs' if runs else 'does not run'}",),
        (
            f"start or restart {instance.program}"
            if _replaceable(cluster, instance) is None
            else f"replace the workers of {instance.program}; restart it if that fails",
            *([f"restart {instance.scheduler_program}"] if instance.scheduler else []),
        ),
    )


def _replaceable(cluster: Cluster, instance: IndicoInstance) -> int | None:
    """Return the process whose workers can be replaced; None if the instance has to restart.

    A process of another release has modules of that release, which a worker that it starts would
    mix with those of this one.
    """
    program = Supervisor(cluster).states().get(instance.program)
    if program is None or not can(cluster, "two-instances"):
        return None
    return program.pid if indico_release(instance.address) in (None, __version__) else None


def _start(
    cluster: Cluster,
    program: str,
    ready: Callable[[], str | None],
    progress: Tell,
    seconds: float,
) -> bool:
    done = programs.start(
        cluster, [(program, ready)], [program], time.monotonic() + seconds, progress
    )
    for error in done.failures.values():
        raise error
    return bool(done.programs)


def replace_worker(instance: IndicoInstance, master: int, deadline: float) -> bool:
    """Start as many new workers as there are; the present workers of the instance then exit.

    Args:
        master: process id of the instance's gunicorn.
        deadline: on the clock of ``time.monotonic``; for the new workers to be built.

    Returns:
        True if that succeeded.  If not, the instance may have additional workers and should be
        restarted: it did not work before either, or the new workers did not get ready in time.
    """

    def complete() -> int:
        """Return the number of workers if all of them live and one answers; else 0."""
        answer = _answer_of_built(instance)
        number = int(answer.get("workers", 1))  # an older release has one, and does not say so
        return number if answer and len(_workers(master)) == number else 0

    wanted = wait_until(complete, time.monotonic() + ANSWER_SECONDS)
    old = _workers(master)
    if not wanted:
        return False
    # Signals of one kind that come at once are one, so each waits for the effect of the one before.
    for number in range(len(old)):
        os.kill(master, signal.SIGTTIN)
        if not wait_until(functools.partial(_has_new, master, old, number + 1), deadline):
            return False
    ready: set[int | None] = set()

    def all_are_ready() -> bool:
        ready.add(_answer_of_built(instance).get("pid"))  # any worker may answer
        return len(ready & (_workers(master) - old)) >= len(old)

    if not wait_until(all_are_ready, deadline):
        return False
    limit = time.monotonic() + TURN_SECONDS * len(old)
    sockets = wait_until(lambda: ports.listening_sockets(instance.address), limit)
    for number in reversed(range(len(old))):
        os.kill(master, signal.SIGTTOU)
        wait_until(functools.partial(_accept_at_most, sockets, old, number), limit)
    _see_ended(old)
    # A killed worker is its master's child until that has noticed.
    return wait_until(lambda: len(_workers(master)) == wanted, time.monotonic() + ANSWER_SECONDS)


def _has_new(master: int, old: set[int], count: int) -> bool:
    return len(_workers(master) - old) >= count


def _accept_at_most(sockets: frozenset[str], workers: set[int], count: int) -> bool:
    """Return True if so many of the workers or fewer still take new connections."""
    return sum(ports.has_one_of(pid, sockets) for pid in workers) <= count


def _answer_of_built(instance: IndicoInstance) -> dict[str, Any]:
    """Return the report of the worker that answers now; empty unless its Indico is ready."""
    try:
        answer = readiness.health(instance)
    except (OSError, http.client.HTTPException, ValueError):
        return {}
    return answer if isinstance(answer, dict) and answer.get("built") is True else {}


def _see_ended(workers: set[int]) -> None:
    """Wait until workers have exited; kill those that overrun their time."""
    deadline = time.monotonic() + INDICO_DRAIN_SECONDS + KILL_AFTER
    while not wait_until(lambda: not any(map(daemon.is_alive, workers)), deadline):
        for pid in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + KILL_AFTER


def _workers(master: int) -> set[int]:
    return set(children_of(master))
