"""The one decision about what the operator should do now.  Pure: nothing here starts anything.

``recommend`` turns a situation into recommendations, the most urgent first.  ``status`` and the
admin page print their procedures, the page marks the operation of the first possible one, the
monitor process names the command of the failover, and the demo asks what is possible.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

from indico_zodbrepl.backends import backend_of, can
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.model import Cluster, Role
from indico_zodbrepl.host.history import Condition
from indico_zodbrepl.host.interface import SUPERVISOR_AWAY
from indico_zodbrepl.monitor.node_status import Mark, NodeStatus
from indico_zodbrepl.monitor.promotion import assigned_primary, best_candidate
from indico_zodbrepl.monitor.rules.facts import RUNNING, rejoins_automatically, reviving
from indico_zodbrepl.monitor.snapshot import OpenOperation, Snapshot, State
from indico_zodbrepl.operations import by_hand
from indico_zodbrepl.operations import open_procedures as open_words
from indico_zodbrepl.operations import procedures as words
from indico_zodbrepl.operations.procedures import Procedure
from indico_zodbrepl.operations.refusals import Refusals
from indico_zodbrepl.probing.answers import Hold

GIVEN_UP = ("FATAL", "BACKOFF", "EXITED")
"""States of a program that supervisor does not bring back."""
ENDED = ("STOPPED", "FATAL", "EXITED")
"""States of a program that supervisor does not run."""
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
                yield Recommendation("", "", open_words.wait_for(operation, commands))
                return
            yield from self._ending(operation)
        yield from self._fence()
        yield from self._room()
        if self._is_stopped and self._can_start_all:
            yield self._start_all()
            yield from self._for_writes()
            return
        problem = snapshot.supervisor_problem
        if problem == SUPERVISOR_AWAY:  # without it nothing else can be stopped or started
            yield from self._supervisor()
        yield from self._for_writes()
        if problem != SUPERVISOR_AWAY:
            yield from self._supervisor()
        yield from self._nodes()
        yield from self._orphans()
        yield from self._instances()

    def _ending(self, operation: OpenOperation) -> Iterator[Recommendation]:
        """End an interrupted operation, after what would make that fail is repaired."""
        commands, snapshot = self._commands, self._snapshot
        if operation.damaged:
            yield Recommendation("abandon", "", open_words.finish(operation, commands))
            return
        if self._is_stopped and self._can_start_all:
            yield self._start_all()
        target = next((node for node in snapshot.nodes if node.name == operation.target), None)
        if target is not None and target.is_full:
            yield self._make_room(target)
        needs_primary = operation.operation in ("rejoin", "clone")
        if needs_primary and snapshot.primary is None and backend_of(self._cluster).has_epochs:
            first = next(self._for_writes(), None)
            if first is None or first.operation not in ("failover", "restart") or first.refusal:
                yield Recommendation("abandon", "", open_words.put_off(operation, commands))
        elif target is None or target.name not in self._unable:
            yield from self._supervisor() if needs_primary else ()
            yield Recommendation("resume", "", open_words.finish(operation, commands))
        else:
            yield Recommendation("abandon", "", open_words.give_up(operation, commands))

    @property
    def _unable(self) -> list[str]:
        """Return the nodes that certainly can't be started with the data that they have."""
        return [node.name for node in self._snapshot.nodes if node.is_damaged]

    @property
    def _can_start_all(self) -> bool:
        """Return True if some node may start, as far as the snapshot shows."""
        return any(
            node.has_program and not self._refusals.start(node) for node in self._snapshot.nodes
        ) or not any(node.has_program for node in self._snapshot.nodes)

    def _start_all(self) -> Recommendation:
        return self._up(words.start_everything(self._snapshot, self._commands))

    def _up(self, procedure: Procedure) -> Recommendation:
        """Start what does not run, after a silent supervisord was brought back."""
        if self._snapshot.supervisor_problem not in ("", SUPERVISOR_AWAY):
            return Recommendation("", "", words.wake_supervisord(self._commands))
        return Recommendation("up", "", procedure)

    def _supervisor(self) -> Iterator[Recommendation]:
        """Bring supervisord back."""
        if self._snapshot.supervisor_problem:
            yield self._up(words.supervise_again(self._commands))

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
        nodes = {node.name: node for node in self._snapshot.nodes}
        extra = nodes[self._snapshot.rivals[-1]] if self._snapshot.rivals else None
        for node in nodes.values():
            successor = nodes.get(node.superseded_by or "")
            if node.writable_primary and successor and self._can_lead(successor):
                extra = extra or node
        if extra is not None:
            operation = "fence" if extra.managed else ""
            yield Recommendation(
                operation, extra.name, words.fence(extra, self._snapshot, self._commands)
            )

    def _can_lead(self, primary: NodeStatus) -> bool:
        """Return True if the primary may start, or another node can take over from it."""
        candidate = best_candidate(self._snapshot, unfit=self._unfit)
        return not self._refusals.start(primary) or candidate is not None

    def _room(self) -> Iterator[Recommendation]:
        """Make room on the disk of the primary, or transfer its role."""
        snapshot = self._snapshot
        yield from map(self._make_room, filter(self._is_full_and_away, snapshot.nodes))
        primary = snapshot.node(snapshot.primary) if snapshot.primary else None
        if primary is None or not primary.is_full:
            return
        candidate = best_candidate(snapshot, unfit=self._unfit)
        refusal = "" if candidate is None else self._refusals.of("switchover", candidate)
        if candidate is None or refusal or not can(self._cluster, "switchover"):
            yield self._make_room(primary)
            return
        procedure = by_hand.make_room(primary, candidate, self._commands)
        yield self._on("switchover", candidate, procedure)

    def _make_room(self, node: NodeStatus) -> Recommendation:
        return Recommendation("", node.name, by_hand.make_room(node, None, self._commands))

    @property
    def _unfit(self) -> list[str]:
        """Return the nodes that can't become the primary."""
        return [
            node.name
            for node in self._snapshot.nodes
            if node.is_full or not is_fit(node) or self._snapshot.lacks_data(node)
        ]

    def _for_writes(self) -> Iterator[Recommendation]:
        """Restore a writable primary, if there is none."""
        snapshot, commands = self._snapshot, self._commands
        primary = assigned_primary(snapshot)
        serving = [node for node in snapshot.nodes if node.writable_primary]
        if primary is not None and all(node.superseded_by for node in serving) and serving:
            if self._refusals.start(primary):
                lost = by_hand.last_resort(snapshot, primary, commands)
                yield Recommendation("", primary.name, lost)
            return
        if primary is None or serving or primary.held not in (None, Hold.EPOCH):
            return  # writes come back without an operation; the alert says what is missing
        if primary.assigned_role is not Role.PRIMARY and is_fit(primary):
            promotion = by_hand.finish_promotion(primary, snapshot.epoch or 1, commands)
            yield Recommendation("", primary.name, promotion)
            return
        startable = not (self._is_stopped or self._refusals.start(primary))
        back = [self._bring_back(primary)] if startable else []
        over = []
        candidate = best_candidate(snapshot, unfit=self._unfit)
        if candidate is not None and not primary.reachable and can(self._cluster, "failover"):
            first = bool(back) and not self._given_up(primary)
            procedure = words.fail_over(primary, candidate, commands, back_first=first)
            over = [self._on("failover", candidate, procedure)]
        if not over and not back:
            over = [*self._candidates(primary)]
        successors = self._automatic_successors(primary)
        if successors:
            waiting = by_hand.wait_for_automation(successors, commands)
            yield Recommendation("", primary.name, waiting)
        yield from [*over, *back] if self._given_up(primary) else [*back, *over]
        alone = not can(self._cluster, "failover") and can(self._cluster, "restore")
        if alone and (primary.refusal or not self._is_stopped):
            yield Recommendation("restore", primary.name, words.restore_data(primary, commands))
        if not alone and not back and not over and not (self._is_stopped and self._can_start_all):
            yield Recommendation("", primary.name, by_hand.last_resort(snapshot, primary, commands))

    def _is_full_and_away(self, node: NodeStatus) -> bool:
        """Return True for a primary whose server a full disk may have ended or blocked."""
        is_primary = node is assigned_primary(self._snapshot)
        return is_primary and node.is_full and not node.reachable

    def _automatic_successors(self, primary: NodeStatus) -> list[NodeStatus]:
        """Return the nodes of which one will take over without an operator; empty if none can."""
        found = self._snapshot.automation
        if found is None or not found.may_act or primary.reachable:
            return []
        able = {each.node for each in found.candidates if not (each.problem or each.doubt)}
        return [
            node
            for node in self._snapshot.nodes
            if node is not primary and node.name in able and is_fit(node)
        ]

    def _candidates(self, primary: NodeStatus) -> Iterator[Recommendation]:
        """Prepare a node that can take over: make room for it, or start it."""
        followers = [
            node
            for node in self._snapshot.nodes
            if node is not primary
            and node.assigned_role.follows
            and not self._snapshot.lacks_data(node)
            and (is_fit(node) or not (node.reachable or self._refusals.start(node)))
        ]
        for node in sorted(followers, key=lambda node: -(node.newest or 0)):
            if node.is_full:
                yield self._make_room(node)
            elif not node.reachable:
                yield self._bring_back(node)

    def _given_up(self, primary: NodeStatus) -> bool:
        """Return True if a start is not expected to bring the primary back."""
        if primary.reachable or not primary.has_program:
            return False
        return bool(self._snapshot.supervisor_problem) or (
            primary.program is None or primary.program.state in GIVEN_UP
        )

    def _orphans(self) -> Iterator[Recommendation]:
        """Replace servers that run outside of supervisor, which a lost supervisord left."""
        if not self._snapshot.supervisor_problem and any(
            node.reachable
            and node.program is not None
            and node.program.state in ENDED
            and not self._refusals.start(node)
            for node in self._snapshot.nodes
        ):
            yield self._up(words.supervise_again(self._commands))

    def _nodes(self) -> Iterator[Recommendation]:
        for node in self._snapshot.nodes:
            if node.name in self._snapshot.rivals or node.writable_primary:
                continue
            told = self._is_full_and_away(node)
            if node.is_full and not told and backend_of(self._cluster).has_epochs:
                yield self._make_room(node)
            yield from self._node(node)

    def _node(self, node: NodeStatus) -> Iterator[Recommendation]:
        """Bring a node back that does not serve as assigned."""
        led = self._snapshot.primary is not None
        refuses = not node.reachable or node.held is Hold.EPOCH
        follows = node.assigned_role is not Role.PRIMARY
        if node.out_of_line or (refuses and (node.superseded_by or (follows and node.is_damaged))):
            yield self._back_in_line(node)
        elif follows and not node.reachable and node.refusal:
            if led:  # a rejoin compares everything, whatever the reason was
                yield self._back_in_line(node)
        elif follows and not node.reachable:
            yield self._bring_back(node)
        elif follows and self._is_left_behind(node):
            yield self._on("restart", node, words.reconnect(node, self._commands))

    def _is_left_behind(self, node: NodeStatus) -> bool:
        """Return True if a running follower needs a restart to follow as it should.

        Its link is down although its upstream serves, or it runs in an older role or epoch.
        """
        if node.actual_role is None or not backend_of(self._cluster).gates_commits:
            return False
        above = {each.name: each for each in self._snapshot.nodes}.get(node.upstream or "")
        cut_off = (
            node.connected is False
            and not node.is_full
            and above is not None
            and above.actual_role is not None
        )
        epochs = {node.epoch, node.assigned_epoch, self._snapshot.epoch} - {None}
        return cut_off or len(epochs) > 1 or node.upstream != node.assigned_upstream

    def _back_in_line(self, node: NodeStatus) -> Recommendation:
        rejoins, clones = can(self._cluster, "rejoin"), can(self._cluster, "clone")
        needs_copy = node.condition is Condition.NEEDS_SEEDING or node.is_damaged
        if clones and (needs_copy or not rejoins):
            operation, procedure = "clone", words.clone(node, self._commands)
        elif rejoins and rejoins_automatically(self._snapshot.automation, node):
            waiting = by_hand.wait_for_rejoin(node, self._commands)
            refusal = self._refusals.of("rejoin", node)
            return Recommendation("", node.name, words.not_yet(waiting, refusal))
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
                    yield self._up(procedure)
                    continue
                refusal = self._refusals.no_restart_of(instance)
                yield Recommendation(
                    "restart", instance.name, words.not_yet(procedure, refusal), refusal
                )

    def _on(self, operation: str, node: NodeStatus, procedure: Procedure) -> Recommendation:
        if operation == "up":
            return self._up(procedure)
        refusal = self._refusals.of(operation, node)
        return Recommendation(operation, node.name, words.not_yet(procedure, refusal), refusal)


def _runs(node: NodeStatus) -> bool:
    return node.program is not None and node.program.state in RUNNING
