"""Decide who holds the lock of operations in a cluster of several hosts.  Pure.

Any two majorities of the hosts have one in common, so at most one command holds the locks of a
majority, also while the network is cut.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping

from indico_zodbrepl.host.operation_lock import LOOK_SECONDS
from indico_zodbrepl.host.operations_interface import Holder

GRACE_SECONDS = 0.2
"""Seconds for the hosts that are not needed for a majority to answer."""
CONNECT_SECONDS = 1.5
"""Seconds after which a host that did not answer is away."""
RIVAL_SECONDS = 3 * LOOK_SECONDS
"""Seconds in which a command gives up that asked at the same time and has to."""
RELEASE_SECONDS = 9.0
"""Seconds in which an agent notices that the host of a lock's holder has gone."""


def quorum(hosts: int) -> int:
    """Return how many of some hosts are a majority."""
    return hosts // 2 + 1


class Standing(enum.Enum):
    """What is known of one host's lock."""

    ASKED = "asked"
    HELD = "held"
    BUSY = "busy"
    AWAY = "away"


@dataclasses.dataclass(frozen=True)
class HostLock:
    """One host's lock.

    Attributes:
        holder: who has it, if it is busy.
        why: the reason, if the host is away.
    """

    standing: Standing
    holder: Holder | None = None
    why: str = ""


class Decision(enum.Enum):
    """The result of an attempt to take the lock of a majority."""

    TAKEN = "taken"
    WAIT = "wait"
    BUSY = "busy"
    AWAY = "away"


def decide(own: Holder, locks: Mapping[str, HostLock], waited: float) -> Decision:
    """Return what a command does that asks all hosts for their locks.

    Of two commands that ask at the same time, and of which none has a majority yet, the lesser one
    waits and the other gives up.

    Args:
        locks: by host, that of this host included, which is held.
        waited: seconds since the hosts were asked.
    """
    by = {kind: [each for each in locks.values() if each.standing is kind] for kind in Standing}
    if len(by[Standing.HELD]) >= quorum(len(locks)):
        waits = bool(by[Standing.ASKED]) and waited < GRACE_SECONDS
        return Decision.WAIT if waits else Decision.TAKEN
    if by[Standing.ASKED] and waited < CONNECT_SECONDS:
        return Decision.WAIT
    holders = [each.holder for each in by[Standing.BUSY] if each.holder is not None]
    if not by[Standing.BUSY]:
        return Decision.AWAY
    return Decision.WAIT if waited < _patience(own, holders, locks) else Decision.BUSY


def _patience(own: Holder, holders: list[Holder], locks: Mapping[str, HostLock]) -> float:
    """Return the seconds to wait until others release their locks."""
    seconds = LOOK_SECONDS
    for holder in holders:
        there = locks.get(holder.host)
        if there is not None and there.standing is Standing.AWAY:
            return RELEASE_SECONDS
        if (own.host, own) < (holder.host, holder):
            seconds = RIVAL_SECONDS
    return seconds


def busy_holder(locks: Mapping[str, HostLock]) -> Holder | None:
    """Return the holder that most of the busy locks name."""
    holders = [each.holder for each in locks.values() if each.holder is not None]
    return max(holders, key=holders.count) if holders else None


def missing(locks: Mapping[str, HostLock]) -> str:
    """Return which hosts' locks are not held and why, one line."""
    said = []
    for host, lock in locks.items():
        if lock.standing is Standing.BUSY:
            said.append(f"host {host}: {lock.holder or 'another command'} has it")
        elif lock.standing is not Standing.HELD:
            said.append(f"host {host}: {lock.why or 'no answer in time'}")
    return "; ".join(said)
