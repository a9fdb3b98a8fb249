"""What can be done to a cluster in its present situation, and why not what can't.  Pure.

An offer is judged by one snapshot; the plan that is made of it looks closer and may still refuse.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ..backends import electing_of, limit
from ..cluster.model import Cluster, Role
from ..monitor.rules.facts import RESTARTED
from ..monitor.snapshot import NodeStatus, Snapshot, State
from . import packing, urgency
from .operation import Operation, Progress
from .why_not import Reasons, sentence

ENDINGS = ("resume", "undo", "abandon")


@dataclasses.dataclass(frozen=True)
class Offer:
    """One operation on one node or instance.

    Attributes:
        operation: as in ``requests.Request``; ``resume``, ``undo`` or ``abandon`` of the open one.
        target: the node or Indico instance; empty: the planner chooses, or there is none.
        title: what it does, such as ``Failover to b``.
        purpose: what for, one line.
        why_not: why it can't be done now, in whole sentences, commands in backquotes; empty when
            it can.
        urgent: whether it is the next safe step in this situation; at most one offer is.
    """

    operation: str
    target: str
    title: str
    purpose: str
    why_not: str = ""
    urgent: bool = False


def offers(cluster: Cluster, snapshot: Snapshot, open_operation: Operation | None,
           at_work: bool) -> tuple[Offer, ...]:
    """All that there is for a cluster of its backend, whether it can be done now or not.

    Args:
        open_operation: the operation that has begun and not ended; None when there is none, or
            when its file can't be used, which the snapshot knows.
        at_work: whether a process works on it.
    """
    damaged = [each.identifier for each in snapshot.operations if each.damaged]
    ending = tuple(_of_the_open(open_operation, damaged, at_work=at_work))
    in_the_way = _in_the_way(snapshot, open_operation, damaged, at_work=at_work)
    made = tuple(_Offers(cluster, snapshot).all())
    if in_the_way:
        made = tuple(dataclasses.replace(each, why_not=each.why_not if each.target == "" and
                                         limit(cluster, each.operation) else in_the_way)
                     for each in made)
        return (*ending, *made)
    possible = {(each.operation, each.target) for each in made if not each.why_not}
    best = next((step for step in urgency.steps(cluster, snapshot) if step in possible), None)
    return tuple(dataclasses.replace(each, urgent=best == (each.operation, each.target))
                 for each in made)


def _in_the_way(snapshot: Snapshot, open_operation: Operation | None, damaged: list[str], *,
                at_work: bool) -> str:
    if snapshot.state is State.UNKNOWN:
        return "Nothing answers just now, so that nobody knows what there is."
    if open_operation is not None:
        name = open_operation.plan.name
        if at_work:
            return f"The {name} is at work, by {open_operation.actor}: wait until it has ended."
        return (f"The {name} has begun and not ended: go on with it, take it back or abandon it "
                "first.")
    if damaged:
        return (f"The file of operation {damaged[0]} can't be used: abandon that operation first.")
    return "Another operation is at work: wait until it has ended." if at_work else ""


def _of_the_open(found: Operation | None, damaged: list[str], *, at_work: bool) -> Iterator[Offer]:
    if found is None:
        if damaged:
            yield Offer("abandon", "", f"Put the file of {damaged[0]} away",
                        "it can't be used; it is kept under another name",
                        urgent=not at_work)
        return
    name = found.plan.name
    busy = f"A process works on it ({found.pid}): wait until it has ended." if at_work else ""
    yield Offer("resume", "", f"Go on with the {name}",
                "does what is left of it; what is done already is skipped", busy,
                urgent=not at_work)
    yield Offer("undo", "", f"Take the {name} back",
                "puts everything back, as long as its point of no return was not reached",
                busy or _why_not_undo(found))
    yield Offer("abandon", "", f"Abandon the {name}",
                "closes it as it stands, for when it can't be ended; nothing is put back", busy)


def _why_not_undo(found: Operation) -> str:
    """As the executor has it, but for what it finds out by looking at the world."""
    index = found.plan.no_return()
    records = found.records[index:]
    past = records and (records[0].progress is Progress.DONE or any(
        record.progress is not Progress.PENDING for record in records[1:]))
    if past:
        return (f"It is past its point of no return: step {index + 1}, "
                f"{found.plan.steps[index].title}.")
    return ""


class _Offers:
    """Those of one moment."""

    def __init__(self, cluster: Cluster, snapshot: Snapshot) -> None:
        self._cluster = cluster
        self._snapshot = snapshot
        self._electing = electing_of(cluster) is not None
        self._nodes = snapshot.nodes
        self._why = Reasons(cluster, snapshot)

    def all(self) -> Iterator[Offer]:
        yield from self._limited("failover", "Failover", "replaces a primary that is gone",
                                 self._failovers)
        yield from self._limited("switchover", "Switchover", "hands the role of primary over",
                                 self._switchovers)
        yield from self._limited("rejoin", "Rejoin", "brings a node back in line", self._rejoins)
        yield from self._limited("seed", "Seed", "gives a node a new copy of the data",
                                 self._seeds)
        yield from self._restarts()
        yield from self._limited("pack", "Pack the database",
                                 "removes old revisions and what nothing refers to any more",
                                 self._packs)

    def _limited(self, operation: str, title: str, purpose: str, made: object) -> Iterator[Offer]:
        reason = limit(self._cluster, operation)
        if reason is not None:
            yield Offer(operation, "", title, purpose, sentence(reason))
            return
        yield from made()  # type: ignore[operator]

    def _failovers(self) -> Iterator[Offer]:
        if self._electing:
            for node in self._nodes:
                yield Offer("failover", node.name, f"Failover of {node.name}",
                            "ends a process that hangs, so that others stand in, and starts it "
                            "again", self._why.not_hung(node))
            return
        for node in self._followers():
            yield Offer("failover", node.name, f"Failover to {node.name}",
                        f"makes {node.name} the primary in the place of one that is gone",
                        self._why.no_failover(node))

    def _switchovers(self) -> Iterator[Offer]:
        for node in self._followers():
            yield Offer("switchover", node.name, f"Switchover to {node.name}",
                        f"makes {node.name} the primary; writes wait for a moment, and nothing is "
                        "lost", self._why.no_switchover(node))

    def _rejoins(self) -> Iterator[Offer]:
        nodes = ([node for node in self._nodes if node.assigned_role is Role.STORAGE]
                 if self._electing else [node for node in self._nodes
                                         if node.name != self._snapshot.primary])
        for node in nodes:
            yield Offer("rejoin", node.name, f"Rejoin of {node.name}",
                        "brings it back, after what only it has is exported"
                        if not self._electing else "fills it from the other storages",
                        self._why.no_rejoin(node))

    def _seeds(self) -> Iterator[Offer]:
        for node in self._nodes:
            if node.name != self._snapshot.primary:
                yield Offer("seed", node.name, f"Seed of {node.name}",
                            "gives it a new copy of the data; the old ones are kept",
                            self._why.no_seed(node))

    def _restarts(self) -> Iterator[Offer]:
        for node in self._nodes:
            stopped = (not node.reachable and node.program is not None
                       and node.program.state not in RESTARTED)
            title, purpose = (("Start of node", "starts its server, which does not run")
                              if stopped else
                              ("Restart of node", "ends its server in order and starts it again"))
            yield Offer("restart", node.name, f"{title} {node.name}",
                        f"{purpose}; nothing is lost", self._why.no_restart(node))
        for instance in self._snapshot.indico:
            yield Offer("restart", instance.name, f"Restart of Indico {instance.name}",
                        "starts it anew; what it has cached is dropped",
                        self._why.away or ("" if instance.set_up is not False else
                                       "Its database holds no Indico yet."))

    def _packs(self) -> Iterator[Offer]:
        reasons = [f"node {each.subject}: {each.text}"
                   for each in packing.objections(self._snapshot)]
        yield Offer("pack", "", "Pack the database",
                    "removes old revisions and what nothing refers to any more",
                    sentence(f"nothing is packed while a node is not in order: {reasons[0]}")
                    if reasons else "")

    def _followers(self) -> list[NodeStatus]:
        return [node for node in self._nodes if node.assigned_role.follows]
