"""The one decision about what the operator should do now.  Pure: nothing here starts anything.

``recommend`` turns a situation into recommendations, the most urgent first.  ``status`` and the
admin page print their procedures, the page marks the operation of the first possible one, the
monitor process names the command of the failover, and the demo asks what is possible.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from indico_zodbrepl.backends import backend_of, can, limit
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.model import Cluster, Role
from indico_zodbrepl.host.history import Condition
from indico_zodbrepl.host.interface import SUPERVISOR_AWAY
from indico_zodbrepl.monitor.promotion import best_candidate
from indico_zodbrepl.monitor.rules.facts import RESTARTED, RUNNING, reviving
from indico_zodbrepl.monitor.snapshot import Mark, NodeStatus, OpenOperation, Snapshot, State
from indico_zodbrepl.operations import procedures as words
from indico_zodbrepl.operations.procedures import Procedure
from indico_zodbrepl.operations.refusals import Refusals, in_the_way, sentence
from indico_zodbrepl.probing.answers import Hold

if TYPE_CHECKING:
    from indico_zodbrepl.operations.operation import Operation

GIVEN_UP = ("FATAL", "BACKOFF", "EXITED")
"""States of a program that supervisor does not bring back."""
ENDINGS = ("resume", "undo", "abandon")


@dataclasses.dataclass(frozen=True)
class Recommendation:
    """Something to do now.

    Attributes:
        operation: a key of ``planning.OPERATIONS``, one of ENDINGS, or ``up``, ``fence``,
            ``restore``; empty for work by hand.
        target: the node or Indico instance; empty when there is none.
        procedure: its steps in words and commands.
        refusal: why it is not possible yet, in whole sentences; empty when it is.
    """

    operation: str
    target: str
    procedure: Procedure
    refusal: str = ""


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
    """

    operation: str
    target: str
    title: str
    purpose: str
    why_not: str = ""
    urgent: bool = False


def recommend(cluster: Cluster, snapshot: Snapshot, home: Path) -> tuple[Recommendation, ...]:
    """Return what to do in a situation, the most urgent first; empty when all is well.

    Args:
        cluster: the cluster.
        snapshot: its situation.
        home: folder of the installation, where the commands are typed.
    """
    return tuple(_Recommender(cluster, snapshot, Commands(cluster, home)).all())


def procedures(cluster: Cluster, snapshot: Snapshot, home: Path) -> tuple[Procedure, ...]:
    """Return the procedures of ``recommend``; one that is not possible yet says why."""
    return tuple(each.procedure for each in recommend(cluster, snapshot, home))


def is_fit(node: NodeStatus) -> bool:
    """Return True if a node runs as a follower whose history is that of the cluster."""
    return node.reachable and node.actual_role in ("secondary", "relay") and not node.out_of_line


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


class _Recommender:
    """The recommendations of one moment."""

    def __init__(self, cluster: Cluster, snapshot: Snapshot, commands: Commands) -> None:
        self._cluster = cluster
        self._snapshot = snapshot
        self._commands = commands
        self._refusals = Refusals(cluster, snapshot)

    def all(self) -> Iterator[Recommendation]:
        snapshot, commands = self._snapshot, self._commands
        if snapshot.state is State.UNKNOWN:
            yield Recommendation("up", "", words.find_out(commands))
            return
        for operation in snapshot.operations:
            if operation.at_work:
                yield Recommendation("", "", words.wait_for(operation, commands))
                return
            ending = "abandon" if operation.damaged else "resume"
            yield Recommendation(ending, "", words.finish(operation, commands))
        yield from self._fence()
        yield from self._room()
        if self._is_stopped:
            yield Recommendation("up", "", words.start_everything(snapshot, commands))
            yield from self._for_writes()
            return
        problem = self._snapshot.supervisor_problem
        if problem == SUPERVISOR_AWAY:  # without it nothing else can be stopped or started
            yield Recommendation("up", "", words.supervise_again(self._commands))
        yield from self._for_writes()
        if problem and problem != SUPERVISOR_AWAY:
            yield Recommendation("", "", words.wake_supervisord(self._commands))
        yield from self._nodes()
        yield from self._instances()

    @property
    def _is_stopped(self) -> bool:
        """Return True if no managed program runs; without managed servers, if no Indico runs."""
        own = [node for node in self._snapshot.nodes if node.has_program]
        if own:
            return not any(node.reachable or _runs(node) for node in own)
        instances = self._snapshot.indico
        return bool(instances) and not any(
            each.up or (each.program is not None and each.program.state in RUNNING)
            for each in instances
        )

    def _fence(self) -> Iterator[Recommendation]:
        if self._snapshot.rivals:
            extra = self._snapshot.node(self._snapshot.rivals[-1])
            operation = "fence" if extra.managed else ""
            yield Recommendation(operation, extra.name, words.fence(extra, self._commands))

    def _room(self) -> Iterator[Recommendation]:
        """Make room on the disk of the primary, or transfer its role."""
        snapshot = self._snapshot
        primary = snapshot.node(snapshot.primary) if snapshot.primary else None
        if primary is None or not primary.is_full:
            return
        full = [node.name for node in snapshot.nodes if node.is_full or not is_fit(node)]
        candidate = best_candidate(snapshot, unfit=full)
        if candidate is None or not can(self._cluster, "switchover"):
            yield Recommendation("", primary.name, words.make_room(primary, None, self._commands))
            return
        procedure = words.make_room(primary, candidate, self._commands)
        yield self._on("switchover", candidate, procedure)

    def _for_writes(self) -> Iterator[Recommendation]:
        """Restore a writable primary, if there is none."""
        snapshot, commands = self._snapshot, self._commands
        assigned = [node for node in snapshot.nodes if node.assigned_role is Role.PRIMARY]
        primary = max(assigned, key=lambda node: node.assigned_epoch or 0, default=None)
        if primary is None or any(node.writable_primary for node in snapshot.nodes):
            return
        startable = not (
            self._is_stopped
            or primary.held
            or primary.refusal
            or primary.out_of_line
            or primary.superseded_by
        )
        back = [self._bring_back(primary)] if startable else []
        over = []
        candidate = best_candidate(
            snapshot, unfit=[node.name for node in snapshot.nodes if not is_fit(node)]
        )
        if candidate is not None and not primary.reachable and can(self._cluster, "failover"):
            first = bool(back) and not self._given_up(primary)
            procedure = words.fail_over(primary, candidate, commands, back_first=first)
            over = [self._on("failover", candidate, procedure)]
        yield from [*over, *back] if self._given_up(primary) else [*back, *over]
        alone = not can(self._cluster, "failover") and can(self._cluster, "restore")
        if alone and (primary.refusal or not self._is_stopped):
            yield Recommendation("restore", primary.name, words.restore_data(primary, commands))

    def _given_up(self, primary: NodeStatus) -> bool:
        """Return True if a start is not expected to bring the primary back."""
        if primary.reachable or not primary.has_program:
            return False
        return bool(self._snapshot.supervisor_problem) or (
            primary.program is None or primary.program.state in GIVEN_UP
        )

    def _nodes(self) -> Iterator[Recommendation]:
        for node in self._snapshot.nodes:
            refuses = not node.reachable or node.held is Hold.EPOCH
            if node.name in self._snapshot.rivals:
                continue
            if node.out_of_line or (node.superseded_by and refuses):
                yield self._back_in_line(node)
            elif node.assigned_role is not Role.PRIMARY and not node.reachable and not node.refusal:
                yield self._bring_back(node)

    def _back_in_line(self, node: NodeStatus) -> Recommendation:
        rejoins, clones = can(self._cluster, "rejoin"), can(self._cluster, "clone")
        if clones and (node.condition is Condition.NEEDS_SEEDING or not rejoins):
            operation, procedure = "clone", words.clone(node, self._commands)
        elif rejoins:
            operation, procedure = "rejoin", words.rejoin(node, self._commands)
        else:
            return Recommendation("", node.name, words.back_by_limit(node, self._commands))
        return self._on(operation, node, procedure)

    def _bring_back(self, node: NodeStatus) -> Recommendation:
        operation = reviving(node, led=self._snapshot.primary is not None)
        procedure = words.bring_back(node, operation, self._commands)
        if not node.has_program:
            return Recommendation("", node.name, procedure)
        return self._on(operation, node, procedure)

    def _instances(self) -> Iterator[Recommendation]:
        empty = [each for each in self._snapshot.indico if each.set_up is False]
        if empty:
            yield Recommendation("", empty[0].name, words.begin_indico(empty[0], self._commands))
        for instance in self._snapshot.indico:
            if instance in empty:
                continue
            if not instance.up or (
                self._snapshot.primary and instance.mark is not Mark.AS_ASSIGNED
            ):
                procedure = words.restart_indico(instance, self._commands)
                if instance.program is None:
                    yield Recommendation("up", "", procedure)
                    continue
                refusal = self._refusals.busy or self._refusals.no_restart_of(instance)
                yield Recommendation(
                    "restart", instance.name, words.not_yet(procedure, refusal), refusal
                )

    def _on(self, operation: str, node: NodeStatus, procedure: Procedure) -> Recommendation:
        if operation == "up":
            return Recommendation("up", "", procedure)
        refusal = self._refusals.busy or self._refusals.of(operation, node)
        return Recommendation(operation, node.name, words.not_yet(procedure, refusal), refusal)


def _runs(node: NodeStatus) -> bool:
    return node.program is not None and node.program.state in RUNNING


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
        self._busy = in_the_way(snapshot)

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
                self._busy or self._refusals.no_restart_of(instance),
            )
        reason = limit(self._cluster, "pack")
        yield Offer(
            "pack",
            "",
            "Pack the database",
            "removes old revisions and objects that nothing refers to",
            sentence(reason) if reason is not None else self._busy or self._refusals.no_pack(),
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
        return Offer(
            operation, name, title, purpose, self._busy or self._refusals.of(operation, node)
        )

    def _restart(self, node: NodeStatus) -> Offer:
        stopped = (
            not node.reachable and node.program is not None and node.program.state not in RESTARTED
        )
        verb, purpose = (
            ("Start", "starts its server, which does not run; nothing is lost")
            if stopped
            else ("Restart", "shuts its server down cleanly and starts it again; nothing is lost")
        )
        why_not = self._busy or self._refusals.of("restart", node)
        return Offer("restart", node.name, f"{verb} node {node.name}", purpose, why_not)
