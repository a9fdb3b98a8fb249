"""The events that are sent while alerts are silenced.

Everything is shown, written and counted as always; only recipients get less.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence

from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.monitor.snapshot import Snapshot, State
from indico_zodbrepl.monitord.events import Event, Kind, Weight
from indico_zodbrepl.monitord.memory import AlertKey, Memory
from indico_zodbrepl.monitord.notifiers import DeliveryError, Notifier
from indico_zodbrepl.monitord.outage_records import ACTOR
from indico_zodbrepl.operations.silences import Silence, active, end, key_of, read, without_alert
from indico_zodbrepl.probing.answers import Level

logger = logging.getLogger(__name__)

GONE_AFTER = 300.0
"""Seconds for which an alert must be gone before its silence ends.

Longer than a restart or a lost connection, so an alert may come and go during a repair.  A failure
after that is a new one, which somebody has to know.
"""
GONE = f"the alert has been gone for {GONE_AFTER / 60:g} minutes"


class Silences:
    """The silences of the journal, and the recipient that journals the end of some.

    Threads: ``now`` is for one at a time; ``deliver`` for a notifier.
    """

    name = "silences"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: tuple[Silence, ...] = ()
        self._ended: dict[str, Silence] = {}
        self._notifier: Notifier | None = None

    def now(self, memory: Memory, snapshot: Snapshot) -> dict[AlertKey, Silence]:
        """Return the active silences; those known before if the journal can't be read.

        Ends those whose alert is gone, at once; a notifier journals that.
        """
        try:
            self._known = read(self._cluster)
        except OperatorError as error:
            logger.warning("the silences can't be read: %s: %s", error.notice, error.detail)
        known = (each for each in self._known if each.identifier not in self._ended)
        found = active(known, snapshot.taken_at)
        gone = outlived(memory, snapshot, found)
        if gone:
            self._ended |= {each.identifier: each for each in gone}
            if self._notifier is None:
                self._notifier = Notifier(self, _lost, give_up_after=math.inf)
                self._notifier.start()
            self._notifier.take(
                [
                    Event(snapshot.taken_at, Kind.WATCH, Weight.NOTICE, each.key[1], GONE)
                    for each in gone
                ]
            )
        return {key: each for key, each in found.items() if each not in gone}

    def deliver(self, _events: Sequence[Event]) -> None:
        """Journal the end of each silence that was ended here; see ``Recipient``."""
        try:
            end(self._cluster, tuple(self._ended.values()), GONE, ACTOR)
        except OperatorError as error:
            raise DeliveryError(f"{error.notice}: {error.detail}") from error


def _lost(name: str, _events: Sequence[Event], reason: str) -> None:
    logger.warning("%s: %s", name, reason)


def outlived(
    memory: Memory, snapshot: Snapshot, silences: Mapping[AlertKey, Silence]
) -> list[Silence]:
    """Return the silences whose alert has been gone for ``GONE_AFTER``; pure.

    Updates ``memory``: since when it is gone.
    """
    now, before = snapshot.taken_at, memory.absent
    if snapshot.state is State.UNKNOWN:
        return []  # without an answer nobody knows which alerts are gone
    memory.absent = {
        each.identifier: min(before.get(each.identifier, now), now)
        for each in without_alert(silences, snapshot.warnings)
    }
    return [
        each
        for each in silences.values()
        if now - memory.absent.get(each.identifier, now) >= GONE_AFTER
    ]


def ended(memory: Memory, snapshot: Snapshot, silences: Mapping[AlertKey, Silence]) -> list[Event]:
    """Return an event for each alert that still holds when its silence has ended; pure.

    Updates ``memory``: the alerts that are silenced now.
    """
    found = [
        Event(
            snapshot.taken_at,
            Kind.ALERT,
            Weight(alert.level.value),
            alert.subject,
            alert.text,
            f"its silence has ended. {alert.detail}".strip(),
            alert.hint,
            alert=key_of(alert),
        )
        for alert in snapshot.warnings
        if key_of(alert) in memory.silenced and key_of(alert) not in silences
    ]
    over = {event.alert for event in found}
    memory.silenced = {
        key
        for key in memory.alerts
        if key in silences or (key in memory.silenced and key not in over)
    }
    return found


def to_send(
    memory: Memory,
    snapshot: Snapshot,
    silences: Mapping[AlertKey, Silence],
    events: Sequence[Event],
) -> list[Event]:
    """Return the events that recipients get; pure.  Call it before ``ended``.

    Without silenced alerts and their ends.  The state degraded is left out, too, if silenced
    warnings alone cause it and recipients know no worse state, and then the return to healthy.
    """
    silent = {*silences, *memory.silenced}
    causes = {key_of(each) for each in snapshot.warnings if each.level is not Level.NOTICE}
    known = memory.sent_state
    found = []
    for event in events:
        if event.kind is Kind.STATE:
            quiet = (
                snapshot.state is State.DEGRADED
                and known in (None, State.HEALTHY, State.DEGRADED)
                and causes
                and causes <= silent
                and not any(each.level is Level.CRITICAL for each in snapshot.warnings)
            )
            back = snapshot.state is State.HEALTHY and known == State.HEALTHY
            if quiet or back:
                continue
            memory.sent_state = snapshot.state.value
        elif event.alert in silent:
            continue
        found.append(event)
    return found
