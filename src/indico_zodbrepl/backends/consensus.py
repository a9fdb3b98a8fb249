"""Consensus backends: masters elect a leader, storages replicate among themselves."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Protocol

from indico_zodbrepl.backends.base import Defaults
from indico_zodbrepl.backends.interfaces import Family
from indico_zodbrepl.cluster import Cluster, Node, Role
from indico_zodbrepl.cluster.installation import Installation

RUNNING = "RUNNING"
PENDING = "PENDING"
UP_TO_DATE = "up_to_date"
CORRUPTED = "corrupted"
ANSWERS = "answers"
REFUSES = "refuses"
SILENT = "silent"


@dataclasses.dataclass(frozen=True)
class Member:
    """A node as the cluster and the NEO monitor see it.

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
        """Return True if the node takes part and all its data are up to date."""
        return self.state == RUNNING and self.ping != SILENT and set(self.cells) == {UP_TO_DATE}


@dataclasses.dataclass(frozen=True)
class Look:
    """The state of a cluster at one moment.

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
        """Return the node of that name; raise KeyError if there is none."""
        for each in self.members:
            if each.name == name:
                return each
        raise KeyError(name)

    @property
    def leader(self) -> str | None:
        return next((each.name for each in self.members if each.leads), None)

    def only_on(self, name: str) -> int:
        """Return how many partitions have no up-to-date copy on another storage."""
        return sum(not each - {name} for each in self.holders)

    def held_without(self, name: str) -> bool:
        """Return True if the other storages hold everything."""
        return bool(self.holders) and not self.only_on(name)


class Consensus(Protocol):
    """Queries and orders to a consensus cluster; each ends by its deadline (``time.monotonic``).

    Orders raise OperatorError: exit 1 refused, 6 nobody can be asked, 7 not known in time.
    """

    def look(self, cluster: Cluster, deadline: float) -> Look:
        """Return what is known without asking every node.  Raises ProbeError."""

    def ping(
        self, cluster: Cluster, installation: Installation, nodes: Iterable[Node], deadline: float
    ) -> Mapping[str, str]:
        """Ask each node over a connection of its own: name to ``Member.ping``."""

    def last_transaction(
        self, cluster: Cluster, installation: Installation, deadline: float
    ) -> int | None:
        """Ask the leading master for the last transaction; None if it does not answer."""

    def drop(
        self, cluster: Cluster, installation: Installation, node: Node, deadline: float
    ) -> None:
        """Have the cluster forget a storage, which empties itself and ends if it runs.

        Refused unless the others hold everything.
        """

    def take_in(
        self, cluster: Cluster, installation: Installation, node: Node, deadline: float
    ) -> None:
        """Make a storage that has come and is pending one of the cluster."""

    def spread(self, cluster: Cluster, installation: Installation, deadline: float) -> None:
        """Spread the partitions over the storages that run."""


class ConsensusServers(Defaults):
    """The part of ``IBackend`` that is the same for all consensus backends."""

    family = Family.CONSENSUS
    elects_leader = True
