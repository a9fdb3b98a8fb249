"""The file in which the automation or the agent of a host names the leader to this host's clients.

It only speeds up their search for a server; see docs/architecture.md. Clients of database servers
have their own list of servers, which is changed at the same time.
"""

from __future__ import annotations

import contextlib
import json
import os

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, Node, formats
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.etcd.keys import Leader
from indico_zodbrepl.probing import times


def announce_leader(cluster: Cluster, node: Node, epoch: int) -> None:
    """Name the leader of an epoch to this host's clients, which then connect to its server.

    Call it when this host learns of a new leader, also before the promotion has ended.  Idempotent;
    a lower epoch than the file's changes nothing.  Does not wait for the disk: the file is of no
    use after a crash of the host.

    Args:
        node: the leader.

    Raises:
        OSError: the file can't be written; clients find the server without it, but later.
        OperatorError: exit 1, the list of servers can't be written; the agent tries it again.
    """
    path = Layout(cluster).leader_file
    if is_known(cluster, epoch):
        return
    backend_of(cluster).direct_clients(cluster, node)
    values = {
        "format": formats.LEADER.known,
        "cluster": cluster.name,
        "epoch": epoch,
        "node": node.name,
        "address": str(node.storage_address),
        "at": times.now(),
    }
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        new.write_text(json.dumps(values) + "\n", "utf-8")
        new.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            new.unlink()
        raise


def announce(cluster: Cluster, leader: Leader) -> None:
    """Name the leader of a key, unless the cluster file has no such node.

    Raises OSError and OperatorError as ``announce_leader``.
    """
    node = next((each for each in cluster.nodes if each.name == leader.node), None)
    if node is not None:
        announce_leader(cluster, node, leader.epoch)


def is_known(cluster: Cluster, epoch: int) -> bool:
    """Return True if this host's clients have been told the leader of this epoch or a later one.

    False without a usable file of this cluster.
    """
    try:
        values = json.loads(Layout(cluster).leader_file.read_text("utf-8"))
        return values["cluster"] == cluster.name and int(values["epoch"]) >= epoch
    except (OSError, ValueError, KeyError, TypeError):
        return False
