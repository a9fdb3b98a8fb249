"""What an operator does next, in words and exact commands.  Pure: nothing here starts anything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from indico_zodbrepl.backends import can
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.model import Cluster, Role
from indico_zodbrepl.monitor.procedures import (
    Procedure,
    Step,
    back_in_line,
    begin_indico,
    bring_back,
    fail_over,
    finish,
    look,
    restart_indico,
    restore_data,
)
from indico_zodbrepl.monitor.promotion import best_candidate
from indico_zodbrepl.monitor.rules.facts import RUNNING
from indico_zodbrepl.monitor.snapshot import Mark, NodeStatus, Snapshot, State

__all__ = ["Procedure", "Step", "advise"]


def advise(cluster: Cluster, snapshot: Snapshot, home: Path) -> tuple[Procedure, ...]:
    """Procedures for the present situation, the most urgent first; empty when all is well.

    Args:
        cluster: the cluster.
        snapshot: its situation.
        home: folder of the installation; commands are to be typed there.
    """
    return tuple(_procedures(snapshot, Commands(cluster, home)))


def _procedures(snapshot: Snapshot, commands: Commands) -> Iterator[Procedure]:
    if snapshot.state is State.UNKNOWN:
        yield Procedure("Find out whether the cluster runs at all", (
            Step("Nothing answered this program. On the host of the cluster, ask again:",
                 (commands.zodbrepl("status"),)),
            Step("If nothing runs there, start it:", (commands.zodbrepl("up"),))))
        return
    for operation in snapshot.operations:
        if not operation.at_work:
            yield finish(operation, commands)
    stopped = _is_stopped(snapshot)
    if stopped:
        what = ("No storage server runs" if any(node.has_program for node in snapshot.nodes)
                else "No Indico instance runs")
        yield Procedure("Start the cluster", (
            Step(f"{what}. Start everything:", (commands.zodbrepl("up"),)), look(commands)))
    yield from _for_writes(snapshot, commands, stopped=stopped)
    if stopped:
        return
    for node in snapshot.nodes:
        if node.out_of_line or (node.superseded_by and not node.reachable):
            yield from back_in_line(node, commands)
        elif node.assigned_role is not Role.PRIMARY and not node.reachable and not node.refusal:
            yield bring_back(node, commands)
    empty = [instance for instance in snapshot.indico if instance.set_up is False]
    if empty:
        yield begin_indico(empty[0], commands)
    for instance in snapshot.indico:
        if instance in empty:
            continue
        if not instance.up or (snapshot.primary and instance.mark is not Mark.AS_ASSIGNED):
            yield restart_indico(instance, commands)


def _is_stopped(snapshot: Snapshot) -> bool:
    """Whether nothing runs that we start; where no server is ours, whether no Indico does."""
    own = [node for node in snapshot.nodes if node.has_program]
    if own:
        return not any(_seems_to_run(node) for node in own)
    return bool(snapshot.indico) and not any(
        instance.up or (instance.program is not None and instance.program.state in RUNNING)
        for instance in snapshot.indico)


def _for_writes(snapshot: Snapshot, commands: Commands, *, stopped: bool) -> Iterator[Procedure]:
    """How there is a writable primary again, when there is none."""
    assigned = [node for node in snapshot.nodes if node.assigned_role is Role.PRIMARY]
    primary = max(assigned, key=lambda node: node.assigned_epoch or 0, default=None)
    if primary is None or any(node.writable_primary for node in snapshot.nodes):
        return
    if not (stopped or primary.held or primary.refusal or primary.out_of_line
            or primary.superseded_by):
        yield bring_back(primary, commands)
    candidate = best_candidate(snapshot, unfit=[
        node.name for node in snapshot.nodes if not node.reachable or node.out_of_line])
    if candidate is not None and not primary.reachable and can(commands.cluster, "failover"):
        yield fail_over(primary, candidate, commands)
    alone = not can(commands.cluster, "failover") and can(commands.cluster, "restore")
    if alone and (primary.refusal or not stopped):
        yield restore_data(primary, commands)


def _seems_to_run(node: NodeStatus) -> bool:
    return node.reachable or (node.program is not None and node.program.state in RUNNING)
