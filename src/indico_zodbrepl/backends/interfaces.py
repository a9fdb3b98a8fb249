"""What a backend tells the rest of the program.

The methods of a zope.interface are declared without ``self``, which mypy can't
follow; ``indico_zodbrepl.backends.Backend`` is the type to write in annotations.
"""

# mypy: disable-error-code="misc, empty-body"
# ruff: noqa: N805  # no self, as said above

from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, runtime_checkable

from zope.interface import Attribute, Interface

from ..cluster import Cluster, Endpoint, Node, NodeState
from ..cluster.installation import Installation
from ..cluster.programs import Program
from ..probing.answers import ServerAnswer
from ..probing.comparison import Comparison

Progress = Callable[[str], None]

OPERATIONS: Mapping[str, str] = {
    "switchover": "`switchover`",
    "failover": "`failover`",
    "rejoin": "`rejoin`",
    "seed": "`seed`",
    "salvage": "`salvage`",
    "lineage": "`lineage`",
    "promote": "`node promote` and `node start --force`",
    "follow": "`node follow`",
    "assign": "`node assign`",
    "hold": "`node hold` and `node release`",
    "backup": "`backup`",
    "restore": "`restore`",
}
"""What a backend may not be able to do to a cluster: key of ``limits`` to its commands.

Who has no such key has to carry the commands out; `node start`, `stop` and `fence` are for every
node that has a program.
"""

FEATURES = ("undo", "pack", "blobs", "size", "two-instances")
"""What Indico may miss with a backend: the further keys of ``limits``."""


class IBackend(Interface):
    """How one kind of storage is configured, run, filled for the first time and asked.

    What computes (the first part) uses its arguments alone: it reads no file, asks no server and
    raises nothing but KeyError, for a node that the cluster hasn't.  What acts (the second part)
    ends by itself in limited time and raises OperatorError.  What asks (the third part) ends by
    its deadline, a moment of ``time.monotonic``, whatever the server does, and raises ProbeError.

    Threading: a backend has no state; any thread may call it at any time.
    """

    name: str = Attribute("What ``backend`` in a cluster file says.")
    guarded: bool = Attribute(
        "Whether nodes are primary and secondary, so that one may start as the primary only when "
        "it holds the current epoch.")
    data_files: bool = Attribute(
        "Whether each node's database is a Data.fs, which lineage, rejoin, seed, salvage, backup "
        "and restore read.")
    limits: Mapping[str, str] = Attribute(
        "What it can't do: a key of OPERATIONS or FEATURES to one sentence that says why and what "
        "to do instead, commands in backquotes.")

    def programs(cluster: Cluster, installation: Installation,
                 node: Node) -> tuple[Program, ...]:
        """The supervised programs of a node, in the order in which they start; none without
        a server of ours."""

    def node_files(cluster: Cluster, state: NodeState) -> Mapping[Path, str]:
        """The configuration of a node's server for the role it has now: path to content."""

    def client_files(cluster: Cluster) -> Mapping[Path, str]:
        """What clients open: the storage of all, and one for each of ``readable_nodes``."""

    def readable_nodes(cluster: Cluster) -> tuple[Node, ...]:
        """The nodes whose own copy of the database a client can read by itself."""

    def server_command(cluster: Cluster, installation: Installation,
                       state: NodeState) -> tuple[str, ...]:
        """The command that serves a node whose files have been written."""

    def listens_on(cluster: Cluster, state: NodeState) -> tuple[Endpoint, ...]:
        """What a node in this state must listen on before it counts as started."""

    def check(cluster: Cluster, installation: Installation) -> None:
        """Raise OperatorError (exit 4) when a program of the engine is missing, with one line
        that says which package brings it."""

    def prepare(cluster: Cluster, installation: Installation,
                state: NodeState) -> Iterable[str]:
        """Make a node's data, if it has none, before its server starts in this state.

        The guard has admitted the node.  Returns what an operator should know, a line each.
        Raises OperatorError (exit 8 when the node must not start).
        """

    def has_data(cluster: Cluster, node: Node) -> bool:
        """Whether a node's data can be seen and holds anything; raises nothing."""

    def found(cluster: Cluster, installation: Installation, progress: Progress,
              deadline: float) -> None:
        """Make what Indico needs before it starts, once the servers listen: users, databases,
        schema, replication.  May be repeated; ``deadline`` is a moment of ``time.monotonic``."""

    def ask(cluster: Cluster, node: Node, deadline: float) -> ServerAnswer:
        """What a node's server says of itself."""

    def compare(cluster: Cluster, node: Node, primary: Node, answer: ServerAnswer,
                deadline: float) -> Iterator[Comparison]:
        """A follower held against its primary, which is asked after ``answer``; a later result
        says more than one before.  Nothing when that can't be told; raises nothing."""


@runtime_checkable
class SQLFiles(Protocol):
    """What a backend has besides whose database is some files of SQLite.

    Attributes:
        folder_name: of the folder in a node's data directory that holds nothing but them.
        file_names: in the order in which they are to be copied; the objects are in the first.
    """

    folder_name: str
    file_names: tuple[str, ...]

    def last_tid(self, connection: sqlite3.Connection) -> int:
        """The last transaction in the file with the objects.  Raises sqlite3.Error."""

    def read_conf(self, cluster: Cluster, folder: Path) -> str:
        """ZODB configuration that opens such a folder to be read."""


@dataclasses.dataclass(frozen=True)
class Alone:
    """What is known of an ended node's data, and how it can be read meanwhile.

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


@runtime_checkable
class Engine(Protocol):
    """What a guarded backend has besides whose servers replicate by themselves.

    As for the acting part of IBackend: each ends by itself and raises OperatorError.
    """

    def settle(self, cluster: Cluster, installation: Installation, state: NodeState,
               deadline: float) -> None:
        """Bring a node's server, which has just been started by itself and listens, into its
        place in the cluster: what can be done only while it runs.  May be repeated."""

    def promote(self, cluster: Cluster, installation: Installation, state: NodeState,
                deadline: float) -> Iterable[str]:
        """Have a node's running server take writes, in place, and let clients find it.

        State file and records name the node as the primary, and nobody else takes writes.
        Returns what an operator should know, a line each.
        """

    def prove(self, cluster: Cluster, installation: Installation, node: Node, primary: Node,
              deadline: float) -> str:
        """Wait until a running follower has everything that a primary had when it ended in order.

        Returns what was compared, one line.  OperatorError: exit 8 when the follower lacks
        something, 7 at the deadline.
        """

    def keeps_history(self, cluster: Cluster) -> bool:
        """Whether the cluster's database keeps what objects were before, and who changed them."""

    def data_folder(self, node: Node) -> Path:
        """Where the engine's own data of a node are; without it the node starts anew."""

    def open_alone(self, cluster: Cluster, node: Node, upstream: Node,
                   deadline: float) -> AbstractContextManager[Alone]:
        """Have an ended node's data read by this program alone, and ended again afterwards.

        Nobody else reaches the server, it takes no writes of clients, and follows nobody.  What a
        kill left in its logs becomes part of the data, as at any start.
        """
