"""A node's server as another host sees it."""

from __future__ import annotations

import dataclasses
import time

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.lookup import node_named
from indico_zodbrepl.host.interface import answer_deadline
from indico_zodbrepl.probing.wire import FailureKind, ProbeError

SECONDS = 0.6


@dataclasses.dataclass(frozen=True)
class Sighting:
    """What a host's probe of a node's server found.

    Attributes:
        role: the role in which it answered; None if it did not answer as this node.
        problem: why it did not, one line; empty if it did.
        silent: True if a time limit ended the probe: the server may only be slow.
    """

    role: str | None
    problem: str
    silent: bool = False


def look(cluster: Cluster, name: str, seconds: float = SECONDS) -> Sighting:
    """Probe a node's server from this host."""
    node = node_named(cluster, name)
    try:
        deadline = answer_deadline(cluster, node.on, time.monotonic() + seconds)
        answer = backend_of(cluster).ask(cluster, node, deadline)
    except ProbeError as error:
        return Sighting(None, error.detail, silent=error.kind is FailureKind.SILENT)
    found = answer.replication
    if found is None or (found.cluster, found.node) != (cluster.name, name):
        return Sighting(None, f"another server answers on {node.storage_address}")
    return Sighting(str(found.role), "")
