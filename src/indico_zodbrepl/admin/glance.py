"""What is the same for all requests while a snapshot is the newest: made once, by the first."""

from __future__ import annotations

import dataclasses
import secrets
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from indico_zodbrepl.admin import topology
from indico_zodbrepl.admin.lags import Hour, Lags
from indico_zodbrepl.admin.languages import language
from indico_zodbrepl.admin.sparklines import Plot, plot
from indico_zodbrepl.admin.standing import Standing, standing
from indico_zodbrepl.admin.topology import Drawing
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.failover import store
from indico_zodbrepl.failover.offers import Offer, offers
from indico_zodbrepl.failover.operation import Operation, Progress, StepRecord
from indico_zodbrepl.failover.steps import Step
from indico_zodbrepl.monitor.advice import Procedure, advise
from indico_zodbrepl.monitor.snapshot import OpenOperation, Snapshot
from indico_zodbrepl.monitor.watcher import Sighting
from indico_zodbrepl.watch.history import FILE

MISSED = 10.0
"""Seconds without a sample after which the watching program counts as away."""


@dataclasses.dataclass(frozen=True)
class Banner:
    """The operation that has not ended.

    Attributes:
        seen: as the monitor told it.
        operation: with its plan; None when its file can't be used, or the monitor did not see it
            yet.
    """

    seen: OpenOperation
    operation: Operation | None

    @property
    def name(self) -> str:
        """Such as ``failover to b``."""
        if self.operation is None:
            return f"{self.seen.operation} of {self.seen.target}"
        return self.operation.plan.name

    @property
    def position(self) -> tuple[int, Step, StepRecord] | None:
        """Number, from 1, of the step that it has come to, with its record."""
        if self.operation is None:
            return None
        settled = (Progress.DONE, Progress.UNDONE)
        steps = zip(self.operation.plan.steps, self.operation.records, strict=True)
        return next(((number, step, record) for number, (step, record) in enumerate(steps, 1)
                     if record.progress not in settled), None)


@dataclasses.dataclass(frozen=True)
class Glance:
    """A snapshot with what is made of it.

    Attributes:
        procedures: the next steps in words.
        offers: what can be begun from the page, and why not what can't.
        banner: None when no operation is open.
        plots: the last hour's lag of each node; None where none was kept.
        away: for how many seconds the watching program has kept no lag; None when it does, or
            never did.
        version: changes when anything changes that pages show, but for the time.
    """

    sighting: Sighting
    procedures: tuple[Procedure, ...]
    offers: tuple[Offer, ...]
    banner: Banner | None
    standing: Standing
    wide: Drawing
    tall: Drawing
    hour: Hour
    plots: Mapping[str, Plot | None]
    away: float | None
    version: str
    _rendered: dict[tuple[str, str], str] = dataclasses.field(default_factory=dict)

    def once(self, name: str, caller: Callable[[], str]) -> str:
        """What a part of a page is, rendered by the first who asks; for a template's ``call``.

        Args:
            name: of a part that is the same for whoever looks in the same language.
        """
        which = name, language()
        found = self._rendered.get(which)
        if found is None:
            found = self._rendered[which] = caller()
        return found

    @property
    def next_step(self) -> Offer | None:
        """The next safe step, when it is one that can be begun from the page."""
        return next((offer for offer in self.offers if offer.urgent and not offer.why_not), None)

    def offers_of(self, name: str) -> list[Offer]:
        """What can be done to a node, what is possible first."""
        return sorted((offer for offer in self.offers if offer.target == name),
                      key=lambda offer: (bool(offer.why_not), not offer.urgent))


class Glances:
    """Makes a glance of each new snapshot, and keeps the last one.

    Threads: any.
    """

    def __init__(self, cluster: Cluster, home: Path) -> None:
        self._cluster = cluster
        self._home = home
        self._lags = Lags(Layout(cluster).watch / FILE)
        self._lock = threading.Lock()
        self._made: Glance | None = None
        self._shown: tuple[Any, ...] = ()
        self._start = secrets.token_hex(4)
        self._versions = 0

    def of(self, sighting: Sighting) -> Glance:
        """What is made of a snapshot; its age is the present one."""
        with self._lock:
            made = self._made
            if made is None or made.sighting.snapshot is not sighting.snapshot:
                made = self._made = self._make(sighting)
        return dataclasses.replace(made, sighting=sighting)

    def _make(self, sighting: Sighting) -> Glance:
        snapshot = sighting.snapshot
        banner = self._banner(snapshot)
        hour = self._lags.look(snapshot.taken_at)
        missed = 0.0 if hour.last is None else snapshot.taken_at - hour.last
        away = float(round(missed)) if missed > MISSED else None
        shown = _timeless(snapshot), banner, hour.nodes, hour.ends, hour.problem, away
        if shown != self._shown:
            self._shown = shown
            self._versions += 1
        at_work = banner is not None and banner.seen.at_work
        return Glance(
            sighting=sighting, procedures=advise(self._cluster, snapshot, self._home),
            offers=offers(self._cluster, snapshot, banner.operation if banner else None, at_work),
            banner=banner, standing=standing(snapshot), wide=topology.wide(snapshot),
            tall=topology.tall(snapshot), hour=hour,
            plots={node.name: plot(hour, node.name) for node in snapshot.nodes}, away=away,
            version=f"{self._start}-{self._versions}")

    def _banner(self, snapshot: Snapshot) -> Banner | None:
        if not snapshot.operations:
            return None
        seen = next((each for each in snapshot.operations if each.at_work),
                    snapshot.operations[0])
        try:
            found = store.unfinished(self._cluster)
        except OperatorError:
            return Banner(seen, None)  # a damaged file: the monitor's alert says what to do
        if found is None:
            return None  # it has ended since the monitor looked
        if found.identifier != seen.identifier:
            seen = next((each for each in snapshot.operations
                         if each.identifier == found.identifier), seen)
        same = found.identifier == seen.identifier
        return Banner(seen, found if same else None)


def _timeless(snapshot: Snapshot) -> Snapshot:
    """A snapshot without what is another one at each look though nothing has changed."""
    nodes = tuple(
        node if node.program is None else dataclasses.replace(
            node, program=dataclasses.replace(node.program, description=""))
        for node in snapshot.nodes)
    indico = tuple(
        instance if instance.program is None else dataclasses.replace(
            instance, program=dataclasses.replace(instance.program, description=""))
        for instance in snapshot.indico)
    return dataclasses.replace(snapshot, taken_at=0.0, duration=0.0, nodes=nodes, indico=indico)
