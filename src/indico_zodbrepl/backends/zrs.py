"""ZRS: a ZEO server whose storage sends, or receives, the primary's transactions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from zope.interface import implementer

from indico_zodbrepl.backends.base import NO_BLOBS
from indico_zodbrepl.backends.interfaces import Family, IBackend
from indico_zodbrepl.backends.zeo_servers import ZEOServers, lines, zeo_section
from indico_zodbrepl.cluster import Cluster, NodeState
from indico_zodbrepl.cluster.layout import data_fs, zeo_conf


@implementer(IBackend)
class ZRS(ZEOServers):
    """zc.zrs 3.1 in a ZEO 5 server, as repaired by the data plane's server."""

    name = "zrs"
    family = Family.ZRS
    has_epochs = True
    gates_commits = True
    limits: Mapping[str, str] = {"blobs": NO_BLOBS}

    def retry_seconds(self, cluster: Cluster) -> float | None:
        return cluster.reconnect_delay

    def node_files(self, cluster: Cluster, state: NodeState) -> Mapping[Path, str]:
        node = cluster.node(state.node)
        return {
            zeo_conf(node): _ZEO_CONF.format(
                zeo=zeo_section(node),
                replication=lines(_replication(cluster, state), "  "),
                data_fs=data_fs(node),
            )
        }


def _replication(cluster: Cluster, state: NodeState) -> list[str]:
    found = []
    if state.role.has_followers:
        found.append(f"replicate-to {cluster.node(state.node).replication_address}")
    if state.upstream is not None:
        found.append(f"replicate-from {cluster.node(state.upstream).replication_address}")
        found.append(f"keep-alive-delay {cluster.keep_alive_delay:g}")
    return found


_ZEO_CONF = """\
# Generated at each start of the node; changes here are lost.
%import zc.zrs

{zeo}
<zrs 1>
{replication}
  <filestorage>
    path {data_fs}
  </filestorage>
</zrs>
"""
