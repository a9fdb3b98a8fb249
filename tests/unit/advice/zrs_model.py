"""A small, pure model of a ZRS cluster on one host: what each node's disk and server hold.

A transaction is a number; a data file is the tuple of its transactions, in order.  Two files have
the same history up to the first place where they differ.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Iterator

from situations import HOME

from indico_zodbrepl.cluster.model import Cluster, Node, NodeState, Role
from indico_zodbrepl.cluster.programs import Admin, IndicoInstance
from indico_zodbrepl.host.history import Condition, Lineage
from indico_zodbrepl.monitor.node_status import StartRefusal

Transactions = tuple[int, ...]
INDICO = "one"


class Program(enum.StrEnum):
    """What runs for a node, and why not."""

    RUNNING = "running"
    STOPPED = "stopped"
    REFUSED = "refused"
    CRASHED = "crashed"
    FROZEN = "frozen"


class Supervisor(enum.StrEnum):
    """Supervisord: it works, it was killed while its programs ran on, or it is frozen."""

    WORKS = "works"
    AWAY = "away"
    SILENT = "silent"


@dataclasses.dataclass(frozen=True)
class Member:
    """One node.

    Attributes:
        state: its state file; None if that is lost with its folder.
        running: the state with which its server runs; None if it does not.
        linked: False if its link does not come back before it is restarted.
        file: the transactions of its data file.
        readable: False if the end of its data file can't be read.
        lineage: its history file; None if there is none.
        full: True if its disk is full.
        refusal: why its last start was refused.
        orphan: True if a supervisord that was killed had started its server.
        told: True if its server, a primary, was told that there is a later epoch.
    """

    name: str
    state: NodeState | None
    running: NodeState | None
    program: Program
    file: Transactions
    lineage: Lineage | None
    linked: bool = True
    readable: bool = True
    full: bool = False
    refusal: StartRefusal | None = None
    told: bool = False
    orphan: bool = False

    @property
    def serves(self) -> bool:
        """Return True if its server answers."""
        return self.running is not None and self.program is Program.RUNNING

    @property
    def has_process(self) -> bool:
        return self.program in (Program.RUNNING, Program.FROZEN)

    @property
    def has_folder(self) -> bool:
        return self.state is not None or bool(self.file)

    @property
    def condition(self) -> Condition | None:
        return None if self.lineage is None else self.lineage.condition

    @property
    def last(self) -> int:
        return self.file[-1] if self.file else 0


@dataclasses.dataclass(frozen=True)
class Operation:
    """An interrupted operation.

    Attributes:
        kind: failover or rejoin.
        source: the old primary of a failover.
        past: True if it is past its point of no return.
        failed: True if a step past it has failed already, so that it stopped.
    """

    kind: str
    target: str
    past: bool = False
    source: str = "a"
    damaged: bool = False
    failed: bool = False


@dataclasses.dataclass(frozen=True)
class World:
    """A cluster at one moment, and what was done for its transactions.

    Attributes:
        shape: a key of SHAPES.
        record: the epoch and the primary that the epoch records name.
        safe: transactions that are in an export or in a kept folder.
        named: transactions whose loss a plan named before it was executed.
    """

    shape: str
    members: tuple[Member, ...]
    record: tuple[int, str]
    supervisor: Supervisor = Supervisor.WORKS
    indico: bool = True
    operation: Operation | None = None
    safe: frozenset[int] = frozenset()
    named: frozenset[int] = frozenset()

    def __getitem__(self, name: str) -> Member:
        return next(each for each in self.members if each.name == name)

    def with_(self, name: str, **changes: object) -> World:
        """Return the world with a changed node."""
        members = tuple(
            dataclasses.replace(each, **changes) if each.name == name else each  # type: ignore[arg-type]
            for each in self.members
        )
        return dataclasses.replace(self, members=members)

    @property
    def cluster(self) -> Cluster:
        return SHAPES[self.shape]

    @property
    def acknowledged(self) -> frozenset[int]:
        """Return every transaction that any node holds."""
        return frozenset(number for each in self.members for number in each.file)

    def settled(self) -> World:
        """Return the world once replication has done what it does without an operator.

        A connected follower gets what its upstream has, if its disk has room.
        """
        world = self
        for _round in self.members:
            for each in world.members:
                above = world.upstream_of(each)
                if above is not None and each.file != above.file and not each.full:
                    world = world.with_(each.name, file=above.file)
        return world

    def upstream_of(self, member: Member) -> Member | None:
        """Return the node that a server follows; None if it is not connected to it."""
        if not member.serves or member.running is None or member.running.upstream is None:
            return None
        above = self[member.running.upstream]
        if not above.serves or above.running is None or not member.linked:
            return None
        if not above.running.role.has_followers or not begins_with(above.file, member.file):
            return None  # the upstream refuses a follower whose last transaction it lacks
        return None if member.full and member.file != above.file else above

    def writers(self) -> Iterator[Member]:
        """Yield the running primaries that take writes, also in a split brain."""
        for each in self.members:
            if (
                each.serves
                and each.running is not None
                and each.running.role is Role.PRIMARY
                and not each.told
            ):
                yield each


def begins_with(file: Transactions, start: Transactions) -> bool:
    """Return True if the first file continues the second one."""
    return file[: len(start)] == start


def common(one: Transactions, other: Transactions) -> Transactions:
    """Return what two files have in common from their beginning on."""
    for index, (first, second) in enumerate(zip(one, other, strict=False)):
        if first != second:
            return one[:index]
    return min(one, other, key=len)


def lineage(epoch: int, condition: Condition = Condition.OK, *, writable: bool = False) -> Lineage:
    """Return the history file of a node that was compared in an epoch."""
    return Lineage(None, None, None, epoch, writable, condition, "", "2026-01-01T00:00:00Z")


def _cluster(*nodes: tuple[str, Role, str | None]) -> Cluster:
    made = [
        Node(
            name,
            "127.0.0.1",
            8101 + 10 * number,
            8102 + 10 * number,
            HOME / "var/node" / name,
            role,
            upstream,
        )
        for number, (name, role, upstream) in enumerate(nodes, 1)
    ]
    return Cluster(
        name="demo",
        backend="zrs",
        nodes=tuple(made),
        indico=(IndicoInstance(INDICO, "127.0.0.1", 8105),),
        admin=Admin("127.0.0.1", 8100),
        var_directory=HOME / "var",
        reconnect_delay=1.0,
        keep_alive_delay=5.0,
        allow_public_addresses=False,
        source=HOME / "etc/cluster.conf",
    )


SHAPES = {
    "pair": _cluster(("a", Role.PRIMARY, None), ("b", Role.SECONDARY, "a")),
    "chain": _cluster(
        ("a", Role.PRIMARY, None), ("b", Role.RELAY, "a"), ("c", Role.SECONDARY, "b")
    ),
    "fan": _cluster(
        ("a", Role.PRIMARY, None), ("b", Role.SECONDARY, "a"), ("c", Role.SECONDARY, "a")
    ),
}


def first_state(cluster: Cluster, node: Node, epoch: int) -> NodeState:
    """Return the state of a node as cluster.conf has it, in an epoch."""
    return NodeState(cluster.name, node.name, node.role, node.upstream, epoch)


def states(members: Iterable[Member]) -> dict[str, NodeState]:
    """Return the state files that exist."""
    return {each.name: each.state for each in members if each.state is not None}
