"""Backends with one copy of the data, and the limits of commands for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from indico_zodbrepl.backends.base import Defaults
from indico_zodbrepl.cluster import Cluster, Endpoint, Node, NodeState
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.rendering import Program
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.probing.answers import Replication, ServerAnswer, ServerRole
from indico_zodbrepl.probing.comparison import Comparison
from indico_zodbrepl.probing.wire import FailureKind, ProbeError

_ALONE = "there is one node and one copy of the data, so "

LIMITS: Mapping[str, str] = {
    "switchover": _ALONE + "no other node can take over; `bin/zodbrepl convert` copies the data "
    "into a cluster that replicates",
    "failover": _ALONE + "no other node can take over; repair this one, or bring its data back "
    "from a backup: `bin/zodbrepl restore NODE`",
    "rejoin": _ALONE + "no history can differ from another one; if the data are damaged: "
    "`bin/zodbrepl restore NODE`",
    "clone": _ALONE + "there is nothing to copy it from but a backup: `bin/zodbrepl restore NODE`",
    "lineage": _ALONE + "no history can differ from another one",
    "promote": _ALONE + "the node takes writes whenever it runs",
    "follow": _ALONE + "there is no node to follow",
    "assign": _ALONE + "its role is what it is",
}

_NO_SERVER = "nodes of this backend have no server: each Indico instance opens the data itself; "


class WithoutServer(Defaults):
    """The part of ``IBackend`` that backends without a managed server share.

    Its one node is a folder on the host of Indico; no program serves it.
    """

    def programs(
        self, cluster: Cluster, installation: Installation, node: Node
    ) -> tuple[Program, ...]:
        return ()

    def node_files(self, cluster: Cluster, state: NodeState) -> Mapping[Path, str]:
        return {}

    def readable_nodes(self, cluster: Cluster) -> tuple[Node, ...]:
        return cluster.nodes

    def server_command(
        self, cluster: Cluster, installation: Installation, state: NodeState
    ) -> tuple[str, ...]:
        """Raise OperatorError: there is no server."""
        raise OperatorError(f"node {state.node} has no server", _NO_SERVER + cluster.backend)

    def listens_on(self, cluster: Cluster, state: NodeState) -> tuple[Endpoint, ...]:
        return ()

    def check(self, cluster: Cluster, installation: Installation) -> None:
        """Do nothing: everything comes with the installation."""

    def prepare(
        self, cluster: Cluster, installation: Installation, state: NodeState
    ) -> Iterable[str]:
        """Do nothing: no server is started."""
        return ()

    def compare(
        self, cluster: Cluster, node: Node, primary: Node, answer: ServerAnswer, deadline: float
    ) -> Iterator[Comparison]:
        """Return nothing: there is no follower."""
        return iter(())


def require_here(cluster: Cluster, node: Node) -> None:
    """Raise ProbeError if a node's data are on another host: only programs there can read them."""
    if not cluster.is_here(node):
        raise ProbeError(
            FailureKind.UNREACHABLE,
            f"the data are a file on host {node.on}, and only commands typed there can read it",
        )


WITHOUT_SERVER_LIMITS: Mapping[str, str] = {
    **LIMITS,
    "hold": _NO_SERVER + "stop the instances instead: `bin/zodbrepl down`",
}


def require_data_of_before(cluster: Cluster, node: Node, *, has_data: bool) -> None:
    """Refuse to start without existing data: their disk may not be mounted.

    A mark in var-directory shows that there were data.  Raises OperatorError (exit 8).
    """
    mark = Layout(cluster).var / "founded" / node.name
    try:
        if has_data:
            mark.parent.mkdir(exist_ok=True)
            mark.touch()
        elif mark.exists():
            raise OperatorError(
                f"the data of node {node.name} are gone",
                f"{node.data_directory} holds none, and did before",
                "mount its disk, or restore a backup: "
                f"{Commands.here(cluster).zodbrepl('restore', node.name)}; to start without "
                f"them, remove {mark}",
                ExitCode.REFUSED,
            )
    except OSError as error:
        raise OperatorError(
            f"it is unknown whether node {node.name} had data before",
            f"{mark}: {error.strerror}",
            exit_code=ExitCode.REFUSED,
        ) from error


def standalone(
    cluster: Cluster, node: Node, *, size: int, pid: int = 0, read_only: bool = False
) -> Replication:
    """Return the replication state of a node that has no peers; ``size`` in bytes."""
    return Replication(
        cluster=cluster.name,
        node=node.name,
        role=ServerRole.STANDALONE,
        epoch=None,
        upstream=None,
        connected=None,
        followers=(),
        pid=pid,
        size=size,
        read_only=read_only,
    )
