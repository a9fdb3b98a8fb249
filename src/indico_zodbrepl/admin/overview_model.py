"""The overview of a snapshot: made once, by the first request, and shared by all others."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from indico_zodbrepl.admin import lag_history, topology, topology_hosts
from indico_zodbrepl.admin.lag_history import Hour, Plot, plot
from indico_zodbrepl.admin.languages import language
from indico_zodbrepl.admin.topology import Drawing
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.monitor.node_status import NodeStatus
from indico_zodbrepl.monitor.snapshot import OpenOperation, Snapshot, State
from indico_zodbrepl.monitor.watcher import TimestampedSnapshot
from indico_zodbrepl.monitord.recorded import Reader, Recorded
from indico_zodbrepl.monitord.series import FINE
from indico_zodbrepl.operations import store
from indico_zodbrepl.operations.model import Step
from indico_zodbrepl.operations.offers import Offer, offers
from indico_zodbrepl.operations.operation import Operation, Progress, StepRecord
from indico_zodbrepl.operations.procedures import Procedure
from indico_zodbrepl.operations.recommend import procedures

logger = logging.getLogger(__name__)

MISSED = 10.0
"""Seconds without a sample after which the monitor process counts as stopped."""


@dataclasses.dataclass(frozen=True)
class Banner:
    """The operation that has not ended.

    Attributes:
        seen: as in the snapshot.
        operation: with its plan; None if its file is unusable, or it is newer than the snapshot.
    """

    seen: OpenOperation
    operation: Operation | None

    @property
    def name(self) -> str:
        """Return its name, such as ``failover to b``."""
        if self.operation is None:
            return f"{self.seen.operation} of {self.seen.target}"
        return self.operation.plan.name

    @property
    def position(self) -> tuple[int, Step, StepRecord] | None:
        """Return the number, from 1, of its present step, with the step and its record."""
        if self.operation is None:
            return None
        settled = (Progress.DONE, Progress.UNDONE)
        steps = zip(self.operation.plan.steps, self.operation.records, strict=True)
        return next(
            (
                (number, step, record)
                for number, (step, record) in enumerate(steps, 1)
                if record.progress not in settled
            ),
            None,
        )


@dataclasses.dataclass(frozen=True)
class Overview:
    """A snapshot and what follows from it.

    Attributes:
        procedures: the next steps in words.
        offers: operations that can begin, and others with the reason why not.
        banner: None if no operation is open.
        plots: the last hour's lag of each node; None without samples.
        away: seconds since the monitor process wrote the last lag; None if it is running, or never
            wrote any.
    """

    sighting: TimestampedSnapshot
    procedures: tuple[Procedure, ...]
    offers: tuple[Offer, ...]
    banner: Banner | None
    standing: Standing
    wide: Drawing
    tall: Drawing
    hour: Hour
    plots: Mapping[str, Plot | None]
    away: float | None
    _rendered: dict[tuple[str, str], str] = dataclasses.field(default_factory=dict)

    def once(self, name: str, caller: Callable[[], str]) -> str:
        """Return a part of a page, rendered by the first request; for a template's ``call``.

        Args:
            name: of a part that is the same for all readers of one language.
        """
        which = name, language()
        found = self._rendered.get(which)
        if found is None:
            found = self._rendered[which] = caller()
        return found

    @property
    def state(self) -> State:
        """Return the state of the cluster; unknown if its last snapshot is too old."""
        return State.UNKNOWN if self.sighting.stale else self.sighting.snapshot.state

    @property
    def icon(self) -> str:
        """Return the file of the icon of its state."""
        return f"icon-{State.CRITICAL if self.state is State.DOWN else self.state}.svg"

    @property
    def next_step(self) -> Offer | None:
        """Return the suggested operation, if the page can begin it."""
        return next((offer for offer in self.offers if offer.urgent and not offer.why_not), None)

    def offers_of(self, name: str) -> list[Offer]:
        """Return the offers of a node, possible ones first."""
        return sorted(
            (offer for offer in self.offers if offer.target == name),
            key=lambda offer: (bool(offer.why_not), not offer.urgent),
        )


class Overviews:
    """Makes the overview of each new snapshot, and keeps the last one.

    Threads: any.
    """

    def __init__(self, cluster: Cluster, home: Path, history: Reader) -> None:
        self._cluster = cluster
        self._home = home
        self._history = history
        self._problem = ""
        self._lock = threading.Lock()
        self._made: Overview | None = None

    def of(self, sighting: TimestampedSnapshot) -> Overview:
        """Return the overview of a snapshot, with its present age."""
        with self._lock:
            made = self._made
            if made is None or made.sighting.snapshot is not sighting.snapshot:
                made = self._made = self._make(sighting)
        return dataclasses.replace(made, sighting=sighting)

    def _make(self, sighting: TimestampedSnapshot) -> Overview:
        snapshot = sighting.snapshot
        banner = self._banner(snapshot)
        hour = self._hour(snapshot.taken_at)
        missed = 0.0 if hour.last is None else snapshot.taken_at - hour.last
        away = float(round(missed)) if missed > MISSED else None
        at_work = banner is not None and banner.seen.at_work
        wide, tall = topology.wide, topology.tall
        if snapshot.hosts:
            wide, tall = topology_hosts.wide, topology_hosts.tall
        return Overview(
            sighting=sighting,
            procedures=procedures(self._cluster, snapshot, self._home),
            offers=offers(self._cluster, snapshot, banner.operation if banner else None, at_work),
            banner=banner,
            standing=standing(snapshot),
            wide=wide(snapshot),
            tall=tall(snapshot),
            hour=hour,
            plots={node.name: plot(hour, node.name) for node in snapshot.nodes},
            away=away,
        )

    def _hour(self, now: float) -> Hour:
        try:
            recorded, problem = self._history.recorded(FINE, now), ""
        except OSError as error:
            recorded, problem = Recorded(FINE), f"{error.filename}: {error.strerror}"
            if problem != self._problem:
                logger.error("cannot read the history of lag: %s", problem)
        self._problem = problem
        return lag_history.hour(recorded, now, problem)

    def _banner(self, snapshot: Snapshot) -> Banner | None:
        if not snapshot.operations:
            return None
        seen = next((each for each in snapshot.operations if each.at_work), snapshot.operations[0])
        try:
            found = store.unfinished(self._cluster)
        except OperatorError:
            return Banner(seen, None)  # a damaged file: an alert says how to fix it
        if found is None:
            return None  # it has ended since the snapshot
        if found.identifier != seen.identifier:
            seen = next(
                (each for each in snapshot.operations if each.identifier == found.identifier), seen
            )
        same = found.identifier == seen.identifier
        return Banner(seen, found if same else None)


@dataclasses.dataclass(frozen=True)
class Standing:
    """The nodes that follow, or should follow, another one, by their lag.

    Attributes:
        level: names of nodes without lag.
        behind: nodes with lag, the largest first.
        unknown: names of nodes with unknown lag.
    """

    level: tuple[str, ...]
    behind: tuple[NodeStatus, ...]
    unknown: tuple[str, ...]


def standing(snapshot: Snapshot) -> Standing:
    """Sort the followers of a cluster by their lag."""
    following = [
        node for node in snapshot.nodes if node.assigned_role.follows and not node.writable_primary
    ]
    level = [node for node in following if node.lacks_nothing]
    unknown = [
        node for node in following if node.lag_seconds is None and node.lag_transactions is None
    ]
    behind = [node for node in following if node not in level and node not in unknown]
    behind.sort(key=lambda node: node.lag_seconds or 0.0, reverse=True)
    return Standing(
        tuple(node.name for node in level), tuple(behind), tuple(node.name for node in unknown)
    )
