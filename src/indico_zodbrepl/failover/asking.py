"""What the running server of a node says, asked once and with little patience."""

from __future__ import annotations

import time

from ..backends import backend_of
from ..cluster import Cluster, Node
from ..probing.answers import Replication, ServerAnswer

ANSWER_SECONDS = 2.0


def ask(cluster: Cluster, node: Node) -> ServerAnswer:
    """The answer of whatever server is at a node's address; raises ProbeError."""
    return backend_of(cluster).ask(cluster, node, time.monotonic() + ANSWER_SECONDS)


def replication_of(cluster: Cluster, node: Node) -> Replication | None:
    """What a node's server says of itself; None when another server answers.

    Raises ProbeError.
    """
    return own(node, ask(cluster, node))


def own(node: Node, answer: ServerAnswer) -> Replication | None:
    """What an answer says of a node; None when it is another server's."""
    found = answer.replication
    return found if found is not None and found.node == node.name else None
