"""What is called how, and who is who in a cluster of NEO.  No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...cluster import Cluster, Node, Role
from ...cluster.layout import Layout
from ...cluster.settings import NeoSettings


def settings(cluster: Cluster) -> NeoSettings:
    """The engine's settings; the defaults for a cluster that was made without any."""
    found = cluster.settings
    return found if isinstance(found, NeoSettings) else NeoSettings()


def of_role(cluster: Cluster, role: Role) -> Iterator[Node]:
    return (node for node in cluster.nodes if node.role is role)


def masters(cluster: Cluster) -> str:
    """The masters' addresses as NEO's programs take them."""
    return " ".join(str(node.storage_address) for node in of_role(cluster, Role.MASTER))


def neo_conf(node: Node) -> Path:
    return node.data_directory / "neo.conf"


def sqlite_file(node: Node) -> Path:
    """A storage's database; the warden looks for it by this name."""
    return node.data_directory / "neo.sqlite"


def mysql_database(cluster: Cluster, node: Node) -> str:
    """The name of a storage's database on a MariaDB server of its host."""
    return f"neo_{cluster.name}_{node.name}".replace("-", "_")


def founded(cluster: Cluster) -> Path:
    """There once the cluster was started with data: from then on it must not begin anew."""
    return Layout(cluster).var / "neo-founded.json"
