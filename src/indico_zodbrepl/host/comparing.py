"""Compare the data files of two nodes; that of the upstream may be on another host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import data_fs
from indico_zodbrepl.host import datafs
from indico_zodbrepl.host.datafs import LONG_SECONDS
from indico_zodbrepl.host.datafs_answers import Comparison
from indico_zodbrepl.host.py27 import ProgramError

if TYPE_CHECKING:
    from indico_zodbrepl.host.remote.node_data import NodeData


def compare(
    cluster: Cluster,
    installation: Installation,
    node: Node,
    upstream: Node,
    verified: str | None = None,
    *,
    seconds: float = LONG_SECONDS,
    fork: str | None = None,
    damaged: bool = False,
) -> Comparison:
    """Compare a node's history with its upstream's; see ``datafs.compare``.

    Args:
        node: of this host.
        upstream: of any host; servers may run.

    Raises OperatorError, also HostAwayError.
    """
    if cluster.is_here(upstream):
        return datafs.compare(
            installation,
            data_fs(node),
            data_fs(upstream),
            verified,
            seconds,
            fork=fork,
            damaged=damaged,
        )
    from indico_zodbrepl.host.remote.node_data import NodeData  # noqa: PLC0415 - it needs more

    return compare_with(
        installation,
        node,
        NodeData(cluster, upstream),
        verified,
        seconds=seconds,
        fork=fork,
        damaged=damaged,
    )


def compare_with(
    installation: Installation,
    node: Node,
    upstream: NodeData,
    verified: str | None = None,
    *,
    seconds: float = LONG_SECONDS,
    fork: str | None = None,
    damaged: bool = False,
) -> Comparison:
    """Compare a node's history with that of a data file on another host."""
    with upstream.dialogue() as dialogue:
        try:
            return datafs.compare(
                installation,
                data_fs(node),
                upstream.label,
                verified,
                seconds,
                fork=fork,
                connection=dialogue.stream.fileno(),
                damaged=damaged,
            )
        except ProgramError as error:
            if error.status != datafs.DISCONNECTED:
                raise
            raise upstream.broken(dialogue) from error
