"""Which operations would help in a situation, the next safe step first.  Pure.

In the order of ``monitor.advice``: what brings writes back, and loses nothing, comes first.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..backends import can, electing_of
from ..cluster.model import Cluster, Role
from ..monitor.promotion import best_candidate
from ..monitor.rules.facts import RUNNING
from ..monitor.snapshot import NodeStatus, Snapshot, State
from ..node.lineage import Condition
from ..probing.answers import Hold

GIVEN_UP = ("FATAL", "BACKOFF", "EXITED")
Step = tuple[str, str]


def steps(cluster: Cluster, snapshot: Snapshot) -> Iterator[Step]:
    """Operations and targets that would help, the most urgent first; nothing when all is well.

    Nothing as well when no server runs at all: the cluster has to be started as a whole.
    """
    if snapshot.state in (State.HEALTHY, State.UNKNOWN) or _is_stopped(snapshot):
        return
    electing = electing_of(cluster) is not None
    yield from _for_a_leader(snapshot) if electing else _for_writes(cluster, snapshot)
    if snapshot.primary is not None:
        yield from _back_in_line(cluster, snapshot)
    for node in snapshot.nodes:
        if not node.reachable and node.has_program and not node.refusal and not node.out_of_line:
            if electing and _runs(node):
                yield "failover", node.name
            elif electing and node.assigned_role is Role.STORAGE:
                yield "rejoin", node.name
            else:
                yield "restart", node.name
    for instance in snapshot.indico:
        if not instance.up and instance.set_up is not False:
            yield "restart", instance.name


def _back_in_line(cluster: Cluster, snapshot: Snapshot) -> Iterator[Step]:
    for node in snapshot.nodes:
        refuses = not node.reachable or node.held is Hold.EPOCH
        if node.out_of_line or (node.superseded_by and refuses):
            seeds = node.condition is Condition.NEEDS_SEEDING
            for operation in ("seed", "rejoin") if seeds else ("rejoin", "seed"):
                if can(cluster, operation):
                    yield operation, node.name


def _is_stopped(snapshot: Snapshot) -> bool:
    own = [node for node in snapshot.nodes if node.has_program]
    return bool(own) and not any(node.reachable or _runs(node) for node in own)


def _for_writes(cluster: Cluster, snapshot: Snapshot) -> Iterator[Step]:
    """How there is a writable primary again, when there is none."""
    if any(node.writable_primary for node in snapshot.nodes):
        return
    assigned = [node for node in snapshot.nodes if node.assigned_role is Role.PRIMARY]
    primary = max(assigned, key=lambda node: node.assigned_epoch or 0, default=None)
    if primary is None or primary.reachable:
        return
    comes_back = (primary.has_program and primary.program is not None
                  and primary.program.state not in GIVEN_UP and not primary.refusal
                  and not primary.out_of_line and not primary.superseded_by
                  and not snapshot.supervisor_problem)
    if comes_back:
        yield "restart", primary.name
    candidate = best_candidate(snapshot, unfit=[
        node.name for node in snapshot.nodes if not node.reachable or node.out_of_line])
    if candidate is not None and can(cluster, "failover"):
        yield "failover", candidate.name


def _for_a_leader(snapshot: Snapshot) -> Iterator[Step]:
    """How a master leads again, when none does."""
    if snapshot.primary is not None:
        return
    for node in snapshot.nodes:
        if node.assigned_role is Role.MASTER and not node.reachable and node.has_program:
            yield ("failover" if _runs(node) else "restart"), node.name


def _runs(node: NodeStatus) -> bool:
    return node.program is not None and node.program.state in RUNNING
