"""Reasons why an operation is not possible now, judged by one snapshot.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from indico_zodbrepl.cluster.model import Cluster, Role
from indico_zodbrepl.host.history import STARTS_IN_NO_ROLE, Condition
from indico_zodbrepl.monitor.node_status import Mark, NodeStatus
from indico_zodbrepl.monitor.promotion import SMALL_LAG_SECONDS, follows_closely
from indico_zodbrepl.monitor.rules.facts import RUNNING
from indico_zodbrepl.monitor.snapshot import IndicoStatus, Snapshot, State
from indico_zodbrepl.probing.answers import Level


def gives_way(interrupted: str, node: str, beginning: str, target: str | None) -> bool:
    """Return True if an interrupted operation is closed as it stands when another one begins.

    A lost primary can't wait for the rejoin or clone of a follower, for example until its disk has
    room.  The follower can rejoin or be cloned again in any state.

    Args:
        interrupted, node: a key of ``planning.OPERATIONS`` and the target.
        beginning, target: the same of the other one; None if its planner chooses.
    """
    if interrupted not in ("rejoin", "clone"):
        return False
    return beginning in ("failover", "switchover") or (beginning == "restart" and target != node)


def in_the_way(snapshot: Snapshot, beginning: str, target: str) -> str:
    """Return why an operation can't begin now, in whole sentences; empty if nothing is open."""
    if snapshot.state is State.UNKNOWN:
        return "Nothing answers now, so the state of the cluster is unknown."
    return _open(snapshot, beginning, target)


def _open(snapshot: Snapshot, beginning: str, target: str) -> str:
    for operation in snapshot.operations:
        to = operation.operation in ("switchover", "failover") and not _elects(snapshot)
        name = f"{operation.operation} {'to' if to else 'of'} {operation.target}"
        if operation.damaged:
            return (
                f"The file of operation {operation.identifier} can't be used: abandon that "
                "operation first."
            )
        if operation.at_work:
            by = f", started by {operation.actor}" if operation.actor else ""
            return f"The {name} is running{by}: wait until it has finished."
        if not gives_way(operation.operation, operation.target, beginning, target):
            return f"The {name} was interrupted: resume, undo or abandon it first."
    return ""


def _elects(snapshot: Snapshot) -> bool:
    return any(node.assigned_role is Role.MASTER for node in snapshot.nodes)


class Obstacle(NamedTuple):
    """An obstacle of a pack: a node, what is wrong with it, and how that is known."""

    subject: str
    text: str
    evidence: str


def objections(found: Snapshot) -> Iterator[Obstacle]:
    """Yield the obstacles of a pack: every node has to be healthy.

    A node that is away would miss the pack or keep what the others removed, and removed
    transactions can't be compared with a diverged node.
    """
    for node in found.nodes:
        if not node.reachable:
            yield Obstacle(node.name, node.problem or "it does not answer", "")
    names = {node.name for node in found.nodes if node.reachable}
    for alert in found.warnings:
        if alert.subject in names and alert.level is not Level.NOTICE:
            yield Obstacle(alert.subject, alert.text, alert.detail)


class Refusals:
    """Reasons at one moment; each method returns an empty text if there is none."""

    def __init__(self, cluster: Cluster, snapshot: Snapshot) -> None:
        self._cluster = cluster
        self._snapshot = snapshot
        self._nodes = snapshot.nodes
        self._consensus = _elects(snapshot)

    def of(self, operation: str, node: NodeStatus) -> str:
        """Return why an operation on a node is not possible.

        Raises:
            KeyError: no operation of that name is about a node.
        """
        return in_the_way(self._snapshot, operation, node.name) or {
            "failover": self._not_hung if self._consensus else self._no_failover,
            "switchover": self._no_switchover,
            "rejoin": self._no_rejoin,
            "clone": self._no_clone,
            "restart": self._no_restart,
        }[operation](node)

    def no_restart_of(self, instance: IndicoStatus) -> str:
        """Return why an Indico instance cannot be restarted."""
        return (
            in_the_way(self._snapshot, "restart", instance.name)
            or self._away
            or ("" if instance.set_up is not False else "Its database holds no Indico yet.")
        )

    def no_pack(self) -> str:
        """Return why the database cannot be packed."""
        if busy := in_the_way(self._snapshot, "pack", ""):
            return busy
        reasons = [f"node {each.subject}: {each.text}" for each in objections(self._snapshot)]
        if not reasons:
            return ""
        return sentence(f"pack refused: not every node is healthy: {reasons[0]}")

    def start(self, node: NodeStatus) -> str:
        """Return why the server of a node would refuse to start, as far as the snapshot shows."""
        if node.condition in STARTS_IN_NO_ROLE:
            return f"The data of node {node.name} is {node.condition}: it starts in no role."
        if node.out_of_line and node.assigned_role is not Role.PRIMARY:
            return (
                f"The history of node {node.name} diverged from the cluster's: it would not "
                "start before a rejoin."
            )
        if node.superseded_by:
            return (
                f"Node {node.superseded_by} is the primary of a later epoch: {node.name} would "
                "not start before a rejoin."
            )
        return self._bad_data(node)

    def _bad_data(self, node: NodeStatus) -> str:
        end, primary = node.data_end, node.assigned_role is Role.PRIMARY
        holders = [each.name for each in self._nodes if each is not node and each.holds_data]
        if end is None or (primary and not holders):
            return ""
        if end.damage:
            return f"The end of the data file of node {node.name} can't be read: {end.damage}."
        above = next((each for each in self._nodes if each.name == node.assigned_upstream), None)
        if not primary and above and self._is_unknown(node) and not above.newest:
            return (
                f"Node {node.name} was a primary: what only it holds is unknown without the data "
                f"of node {above.name}."
            )
        if primary and end.is_empty:
            return f"Node {node.name} has no data, but node {holders[0]} has."
        later = [
            each.name
            for each in self._nodes
            if each is not node
            and each.compared_in == node.assigned_epoch
            and each.condition is Condition.OK
            and not each.out_of_line
            and (each.newest or 0) > (end.last_tid or 0)
        ]
        if primary and later:
            return f"The data file of node {node.name} lacks transactions that {later[0]} has."
        return ""

    @staticmethod
    def _is_unknown(node: NodeStatus) -> bool:
        """Return True if a follower may hold transactions of its own: it was a primary since."""
        past = node.condition is not None or (node.assigned_epoch or 1) > 1
        return past and node.compared_in is None and bool(node.newest)

    def _is_outdated(self, node: NodeStatus) -> bool:
        """Return True if the recorded refusal of a node has no cause any more.

        All causes of the start-up check show in the snapshot, but those of a former primary.
        """
        primary = node.assigned_role is Role.PRIMARY
        return node.data_end is not None and (primary or node.compared_in is not None)

    @property
    def _away(self) -> str:
        if not self._snapshot.supervisor_problem:
            return ""
        return (
            "Supervisord does not answer, so nothing can be stopped or started: "
            f"{self._snapshot.supervisor_problem}."
        )

    def _no_host(self, node: NodeStatus) -> str:
        """Return that the node's host has to come back first; empty if its agent answers."""
        if node.host not in self._snapshot.away:
            return ""
        return (
            f"Host {node.host} of node {node.name} does not answer. Bring it back first: start "
            "the host, its network and its agent."
        )

    def _not_hung(self, node: NodeStatus) -> str:
        if node.reachable:
            return f"Node {node.name} answers: it does not hang."
        program = node.program
        if (
            program is not None
            and program.state not in RUNNING
            and (node.assigned_role is Role.STORAGE)
        ):
            return f"Node {node.name} has no process that could hang; use the rejoin."
        return self._away

    def _no_failover(self, node: NodeStatus) -> str:
        serving = [each.name for each in self._nodes if each.writable_primary]
        if serving:
            return f"Primary {serving[0]} serves; use a switchover to hand its role over."
        alive = [
            each.name
            for each in self._nodes
            if each.assigned_role is Role.PRIMARY
            and each.reachable
            and not (each.refusal or each.superseded_by)
        ]
        if alive and not self._snapshot.node(alive[0]).differs_in_role:
            return f"Primary {alive[0]} answers, but commits are blocked; find out why first."
        return self._unfit(node)

    def _no_switchover(self, node: NodeStatus) -> str:
        if self._snapshot.primary is None:
            return (
                "There is no single running primary to hand over from; if it is gone for good, "
                "use a failover."
            )
        if self._away or self._unfit(node):
            return self._away or self._unfit(node)
        if not node.connected:
            return f"Node {node.name} is not connected to the primary: repair its link first."
        if not follows_closely(node):
            lag = "unknown" if node.lag_seconds is None else f"{node.lag_seconds:.0f} s"
            return (
                f"Node {node.name} is too far behind (lag {lag}, at most "
                f"{SMALL_LAG_SECONDS:g} s): wait until it catches up."
            )
        return ""

    def _unfit(self, node: NodeStatus) -> str:
        if not node.reachable:
            return sentence(f"node {node.name} does not answer: {node.problem}")
        if node.out_of_line:
            return (
                f"The history of node {node.name} diverged from the cluster's: it has to "
                "rejoin first."
            )
        if node.actual_role not in ("secondary", "relay"):
            return f"Node {node.name} does not run as a secondary."
        if self._snapshot.lacks_data(node):
            return f"Node {node.name} holds no transaction, and another node does."
        return self._no_room(node)

    @staticmethod
    def _no_room(node: NodeStatus) -> str:
        if not node.is_full:
            return ""
        return f"The disk of node {node.name} is full: make room there first."

    def _no_rejoin(self, node: NodeStatus) -> str:
        if self._consensus:
            if node.reachable and node.mark is Mark.AS_ASSIGNED:
                return f"Storage {node.name} takes part already."
            return self._away or (
                ""
                if self._snapshot.primary
                else "No master leads, so there is no storage to copy from."
            )
        if self._snapshot.primary is None:
            return f"There is no single running primary that {node.name} could follow."
        if (
            node.reachable
            and node.connected
            and not node.out_of_line
            and (node.mark is Mark.AS_ASSIGNED)
        ):
            return f"Node {node.name} follows {node.upstream or 'the primary'} already."
        if node.condition is Condition.NEEDS_SEEDING or node.is_damaged:
            return f"Node {node.name} can't continue from its own data: a clone gives it a copy."
        return self._no_host(node) or self._away or self._no_room(node)

    def _no_clone(self, node: NodeStatus) -> str:
        if self._snapshot.primary is None:
            return f"There is no single running primary that {node.name} could follow."
        if node.out_of_line and not node.is_damaged and node.condition not in STARTS_IN_NO_ROLE:
            return (
                f"Node {node.name} may have divergent transactions: a rejoin exports them, and "
                "may be all that is needed."
            )
        return self._away or self._no_room(node)

    def _no_restart(self, node: NodeStatus) -> str:
        if not node.managed:
            return f"The server of node {node.name} is not managed here: restart it where it runs."
        if not node.has_program:
            return (
                f"Node {node.name} has no server: with this backend Indico opens the data itself."
            )
        return self._away or self._would_not_start(node)

    def _would_not_start(self, node: NodeStatus) -> str:
        rivals = [
            each.name for each in self._nodes if each.writable_primary and each.name != node.name
        ]
        if node.writable_primary and rivals:
            return (
                f"Split brain: node {rivals[0]} takes writes too, and neither would start again. "
                "Fence one of them."
            )
        if reason := self.start(node):
            return reason
        if node.refusal and not node.reachable and not self._is_outdated(node):
            return sentence(f"it refused to start: {node.refusal.notice}")
        return ""


def sentence(text: str) -> str:
    """Return a text as a sentence: with a capital and a full stop."""
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")
