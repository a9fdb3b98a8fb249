"""Execute a plan.  A killed operation can be resumed or undone at any moment."""

from __future__ import annotations

import os
import time

from indico_zodbrepl.cluster import Cluster, formats
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.operations import operation, preflight, store
from indico_zodbrepl.operations.execution import Execution, Observer
from indico_zodbrepl.operations.model import Plan, Step
from indico_zodbrepl.operations.operation import Operation


def execute(
    cluster: Cluster,
    installation: Installation,
    plan: Plan,
    observer: Observer | None = None,
    actor: str = "",
    *,
    history: str = "",
    preempting: bool = False,
) -> Operation:
    """Execute a plan from its first step.

    Args:
        plan: made from the cluster's present state.
        observer: shows the steps.
        actor: who gave the command; by default the user of this process.
        history: ``store.history`` before the plan was made; refused if another operation has
            begun since.
        preempting: take the lock from a command that runs, and close an interrupted operation as it
            stands; for the automation, which replaces a lost primary.

    Returns:
        The ended operation, as journaled: its outcome is ``done`` or ``incomplete``.

    Raises:
        OperatorError: exit 8, another operation is running, or was interrupted and does not
            give way; nothing was changed.  Else a step failed, and the text says whether everything
            was undone (outcome ``undone``) or ``resume`` is needed (outcome ``stopped``).
    """
    with store.alone(cluster, preempting=preempting) as lock:
        formats.refuse_newer(cluster)
        interrupted = (
            store.unfinished(cluster)
            if preempting
            else store.refuse_unfinished(cluster, plan.operation, plan.target)
        )
        store.refuse_since(cluster, history)
        preflight.refuse_unwritable(cluster)
        if plan.stops:
            lock.announce_stop(plan.stops)
        if interrupted is not None:
            store.give_way(cluster, interrupted, plan)
        begun = operation.new(
            cluster.name, plan, actor or operation.actor(), time.time(), cluster.here
        )
        run = Execution(cluster, installation, begun, observer or Observer(), lock)
        run.begin()
        return run.go_on(0)


def resume(
    cluster: Cluster,
    installation: Installation,
    observer: Observer | None = None,
    *,
    undo: bool = False,
    expected: str = "",
) -> Operation:
    """Continue the interrupted operation, or undo it.

    Before the point of no return it starts over, as its checks (writes paused, a target that has
    everything) may no longer hold; steps whose effect exists are skipped.

    Args:
        expected: identifier of the shown operation; empty for any open one.

    Returns and raises as ``execute``; exit 6 when there is no such operation, exit 8 when
    it is past the point of no return and ``undo`` is set, or when another one is open.
    """
    with store.alone(cluster) as lock:
        formats.refuse_newer(cluster)
        store.refuse_another(cluster, expected)
        left = store.the_open_one(cluster).later(pid=os.getpid(), host=cluster.here or "")
        if left.plan.stops:
            lock.announce_stop(left.plan.stops)
        run = Execution(cluster, installation, left, observer or Observer(), lock)
        if undo:
            return run.undo_on_demand()
        return run.go_on(run.where_to_go_on(), checking=True)


def foresee(
    cluster: Cluster, installation: Installation, *, undo: bool = False
) -> tuple[Operation, tuple[Step, ...]]:
    """Return the operation for ``resume``, and the steps that it would do or undo, in order.

    Changes nothing.  A step whose effect already exists will be skipped.  Raises as ``resume``.
    """
    store.look_around(cluster)
    run = Execution(cluster, installation, store.the_open_one(cluster), Observer())
    if undo:
        return run.operation, tuple(run.operation.plan.steps[index] for index in run.to_undo())
    return run.operation, tuple(
        run.operation.plan.steps[index] for index in run.to_do(run.where_to_go_on(), checking=True)
    )
