"""The events that are sent while alerts are silenced.

Everything is shown, written and counted as always; only recipients get less.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.monitor.snapshot import Snapshot, State
from indico_zodbrepl.monitord.events import Event, Kind, Weight
from indico_zodbrepl.monitord.memory import AlertKey, Memory
from indico_zodbrepl.operations.silences import Silence, active, key_of, read
from indico_zodbrepl.probing.answers import Level

logger = logging.getLogger(__name__)


class Silences:
    """The silences of the journal.

    Threads: for one at a time.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: tuple[Silence, ...] = ()

    def now(self, moment: float) -> dict[AlertKey, Silence]:
        """Return the active silences; those known before if the journal can't be read."""
        try:
            self._known = read(self._cluster)
        except OperatorError as error:
            logger.warning("the silences can't be read: %s: %s", error.notice, error.detail)
        return active(self._known, moment)


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
