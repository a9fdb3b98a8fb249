"""Changes from one snapshot to the next, each reported once.  Pure: no clock, no file."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator
from typing import Any

from indico_zodbrepl.monitor.node_status import NodeStatus
from indico_zodbrepl.monitor.snapshot import Snapshot, State
from indico_zodbrepl.monitord.memory import AlertKey, Memory
from indico_zodbrepl.operations.outages import Outage

FILE = "events.jsonl"
"""In VAR/watch."""
SETTLED_AFTER = 3.0
"""Seconds for which a state must be better before the problem counts as over.

A change for the worse is reported at once; one missed probe must not repeat it.
"""


class Kind(enum.StrEnum):
    STATE = "state"
    PRIMARY = "primary"
    ROLE = "role"
    EPOCH = "epoch"
    ALERT = "alert"
    CLEARED = "cleared"
    LAG = "lag"
    CAUGHT_UP = "caught-up"
    WOULD_ACT = "would-act"
    LINEAGE = "lineage"
    OUTAGE = "outage"
    WATCH = "watch"


class Weight(enum.StrEnum):
    """The severity of an event, the highest first; ``good``: a problem is over."""

    CRITICAL = "critical"
    WARNING = "warning"
    NOTICE = "notice"
    GOOD = "good"


@dataclasses.dataclass(frozen=True)
class Event:
    """Something that happened.

    Attributes:
        at: when it was seen, seconds since 1970.
        subject: name of the node or Indico instance it is about; empty for the cluster.
        text: what, in one line.
        detail, hint: as of an ``Alert``; may be empty.
        outage: the outage that has ended; None for other events.
        former: the primary before it; empty if it has none.
        alert: the alert that begins or ends; None for other events.
    """

    at: float
    kind: Kind
    weight: Weight
    subject: str
    text: str
    detail: str = ""
    hint: str = ""
    outage: Outage | None = None
    former: str = ""
    alert: AlertKey | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it for ``json.dumps``, without ``alert``.

        ``outage`` and ``former`` only with an outage.
        """
        values = dataclasses.asdict(self)
        del values["outage"], values["former"], values["alert"]
        if self.outage is not None:
            values |= {"outage": self.outage.to_json(), "former": self.former}
        return values


WEIGHTS = {
    State.HEALTHY: Weight.GOOD,
    State.DEGRADED: Weight.WARNING,
    State.CRITICAL: Weight.CRITICAL,
    State.DOWN: Weight.CRITICAL,
    State.UNKNOWN: Weight.CRITICAL,
}


def events(memory: Memory, snapshot: Snapshot, lag_limit: float) -> list[Event]:
    """Return what is new in a snapshot, the overall state first; update ``memory``.

    Args:
        memory: what is known from the snapshots before.
        lag_limit: seconds a node may be behind.
    """
    return [
        *_state(memory, snapshot),
        *_primary(memory, snapshot),
        *_roles(memory, snapshot),
        *_alerts(memory, snapshot),
        *_lags(memory, snapshot, lag_limit),
    ]


def _state(memory: Memory, snapshot: Snapshot) -> Iterator[Event]:
    now, new = snapshot.taken_at, snapshot.state
    old = None if memory.state is None else State(memory.state)
    if new is old:
        memory.better_since = None
        return
    if old is not None and new.exit_code < old.exit_code:
        if memory.better_since is None:
            memory.better_since = now
        if now - memory.better_since < SETTLED_AFTER:
            return
    memory.state, memory.better_since = new.value, None
    yield Event(
        now,
        Kind.STATE,
        WEIGHTS[new],
        "",
        f"{new.upper()}: {snapshot.sentence}",
        f"was {old}" if old else "",
    )


def _primary(memory: Memory, snapshot: Snapshot) -> Iterator[Event]:
    old, new = memory.primary, snapshot.primary
    if new is None or new == old:
        return
    memory.primary = new
    if old is not None:
        text = (
            f"master {new} leads now; it was {old}"
            if snapshot.node(new).leads
            else f"the primary is {new} now; it was {old}"
        )
        yield Event(snapshot.taken_at, Kind.PRIMARY, Weight.WARNING, new, text)


def _roles(memory: Memory, snapshot: Snapshot) -> Iterator[Event]:
    for node in snapshot.nodes:
        if node.actual_role is None:
            continue
        old, new = memory.roles.get(node.name), (node.actual_role.value, node.epoch)
        memory.roles[node.name] = new
        if old is None or old == new:
            continue
        if old[0] != new[0]:
            yield Event(
                snapshot.taken_at,
                Kind.ROLE,
                Weight.NOTICE,
                node.name,
                f"node {node.name} is {new[0]}{_in_epoch(new[1])} now; it was {old[0]}"
                f"{_in_epoch(old[1])}",
            )
        elif new[1] is not None:
            was = "" if old[1] is None else f"; it was in {old[1]}"
            yield Event(
                snapshot.taken_at,
                Kind.EPOCH,
                Weight.NOTICE,
                node.name,
                f"{new[0]} {node.name} is in epoch {new[1]} now{was}",
            )


def _in_epoch(epoch: int | None) -> str:
    return "" if epoch is None else f" in epoch {epoch}"


def _alerts(memory: Memory, snapshot: Snapshot) -> Iterator[Event]:
    now = snapshot.taken_at
    present: set[AlertKey] = set()
    for alert in snapshot.warnings:
        key = (alert.level.value, alert.subject, alert.text)
        present.add(key)
        if key not in memory.alerts:
            yield Event(
                now,
                Kind.ALERT,
                Weight(alert.level.value),
                alert.subject,
                alert.text,
                alert.detail,
                alert.hint,
                alert=key,
            )
        memory.alerts[key] = now
    for key, seen in list(memory.alerts.items()):
        if key not in present and now - seen >= SETTLED_AFTER:
            del memory.alerts[key]
            yield Event(now, Kind.CLEARED, Weight.GOOD, key[1], f"no longer: {key[2]}", alert=key)


def _lags(memory: Memory, snapshot: Snapshot, limit: float) -> Iterator[Event]:
    for node in snapshot.nodes:
        lag = behind(memory, node, snapshot.taken_at)
        worst = memory.lagging.get(node.name)
        if lag is None:
            continue
        if lag > limit:
            memory.lagging[node.name] = max(lag, worst or 0.0)
            if worst is None:
                yield Event(
                    snapshot.taken_at,
                    Kind.LAG,
                    Weight.WARNING,
                    node.name,
                    f"node {node.name} is more than {limit:g} s behind the primary",
                    _figures(node),
                )
        elif worst is not None and lag <= limit / 2:
            del memory.lagging[node.name]
            yield Event(
                snapshot.taken_at,
                Kind.CAUGHT_UP,
                Weight.GOOD,
                node.name,
                f"node {node.name} has caught up; it was {worst:.1f} s behind at most",
            )


def behind(memory: Memory, node: NodeStatus, now: float) -> float | None:
    """Return for how many seconds a node has been behind; None if unknown, as for a primary.

    At most the time for which it has been observed behind.  Otherwise, if a server cannot report
    which transaction it lacks, the first one after a quiet hour would count as an hour of lag.
    """
    if node.lag_seconds is None:
        return None
    if node.lag_seconds == 0:
        memory.behind_since.pop(node.name, None)
        return 0.0
    since = memory.behind_since.setdefault(node.name, now)
    return min(node.lag_seconds, max(0.0, now - since))


def _figures(node: NodeStatus) -> str:
    if node.lag_transactions is None:
        return ""
    at_least = "" if node.lag_exact else "at least "
    plural = "" if node.lag_transactions == 1 else "s"
    return f"it lacks {at_least}{node.lag_transactions} transaction{plural}"
