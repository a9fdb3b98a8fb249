"""A backend whose masters elect who leads, and whose storages copy by themselves."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

from ..cluster import Cluster, Node, Role
from ..cluster.installation import Installation

RUNNING = "RUNNING"
PENDING = "PENDING"
UP_TO_DATE = "up_to_date"
CORRUPTED = "corrupted"
ANSWERS = "answers"
REFUSES = "refuses"
SILENT = "silent"


@dataclasses.dataclass(frozen=True)
class Member:
    """One node, as the cluster and the warden see it.

    Attributes:
        state: the cluster's word, such as RUNNING, PENDING or DOWN; empty when it knows no such
            node.
        ping: ``ANSWERS``, ``REFUSES`` (nothing listens) or ``SILENT``; empty when nobody knows.
        silent: seconds without an answer.
        cells: of a storage, how many partitions it has in each state, such as ``up_to_date``.
    """

    name: str
    role: Role
    state: str
    ping: str = ""
    silent: float = 0.0
    leads: bool = False
    cells: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """Whether it takes part and all that it has is up to date."""
        return self.state == RUNNING and self.ping != SILENT and set(self.cells) == {UP_TO_DATE}


@dataclasses.dataclass(frozen=True)
class Look:
    """A cluster at one moment.

    Attributes:
        at: seconds since 1970; nothing of it is older.
        state: the cluster's word, such as RUNNING; empty while it does not answer.
        writable: whether a write can be carried out, as far as can be said without one.
        wanted, copies: how many of each partition there are to be; how many of that of which
            the fewest are up to date.
        holders: for each partition, the storages that have an up-to-date copy and work.
    """

    at: float
    state: str
    writable: bool
    wanted: int
    copies: int
    members: tuple[Member, ...]
    holders: tuple[frozenset[str], ...]

    def member(self, name: str) -> Member:
        """KeyError when there is none of that name."""
        for each in self.members:
            if each.name == name:
                return each
        raise KeyError(name)

    @property
    def leader(self) -> str | None:
        return next((each.name for each in self.members if each.leads), None)

    def only_on(self, name: str) -> int:
        """How many partitions have no up-to-date copy on a storage other than this one."""
        return sum(not each - {name} for each in self.holders)

    def held_without(self, name: str) -> bool:
        """Whether the storages other than this one hold everything."""
        return bool(self.holders) and not self.only_on(name)


@runtime_checkable
class Electing(Protocol):
    """Questions and orders to such a cluster; each ends by its deadline (``time.monotonic``).

    Orders raise OperatorError: exit 1 refused, 6 nobody can be asked, 7 not known in time.
    """

    def look(self, cluster: Cluster, deadline: float) -> Look:
        """What is known without asking every node.  Raises ProbeError."""

    def ping(self, cluster: Cluster, installation: Installation, nodes: Iterable[Node],
             deadline: float) -> Mapping[str, str]:
        """Ask each node over a connection of its own: name to ``Member.ping``."""

    def last_transaction(self, cluster: Cluster, installation: Installation,
                         deadline: float) -> int | None:
        """Asked of the leading master just now; None when it doesn't answer."""

    def drop(self, cluster: Cluster, installation: Installation, node: Node,
             deadline: float) -> None:
        """Have the cluster forget a storage, which empties itself and ends if it runs.

        Refused unless the others hold everything.
        """

    def take_in(self, cluster: Cluster, installation: Installation, node: Node,
                deadline: float) -> None:
        """Make a storage that has come and is pending one of the cluster."""

    def spread(self, cluster: Cluster, installation: Installation, deadline: float) -> None:
        """Spread the partitions over the storages that run."""
