"""The facts by which a clone is planned."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

from indico_zodbrepl.cluster import Node
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import data_fs
from indico_zodbrepl.cluster.lookup import node_named
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.datafs_answers import Relation
from indico_zodbrepl.host.history import STARTS_IN_NO_ROLE, Condition
from indico_zodbrepl.host.interface import Host, host_of
from indico_zodbrepl.operations.candidates import lost_count
from indico_zodbrepl.operations.divergence import (
    compare,
    doubtful,
    find_fork,
    lineage,
    verified_against,
)
from indico_zodbrepl.operations.exports import exported_before
from indico_zodbrepl.operations.facts import (
    current_primary,
    follows,
    size_of,
    upstream_of,
    why_not_serving,
)
from indico_zodbrepl.probing import tid


@dataclasses.dataclass(frozen=True)
class CloneFacts:
    """The facts by which a clone is planned.

    Attributes:
        now: seconds since 1970.
        primary: the only node that accepts writes in ``epoch``.
        primary_problem: why it does not serve; empty if it does.
        source: the node whose data is copied.
        source_problem: why its data cannot be copied; empty if they can.
        has_followers: True if other nodes are assigned to follow the node.
        following: True if the node's server follows the primary now.
        aside: where the node's old data will be kept, a folder.
        size: bytes to be copied: the source's data file and blobs.
        copied: bytes of it that an interrupted clone has left.
        free: bytes free where the node's data is.
        has_data: whether the node has data of its own, which is kept.
        private: how many transactions only the node has, and not the primary; None if that is
            unknown, because its file is damaged or belongs to another database.
        doubtful: how many more can't be shown to be the primary's too.
        after: the node's last transaction before all of these; None if that is unknown.
        exported: a folder that has all of these already; None if there is none.
        given_up: whether its lineage says that it can't rejoin, so that a clone is its only way.
    """

    now: float
    node: str
    primary: str
    epoch: int
    primary_problem: str
    source: str
    source_problem: str
    has_followers: bool
    following: bool
    aside: Path
    size: int
    copied: int
    free: int
    has_data: bool
    private: int | None = 0
    exported: Path | None = None
    given_up: bool = False
    doubtful: int = 0
    after: str | None = None

    @property
    def may_lose(self) -> bool:
        """Return True if the node may hold the only copy of a transaction."""
        return (self.private != 0 or self.doubtful > 0) and self.exported is None


def gather(
    cluster: Cluster, installation: Installation, name: str, source: str | None
) -> CloneFacts:
    """Gather the facts by which a clone is planned.

    Args:
        source: the node to copy from; None: the primary.

    Raises:
        OperatorError: exit 2, no such node; exit 8, it is not known who the primary is, or
            the node's data directory can't be used.
    """
    installation.check()
    host = host_of(cluster, installation)
    node = node_named(cluster, name)
    primary, epoch = current_primary(cluster)
    origin = node_named(cluster, source) if source else primary
    problem = why_not_serving(cluster, primary, epoch)
    own = _Own()
    if node != primary:
        host.check_folder(name)
        if host.data_file(name) is not None and not problem:
            own = _own(cluster, installation, node, primary, epoch)
    exported = own.after and exported_before(cluster, installation, node, own.after)
    return CloneFacts(
        now=time.time(),
        node=name,
        primary=primary.name,
        epoch=epoch,
        primary_problem=problem,
        source=origin.name,
        source_problem=_source_problem(cluster, node, origin, primary),
        has_followers=any(upstream_of(cluster, other) == name for other in cluster.nodes),
        following=follows(cluster, node, primary),
        aside=host.aside(name, "clone", time.time()),
        size=size_of(host, origin.name) + host.blob_bytes(origin.name),
        copied=host.staged_copy(name).bytes,
        free=host.free_bytes(name),
        has_data=host.data_file(name) is not None,
        private=own.private,
        exported=exported or None,
        given_up=_is_given_up(host, name),
        doubtful=own.doubtful,
        after=own.after,
    )


@dataclasses.dataclass(frozen=True)
class _Own:
    """The transactions that only a node has; see ``CloneFacts``."""

    private: int | None = 0
    doubtful: int = 0
    after: str | None = None


def _own(
    cluster: Cluster, installation: Installation, node: Node, primary: Node, epoch: int
) -> _Own:
    host = host_of(cluster, installation)
    known = lineage(host, node.name)
    fork = find_fork(cluster, node.name, known, epoch)
    verified = verified_against(host, node.name, primary.name)
    found, _damage = compare(host, node, primary, verified, fork)
    if found is None:
        return _Own(None)
    if found.relation is Relation.UNRELATED:
        return _Own(None, after=fork if fork and _holds(host, node, fork) else None)
    private = lost_count(found)
    unproven = 0
    if known is None or known.was_writable:
        unproven = doubtful(found, verified, fork)
    starts = []
    if private and found.common is not None:
        starts.append(found.common.tid)
    if unproven:
        starts.append(found.packed_away_after or f"{tid.EMPTY:016x}")
    return _Own(private, unproven, min(starts, default=None))


def _holds(host: Host, node: Node, wanted: str) -> bool:
    try:
        host.digest(node.name, wanted)
    except OperatorError as error:
        if error.exit_code is not ExitCode.REFUSED:
            raise
        return False
    return True


def _is_given_up(host: Host, name: str) -> bool:
    try:
        known = host.history(name)
    except OperatorError:
        return True  # it may be unknown; the node's own transactions are reported as a loss then
    return known is not None and known.condition in STARTS_IN_NO_ROLE


def _source_problem(cluster: Cluster, node: Node, origin: Node, primary: Node) -> str:
    if origin == node:
        return "a node can't be cloned from itself"
    if host_of(cluster).data_file(origin.name) is None:
        return f"there is no {data_fs(origin)}"
    if origin == primary:
        return ""
    return (
        _unfit(host_of(cluster), origin.name)
        if follows(cluster, origin, primary)
        else f"it does not follow {primary.name} now"
    )


def _unfit(host: Host, name: str) -> str:
    try:
        known = host.history(name)
    except OperatorError as error:
        return error.detail
    unfit = known is not None and known.condition is not Condition.OK
    return f"its history is marked {known.condition}" if known and unfit else ""
