"""How the servers of each family of backends change their role."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

from indico_zodbrepl.backends import Family, backend_of, native_of
from indico_zodbrepl.cluster import Cluster, Node, NodeState, Role
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import (
    confirmed_commits,
    engine_control,
    fencing,
    following,
    guarded,
    history,
    promise,
    state,
    writers,
)
from indico_zodbrepl.host.engine_control import control_of
from indico_zodbrepl.host.interface import STOP_SECONDS, Tell
from indico_zodbrepl.host.promise import Promise
from indico_zodbrepl.host.server_control import (
    NoServerError,
    ServerControl,
    ServerRefusedError,
    ServerStatus,
)
from indico_zodbrepl.host.starts import restart_node, start_node, stop_node
from indico_zodbrepl.probing.waiting import wait_until

LEASE_POLL_SECONDS = 0.05
LEAD_DATABASE_SECONDS = 20.0
"""For a database server, whose lease is extended meanwhile: the alternative is to kill it."""


@dataclasses.dataclass(frozen=True)
class Changed:
    """The result of a change of role.

    Attributes:
        in_place: True if its server did not have to be restarted.
        remarks: what an operator should know, one line each.
    """

    in_place: bool
    remarks: tuple[str, ...]


def _changes(change: Callable[[], ServerStatus], role: Role, remarks: list[str]) -> bool:
    """Make a node's server take a role; return False if it has to be restarted for that.

    Why it refused is added to ``remarks``.
    """
    try:
        return change().role == role
    except NoServerError:
        return False
    except ServerRefusedError as error:
        remarks.append(
            f"restarted, because it was not changed in place: {error.notice}: {error.detail}"
        )
        return False


@dataclasses.dataclass(frozen=True)
class Change:
    """The common parameters of a change of role; ``deadline`` is a time of ``time.monotonic``."""

    cluster: Cluster
    installation: Installation
    progress: Tell
    deadline: float

    def start(self, name: str) -> None:
        start_node(
            self.cluster,
            self.installation,
            name,
            progress=self.progress,
            seconds=self.deadline - time.monotonic(),
        )

    def restart(self, name: str) -> None:
        restart_node(
            self.cluster,
            self.installation,
            name,
            progress=self.progress,
            seconds=self.deadline - time.monotonic(),
        )

    def stop(self, name: str) -> None:
        seconds = min(self.deadline - time.monotonic(), STOP_SECONDS)
        stop_node(self.cluster, name, progress=self.progress, seconds=seconds)


class Servers(Protocol):
    """The changes of role of the servers of one family of backends.

    Attributes:
        silences: what ``silence_others`` does, one line.
    """

    silences: str

    def enter(self, cluster: Cluster, claim: NodeState) -> None:
        """Record, before the epoch is raised, that a node may soon hold unique data."""

    def silence_others(
        self, cluster: Cluster, name: str, epoch: int, proven: int | None
    ) -> list[str]:
        """Make sure that no other node accepts commits; return remarks."""

    def promote(
        self,
        change: Change,
        claim: NodeState,
        remarks: list[str],
    ) -> bool:
        """Make a node's server accept writes; return False if it had to be restarted."""

    def lead(
        self, change: Change, claim: NodeState, until: float, began: Callable[[], None]
    ) -> None:
        """Make a node's running server accept writes until its lease ends."""

    def follow(
        self,
        change: Change,
        wanted: NodeState,
    ) -> Changed:
        """Make a node's server follow another one, and write its state."""

    def refuse_writable(self, cluster: Cluster, node: Node) -> None:
        """Raise OperatorError (exit 8) if a node is a primary that takes writes."""

    def changes(self, cluster: Cluster, wanted: NodeState) -> str:
        """Return how ``promote`` or ``follow`` changes the server, one line."""


class _ControlledServers:
    """ZEO servers, which take orders over their control socket."""

    silences = "report the epoch to running primaries of older epochs"

    def enter(self, cluster: Cluster, claim: NodeState) -> None:
        history.enter_primary(cluster, claim)

    def silence_others(
        self, cluster: Cluster, name: str, epoch: int, proven: int | None
    ) -> list[str]:
        return writers.silence_others(cluster, name, epoch, proven)

    def promote(
        self,
        change: Change,
        claim: NodeState,
        remarks: list[str],
    ) -> bool:
        node = change.cluster.node(claim.node)
        order = partial(
            ServerControl(change.cluster, node).promote, claim.epoch, node.replication_address
        )
        return self._change(change, claim, order, remarks)

    def lead(
        self, change: Change, claim: NodeState, until: float, began: Callable[[], None]
    ) -> None:
        node = change.cluster.node(claim.node)
        ServerControl(change.cluster, node).promote(
            claim.epoch,
            node.replication_address,
            until,
            seconds=change.deadline - time.monotonic(),
        )
        began()

    def follow(
        self,
        change: Change,
        wanted: NodeState,
    ) -> Changed:
        cluster = change.cluster
        node, above = cluster.node(wanted.node), cluster.node(wanted.upstream or "")
        try:
            remarks = following.admit_follower(cluster, change.installation, wanted)
        except OperatorError as error:
            if error.exit_code is ExitCode.REFUSED:
                stop_node(cluster, node.name, progress=change.progress)
            raise
        if remarks:  # it could not be compared
            confirmed_commits.distrust_late(cluster, state.current(cluster, node), wanted)
        state.write(node, wanted)
        order = partial(
            ServerControl(cluster, node).follow, wanted.epoch, above.replication_address
        )
        in_place = self._change(change, wanted, order, remarks)
        return Changed(in_place, tuple(remarks))

    def refuse_writable(self, cluster: Cluster, node: Node) -> None:
        writers.refuse_unpaused(cluster, node)

    def changes(self, cluster: Cluster, wanted: NodeState) -> str:
        node = cluster.node(wanted.node)
        try:
            role = ServerControl(cluster, node).status().role
        except NoServerError:
            return f"start {node.program}"
        in_place = wanted.role is Role.PRIMARY or role in (wanted.role, Role.PRIMARY)
        return "change its server in place" if in_place else f"restart {node.program}"

    def _change(
        self,
        change: Change,
        wanted: NodeState,
        order: Callable[[], ServerStatus],
        remarks: list[str],
    ) -> bool:
        if _changes(order, wanted.role, remarks):
            return True
        change.restart(wanted.node)
        return False


def has_lease(cluster: Cluster, claim: NodeState) -> bool:
    """Return True if a database server has a lease of its epoch, needs none, or does not run."""
    if not cluster.automatic:
        return True
    try:
        found = control_of(cluster, cluster.node(claim.node)).status()
    except OperatorError as error:
        return isinstance(error, NoServerError)
    return found.is_leased(claim.epoch)


def fence_without_lease(cluster: Cluster, node: Node) -> None:
    """End a database server that was just promoted, if it has no lease.

    The process that promoted it may have been frozen before.  Its guard would let it run for ever.

    Raises OperatorError (exit 8) if it was ended.
    """
    if not cluster.automatic:
        return
    try:
        found = control_of(cluster, node).status()
    except OperatorError:
        return  # its guard ends it with its lease when it goes on
    if found.lease is None:
        fencing.fence(cluster, node)
        raise OperatorError(
            f"node {node.name} was promoted too late, and was stopped",
            "it had no lease any more",
            Commands.here(cluster).zodbrepl("rejoin", node.name),
            ExitCode.REFUSED,
        )


def _promising(cluster: Cluster, claim: NodeState) -> Cluster:
    """Record what the commits of a database server will wait for, before it is promoted.

    Returns a cluster that says the same.  The cluster file may be edited at any time, and other
    hosts know what this process has read of it.
    """
    found, node = guarded.promised(cluster, claim), cluster.node(claim.node)
    wanted, known = found.synchronous, promise.read(node)
    is_new = known is None or known.epoch != claim.epoch
    if wanted.count and is_new and guarded.told_first(cluster):
        made = Promise(claim.epoch, promise.WAITING, wanted.count, str(wanted.level))
        promise.write(node, made)
    return found


class _NativeServers:
    """Database servers: promoted in place, restarted to follow."""

    silences = "fence every other node that may take writes"

    def enter(self, cluster: Cluster, claim: NodeState) -> None:
        """Do nothing: the server's own log tells what only it has."""

    def silence_others(
        self, cluster: Cluster, name: str, epoch: int, _proven: int | None
    ) -> list[str]:
        return writers.silence_others(cluster, name, epoch)

    def promote(
        self,
        change: Change,
        claim: NodeState,
        remarks: list[str],
    ) -> bool:
        node = change.cluster.node(claim.node)
        promised = _promising(change.cluster, claim)
        in_place = not self._lacks_guard(change.cluster, node)
        if not in_place:
            change.restart(node.name)
        else:
            self._wait_for_lease(change, claim)
            if node.has_program:
                change.start(node.name)
        remarks += native_of(promised).promote(
            promised, change.installation, claim, change.deadline
        )
        if in_place:
            fence_without_lease(change.cluster, node)
        return in_place

    def lead(
        self, change: Change, claim: NodeState, until: float, began: Callable[[], None]
    ) -> None:
        cluster = change.cluster
        seconds = change.deadline - time.monotonic()
        promised = _promising(cluster, claim)
        # Its guard kills it at the end of its lease, and a promotion may take longer than one.
        control_of(cluster, cluster.node(claim.node)).lease(claim.epoch, until, seconds)
        began()
        deadline = time.monotonic() + LEAD_DATABASE_SECONDS
        native_of(cluster).promote(promised, change.installation, claim, deadline)

    def _lacks_guard(self, cluster: Cluster, node: Node) -> bool:
        """Return True if a server runs that was started before automatic failover was set."""
        if not cluster.automatic:
            return False
        try:
            control_of(cluster, node).status()
        except OperatorError as error:
            return isinstance(error, NoServerError) and fencing.is_listening(node)
        return False

    def _wait_for_lease(self, change: Change, claim: NodeState) -> None:
        """Wait until the automation has given a running server its first lease as the primary.

        Without a lease, its guard would let it run for ever.  One that starts waits for it anyway.
        """
        cluster = change.cluster
        if not wait_until(partial(has_lease, cluster, claim), change.deadline, LEASE_POLL_SECONDS):
            raise OperatorError(
                f"node {claim.node} has no lease for epoch {claim.epoch}",
                f"the automation of host {cluster.here} gives it one",
                "see if the program automation and etcd run there",
                ExitCode.TIMED_OUT,
            )

    def follow(
        self,
        change: Change,
        wanted: NodeState,
    ) -> Changed:
        cluster = change.cluster
        node = cluster.node(wanted.node)
        confirmed_commits.distrust_late(cluster, state.current(cluster, node), wanted)
        state.write(node, wanted)
        try:
            engine_control.redirect(cluster, node, wanted)
            backend_of(cluster).settle(cluster, change.installation, wanted, change.deadline)
        except OperatorError:
            change.restart(wanted.node)
            return Changed(False, ())
        return Changed(True, ())

    def refuse_writable(self, cluster: Cluster, node: Node) -> None:
        writers.refuse_writable(cluster, node)

    def changes(self, _cluster: Cluster, _wanted: NodeState) -> str:
        return "change its server in place"


_SERVERS: dict[Family, Servers] = {
    Family.ZRS: _ControlledServers(),
    Family.NATIVE: _NativeServers(),
}


def servers_of(cluster: Cluster) -> Servers:
    """Return the changes of role of a cluster's servers."""
    return _SERVERS[backend_of(cluster).family]
