"""Change the role of a node, in place if its server runs."""

from __future__ import annotations

import time
from collections.abc import Callable

from indico_zodbrepl.backends import native_of, require
from indico_zodbrepl.cluster import Cluster, NodeState, Role
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.lookup import node_named
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.etcd import leadership
from indico_zodbrepl.host import (
    blob_folder,
    confirmed_commits,
    epochs,
    guarded,
    history,
    precheck,
    run,
    state,
)
from indico_zodbrepl.host.engine_control import control_of
from indico_zodbrepl.host.epochs import EpochRecord
from indico_zodbrepl.host.interface import CHANGE_SECONDS, DryRun, Tell, host_of, ignore
from indico_zodbrepl.host.role_changes import Change, Changed, fence_without_lease, servers_of
from indico_zodbrepl.probing import times

LEAD_SECONDS = 5.0
"""For a server that becomes the leader in place."""


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
            can be raised, or with ``automatic`` the leader key names another node: the node stays
            what it was; else the node is the primary by its state file,
            but its server doesn't serve as such: exit 7 or 1, as ``start_node``.
    """
    deadline = time.monotonic() + seconds
    require(cluster, "promote")
    node, servers = node_named(cluster, name), servers_of(cluster)
    present = run.prepare(cluster, node)
    claim = check_promotion(cluster, present, epoch)
    if cluster.automatic:
        leadership.refuse_other(cluster, name, epoch)
    servers.enter(cluster, claim)
    remarks = report_promotion(cluster, name, epoch, reason, proven)
    if cluster.automatic:  # that may have taken long
        leadership.refuse_other(cluster, name, epoch)
    state.write(node, claim)
    in_place = servers.promote(Change(cluster, installation, progress, deadline), claim, remarks)
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
    return remarks + servers_of(cluster).silence_others(cluster, name, epoch, proven)


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
    node, servers = node_named(cluster, name), servers_of(cluster)
    present = run.prepare(cluster, node)
    record = EpochRecord(cluster.name, epoch, name, times.now(), reason or "promoted")
    for path in epochs.paths(cluster).values():
        known = epochs.read(cluster, path)
        epochs.refuse_lower(epoch, max(present.epoch, 0 if known is None else known.epoch))
    claim = _claim(cluster, present, epoch)
    servers.enter(cluster, claim)
    for path in epochs.paths(cluster).values():
        epochs.raise_record(cluster, path, record)
    state.write(node, claim)
    deadline = time.monotonic() + seconds
    servers.lead(Change(cluster, installation, ignore, deadline), claim, until, began)


def complete_promotion(
    cluster: Cluster, installation: Installation, present: NodeState, seconds: float
) -> None:
    """Promote a database server of this host whose state and lease make it the primary already.

    Raises OperatorError: exit 8, it has no lease of its epoch; exit 7, it did not accept writes in
    time; exit 1, it refuses, or its guard does not answer.
    """
    deadline = time.monotonic() + seconds
    node = cluster.node(present.node)
    if not control_of(cluster, node).status().is_leased(present.epoch):
        raise OperatorError(
            f"node {present.node} has no lease for epoch {present.epoch}",
            exit_code=ExitCode.REFUSED,
        )
    promised = guarded.promised(cluster, present)
    native_of(cluster).promote(promised, installation, present, deadline)
    fence_without_lease(cluster, node)


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
    return servers_of(cluster).follow(Change(cluster, installation, progress, deadline), wanted)


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
        and confirmed_commits.are_needed(cluster)
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
    servers = servers_of(cluster)
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
    servers_of(cluster).refuse_writable(cluster, cluster.node(name))
    return NodeState(cluster.name, name, role, upstream, epoch)


def dry_run_following(
    cluster: Cluster, installation: Installation, name: str, upstream: str, epoch: int
) -> DryRun:
    """Make the checks of ``follow``, and compare the histories; change nothing."""
    present = state.current(cluster, node_named(cluster, name))
    wanted = check_following(cluster, present, upstream, epoch)
    found = run.admissible(cluster, installation, wanted)
    change = servers_of(cluster).changes(cluster, wanted)
    return DryRun(
        (f"node {name} is to be {state.in_words(cluster, present)} until now", *found),
        (state.writing(cluster, wanted), change),
    )


def refuse_older(cluster: Cluster, present: NodeState, epoch: int) -> None:
    """Raise OperatorError (exit 8) if a later epoch is known here."""
    record = epochs.newest(cluster)
    epochs.refuse_lower(epoch, max(present.epoch, record.epoch if record else 1))
