"""Process each snapshot: write files, detect events and notify recipients."""

from __future__ import annotations

import collections
import logging
import threading
import time
from collections.abc import Callable, Sequence

from indico_zodbrepl.backends import backend_of, can
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.cluster.programs import Watch
from indico_zodbrepl.host.history import Condition
from indico_zodbrepl.host.last_seen import LastSeen, parse
from indico_zodbrepl.monitor import shared
from indico_zodbrepl.monitor.findings import Findings
from indico_zodbrepl.monitor.snapshot import Snapshot
from indico_zodbrepl.monitord import events as rules
from indico_zodbrepl.monitord import files, memory
from indico_zodbrepl.monitord.events import Event, Kind, Weight
from indico_zodbrepl.monitord.history import FILE, Store
from indico_zodbrepl.monitord.intent import intents
from indico_zodbrepl.monitord.last_seen import last_seen
from indico_zodbrepl.monitord.notifiers import Notifier
from indico_zodbrepl.monitord.outage_records import later_on
from indico_zodbrepl.monitord.outages import outages
from indico_zodbrepl.monitord.recorded import Reader
from indico_zodbrepl.monitord.sampling import Sampler
from indico_zodbrepl.monitord.silencing import Silences, ended, to_send
from indico_zodbrepl.operations import facts
from indico_zodbrepl.operations.facts import Situation

logger = logging.getLogger(__name__)

EVENTS_BYTES = 1024 * 1024
EVENTS_KEPT = 5


class EventDetector:
    """The consumer of snapshots: writes files, detects events and passes them on.

    Args:
        cluster: the cluster; VAR/watch exists, and no other process writes to it.
        watch: its settings.
        show: shows one event to people; any thread may call it.

    Attributes:
        notifiers: they receive the events of each moment.
        journal: receives the outages; None to write none into the journal.
        history: reads the measurements that this detector keeps.
        lags: the present lag of each follower in seconds; None if unknown.

    Threads: ``see`` and ``tell`` are for one at a time; what it counts may be read by any.
    """

    def __init__(self, cluster: Cluster, watch: Watch, show: Callable[[Event], None]) -> None:
        layout = Layout(cluster)
        self.history = Reader(layout.watch / FILE)
        self.lags: dict[str, float | None] = {}
        self.counted: collections.Counter[str] = collections.Counter()
        self.snapshots = 0
        self.latest: tuple[Snapshot, float] | None = None
        self.unwritten = 0
        self.notifiers: list[Notifier] = []
        self.journal: Notifier | None = None
        self._cluster = cluster
        self._watch = watch
        self._commands = Commands.here(cluster)
        self._show = show
        self._layout = layout
        self._store = Store(layout.watch / FILE)
        self._sampler = Sampler()
        self._memory_file = layout.watch / "memory.json"
        self._memory = memory.from_json(files.read(self._memory_file))
        self._events = files.Lines(layout.watch / rules.FILE, EVENTS_BYTES, EVENTS_KEPT)
        self._last_seen = parse(files.read(layout.last_seen))
        self._silences = Silences(cluster)
        self._failing: set[str] = set()
        self._lock = threading.Lock()
        self._telling = threading.Lock()
        self._ended = False

    def every_notifier(self) -> Sequence[Notifier]:
        """Return the notifiers, and that of the journal if there is one."""
        return [*self.notifiers, *([] if self.journal is None else [self.journal])]

    def see(self, findings: Findings, snapshot: Snapshot, besides: Sequence[Event] = ()) -> None:
        """Process one round of probes, raw and judged; it is newer than all before.

        Args:
            besides: events from other sources; they are reported first.
        """
        with self._telling:
            if not self._ended:
                self.tell(besides)
                self._see(findings, snapshot)

    def end(self, patience: float = 0.5) -> None:
        """Process and report nothing any more.

        Args:
            patience: seconds to wait for processing under way, which a hung disk may delay.
        """
        got = self._telling.acquire(timeout=patience)
        self._ended = True
        if got:
            close = threading.Thread(
                target=lambda: self._write(FILE, self._store.close), name="closing", daemon=True
            )
            close.start()
            close.join(patience)
            self._telling.release()

    def _see(self, findings: Findings, snapshot: Snapshot) -> None:
        self.latest = snapshot, time.monotonic()
        self.snapshots += 1
        shared_file = shared.path(self._cluster)
        self._write(shared_file.name, lambda: shared.write(shared_file, snapshot))
        seen = last_seen(snapshot)
        now = parse(seen)
        if seen is not None and not self._went_back(now):
            self._write("last-seen.json", lambda: files.replace(self._layout.last_seen, seen))
            self._last_seen = now
        found = rules.events(self._memory, snapshot, self._watch.lag_limit)
        if backend_of(self._cluster).has_epochs and can(self._cluster, "failover"):
            found += intents(
                self._memory,
                self._situation(findings, snapshot),
                self._watch.failover_after,
                self._commands,
            )
        silences = self._silences.now(self._memory, snapshot)
        sent = to_send(self._memory, snapshot, silences, found)
        again = ended(self._memory, snapshot, silences)
        self.tell([*found, *again], [*sent, *again])
        try:  # what waits for a disk or for the primary comes after the alerts
            self._measure(findings, snapshot)
        finally:
            self._write(
                "memory.json", lambda: files.replace(self._memory_file, self._memory.to_json())
            )

    def _measure(self, findings: Findings, snapshot: Snapshot) -> None:
        """Report an outage that has ended, and keep the measurements of this round."""
        later = later_on(self._cluster, snapshot.primary) if snapshot.primary else _no_primary
        self.tell(list(outages(self._memory, snapshot, later, findings.epoch_began)))
        self.lags = {
            node.name: rules.behind(self._memory, node, snapshot.taken_at)
            for node in snapshot.nodes
            if node.name != snapshot.primary
            and (node.assigned_role.follows or node.lag_seconds is not None)
        }
        measured = self._sampler.measured(findings, snapshot, self.lags)
        self._write(FILE, lambda: self._store.add(snapshot.taken_at, measured))

    def _went_back(self, seen: LastSeen | None) -> bool:
        """Return True if a primary has fewer transactions than before; that is not recorded."""
        before = self._last_seen
        return (
            seen is not None
            and before is not None
            and (seen.primary, seen.epoch) == (before.primary, before.epoch)
            and seen.last_tid < before.last_tid
        )

    def tell(self, events: Sequence[Event], sent: Sequence[Event] | None = None) -> None:
        """Report the events of one moment: to people, to the file and to the notifiers.

        Args:
            sent: those for the notifiers, as alerts may be silenced; None: all.
        """
        if not events:
            return
        for event in events:
            self.counted[event.kind.value] += 1
            self._show(event)
            self._keep(event)
        sent = events if sent is None else sent
        for notifier in self.notifiers if sent else ():
            notifier.take(sent)
        over = [event for event in events if event.outage is not None]
        if self.journal is not None and over:
            self.journal.take(over)

    def lost(self, notifier: str, events: Sequence[Event], reason: str) -> None:
        """Record in the file that a notifier gave up events; any thread may call it."""
        what = "1 event" if len(events) == 1 else f"{len(events)} events"
        event = Event(
            time.time(),
            Kind.WATCH,
            Weight.WARNING,
            "",
            f"{notifier}: {what} could not be delivered",
            reason,
        )
        self._show(event)
        self._keep(event)

    def _situation(self, findings: Findings, snapshot: Snapshot) -> Situation:
        """Return the input of a failover's planner, without slow comparisons."""
        conditions = {
            node.name: str(node.condition)
            for node in snapshot.nodes
            if node.condition not in (None, Condition.OK)
        }
        found, holders = facts.look(self._cluster, snapshot.nodes)
        return Situation(
            snapshot.taken_at,
            findings,
            snapshot,
            {},
            conditions,
            {},
            found,
            self._last_seen,
            holders=holders,
        )

    def _keep(self, event: Event) -> None:
        self._write(rules.FILE, lambda: self._events.append(event.to_json()))

    def _write(self, name: str, write: Callable[[], None]) -> None:
        """Write a file; a failure must not keep the others from being reported."""
        try:
            with self._lock:
                write()
        except OSError as error:
            self.unwritten += 1
            if name not in self._failing:
                logger.error("%s cannot be written: %s", self._layout.watch / name, error)
            self._failing.add(name)
        else:
            if name in self._failing:
                logger.info("%s is written again", self._layout.watch / name)
            self._failing.discard(name)


def _no_primary(_after: int) -> int | None:
    return None
