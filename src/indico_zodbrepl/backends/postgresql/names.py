"""What this backend calls things: users of the servers, files, replication slots.  No I/O."""

from __future__ import annotations

from pathlib import Path

from ...cluster import Cluster, Node
from ...cluster.layout import Layout
from ...cluster.settings import PostgreSQLSettings

# Of servers that are started here: who may do everything, and as whom nodes replicate.
SUPERUSER = "zodbrepl"
REPLICATION_USER = "zodbrepl_replication"

# Where the servers keep no data of Indico's.
MAINTENANCE_DATABASE = "postgres"

MANAGED_USERS = (SUPERUSER, REPLICATION_USER)


def settings(cluster: Cluster) -> PostgreSQLSettings:
    """The section ``<postgresql>``, or its defaults."""
    if not isinstance(cluster.settings, PostgreSQLSettings):
        raise TypeError(f"cluster {cluster.name} has no settings of PostgreSQL")
    return cluster.settings


def data_folder(node: Node) -> Path:
    """PostgreSQL's own folder; the node's state file is beside it."""
    return node.data_directory / "postgresql"


def passfile(cluster: Cluster, user: str) -> Path:
    """The password of a user of the cluster's servers, in libpq's format."""
    return Layout(cluster).secrets / f"postgresql-{user}.pgpass"


def replica_conf(cluster: Cluster) -> Path:
    """The servers in the order in which clients try them, the primary first."""
    return Layout(cluster).etc / "postgresql-servers.txt"


def schema_conf(cluster: Cluster) -> Path:
    """Storage that makes the tables; opened once, on the primary."""
    return Layout(cluster).etc / "postgresql-schema.conf"


def slot(node: Node) -> str:
    """The replication slot that an upstream keeps for a node."""
    return "zodbrepl_" + node.name.replace("-", "_")
