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
    from indico_zodbrepl.backends.acknowledging import CommitsLook
    from indico_zodbrepl.cluster import Cluster, Endpoint, Node, NodeState
    from indico_zodbrepl.cluster.installation import Installation
    from indico_zodbrepl.cluster.model import Synchronous, SyncLevel
    from indico_zodbrepl.cluster.rendering import Program
    from indico_zodbrepl.probing.answers import AckState, ServerAnswer
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
"""Operations that a backend may lack: key of ``limits`` to its commands.

Who has no such key has to carry the commands out; `node start`, `stop` and `fence` are for every
node that has a program.
"""

FEATURES = ("undo", "pack", "blobs", "size", "two-instances")
"""Features that Indico may lack with a backend: the other keys of ``limits``."""


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

    The first part computes from its arguments alone: it reads no file, asks no server, and raises
    only KeyError, for an unknown node.  The second part acts, ends in limited time, and raises
    OperatorError.  The third part queries servers, ends by its deadline, a moment of
    ``time.monotonic``, whatever the server does, and raises ProbeError.

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
    needs_guard: bool = Attribute(
        "True if its servers can't end their commits at the end of a lease, so that another "
        "process has to kill them."
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
        """Raise OperatorError (exit 4) if a program of the engine is missing; name its package."""

    def make_passwords(cluster: Cluster) -> None:
        """Make the passwords that servers and clients share, in ``Layout.secrets``, if missing.

        With several hosts one makes them, and the others get them.  Raises OperatorError (exit 8).
        """

    def prepare(cluster: Cluster, installation: Installation, state: NodeState) -> Iterable[str]:
        """Create a node's data, if it has none, before its server starts in this state.

        The node has passed its start-up check.  Returns remarks for the operator, one line each.
        Raises OperatorError (exit 8 if the node must not start).
        """

    def has_data(cluster: Cluster, node: Node) -> bool:
        """Return True if a node has data and they are accessible; raise nothing."""

    def data_file(node: Node) -> Path | None:
        """Return the path of a node's Data.fs; None if the storage keeps its data elsewhere."""

    def packed_nodes(cluster: Cluster) -> tuple[Node, ...]:
        """Return the nodes to pack one after the other; none if one pack serves all."""

    def retry_seconds(cluster: Cluster) -> float | None:
        """Return the delay between a follower's connection attempts; None if not configured."""

    def not_kept(cluster: Cluster) -> tuple[str, ...]:
        """Return the data that a conversion into the cluster drops, one phrase for each kind."""

    def share_of_data(cluster: Cluster) -> Mapping[str, float]:
        """Return each managed node's share of the data, by name; 1.0 means all of it."""

    def blocks_without_followers(cluster: Cluster) -> bool:
        """Return True if commits block until a follower has confirmed them."""

    def settle(
        cluster: Cluster, installation: Installation, state: NodeState, deadline: float
    ) -> None:
        """Finish the start of a node whose server listens: the part that needs a running server.

        Idempotent.  ``deadline`` is a moment of ``time.monotonic``.
        """

    def direct_clients(cluster: Cluster, primary: Node) -> None:
        """Make the clients of this host use a primary; running ones notice at once.

        Raises OperatorError (exit 1).
        """

    def found(
        cluster: Cluster, installation: Installation, progress: Progress, deadline: float
    ) -> None:
        """Create what Indico needs once the servers listen: users, databases, schema."""

    def ask(cluster: Cluster, node: Node, deadline: float) -> ServerAnswer:
        """Return what a node's server reports."""

    def compare(
        cluster: Cluster, node: Node, primary: Node, answer: ServerAnswer, deadline: float
    ) -> Iterator[Comparison]:
        """Yield comparisons of a follower with its primary; later ones have more detail."""


@dataclasses.dataclass(frozen=True)
class Alone:
    """The way to read the data of a stopped node.

    Attributes:
        conf: read-only ZODB configuration of a server that was started for this program alone; None
            if none was needed, because the upstream has everything.
        contained: True if the engine's own logs show that the upstream has everything.
        needs_copy: why it cannot follow from its own data, although nothing is lost; empty if it
            can, or if that is unknown.
    """

    conf: str | None
    contained: bool
    needs_copy: str = ""


class NativeReplication(Protocol):
    """The additions of a native replication backend to ``IBackend``.

    Each method has a time limit and raises OperatorError.

    Attributes:
        leave_seconds: for which a follower needs to leave an upstream on a lost host.
    """

    leave_seconds: float

    def promote(
        self, cluster: Cluster, installation: Installation, state: NodeState, deadline: float
    ) -> Iterable[str]:
        """Make a node's running server accept writes, in place, and redirect the clients to it.

        State file and records already name the node as the primary, and no other node takes writes.
        Returns remarks for the operator, one line each.
        """

    def look_at_commits(
        self, cluster: Cluster, node: Node, before: str, deadline: float, *, settled: bool
    ) -> CommitsLook | None:
        """Return who confirms the commits of a primary of this host; None if it is none.

        None too while its data are created, which no follower can confirm.

        Args:
            before: position of the last look; empty for the first one.
            settled: False if commits were acknowledged that followers may lack.  A follower that
                has not received ``before`` is then left out.
        """

    def set_commits(
        self, cluster: Cluster, node: Node, state: AckState, wanted: Synchronous, deadline: float
    ) -> None:
        """Let a primary of this host acknowledge commits as a state says, and show the state."""

    def can_confirm(self, cluster: Cluster, level: SyncLevel) -> bool:
        """Return True if running followers confirm commits with a level if their primary asks."""

    def detach(self, cluster: Cluster, node: Node, deadline: float) -> int:
        """Let a running follower leave its upstream, and apply everything that it has received.

        Returns the position of what it has received, which is final: a number that can be compared
        with those of other followers of the same primary and epoch.  Idempotent.

        Raises OperatorError: exit 8, it did not apply all in time, or is no follower.
        """

    def attach(self, cluster: Cluster, state: NodeState, deadline: float) -> None:
        """Let a detached follower follow the upstream of its state again.

        Nothing happens to any other node.
        """

    def redirect(self, cluster: Cluster, state: NodeState, deadline: float) -> None:
        """Let a running follower, detached or not, follow the upstream of its new state, in place.

        Raises OperatorError: exit 8, it is no follower; others if it does not answer.
        """

    def has_joined(self, cluster: Cluster, node: Node, upstream: Node, deadline: float) -> bool:
        """Return True if a follower of this host gets the log of a primary.

        A server sends its log only to one whose own log is a part of it.  Raises OperatorError if
        one of them does not answer.
        """

    def recovery_watch(self, node: Node) -> Callable[[], bool]:
        """Return a function that says if a node's server waits in vain in its recovery.

        Such a server refuses all clients, and always will: nobody has the log that it needs.  Call
        the function every few seconds, on the node's host, while the server refuses clients.
        """

    def waits_for_room(self, node: Node, deadline: float) -> bool:
        """Return True if a server waits for room on its disk, although that has some.

        Runs on the node's host.
        """

    def has_led(self, node: Node) -> bool:
        """Return True if a node's data were a primary's since they were made or joined another.

        False without data.  Asks no server.
        """

    def log_end(self, cluster: Cluster, node: Node) -> str:
        """Return the position in its log with which a node's server stopped cleanly.

        Runs on the node's host.  Raises OperatorError (exit 8): it did not, or that is unknown.
        """

    def prove(self, cluster: Cluster, node: Node, primary: Node, end: str, deadline: float) -> str:
        """Wait until a running follower has everything that a cleanly stopped primary had.

        Args:
            end: the primary's ``log_end``.

        Returns what was compared, one line.  Raises OperatorError: exit 8 if the follower lacks
        something, 7 at the deadline.
        """

    def keeps_history(self, cluster: Cluster) -> bool:
        """Return True if the database keeps older revisions and their authors."""

    def data_folder(self, node: Node) -> Path:
        """Return the folder of the database server's data; without it a node starts empty."""

    def open_alone(
        self, cluster: Cluster, node: Node, upstream: Node, deadline: float
    ) -> AbstractContextManager[Alone]:
        """Open a stopped node's data for this program alone; they are closed again afterwards.

        No other program can reach the server; it accepts no client writes and follows no node.
        After a kill, the server recovers its logs, as at any start.
        """
