"""What this backend calls things: the servers' users, files, numbers.  No I/O."""

from __future__ import annotations

import hashlib
import os
import pwd
import zlib
from pathlib import Path

from ...cluster import Cluster, Node
from ...cluster.layout import Layout
from ...cluster.settings import MariaDBSettings

# Of servers that are started here: who asks how they are, and as whom nodes replicate.  Their
# administrator is the operating system's user who runs them; he needs no password, and comes in
# by the server's socket alone.
MONITOR_USER = "zodbrepl_monitor"
REPLICATION_USER = "zodbrepl_replication"
GENERATED_USERS = (MONITOR_USER, REPLICATION_USER)

# A database of each server's own, which is not replicated.
OWN_DATABASE = "zodbrepl"

# A unix socket's path has room for 107 bytes (unix(7)).
SOCKET_PATH_LIMIT = 107


def settings(cluster: Cluster) -> MariaDBSettings:
    """The section ``<mariadb>``, or its defaults."""
    if not isinstance(cluster.settings, MariaDBSettings):
        raise TypeError(f"cluster {cluster.name} has no settings of MariaDB")
    return cluster.settings


def administrator() -> str:
    """The user of the operating system who runs this, and so the servers."""
    return pwd.getpwuid(os.geteuid()).pw_name


def data_folder(node: Node) -> Path:
    """MariaDB's own folder; the node's state file is beside it."""
    return node.data_directory / "mariadb"


def temporary_folder(node: Node) -> Path:
    """A server's own: one that starts removes temporary tables from its folder, others' too."""
    return node.data_directory / "tmp"


def filled_mark(node: Node) -> Path:
    """There as soon as the node's copy of the database is whole."""
    return data_folder(node) / "zodbrepl-filled"


def led_mark(node: Node) -> Path:
    """There while the node was a primary and has not joined another one since."""
    return data_folder(node) / "zodbrepl-led"


def my_cnf(node: Node) -> Path:
    """The server's options, rendered at each start."""
    return node.data_directory / "my.cnf"


def site_cnf(node: Node) -> Path:
    """Options of the site's own; they count more than those of ``my_cnf``."""
    return node.data_directory / "site.cnf"


def init_sql(cluster: Cluster, node: Node) -> Path:
    """What the server executes first at each start; it holds passwords."""
    return Layout(cluster).secrets / f"mariadb-{node.name}.sql"


def client_cnf(cluster: Cluster, user: str) -> Path:
    """Name and password of a user, as programs of MariaDB and its drivers read them."""
    return Layout(cluster).secrets / f"mariadb-{user}.cnf"


def replica_conf(cluster: Cluster) -> Path:
    """The servers in the order in which clients try them, the primary first."""
    return Layout(cluster).etc / "mariadb-servers.txt"


def schema_conf(cluster: Cluster) -> Path:
    """Storage that makes the tables; opened once, on the primary."""
    return Layout(cluster).etc / "mariadb-schema.conf"


def server_socket(node: Node) -> Path:
    """Beside the node's data; in a folder of its own under /tmp when that path is too long."""
    socket = node.data_directory / "mariadb.sock"
    if len(bytes(socket)) <= SOCKET_PATH_LIMIT:
        return socket
    digest = hashlib.sha256(bytes(node.data_directory)).hexdigest()[:16]
    return Path("/tmp",  # noqa: S108  # its owner is checked before use
                f"indico-zodbrepl-{digest}", "mariadb.sock")


def server_id(cluster: Cluster, node: Node) -> int:
    """What tells a node's transactions from others'; 1 to 2**32 - 1, the same at each start."""
    return zlib.crc32(f"{cluster.name}/{node.name}".encode()) or 1
