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
        state: as the cluster reports it, such as RUNNING, PENDING or DOWN; empty if it knows no
            such node.
        ping: ``ANSWERS``, ``REFUSES`` (nothing listens) or ``SILENT``; empty if unknown.
        silent: seconds without an answer.
        cells: number of a storage's partitions in each state, such as ``up_to_date``.
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
        """Return True if the node is part of the cluster and all its data are up to date."""
        return self.state == RUNNING and self.ping != SILENT and set(self.cells) == {UP_TO_DATE}


@dataclasses.dataclass(frozen=True)
class Look:
    """The state of a cluster at one moment.

    Attributes:
        at: seconds since 1970; all facts are at least that recent.
        state: as the cluster reports it, such as RUNNING; empty while it does not answer.
        writable: True if a write would succeed, as far as is known without one.
        wanted, copies: the required number of copies of each partition; the number of up-to-date
            copies of the partition that has the fewest.
        holders: for each partition, the running storages with an up-to-date copy.
        majority: the number of masters that a leader needs, itself included.
    """

    at: float
    state: str
    writable: bool
    wanted: int
    copies: int
    members: tuple[Member, ...]
    holders: tuple[frozenset[str], ...]
    majority: int = 1

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
        """Return the number of partitions without an up-to-date copy on another storage."""
        return sum(not each - {name} for each in self.holders)

    def held_without(self, name: str) -> bool:
        """Return True if the other storages hold everything."""
        return bool(self.holders) and not self.only_on(name)


class Consensus(Protocol):
    """Queries and orders to a consensus cluster, each with a deadline (``time.monotonic``).

    Orders raise OperatorError: exit 1 refused, 6 no node answers, 7 no result in time.
    """

    def look(self, cluster: Cluster, deadline: float) -> Look:
        """Return what is known without asking every node.  Raises ProbeError."""

    def ping(
        self, cluster: Cluster, installation: Installation, nodes: Iterable[Node], deadline: float
    ) -> Mapping[str, str]:
        """Ping each node over a connection of its own; return the results by name."""

    def last_transaction(
        self, cluster: Cluster, installation: Installation, deadline: float
    ) -> int | None:
        """Ask the leading master for the last transaction; None if it does not answer."""

    def drop(
        self, cluster: Cluster, installation: Installation, node: Node, deadline: float
    ) -> None:
        """Make the cluster forget a storage, which empties its database and exits if it runs.

        Refused unless the others hold everything.
        """

    def take_in(
        self, cluster: Cluster, installation: Installation, node: Node, deadline: float
    ) -> None:
        """Add a pending storage to the cluster."""

    def spread(self, cluster: Cluster, installation: Installation, deadline: float) -> None:
        """Distribute the partitions over the running storages."""


class ConsensusServers(Defaults):
    """The part of ``IBackend`` that is the same for all consensus backends."""

    family = Family.CONSENSUS
    elects_leader = True
