"""Let nodes of this host follow the leader again, by the plan of ``zodbrepl rejoin``.

That concerns a former primary, a follower that a take-over did not reach, because its host was cut
off at that moment, for example, one whose state file or data file is damaged, and one whose
database server has not replicated for a minute.

The plan exports the divergent transactions before it removes them.  The journal records whether
clients were told that these were saved.  What is damaged is kept beside the rest.  A node that
needs a clone, or an operator, is left as it is, and the log says so.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable

from indico_zodbrepl.automation.disconnected import DISCONNECTED_SECONDS, Disconnected
from indico_zodbrepl.automation.interrupted import Interrupted, to_close, to_continue
from indico_zodbrepl.automation.log import Once, say
from indico_zodbrepl.automation.threads import Repeated
from indico_zodbrepl.automation.timing import ORDER_SECONDS, now
from indico_zodbrepl.automation.unpromoted import Unpromoted
from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, Node, NodeState
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.etcd.keys import Leader
from indico_zodbrepl.etcd.problems import EtcdAwayError
from indico_zodbrepl.host import confirmed_commits, history, promise, state
from indico_zodbrepl.host.disks import Room, disk_of
from indico_zodbrepl.host.engine_control import control_of, has_joined
from indico_zodbrepl.host.history import Condition, Lineage
from indico_zodbrepl.host.interface import HostAwayError, host_of
from indico_zodbrepl.host.operations_interface import LockHeldError, LockLostError
from indico_zodbrepl.host.promise import Fate
from indico_zodbrepl.host.supervisor import Supervisor, program_states
from indico_zodbrepl.operations import executor, planning, store
from indico_zodbrepl.operations.execution import Observer
from indico_zodbrepl.operations.losses import NEVER_TOLD
from indico_zodbrepl.operations.model import Finding, Plan, Refusal, Verdict
from indico_zodbrepl.operations.planning import Request
from indico_zodbrepl.operations.takeover import ACTOR

INTERVAL_SECONDS = 2.0
RETRY_SECONDS = 60.0
"""The longest pause after attempts that failed."""
PERSON_SECONDS = 600.0
"""After a plan that needs a person; each attempt reads the whole data file."""
GIVEN_UP = ("EXITED", "FATAL")
"""States in which supervisor leaves a program that nobody stopped."""
NOT_STARTED = "its server could not be started"
NOT_CONNECTED = f"its server has not replicated for {DISCONNECTED_SECONDS:.0f} s"
BEHIND_SECONDS = 20.0
"""For a take-over to reach all followers itself."""
FIRST_SECONDS = 5.0
"""After the first such attempt; each further one doubles the pause.

After one that met a network fault, a failover that is not complete, a primary that does not serve,
or a full disk, it stays so.
"""


class OthersNotReadyError(OperatorError):
    """A node can't rejoin at the moment; what it has is not the reason."""


class NoRoomError(OperatorError):
    """The disk of a node that has to rejoin is full; that was found before its data were read."""


class Rejoiner:
    """Rejoins the nodes of this host that have to, in ``thread``.

    Args:
        leader: returns the leader key; None while nobody may act: the automation is paused, no node
            leads, or an operation runs.
        last: returns the name of the node that led last; empty while a node leads, or nobody may
            act.
    """

    def __init__(
        self,
        cluster: Cluster,
        installation: Installation,
        leader: Callable[[], Leader | None],
        last: Callable[[], str],
    ) -> None:
        self._cluster = cluster
        self._installation = installation
        self._leader = leader
        self._last = last
        self._not_before: dict[str, float] = {}
        self._failures: dict[str, int] = {}
        self._damaged: set[str] = set()
        self._started: dict[str, float] = {}
        self._epoch, self._epoch_since = 0, 0.0
        self._once = Once()
        self._interrupted = Interrupted(cluster)
        self._disconnected = Disconnected(cluster)
        self._unpromoted = Unpromoted(cluster, installation)
        self.thread = Repeated("rejoin", INTERVAL_SECONDS, self._look_at_all)

    def _look_at_all(self) -> None:
        leader = self._leader()
        if leader is None:
            self._disconnected.forget()
            self.start_last(self._last())
            return
        if leader.epoch != self._epoch:
            self._epoch, self._epoch_since = leader.epoch, now()
            self._disconnected.forget()
        for node in self._cluster.local.nodes:
            if node.managed and now() >= self._not_before.get(node.name, 0.0):
                self.look(node, leader)

    def start_last(self, name: str) -> None:
        """Start the server of the node that led last, if it is of this host and its start failed.

        Other hosts that did not answer its start-up check may answer now, and nobody else may be
        able to lead.
        """
        nodes = self._cluster.local.nodes
        node = next((each for each in nodes if each.name == name and each.managed), None)
        if node is None or now() < self._not_before.get(name, 0.0):
            return
        try:
            if not self._broken(node):
                return
            say(f"{node.program} is started again: its last start failed, and no node leads")
            Supervisor(self._cluster).start(node.program)
        except OperatorError as error:
            say(f"{error.notice}: {error.detail}".rstrip(": "))
        failures = self._failures.get(name, 0)
        self._failures[name] = failures + 1
        self._not_before[name] = now() + pause_after(failures, None)

    def look(self, node: Node, leader: Leader) -> None:
        """Rejoin a node if it has to; log why it can't.

        A rejoin that stopped late is continued, although its node counts as compared by then.  So
        is an operator's restart or rejoin that was interrupted.  One of another node is closed if
        this node has to rejoin and its own host does not end it; so is a failover or switchover
        whose promotion is done.
        """
        try:
            try:
                self._look(node, leader)
            except store.UnfinishedError:
                if not self._made_way(node, leader.epoch):
                    raise
        except LockHeldError:
            return  # after that operation
        except OperatorError as error:
            self._later(node, f"{error.notice}: {error.detail}".rstrip(": "), error)

    def _look(self, node: Node, leader: Leader) -> None:
        self._unpromoted.look(node, leader)
        why = self._why(node, leader)
        if self._resumed(node, leads=node.name == leader.node, why=why) or not why:
            if not self._was_started(node):  # else it may fail again
                self._failures.pop(node.name, None)
            self._damaged.discard(node.name)
        elif self._has_joined(node, leader):
            say(f"node {node.name} {why}, and follows node {leader.node}")
            host_of(self._cluster, self._installation).start_node(node.name)  # ends its joining
        elif why != NOT_STARTED or not self._start_again(node):
            if why == NOT_CONNECTED:
                self._disconnected.tried(node)
            self._rejoin(node, f"{why}; node {leader.node} leads in epoch {leader.epoch}")

    def _why(self, node: Node, leader: Leader) -> str:
        """Return why a node has to rejoin; empty if it does not."""
        if node.name == leader.node:
            return ""
        present = self._state(node)
        known = history.known(node, present)
        is_former = history.may_have_own(self._cluster, node, known)
        waited = now() - self._epoch_since if leader.epoch == self._epoch else 0.0
        epoch, broken = present.epoch, self._broken(node)
        if waited >= BEHIND_SECONDS:
            epoch = min(epoch, self._served(node) or epoch)
            if not broken and self._disconnected.seconds(node) >= DISCONNECTED_SECONDS:
                broken = NOT_CONNECTED
        return why_to_rejoin(known, epoch, leader, waited, is_former=is_former, broken=broken)

    def _served(self, node: Node) -> int:
        """Return the epoch of a node's running server; 0 if none answers.

        Its state file may have been changed while the server started.  The guard of a database
        server does not know of a later redirection; see ``Disconnected`` for such a server.
        """
        if backend_of(self._cluster).needs_guard:
            return 0
        with contextlib.suppress(OperatorError):
            return control_of(self._cluster, node).status(ORDER_SECONDS).epoch
        return 0

    def _state(self, node: Node) -> NodeState:
        """Return a node's state; a damaged state file is put aside."""
        try:
            return state.current(self._cluster, node)
        except state.DamagedStateError as error:
            confirmed_commits.distrust(self._cluster, node, "its state file was damaged")
            aside = state.put_aside(node)
            say(f"{error.notice}: {error.detail}; it is {aside} now")
            self._damaged.add(node.name)
            return state.current(self._cluster, node)

    def _broken(self, node: Node) -> str:
        """Return why a node's server can't start; empty if it runs or an operator stopped it."""
        if node.name in self._damaged:
            return "its state file was damaged"
        program = program_states(self._cluster).get(node.program)
        return NOT_STARTED if program and program.state in GIVEN_UP else ""

    def _was_started(self, node: Node) -> bool:
        """Return True if ``_start_again`` has started a server, and no rejoin has followed."""
        return now() < self._started.get(node.name, -RETRY_SECONDS) + RETRY_SECONDS

    def _start_again(self, node: Node) -> bool:
        """Start a server whose starts have failed; return False if that was just tried.

        Its disk may work again.  A rejoin takes longer, because it compares the data.
        """
        program = program_states(self._cluster).get(node.program)
        if program is None or program.state != "FATAL":
            return False  # a server that exits without an order refuses its data
        if self._was_started(node):
            del self._started[node.name]
            return False
        self._started[node.name] = now()
        self._once.say(node.program, f"{node.program} is started again: its starts had failed")
        Supervisor(self._cluster).start(node.program)
        return True

    def _has_joined(self, node: Node, leader: Leader) -> bool:
        """Return True for a former primary of a database engine that the leader sends its log.

        Its start did not wait until it had joined.  A rejoin would have nothing to do.
        """
        if not backend_of(self._cluster).needs_guard:
            return False
        present = state.current(self._cluster, node)
        known = history.known(node, present)
        return (
            (present.upstream, present.epoch) == (leader.node, leader.epoch)
            and known.condition is Condition.OK
            and history.may_have_own(self._cluster, node, known)
            and has_joined(self._cluster, node, self._cluster.node(leader.node))
        )

    def _rejoin(self, node: Node, why: str) -> None:
        disk = disk_of(node.data_directory)
        if disk is not None and disk.room is Room.FULL:
            raise NoRoomError("its disk is full", str(disk))
        led = history.known(node, state.current(self._cluster, node)).epoch
        found = promise.fate(promise.read(node), led)
        plan = planning.prepare(
            self._cluster, self._installation, Request("rejoin", node.name, why)
        )
        if isinstance(plan, Refusal):
            against = [each for each in plan.findings if each.verdict is Verdict.AGAINST]
            if against:
                stays = any(each.subject == node.name for each in against)
                raise (OperatorError if stays else OthersNotReadyError)(plan.notice, plan.hint)
            return
        needed = person_needed(plan)
        if needed:
            self._later(node, f"an operator has to decide: {needed}", pause=PERSON_SECONDS)
            return
        ended = executor.execute(
            self._cluster, self._installation, told(plan, found), _Log(), ACTOR
        )
        say(f"{ended.plan.name}: {ended.outcome} ({ended.identifier})")
        self._damaged.discard(node.name)

    def _resumed(self, node: Node, *, leads: bool, why: str) -> bool:
        """Continue an operation of a node that was interrupted; return False without one.

        That of an operator is tried once.
        """
        left, waited = self._interrupted.look()
        if left is None or left.identifier == self._interrupted.tried:
            return False
        if not to_continue(left, node.name, waited, leads=leads, rejoins=bool(why)):
            return False
        if left.actor != ACTOR:
            self._interrupted.tried = left.identifier
            say(f"{left.plan.name} by {left.actor} was interrupted, and is continued")
        ended = executor.resume(self._cluster, self._installation, _Log(), expected=left.identifier)
        say(f"{ended.plan.name}: {ended.outcome} ({ended.identifier})")
        return True

    def _made_way(self, node: Node, epoch: int) -> bool:
        """Close an operation that keeps a node from rejoining; return False if it is left open."""
        left, waited = self._interrupted.look()
        if left is None or not to_close(left, waited, epoch):
            return False
        remark = f"{ACTOR}: closed as it stood, because node {node.name} has to rejoin"
        store.close(self._cluster, left.identifier, remark)
        say(f"{left.plan.name} was interrupted, and is closed as it stands ({left.identifier})")
        return True

    def _later(
        self, node: Node, why: str, error: OperatorError | None = None, pause: float = 0.0
    ) -> None:
        failures = self._failures.get(node.name, 0)
        if not passes(error):
            self._failures[node.name] = failures + 1
        self._not_before[node.name] = now() + max(pause, pause_after(failures, error))
        self._once.say(node.name, f"node {node.name} does not rejoin: {why}")


def passes(error: OperatorError | None) -> bool:
    """Return True for an error that ends without anybody's help, or costs nothing again.  Pure."""
    kinds = (
        HostAwayError
        | EtcdAwayError
        | LockLostError
        | store.UnfinishedError
        | OthersNotReadyError
        | NoRoomError
    )
    return isinstance(error, kinds)


def pause_after(failures: int, error: OperatorError | None) -> float:
    """Return the seconds until the next attempt.  Pure.

    Args:
        failures: earlier ones in a row, without those that pass.
        error: None for a plan that can't be carried out.
    """
    doublings = 0 if passes(error) else min(failures, 10)
    return min(FIRST_SECONDS * (1 << doublings), RETRY_SECONDS)


def why_to_rejoin(
    known: Lineage,
    epoch: int,
    leader: Leader,
    waited: float,
    *,
    is_former: bool,
    broken: str = "",
) -> str:
    """Return why a node that does not lead has to rejoin; empty if it does not.  Pure.

    Args:
        known: its history.
        epoch: in which it follows, by its state file and its running server.
        waited: seconds since this host first saw the leader's epoch.
        is_former: True if it was a primary, so it may have transactions that no other node has.
        broken: why its server does not start, or does not replicate.
    """
    if known.condition not in (Condition.OK, Condition.DIVERGED):
        return ""  # a person decides
    if is_former:
        return f"it led in epoch {known.epoch}"
    if known.condition is Condition.DIVERGED:
        return "it has transactions that the cluster never had"
    if epoch < leader.epoch and waited >= BEHIND_SECONDS:
        return f"it was left behind in epoch {epoch}"
    return broken


def person_needed(plan: Plan) -> str:
    """Return why a rejoin needs a person; empty if the automation may do it.  Pure."""
    for step in plan.steps:
        if step.action == "rejoin-mark" and step.arguments.get("condition") != str(Condition.OK):
            return f"{step.arguments['condition']}, {step.arguments['detail']}"
    return ""


def told(plan: Plan, found: Fate) -> Plan:
    """Add a finding to a plan: whether clients were told that the transactions were saved.

    Pure.
    """
    if plan.loss is None:
        return plan
    said = Finding(
        Verdict.FINE if found is Fate.IN_DOUBT else Verdict.WARNING,
        plan.target,
        f"the transactions that only it has were {found}"
        if found is not Fate.IN_DOUBT
        else NEVER_TOLD,
        "as its server recorded before it stopped",
    )
    return dataclasses.replace(plan, findings=(*plan.findings, said))


class _Log(Observer):
    def say(self, text: str) -> None:
        say(text)
