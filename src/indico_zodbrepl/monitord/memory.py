"""The memory of the monitor process: what it has reported, kept over restarts."""

from __future__ import annotations

import dataclasses
from typing import Any

from indico_zodbrepl.cluster import formats

AlertKey = tuple[str, str, str]
"""Level, subject and text of an alert."""
FORMAT = formats.MEMORY.known


@dataclasses.dataclass
class Ongoing:
    """An outage that has not been reported yet.  Moments are seconds since 1970.

    Attributes:
        since: when saving was last seen to be possible.
        seen: when it was first seen to be impossible; None if only the primary changed.
        ended: when it was first seen to be possible again.
        last: id of the last transaction before it, as far as is known.
        leads: the primary before it and its epoch.
        blind: True if the monitor did not run when it began.
    """

    since: float
    seen: float | None
    ended: float | None
    last: int
    leads: tuple[str, int | None] | None
    blind: bool


@dataclasses.dataclass
class Memory:
    """The situation as reported so far.  For one thread.

    Attributes:
        state: the overall state that was reported last; None before the first snapshot.
        better_since: since when the state has been better than the reported one.
        primary: the last writable primary.
        roles: last known role and epoch of each node; no epoch where the backend has none.
        alerts: when each reported alert was last seen, seconds since 1970.
        behind_since: since when each node that is behind has been so.
        lagging: nodes whose lag was reported, and its maximum, in seconds.
        gone, gone_since: the primary that does not serve, and since when; None if it serves.
        gone_told: what was reported about that; empty for nothing.
        watched: when the last snapshot was taken.
        saved: the primary's last transaction when saving was last possible.
        leads: the primary then, and its epoch.
        silenced: the present alerts that are silenced.
        absent: since when the alert of each silence has been gone, by the silence's id.
        sent_state: the overall state that recipients know; None before the first.
        outage: the one that is not over, or of which the first save is awaited.
    """

    state: str | None = None
    better_since: float | None = None
    primary: str | None = None
    roles: dict[str, tuple[str, int | None]] = dataclasses.field(default_factory=dict)
    alerts: dict[AlertKey, float] = dataclasses.field(default_factory=dict)
    behind_since: dict[str, float] = dataclasses.field(default_factory=dict)
    lagging: dict[str, float] = dataclasses.field(default_factory=dict)
    gone: str | None = None
    gone_since: float | None = None
    gone_told: str = ""
    watched: float | None = None
    saved: int | None = None
    leads: tuple[str, int | None] | None = None
    outage: Ongoing | None = None
    silenced: set[AlertKey] = dataclasses.field(default_factory=set)
    absent: dict[str, float] = dataclasses.field(default_factory=dict)
    sent_state: str | None = None

    def to_json(self) -> dict[str, Any]:
        values = dataclasses.asdict(self)
        values["silenced"] = sorted(self.silenced)
        values["alerts"] = [[*key, seen] for key, seen in self.alerts.items()]
        return {"format": FORMAT, **values}


def from_json(values: Any) -> Memory:
    """Return the memory that ``to_json`` wrote; an empty one for anything else."""
    try:
        if values["format"] != FORMAT:
            return Memory()
        return Memory(
            state=values["state"],
            better_since=values["better_since"],
            primary=values["primary"],
            roles={
                name: (str(role), None if epoch is None else int(epoch))
                for name, (role, epoch) in values["roles"].items()
            },
            alerts={
                (level, subject, text): float(seen)
                for level, subject, text, seen in values["alerts"]
            },
            behind_since=dict(values["behind_since"]),
            lagging=dict(values["lagging"]),
            gone=values["gone"],
            gone_since=values["gone_since"],
            gone_told=values["gone_told"],
            watched=values.get("watched"),
            saved=values.get("saved"),
            leads=_leads(values.get("leads")),
            outage=_ongoing(values.get("outage")),
            silenced={
                (level, subject, text) for level, subject, text in values.get("silenced", ())
            },
            absent={name: float(since) for name, since in values.get("absent", {}).items()},
            sent_state=values.get("sent_state"),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return Memory()


def _leads(values: Any) -> tuple[str, int | None] | None:
    if values is None:
        return None
    name, epoch = values
    return str(name), None if epoch is None else int(epoch)


def _ongoing(values: Any) -> Ongoing | None:
    if values is None:
        return None
    return Ongoing(
        since=float(values["since"]),
        seen=values["seen"],
        ended=values["ended"],
        last=int(values["last"]),
        leads=_leads(values["leads"]),
        blind=values["blind"],
    )
