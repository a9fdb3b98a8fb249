"""What is to be known before a node joins the primary: read from files and asked of servers."""

from __future__ import annotations

import time

from ..cluster import Cluster, Node
from ..cluster.commands import Commands
from ..cluster.installation import Installation
from ..cluster.layout import data_fs
from ..errors import ExitCode, OperatorError
from ..node import admission, datafs, lineage, run, state
from ..node.datafs import Comparison
from ..probing.answers import ServerRole
from ..probing.wire import ProbeError
from .asking import replication_of
from .exports import exported_before
from .rejoin import Facts


def gather(cluster: Cluster, installation: Installation, name: str) -> Facts:
    """All that a rejoin of a node is planned by.  Compares the two data files from end to end.

    Raises:
        OperatorError: exit 2, no such node; exit 8, it is not known who the primary is, or a
            state file or the primary's data can't be read.
    """
    installation.check()
    node = run.node_named(cluster, name)
    primary, epoch = current_primary(cluster)
    own = state.current(cluster, node)
    remembered = _lineage(node)
    problem = why_not_serving(cluster, primary, epoch)
    found, damage = (None, "")
    if node != primary and not problem:
        found, damage = compare(installation, node, primary)
    common = found.common.tid if found is not None and found.common is not None else None
    exported = common and exported_before(cluster, installation, node, common)
    return Facts(
        now=time.time(), node=name, state=own, primary=primary.name, epoch=epoch,
        primary_problem=problem, following=follows(cluster, node, primary),
        has_followers=any(upstream_of(cluster, other) == name for other in cluster.nodes),
        comparison=found, damage=damage,
        verified=remembered.verified_tid if remembered else None,
        was_writable=remembered is None or remembered.was_writable,
        size=max(size_of(node), size_of(primary)), exported=exported or None)


def current_primary(cluster: Cluster) -> tuple[Node, int]:
    """The primary of the current epoch, as the records have it; OperatorError (exit 8)."""
    record = admission.newest_record(cluster)
    if record is None:
        raise OperatorError("it is not known who the primary is",
                            "no record of the epoch can be read, or two name different ones",
                            Commands.here(cluster).zodbrepl("status"), ExitCode.REFUSED)
    return run.node_named(cluster, record.primary), record.epoch


def why_not_serving(cluster: Cluster, primary: Node, epoch: int) -> str:
    """Why a node is not the running primary of an epoch; empty when it is."""
    try:
        found = replication_of(cluster, primary)
    except ProbeError as error:
        return error.detail
    if found is None:
        return f"another server answers on {primary.storage_address}"
    if found.role is not ServerRole.PRIMARY or found.epoch != epoch:
        return f"it runs as {found.role} of epoch {found.epoch}"
    return ""


def size_of(node: Node) -> int:
    """Bytes of a node's data file; 0 when there is none."""
    try:
        return data_fs(node).stat().st_size
    except OSError:
        return 0


def follows(cluster: Cluster, node: Node, primary: Node) -> bool:
    """Whether a node's server runs and its link with the primary stands."""
    try:
        found = replication_of(cluster, node)
    except ProbeError:
        return False
    return (found is not None and found.connected is True
            and found.upstream == str(primary.link_address))


def upstream_of(cluster: Cluster, node: Node) -> str | None:
    """What a node is told to follow; None also when its state file is unusable."""
    try:
        return state.current(cluster, node).upstream
    except OperatorError:
        return None  # status tells of an unusable state file


def _lineage(node: Node) -> lineage.Lineage | None:
    try:
        return lineage.read(node)
    except OperatorError:
        return None  # what is not known is not trusted: everything is compared


def compare(installation: Installation, node: Node,
             primary: Node) -> tuple[Comparison | None, str]:
    """The comparison of two nodes' files, or None and what is wrong with the first one's."""
    try:
        return datafs.compare(installation, data_fs(node), data_fs(primary)), ""
    except OperatorError as error:
        own, other = str(data_fs(node)), str(data_fs(primary))
        if error.exit_code is not ExitCode.REFUSED or own not in error.detail or (
                other in error.detail):
            raise
        return None, error.detail
