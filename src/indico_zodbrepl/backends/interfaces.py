"""The interfaces through which the other packages use a backend.

The methods of a zope.interface are declared without ``self``, which mypy can't
follow; ``indico_zodbrepl.backends.Backend`` is the type to write in annotations.
"""

# mypy: disable-error-code="misc, empty-body"
# ruff: noqa: N805  # no self, as said above

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    from indico_zodbrepl.cluster import Cluster, Endpoint, Node, NodeState
    from indico_zodbrepl.cluster.installation import Installation
    from indico_zodbrepl.cluster.rendering import Program
    from indico_zodbrepl.probing.answers import ServerAnswer
    from indico_zodbrepl.probing.comparison import Comparison

Progress = Callable[[str], None]

OPERATIONS: Mapping[str, str] = {
    "switchover": "`switchover`",
    "failover": "`failover`",
    "rejoin": "`rejoin`",
    "clone": "`clone`",
    "recover": "`recover`",
    "lineage": "`history`",
    "promote": "`node promote` and `node start --force`",
    "follow": "`node follow`",
    "assign": "`node assign`",
    "hold": "`node pause-writes` and `node resume-writes`",
    "backup": "`backup`",
    "restore": "`restore`",
}
"""What a backend may not be able to do to a cluster: key of ``limits`` to its commands.

Who has no such key has to carry the commands out; `node start`, `stop` and `fence` are for every
node that has a program.
"""

FEATURES = ("undo", "pack", "blobs", "size", "two-instances")
"""What Indico may miss with a backend: the further keys of ``limits``."""


class Family(enum.StrEnum):
    """A group of backends that change roles, fail over and recover in the same way.

    Only the tables of strategies in ``host`` and ``operations`` look at it.
    """

    ONE_COPY = "one copy"
    ZRS = "zrs"
    NATIVE = "native replication"
    CONSENSUS = "consensus"


class IBackend(Interface):
    """A kind of storage: how it is configured, run, filled and monitored.

    What computes (the first part) uses its arguments alone: it reads no file, asks no server and
    raises nothing but KeyError, for a node that the cluster hasn't.  What acts (the second part)
    ends by itself in limited time and raises OperatorError.  What asks (the third part) ends by
    its deadline, a moment of ``time.monotonic``, whatever the server does, and raises ProbeError.

    Threading: a backend has no state; any thread may call it at any time.
    """

    name: str = Attribute("What ``backend`` in a cluster file says.")
    family: Family = Attribute("The key of the strategies that other packages have for it.")
    has_epochs: bool = Attribute(
        "True if one node is the primary and may start as such only in the current epoch."
    )
    elects_leader: bool = Attribute("True if its nodes elect the one that leads.")
    asks_passwords: bool = Attribute("True if its servers ask clients for a password.")
    gates_commits: bool = Attribute(
        "True if a primary with too few followers refuses commits; otherwise commits wait."
    )
    clients_need_writer: bool = Attribute(
        "True if a client connects only to a server that takes writes."
    )
    fenced_by_folder: bool = Attribute(
        "True if each process that works in a data directory belongs to the node's server."
    )
    backup_driver: str = Attribute("The name of the backup driver; empty without one.")
    limits: Mapping[str, str] = Attribute(
        "What it can't do: a key of OPERATIONS or FEATURES to one sentence that says why and what "
        "to do instead, commands in backquotes."
    )

    def programs(cluster: Cluster, installation: Installation, node: Node) -> tuple[Program, ...]:
        """Return the supervised programs of a node in start order; none without our server."""

    def node_files(cluster: Cluster, state: NodeState) -> Mapping[Path, str]:
        """Return the configuration of a node's server for its present role: path to content."""

    def client_files(cluster: Cluster) -> Mapping[Path, str]:
        """Return the clients' configuration: one for all nodes, and one for each of
        ``readable_nodes``.
        """

    def readable_nodes(cluster: Cluster) -> tuple[Node, ...]:
        """Return the nodes whose own copy of the database a client can read."""

    def server_command(
        cluster: Cluster, installation: Installation, state: NodeState
    ) -> tuple[str, ...]:
        """Return the command of the server of a node whose files have been written."""

    def listens_on(cluster: Cluster, state: NodeState) -> tuple[Endpoint, ...]:
        """Return the endpoints that must accept connections before a node counts as started."""

    def check(cluster: Cluster, installation: Installation) -> None:
        """Raise OperatorError (exit 4) when a program of the engine is missing, with one line
        that says which package brings it."""

    def prepare(cluster: Cluster, installation: Installation, state: NodeState) -> Iterable[str]:
        """Make a node's data, if it has none, before its server starts in this state.

        The guard has admitted the node.  Returns what an operator should know, a line each.
        Raises OperatorError (exit 8 when the node must not start).
        """

    def has_data(cluster: Cluster, node: Node) -> bool:
        """Return True if a node's data is visible and not empty; raise nothing."""

    def data_file(node: Node) -> Path | None:
        """Return the path of a node's Data.fs; None if the storage keeps its data otherwise."""

    def packed_nodes(cluster: Cluster) -> tuple[Node, ...]:
        """Return the nodes that are packed one after the other; none if one pack serves all."""

    def retry_seconds(cluster: Cluster) -> float | None:
        """Return the delay between a follower's connection attempts; None if not configured."""

    def not_kept(cluster: Cluster) -> tuple[str, ...]:
        """Return what a conversion into the cluster drops from the history, a phrase each."""

    def share_of_data(cluster: Cluster) -> Mapping[str, float]:
        """Return by name which share of the data each node of ours holds; 1.0 is all of it."""

    def blocks_without_followers(cluster: Cluster) -> bool:
        """Return True if commits block until a follower has confirmed them."""

    def settle(
        cluster: Cluster, installation: Installation, state: NodeState, deadline: float
    ) -> None:
        """Finish the start of a node's server that listens: what needs a running server.

        Idempotent.  ``deadline`` is a moment of ``time.monotonic``.
        """

    def found(
        cluster: Cluster, installation: Installation, progress: Progress, deadline: float
    ) -> None:
        """Make what Indico needs before it starts, once the servers listen: users, databases,
        schema, replication.  May be repeated; ``deadline`` is a moment of ``time.monotonic``."""

    def ask(cluster: Cluster, node: Node, deadline: float) -> ServerAnswer:
        """Return what a node's server reports."""

    def compare(
        cluster: Cluster, node: Node, primary: Node, answer: ServerAnswer, deadline: float
    ) -> Iterator[Comparison]:
        """Yield comparisons of a follower with its primary, which is asked after ``answer``; later
        ones say more.  Yield nothing if that is unknown; raise nothing.
        """


@dataclasses.dataclass(frozen=True)
class Alone:
    """How to read the data of a stopped node.

    Attributes:
        conf: ZODB configuration, read-only, of the server that was started on it for nobody else;
            None when there was no need to start one, as the upstream has all of it.
        contained: whether the engine's own logs show that the upstream has all of it.
        needs_copy: why it can't follow from what it has, though nothing is lost by that; empty
            when it can, or nobody knows.
    """

    conf: str | None
    contained: bool
    needs_copy: str = ""


class NativeReplication(Protocol):
    """The additions of a native replication backend to ``IBackend``.

    Each method has a time limit and raises OperatorError.
    """

    def promote(
        self, cluster: Cluster, installation: Installation, state: NodeState, deadline: float
    ) -> Iterable[str]:
        """Have a node's running server take writes, in place, and let clients find it.

        State file and records name the node as the primary, and nobody else takes writes.
        Returns what an operator should know, a line each.
        """

    def prove(
        self,
        cluster: Cluster,
        installation: Installation,
        node: Node,
        primary: Node,
        deadline: float,
    ) -> str:
        """Wait until a running follower has everything that a primary had when it ended in order.

        Returns what was compared, one line.  OperatorError: exit 8 when the follower lacks
        something, 7 at the deadline.
        """

    def keeps_history(self, cluster: Cluster) -> bool:
        """Return True if the database keeps older revisions and who changed them."""

    def data_folder(self, node: Node) -> Path:
        """Return the folder of the database server's data; without it a node starts empty."""

    def open_alone(
        self, cluster: Cluster, node: Node, upstream: Node, deadline: float
    ) -> AbstractContextManager[Alone]:
        """Have an ended node's data read by this program alone, and ended again afterwards.

        Nobody else reaches the server, it takes no writes of clients, and follows nobody.  What a
        kill left in its logs becomes part of the data, as at any start.
        """
