"""ZRS: a ZEO server whose storage sends, or receives, the primary's transactions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from zope.interface import implementer

from indico_zodbrepl.backends.interfaces import Family, IBackend
from indico_zodbrepl.backends.zeo_servers import ZEOServers, lines, zeo_section
from indico_zodbrepl.cluster import Cluster, Node, NodeState
from indico_zodbrepl.cluster.files import write_all
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout, blobs, data_fs, zeo_conf


@implementer(IBackend)
class ZRS(ZEOServers):
    """zc.zrs 3.1 in a ZEO 5 server, as repaired by the data plane's server."""

    name = "zrs"
    family = Family.ZRS
    has_epochs = True
    gates_commits = True
    limits: Mapping[str, str] = {}

    def retry_seconds(self, cluster: Cluster) -> float | None:
        return cluster.reconnect_delay

    def server_command(
        self, cluster: Cluster, installation: Installation, state: NodeState
    ) -> tuple[str, ...]:
        command = super().server_command(cluster, installation, state)
        leased = ["--leased"] if cluster.automatic else []
        members = ("--members", str(Layout(cluster).members))
        return (*command, *members, *leased, *_acknowledgements(cluster, state))

    def client_files(self, cluster: Cluster) -> Mapping[Path, str]:
        """Return those of clients, and the list that running servers read when it has changed."""
        return {**super().client_files(cluster), Layout(cluster).members: _members(cluster)}

    def prepare(
        self, cluster: Cluster, installation: Installation, state: NodeState
    ) -> Iterable[str]:
        """Write the list of nodes whose confirmations count."""
        write_all({Layout(cluster).members: _members(cluster)})
        return super().prepare(cluster, installation, state)

    def node_files(self, cluster: Cluster, state: NodeState) -> Mapping[Path, str]:
        node = cluster.node(state.node)
        return {
            zeo_conf(node): _ZEO_CONF.format(
                zeo=zeo_section(node),
                replication=lines(_replication(cluster, state), "  "),
                data_fs=data_fs(node),
                blobs=blobs(node),
            )
        }


def _acknowledgements(cluster: Cluster, state: NodeState) -> list[str]:
    """Return the options about acknowledged commits; any node may become the primary."""
    found, wanted = [], cluster.synchronous
    if wanted.count:
        found += [
            *("--synchronous", str(wanted.count)),
            *("--synchronous-level", str(wanted.level)),
            *("--synchronous-timeout", f"{wanted.timeout:g}"),
            *("--synchronous-alone", str(wanted.alone)),
        ]
    if cluster.automatic:
        found.append("--alone-when-told")
    if cluster.node(state.node).forwards:
        found.append("--forward-acknowledgements")
    return found


def _members(cluster: Cluster) -> str:
    """Return the list of nodes whose confirmations count, as this host's servers see them."""
    nodes = {
        node.name: {"from": _sources(cluster, node), "forwards": node.forwards}
        for node in cluster.nodes
    }
    return json.dumps({"nodes": nodes}, indent=2) + "\n"


def _sources(cluster: Cluster, node: Node) -> list[str] | None:
    """Return the addresses from which a node connects; None if they prove nothing.

    The tunnel connects from the inner address of the host whose certificate it has verified.
    """
    if not cluster.encrypted or cluster.here is None or node.on is None:
        return None
    inner = cluster.host(node.on).inner_address
    return ["127.0.0.1", inner] if cluster.is_here(node) else [inner]


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
    blob-dir {blobs}
    packer indico_zodbrepl.dataplane.datafs.synced_pack.pack
  </filestorage>
</zrs>
"""
