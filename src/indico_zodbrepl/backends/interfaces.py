"""What a backend tells the rest of the program.

The methods of a zope.interface are declared without ``self``, which mypy can't
follow; ``indico_zodbrepl.backends.Backend`` is the type to write in annotations.
"""

# mypy: disable-error-code="misc, empty-body"
# ruff: noqa: N805  # no self, as said above

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from zope.interface import Attribute, Interface

from ..cluster import Cluster, Endpoint, Node, NodeState
from ..cluster.installation import Installation
from ..cluster.programs import Program


class IBackend(Interface):
    """How one kind of storage is configured and run.

    Failure: the methods compute from their arguments alone.  They read no file, ask
    no server and raise nothing but KeyError, for a node that the cluster hasn't.

    Threading: a backend has no state; any thread may call it at any time.
    """

    name: str = Attribute("What ``backend`` in a cluster file says.")

    def programs(cluster: Cluster, installation: Installation,
                 node: Node) -> tuple[Program, ...]:
        """The supervised programs of a node, in the order in which they start."""

    def node_files(cluster: Cluster, state: NodeState) -> Mapping[Path, str]:
        """The configuration of a node's server for the role it has now: path to content."""

    def client_files(cluster: Cluster) -> Mapping[Path, str]:
        """What clients open: the storage of all, and one for each node alone."""

    def server_command(cluster: Cluster, installation: Installation,
                       state: NodeState) -> tuple[str, ...]:
        """The command that serves a node whose files have been written."""

    def listens_on(cluster: Cluster, state: NodeState) -> tuple[Endpoint, ...]:
        """What a node in this state must listen on before it counts as started."""
