"""Silences: somebody has acknowledged an alert, so it is not sent for a limited time.

The journal holds them, so all hosts know them, and who, why and until when.  A silence ends
automatically or by an entry of its own.  It covers one level, node and text, so a worse alert is
sent.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.operations import journal
from indico_zodbrepl.operations.model import JsonValue
from indico_zodbrepl.operations.operation import Operation
from indico_zodbrepl.probing.answers import Alert

SILENCE = "silence"
END = "silence-end"
"""The kinds of the journal's entries."""
MOST_HOURS = 72.0
"""From a Friday evening to a Monday evening: an alert must not be forgotten over a whole week.

A longer repair needs somebody who looks at the alert again, and a reason that is still true.
"""
Key = tuple[str, str, str]
"""Level, subject and text of an alert."""


@dataclasses.dataclass(frozen=True)
class Silence:
    """An alert that is not sent.

    Attributes:
        by: who silenced it.
        until: seconds since 1970.
    """

    key: Key
    by: str
    reason: str
    until: float

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


def active(entries: Iterable[Operation], now: float) -> dict[Key, Silence]:
    """Return the silences that have not ended, by alert.

    Args:
        entries: of the journal, in order; of several about one alert the last one counts.
        now: seconds since 1970.
    """
    found: dict[Key, Silence] = {}
    for entry in entries:
        if entry.plan.operation not in (SILENCE, END):
            continue
        level, text, until = (entry.told.get(each) for each in ("level", "text", "until_at"))
        subject = entry.told.get("subject")
        if not (isinstance(level, str) and isinstance(subject, str) and isinstance(text, str)):
            continue
        key = level, subject, text
        found.pop(key, None)
        if entry.plan.operation == END or not isinstance(until, int | float):
            continue
        # A line that another release, or nobody's tool, has written must not silence for ever.
        until = min(float(until), entry.began + 3600 * MOST_HOURS)
        if now < until:
            found[key] = Silence(key, entry.actor, entry.plan.reason, until)
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
    made = Silence(key_of(alert), actor, reason, now + 3600 * hours)
    told = {**_told(made.key), "until_at": round(made.until, 3)}
    journal.note(cluster, SILENCE, made.key[1] or cluster.name, reason, actor, told=told)
    return made


def end(cluster: Cluster, alert: Alert, reason: str, actor: str) -> None:
    """End the silence of an alert, and journal it.  Raises OperatorError."""
    told = _told(key_of(alert))
    journal.note(cluster, END, alert.subject or cluster.name, reason, actor, told=told)


def _told(key: Key) -> dict[str, JsonValue]:
    return {"level": key[0], "subject": key[1], "text": key[2]}
