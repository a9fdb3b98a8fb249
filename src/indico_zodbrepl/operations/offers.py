"""Every operation that the admin page can offer, and why some are not possible now.  Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from indico_zodbrepl.backends import backend_of, limit
from indico_zodbrepl.cluster.model import Cluster, Role
from indico_zodbrepl.monitor.node_status import NodeStatus
from indico_zodbrepl.monitor.rules.facts import RESTARTED
from indico_zodbrepl.monitor.snapshot import OpenOperation, Snapshot
from indico_zodbrepl.operations.recommend import recommend
from indico_zodbrepl.operations.refusals import Refusals, sentence

if TYPE_CHECKING:
    from indico_zodbrepl.operations.operation import Operation


@dataclasses.dataclass(frozen=True)
class Offer:
    """One operation on one node or instance that the admin page can start.

    Attributes:
        operation: as in ``planning.Request``, or one of ENDINGS.
        target: the node or Indico instance; empty: the planner chooses, or there is none.
        title: what it does, such as ``Fail over to b``.
        purpose: what for, one line.
        why_not: why it is not possible now, in whole sentences, commands in backquotes; empty
            when it is.
        urgent: True for the first possible recommendation; for one offer at most.
        may_lose: True if transactions that only another node has may be lost; its plan says how
            many, if that can be known.
    """

    operation: str
    target: str
    title: str
    purpose: str
    why_not: str = ""
    urgent: bool = False
    may_lose: bool = False


def offers(
    cluster: Cluster, snapshot: Snapshot, open_operation: Operation | None, at_work: bool
) -> tuple[Offer, ...]:
    """Return every operation of the cluster's backend, with the reason if it is not possible.

    An offer is judged by one snapshot; the plan that is made of it may still refuse.

    Args:
        open_operation: the operation that was interrupted; None when there is none, or
            when its file can't be used, which the snapshot knows.
        at_work: whether a process runs it.
    """
    if open_operation is not None:
        snapshot = dataclasses.replace(snapshot, operations=(_seen(open_operation, at_work),))
    made = (*_endings(snapshot, open_operation), *_Offers(cluster, snapshot).all())
    possible = {(each.operation, each.target) for each in made if not each.why_not}
    best = next(
        (
            (each.operation, each.target)
            for each in recommend(cluster, snapshot, Path())
            if not each.refusal
        ),
        None,
    )
    return tuple(
        dataclasses.replace(each, urgent=best in possible and best == (each.operation, each.target))
        for each in made
    )


def _seen(found: Operation, at_work: bool) -> OpenOperation:
    return OpenOperation(
        found.identifier,
        found.plan.operation,
        found.plan.target,
        found.actor,
        found.began,
        found.outcome.value,
        at_work=at_work,
    )


def _endings(snapshot: Snapshot, found: Operation | None) -> Iterator[Offer]:
    if found is None:
        for operation in snapshot.operations:
            if operation.damaged:
                yield Offer(
                    "abandon",
                    "",
                    f"Move the file of {operation.identifier} away",
                    "the file can't be used; it is kept under another name",
                )
                return
        return
    name = found.plan.name
    busy = (
        f"Process {found.pid} runs it: wait until it has finished."
        if any(each.at_work for each in snapshot.operations)
        else ""
    )
    yield Offer(
        "resume",
        "",
        f"Resume the {name}",
        "does the remaining steps; completed ones are kept",
        busy,
        may_lose=found.plan.operation in ("failover", "restore")
        and found.plan.loss is not None
        and found.plan.loss.transactions != 0,
    )
    yield Offer(
        "undo",
        "",
        f"Undo the {name}",
        "undoes its steps, as long as its point of no return was not reached",
        busy or found.no_undo(),
    )
    yield Offer(
        "abandon",
        "",
        f"Abandon the {name}",
        "closes it as it stands, if it can't be completed; nothing is undone",
        busy,
    )


class _Offers:
    """Every operation of the backend at one moment."""

    def __init__(self, cluster: Cluster, snapshot: Snapshot) -> None:
        self._cluster = cluster
        self._snapshot = snapshot
        self._nodes = snapshot.nodes
        self._elects = backend_of(cluster).elects_leader
        self._refusals = Refusals(cluster, snapshot)

    def all(self) -> Iterator[Offer]:
        for operation, title, purpose in (
            ("failover", "Fail over", "replaces a primary that is gone"),
            ("switchover", "Switch over", "hands the role of primary to another node"),
            ("rejoin", "Rejoin a node", "makes a diverged node a follower again"),
            ("clone", "Clone a node", "gives a node a new copy of the data"),
        ):
            reason = limit(self._cluster, operation)
            if reason is not None:
                yield Offer(operation, "", title, purpose, sentence(reason))
                continue
            for node in self._targets(operation):
                yield self._of(operation, node)
        yield from (self._restart(node) for node in self._nodes)
        for instance in self._snapshot.indico:
            yield Offer(
                "restart",
                instance.name,
                f"Restart Indico {instance.name}",
                "stops and starts the instance; its cache is dropped",
                self._refusals.no_restart_of(instance),
            )
        reason = limit(self._cluster, "pack")
        yield Offer(
            "pack",
            "",
            "Pack the database",
            "removes old revisions and objects that nothing refers to",
            sentence(reason) if reason is not None else self._refusals.no_pack(),
        )

    def _targets(self, operation: str) -> list[NodeStatus]:
        if operation == "failover" and self._elects:
            return list(self._nodes)
        if operation in ("failover", "switchover"):
            return [node for node in self._nodes if node.assigned_role.follows]
        if operation == "rejoin" and self._elects:
            return [node for node in self._nodes if node.assigned_role is Role.STORAGE]
        return [node for node in self._nodes if node.name != self._snapshot.primary]

    def _of(self, operation: str, node: NodeStatus) -> Offer:
        name = node.name
        if operation == "failover" and self._elects:
            title = f"Fail over node {name}"
            purpose = "kills a process that hangs, so that others take over, and starts it again"
        elif operation == "failover":
            title = f"Fail over to {name}"
            purpose = f"makes {name} the primary instead of one that is gone"
        elif operation == "switchover":
            title = f"Switch over to {name}"
            purpose = f"makes {name} the primary; writes wait for a moment, and nothing is lost"
        elif operation == "rejoin":
            title = f"Rejoin node {name}"
            purpose = (
                "fills it from the other storages"
                if self._elects
                else "makes it a follower, after its divergent transactions are exported"
            )
        else:
            title = f"Clone node {name}"
            purpose = "gives it a new copy of the data; the old data is kept"
        may_lose = operation == "failover" and not self._elects
        why_not = self._refusals.of(operation, node)
        return Offer(operation, name, title, purpose, why_not, may_lose=may_lose)

    def _restart(self, node: NodeStatus) -> Offer:
        stopped = (
            not node.reachable and node.program is not None and node.program.state not in RESTARTED
        )
        verb, purpose = (
            ("Start", "starts its server, which does not run; nothing is lost")
            if stopped
            else ("Restart", "shuts its server down cleanly and starts it again; nothing is lost")
        )
        why_not = self._refusals.of("restart", node)
        return Offer("restart", node.name, f"{verb} node {node.name}", purpose, why_not)
