"""ZEO: one server that many clients share, without a copy of its data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from zope.interface import implementer

from indico_zodbrepl.backends.interfaces import IBackend
from indico_zodbrepl.backends.one_copy import LIMITS, require_data_of_before
from indico_zodbrepl.backends.zeo_servers import ZEOServers, zeo_section
from indico_zodbrepl.cluster import Cluster, NodeState
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import blobs, data_fs, zeo_conf


@implementer(IBackend)
class ZEO(ZEOServers):
    """A ZEO 5 server with one Data.fs."""

    name = "zeo"
    limits: Mapping[str, str] = LIMITS

    def node_files(self, cluster: Cluster, state: NodeState) -> Mapping[Path, str]:
        node = cluster.node(state.node)
        text = _ZEO_CONF.format(zeo=zeo_section(node), data_fs=data_fs(node), blobs=blobs(node))
        return {zeo_conf(node): text}

    def prepare(
        self, cluster: Cluster, installation: Installation, state: NodeState
    ) -> Iterable[str]:
        node = cluster.node(state.node)
        require_data_of_before(cluster, node, has_data=self.has_data(cluster, node))
        return ()


_ZEO_CONF = """\
# Generated at each start of the node; changes here are lost.
{zeo}
<filestorage 1>
  path {data_fs}
  blob-dir {blobs}
  packer indico_zodbrepl.dataplane.datafs.synced_pack.pack
</filestorage>
"""
