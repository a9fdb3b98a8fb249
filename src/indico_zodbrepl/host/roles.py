"""Change the role of a node, in place if its server runs."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

from indico_zodbrepl.backends import Family, backend_of, native_of, require
from indico_zodbrepl.cluster import Cluster, Node, NodeState, Role
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.lookup import node_named
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.etcd import leadership
from indico_zodbrepl.host import (
    blob_folder,
    confirmed_commits,
    engine_control,
    epochs,
    fencing,
    following,
    history,
    precheck,
    run,
    state,
    writers,
)
from indico_zodbrepl.host.engine_control import control_of
from indico_zodbrepl.host.epochs import EpochRecord
from indico_zodbrepl.host.interface import (
    CHANGE_SECONDS,
    STOP_SECONDS,
    DryRun,
    Tell,
    host_of,
    ignore,
)
from indico_zodbrepl.host.server_control import (
    NoServerError,
    ServerControl,
    ServerRefusedError,
    ServerStatus,
)
from indico_zodbrepl.host.starts import (
    restart_node,
    start_node,
    stop_node,
)
from indico_zodbrepl.probing.waiting import wait_until

LEASE_POLL_SECONDS = 0.05
LEAD_SECONDS = 5.0
"""For a server that becomes the leader in place."""
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


def promote(
    cluster: Cluster,
    installation: Installation,
    name: str,
    *,
    epoch: int,
    reason: str = "",
    proven: int | None = None,
    progress: Tell = ignore,
    seconds: float = CHANGE_SECONDS,
) -> Changed:
    """Make a node the primary of an epoch, in place if its server runs.

    First no source may contradict by a later epoch, another primary of this epoch, or a server that
    accepts writes (a paused primary does not).  Then the records are raised, running primaries of
    older epochs are told, and the node's own state is written; from then on the node is the primary
    even if everything is interrupted.

    Args:
        reason: for the records, one line.
        seconds: time limit for all of it, also where the server has to be restarted.
        proven: a transaction of the old primary that the node is known to have; when that one
            turns out to have a later one, once it takes no commits any more, this ends there.

    Raises:
        OperatorError: exit 8, somebody objects, or the node's data is not whole, or no record
            can be raised, or with ``automatic`` the leader key names another node: nothing was
            changed; else the node is the primary by its state file,
            but its server doesn't serve as such: exit 7 or 1, as ``start_node``.
    """
    deadline = time.monotonic() + seconds
    require(cluster, "promote")
    node, servers = node_named(cluster, name), _servers_of(cluster)
    present = run.prepare(cluster, node)
    claim = check_promotion(cluster, present, epoch)
    if cluster.automatic:
        leadership.refuse_other(cluster, name, epoch)
    servers.enter(cluster, claim)
    remarks = report_promotion(cluster, name, epoch, reason, proven)
    state.write(node, claim)
    in_place = servers.promote(_Change(cluster, installation, progress, deadline), claim, remarks)
    return Changed(in_place, tuple(remarks))


def report_promotion(
    cluster: Cluster, name: str, epoch: int, reason: str = "", proven: int | None = None
) -> list[str]:
    """Raise the records of an epoch, and report it to running primaries of older ones.

    Args:
        name: the epoch's primary.
        reason, proven: as of ``promote``.

    Returns what an operator should know, one line each.  Raises OperatorError (exit 8) as
    ``promote`` if too few records can be raised, or as ``writers.silence_others``.
    """
    raised = epochs.raise_everywhere(cluster, epoch, name, reason or "promoted")
    if len(raised.written) < epochs.quorum(cluster):
        raise OperatorError(
            f"node {name} can't be promoted",
            f"{len(raised.written) or 'no'} record of the epoch could be raised: "
            f"{'; '.join(raised.failed.values())}",
            exit_code=ExitCode.REFUSED,
        )
    remarks = [
        f"{keeper} has no record of epoch {epoch}: {problem}"
        for keeper, problem in raised.failed.items()
    ]
    return remarks + _servers_of(cluster).silence_others(cluster, name, epoch, proven)


def lead(
    cluster: Cluster,
    installation: Installation,
    name: str,
    *,
    epoch: int,
    until: float,
    reason: str = "",
    seconds: float = LEAD_SECONDS,
    began: Callable[[], None] = lambda: None,
) -> None:
    """Make a node of this host the primary of an epoch that the leader key in etcd gives to it.

    The key is the proof that nobody else leads in this epoch, and that the lease of the former
    leader has ended.  So no other host is asked; ``report_promotion`` reports the epoch to them
    afterwards.  The server is changed in place or not at all.

    Args:
        until: end of its first lease; see ``ServerControl.lease``.
        reason: for the record, one line.
        seconds: time limit for its server.
        began: called once the server has its first lease, also if it is no primary before longer
            than that; from then on the caller extends it.

    Raises OperatorError: exit 8, its data are not whole, or a later epoch is known on this host;
    exit 6, 7 or 8, its server does not run, does not answer or refuses.  From the time when its
    state is written it may be the primary.
    """
    require(cluster, "promote")
    node, servers = node_named(cluster, name), _servers_of(cluster)
    present = run.prepare(cluster, node)
    record = EpochRecord(cluster.name, epoch, name, epochs.now(), reason or "promoted")
    for path in epochs.paths(cluster).values():
        known = epochs.read(cluster, path)
        _refuse_lower(epoch, max(present.epoch, 0 if known is None else known.epoch))
    claim = _claim(cluster, present, epoch)
    servers.enter(cluster, claim)
    for path in epochs.paths(cluster).values():
        epochs.raise_record(cluster, path, record)
    state.write(node, claim)
    deadline = time.monotonic() + seconds
    servers.lead(_Change(cluster, installation, ignore, deadline), claim, until, began)


def follow(
    cluster: Cluster,
    installation: Installation,
    name: str,
    *,
    upstream: str,
    epoch: int,
    role: Role | None = None,
    progress: Tell = ignore,
    seconds: float = CHANGE_SECONDS,
) -> Changed:
    """Make a node follow another one, in place if its server runs.

    Its history is compared with the upstream's first.  If it has diverged, the server is stopped
    and its state file stays unchanged: no client should read from it.

    Args:
        role: SECONDARY or RELAY; None: what it is, and a primary becomes a secondary.
        seconds: time limit for all of it, also where the server has to be restarted.

    Raises:
        OperatorError: exit 2, no such node; exit 8, its history is not that of the upstream, or
            a later epoch is known, or it takes writes; exit 7 or 1, as ``start_node``.
    """
    deadline = time.monotonic() + seconds
    require(cluster, "follow")
    present = run.prepare(cluster, node_named(cluster, name))
    wanted = check_following(cluster, present, upstream, epoch, role)
    return _servers_of(cluster).follow(_Change(cluster, installation, progress, deadline), wanted)


def check_promotion(cluster: Cluster, present: NodeState, epoch: int) -> NodeState:
    """Return the state of a node after a promotion; change nothing.

    Raises OperatorError (exit 8) if a source contradicts, its data are incomplete, or it has no
    data and others have.
    """
    refuse_older(cluster, present, epoch)
    precheck.admit_promotion(cluster, present.node, epoch)
    return _claim(cluster, present, epoch)


def _claim(cluster: Cluster, present: NodeState, epoch: int) -> NodeState:
    """Return the state of a node after a promotion; raise OperatorError (exit 8) for unfit data."""
    node = cluster.node(present.node)
    claim = NodeState(
        cluster.name,
        present.node,
        Role.PRIMARY,
        None,
        epoch,
        present.forced if present.epoch == epoch else None,
    )
    # A follower that has no data is distrusted when it starts, until it has seen an empty primary.
    may_be_empty = (
        present.upstream is not None
        and confirmed_commits.are_kept(cluster)
        and not confirmed_commits.doubt(cluster, node, 0)
    )
    precheck.refuse_without_data(cluster, claim, may_be_empty=may_be_empty)
    blob_folder.refuse_gone(cluster, node)
    history.refuse_unfit(cluster, claim)
    return claim


def dry_run_promotion(
    cluster: Cluster, _installation: Installation, name: str, epoch: int
) -> DryRun:
    """Make the checks of ``promote``; change nothing."""
    present = state.current(cluster, node_named(cluster, name))
    claim = check_promotion(cluster, present, epoch)
    servers = _servers_of(cluster)
    return DryRun(
        (
            f"node {name} is to be {state.in_words(cluster, present)}",
            f"no source objects to node {name} as the primary of epoch {epoch}",
        ),
        (
            epochs.raising(cluster, epoch, name),
            servers.silences,
            state.writing(cluster, claim),
            servers.changes(cluster, claim),
        ),
    )


def check_following(
    cluster: Cluster, present: NodeState, upstream: str, epoch: int, role: Role | None = None
) -> NodeState:
    """Return the state of a node that follows another one; change nothing.

    Its history is not checked.  Raises as ``follow``.
    """
    name, above = present.node, node_named(cluster, upstream)
    refuse_older(cluster, present, epoch)
    if role is None:
        role = Role.RELAY if present.role is Role.RELAY else Role.SECONDARY
    if role is Role.PRIMARY or name == upstream:
        raise OperatorError(
            f"node {name} can't follow node {upstream} as {role}", exit_code=ExitCode.BAD_CONFIG
        )
    above_role = host_of(cluster).state(above.name).role
    if not above_role.has_followers:
        raise OperatorError(
            f"node {name} can't follow node {upstream}",
            f"node {upstream} is a {above_role}; nodes follow a primary or a relay",
            exit_code=ExitCode.BAD_CONFIG,
        )
    _servers_of(cluster).refuse_writable(cluster, cluster.node(name))
    return NodeState(cluster.name, name, role, upstream, epoch)


def dry_run_following(
    cluster: Cluster, installation: Installation, name: str, upstream: str, epoch: int
) -> DryRun:
    """Make the checks of ``follow``, and compare the histories; change nothing."""
    present = state.current(cluster, node_named(cluster, name))
    wanted = check_following(cluster, present, upstream, epoch)
    found = run.admissible(cluster, installation, wanted)
    change = _servers_of(cluster).changes(cluster, wanted)
    return DryRun(
        (f"node {name} is to be {state.in_words(cluster, present)} until now", *found),
        (state.writing(cluster, wanted), change),
    )


def refuse_older(cluster: Cluster, present: NodeState, epoch: int) -> None:
    """Raise OperatorError (exit 8) if a later epoch is known here."""
    record = epochs.newest(cluster)
    _refuse_lower(epoch, max(present.epoch, record.epoch if record else 1))


def _refuse_lower(epoch: int, newest: int) -> None:
    if epoch < newest:
        raise OperatorError(
            f"epoch {epoch} is over",
            f"the cluster has seen epoch {newest}",
            f"use --epoch {newest} or later",
            ExitCode.REFUSED,
        )


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
class _Change:
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


class _Servers(Protocol):
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
        change: _Change,
        claim: NodeState,
        remarks: list[str],
    ) -> bool:
        """Make a node's server accept writes; return False if it had to be restarted."""

    def lead(
        self, change: _Change, claim: NodeState, until: float, began: Callable[[], None]
    ) -> None:
        """Make a node's running server accept writes until its lease ends."""

    def follow(
        self,
        change: _Change,
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
        change: _Change,
        claim: NodeState,
        remarks: list[str],
    ) -> bool:
        node = change.cluster.node(claim.node)
        order = partial(
            ServerControl(change.cluster, node).promote, claim.epoch, node.replication_address
        )
        return self._change(change, claim, order, remarks)

    def lead(
        self, change: _Change, claim: NodeState, until: float, began: Callable[[], None]
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
        change: _Change,
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
        change: _Change,
        wanted: NodeState,
        order: Callable[[], ServerStatus],
        remarks: list[str],
    ) -> bool:
        if _changes(order, wanted.role, remarks):
            return True
        change.restart(wanted.node)
        return False


class _NativeServers:
    """Database servers: promoted in place, restarted to follow."""

    silences = "fence every other node that may take writes"

    def enter(self, cluster: Cluster, claim: NodeState) -> None:
        """Do nothing: the server's own log tells what only it has."""

    def silence_others(
        self, cluster: Cluster, name: str, epoch: int, _proven: int | None
    ) -> list[str]:
        return writers.fence_others(cluster, name, epoch)

    def promote(
        self,
        change: _Change,
        claim: NodeState,
        remarks: list[str],
    ) -> bool:
        node = change.cluster.node(claim.node)
        in_place = not self._lacks_guard(change.cluster, node)
        if not in_place:
            change.restart(node.name)
        else:
            self._wait_for_lease(change, claim)
            if node.has_program:
                change.start(node.name)
        remarks += native_of(change.cluster).promote(
            change.cluster, change.installation, claim, change.deadline
        )
        return in_place

    def lead(
        self, change: _Change, claim: NodeState, until: float, began: Callable[[], None]
    ) -> None:
        cluster = change.cluster
        seconds = change.deadline - time.monotonic()
        # Its guard kills it at the end of its lease, and a promotion may take longer than one.
        control_of(cluster, cluster.node(claim.node)).lease(claim.epoch, until, seconds)
        began()
        deadline = time.monotonic() + LEAD_DATABASE_SECONDS
        native_of(cluster).promote(cluster, change.installation, claim, deadline)

    def _lacks_guard(self, cluster: Cluster, node: Node) -> bool:
        """Return True if a server runs that was started before automatic failover was set."""
        if not cluster.automatic:
            return False
        try:
            control_of(cluster, node).status()
        except OperatorError as error:
            return isinstance(error, NoServerError) and fencing.is_listening(node)
        return False

    def _wait_for_lease(self, change: _Change, claim: NodeState) -> None:
        """Wait until the automation has given a running server its first lease as the primary.

        Without a lease, its guard would let it run for ever.  One that starts waits for it anyway.
        """
        cluster = change.cluster
        control = control_of(cluster, cluster.node(claim.node))

        def has_lease() -> bool:
            try:
                found = control.status()
            except OperatorError as error:
                return isinstance(error, NoServerError)
            return found.epoch == claim.epoch and found.lease is not None

        if cluster.automatic and not wait_until(has_lease, change.deadline, LEASE_POLL_SECONDS):
            raise OperatorError(
                f"node {claim.node} has no lease for epoch {claim.epoch}",
                f"the automation of host {cluster.here} gives it one",
                "see if the program automation and etcd run there",
                ExitCode.TIMED_OUT,
            )

    def follow(
        self,
        change: _Change,
        wanted: NodeState,
    ) -> Changed:
        cluster = change.cluster
        node = cluster.node(wanted.node)
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


_SERVERS: dict[Family, _Servers] = {
    Family.ZRS: _ControlledServers(),
    Family.NATIVE: _NativeServers(),
}


def _servers_of(cluster: Cluster) -> _Servers:
    return _SERVERS[backend_of(cluster).family]
