"""Silences: somebody has acknowledged an alert, so it is not sent for a limited time.

The journal holds them, so all hosts know them, and who, why and until when.  A silence ends at its
time or by an entry of its own.  The monitor writes such an entry when the alert has been gone for
some minutes.  A silence covers one level, node and text, so a worse alert is sent.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Iterable, Mapping

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.operations import journal
from indico_zodbrepl.operations.model import JsonValue
from indico_zodbrepl.operations.operation import Operation
from indico_zodbrepl.probing.answers import Alert

SILENCE = "silence"
END = "silence-end"
"""The kinds of the journal's entries; an END has the ids of those that it ends, in ``ends``."""
MOST_HOURS = 72.0
"""From a Friday evening to a Monday evening: an alert must not be forgotten over a whole week.

A longer repair needs somebody who looks at the alert again, and a reason that is still true.
"""
CLOCKS = 3600.0
"""Seconds by which the clocks of hosts may differ; an entry from later than that is ignored."""
Key = tuple[str, str, str]
"""Level, subject and text of an alert."""


@dataclasses.dataclass(frozen=True)
class Silence:
    """An alert that is not sent.

    Attributes:
        identifier: of its entry in the journal.
        by: who silenced it.
        began, until: seconds since 1970.
    """

    identifier: str
    key: Key
    by: str
    reason: str
    began: float
    until: float

    @property
    def level(self) -> str:
        return self.key[0]

    @property
    def alert_text(self) -> str:
        return self.key[2]

    def left(self, now: float) -> str:
        """Return the time left, in whole minutes: ``1 h 20 min``."""
        minutes = max(1, int((self.until - now) // 60) + 1)
        hours, minutes = divmod(minutes, 60)
        return f"{hours} h {minutes} min" if hours else f"{minutes} min"

    def text(self, now: float) -> str:
        """Return who silenced it, for how long and why, one line."""
        return f"silenced by {self.by} for {self.left(now)} more: {self.reason}"


def key_of(alert: Alert) -> Key:
    return alert.level.value, alert.subject, alert.text


def name_of(key: Key) -> str:
    """Return a short name of an alert, for commands and addresses: eight hex digits."""
    return hashlib.sha256("\0".join(key).encode()).hexdigest()[:8]


def read(cluster: Cluster) -> tuple[Silence, ...]:
    """Return the silences that nobody has ended, in order; some may be over.

    The journal is read again only after it has changed.  Raises OperatorError.

    Threads: any.
    """
    state = journal.state(cluster)
    return () if state is None else _of_state(cluster, state)


@functools.lru_cache(maxsize=2)
def _of_state(cluster: Cluster, _state: journal.FileState) -> tuple[Silence, ...]:
    entries, _notices = journal.read(cluster, part=f'"{SILENCE}'.encode())
    ended = {
        each
        for entry in entries
        if entry.plan.operation == END and isinstance(ends := entry.told.get("ends"), list)
        for each in map(str, ends)
    }
    made = (_of_entry(each) for each in entries if each.identifier not in ended)
    return tuple(each for each in made if each is not None)


def _of_entry(entry: Operation) -> Silence | None:
    level, subject, text, until = (
        entry.told.get(each) for each in ("level", "subject", "text", "until_at")
    )
    if (
        entry.plan.operation != SILENCE
        or not (isinstance(level, str) and isinstance(subject, str) and isinstance(text, str))
        or not isinstance(until, int | float)
    ):
        return None
    # A line that another release, or nobody's tool, has written must not silence for ever.
    until = min(until, entry.began + 3600 * MOST_HOURS)
    if not entry.began < until:
        return None
    key = level, subject, text
    return Silence(entry.identifier, key, entry.actor, entry.plan.reason, entry.began, float(until))


def active(silences: Iterable[Silence], now: float) -> dict[Key, Silence]:
    """Return the silences that are not over, by alert.

    Args:
        silences: in order; of several about one alert the last one counts.
        now: seconds since 1970.
    """
    found: dict[Key, Silence] = {}
    for each in silences:
        if each.began > now + CLOCKS:
            continue
        found.pop(each.key, None)
        latest = now + 3600 * MOST_HOURS
        if now < each.until:
            found[each.key] = (
                each if each.until <= latest else dataclasses.replace(each, until=latest)
            )
    return found


def named(alerts: Iterable[Alert], name: str) -> Alert:
    """Return the present alert of a name.  Raises OperatorError (exit 2) if there is none."""
    found = next((each for each in alerts if name_of(key_of(each)) == name), None)
    if found is None:
        raise OperatorError(
            f"there is no alert {name!r} now",
            "it may be over, or its text has changed",
            exit_code=ExitCode.BAD_CONFIG,
        )
    return found


def silenced(active: Mapping[Key, Silence], name: str) -> Silence:
    """Return the silence of the alert of a name, present or not.

    Raises OperatorError (exit 2) if there is none.
    """
    found = next((each for key, each in active.items() if name_of(key) == name), None)
    if found is None:
        raise OperatorError(
            f"the alert {name!r} is not silenced",
            "its silence may have ended",
            exit_code=ExitCode.BAD_CONFIG,
        )
    return found


def without_alert(active: Mapping[Key, Silence], alerts: Iterable[Alert]) -> list[Silence]:
    """Return the silences whose alert is not present."""
    present = {key_of(each) for each in alerts}
    return [each for key, each in active.items() if key not in present]


def check_hours(hours: float) -> None:
    """Raise OperatorError (exit 2) if a silence can't last that long."""
    if not 0 < hours <= MOST_HOURS:
        raise OperatorError(
            f"an alert can be silenced for up to {MOST_HOURS:g} hours",
            f"{hours:g} hours were asked for",
            exit_code=ExitCode.BAD_CONFIG,
        )


def silence(
    cluster: Cluster, alert: Alert, hours: float, reason: str, actor: str, *, now: float
) -> Silence:
    """Silence an alert from now on, and journal it.

    Raises OperatorError: exit 2, the time is out of bounds; others if the journal can't be written.
    """
    check_hours(hours)
    key = key_of(alert)
    until = round(now + 3600 * hours, 3)
    told: dict[str, JsonValue] = {
        "level": key[0],
        "subject": key[1],
        "text": key[2],
        "until_at": until,
    }
    entry = journal.note(cluster, SILENCE, key[1] or cluster.name, reason, actor, told=told)
    return Silence(entry.identifier, key, actor, reason, entry.began, until)


def end(cluster: Cluster, ended: Iterable[Silence], reason: str, actor: str) -> None:
    """End silences, and earlier ones of the same alerts, with one entry of the journal.

    There is no entry if all have ended already.  Raises OperatorError.
    """
    known, ended = read(cluster), tuple(ended)
    identifiers = [each.identifier for each in known]
    found = [
        known[index]
        for each in ended
        if each.identifier in identifiers
        for index in range(identifiers.index(each.identifier) + 1)
        if known[index].key == each.key
    ]
    if not found:
        return
    told: dict[str, JsonValue] = {
        "ends": [*(each.identifier for each in found)],
        "alerts": [*sorted({each.alert_text for each in found})],
    }
    subjects = {each.key[1] for each in found}
    subject = subjects.pop() if len(subjects) == 1 else ""
    journal.note(cluster, END, subject or cluster.name, reason, actor, told=told)
