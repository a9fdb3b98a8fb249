"""Decide what a host does about the leader key.  Pure; ``program`` executes the decisions."""

from __future__ import annotations

import dataclasses
import enum

from indico_zodbrepl.automation.observed import Observed
from indico_zodbrepl.automation.timing import (
    COLD_SECONDS,
    SILENT_ATTEMPTS,
    STOPPED_SECONDS,
    Timing,
)
from indico_zodbrepl.etcd.keys import Leader


class Act(enum.StrEnum):
    """The next act of a host that holds no role."""

    WAIT = "wait"
    CREATE = "create"
    """Write the first leader key, or correct one that is older than the cluster's records."""
    RESUME = "resume"
    """Take the own role again, in the same epoch."""
    KEEP = "keep"
    """Renew the key for an operation that is about to promote the own node."""
    RELEASE = "release"
    """Give away a role that the own node can't fill."""
    CAMPAIGN = "campaign"
    """Ask the other candidates, then take over."""


@dataclasses.dataclass(frozen=True)
class Own:
    """A node of this host, as far as the leader key is concerned.

    Attributes:
        role, epoch: of its running server; empty and 0 without one.
        recorded: the epoch for which the newest record of this host names it the primary; 0 if
            that names another node.
    """

    node: str
    role: str = ""
    epoch: int = 0
    recorded: int = 0

    @property
    def runs(self) -> bool:
        return bool(self.role)

    def leads(self, epoch: int) -> bool:
        """Return True if its server is the primary of an epoch."""
        return self.role == "primary" and self.epoch == epoch


@dataclasses.dataclass(frozen=True)
class Circumstances:
    """The conditions of a decision that are not part of the leader key.

    Attributes:
        paused: why nobody takes over; empty if they may.
        alone: True if the leader acknowledged commits that no other node has.
        operation: True if an operator's operation is running.
        outdated: True if this host's record is of a later epoch than the key.
        unfit_until: no own node takes over before that, because one has just failed.
    """

    paused: str = ""
    alone: bool = False
    operation: bool = False
    outdated: bool = False
    unfit_until: float = 0.0


@dataclasses.dataclass(frozen=True)
class Decision:
    """An act with its reason, one line; ``node`` is the own node that it is about."""

    act: Act
    why: str
    node: str = ""


def decide(
    seen: Observed, nodes: tuple[Own, ...], around: Circumstances, timing: Timing, now: float
) -> Decision:
    """Return what a host that holds no role does next.

    Args:
        seen: the leader key.
        nodes: those of this host.
        now: moment of CLOCK_BOOTTIME at which ``nodes`` was read.
    """
    leader = seen.leader
    epoch = 0 if leader is None else leader.epoch
    newer = [each for each in nodes if each.recorded > epoch and each.leads(each.recorded)]
    if newer:
        what = "there is no leader key" if leader is None else f"the key is of epoch {epoch}"
        return Decision(
            Act.CREATE,
            f"{what}, and node {newer[0].node} is the primary of epoch {newer[0].recorded}",
            newer[0].node,
        )
    if leader is None:
        return Decision(Act.WAIT, "there is no leader key; the primary's host creates it")
    own = next((each for each in nodes if each.node == leader.node), None)
    if own is not None:
        found = _decide_own(seen, own, around, timing, now)
        if found is not None:
            return found
    if not seen.is_free(timing):
        return Decision(Act.WAIT, f"node {leader.node} leads in epoch {leader.epoch}")
    if around.outdated and seen.confirmed - seen.since < max(timing.lease, COLD_SECONDS):
        # Of a restored snapshot of etcd, for example: it says nothing of the present lease.
        return Decision(
            Act.WAIT,
            f"the key is of epoch {leader.epoch}, which is over: the present primary corrects it",
        )
    return _decide_free(leader, nodes, around, now)


def _decide_own(
    seen: Observed, own: Own, around: Circumstances, timing: Timing, now: float
) -> Decision | None:
    """Decide about a key that names a node of this host; None: as about any other key."""
    leader = seen.leader
    if leader is None:
        return None
    if own.leads(leader.epoch) and own.recorded == leader.epoch:
        return _decide_again(seen, own, around, timing, now)
    is_free = seen.is_free(timing)
    if leader.released or (is_free and not own.runs):
        return None
    if around.operation and not is_free:
        return Decision(Act.KEEP, f"an operation promotes node {own.node}", own.node)
    # A command that was frozen may write the key after it was undone.  The former leader may still
    # hold a lease until this key counts as free.
    is_early = own.role != "primary" and own.epoch < leader.epoch and not is_free
    if not own.runs or is_early:
        why = "nobody promotes it" if own.runs else "its server does not run yet"
        return Decision(Act.WAIT, f"the key names node {own.node}; {why}")
    return Decision(
        Act.RELEASE,
        f"the key names node {own.node} for epoch {leader.epoch}, but its server is "
        f"{own.role} in epoch {own.epoch}",
        own.node,
    )


def _decide_again(
    seen: Observed, own: Own, around: Circumstances, timing: Timing, now: float
) -> Decision:
    """Decide if a node whose server is the primary of the key takes its role again."""
    gave_away = seen.leader is not None and seen.leader.released
    if gave_away and seen.confirmed - seen.since < timing.lease:
        return Decision(Act.WAIT, f"node {own.node} gave the role away; others come first")
    if now < around.unfit_until:
        return Decision(Act.WAIT, f"node {own.node} has just failed")
    return Decision(Act.RESUME, f"the key names node {own.node}", own.node)


def _decide_free(
    leader: Leader, nodes: tuple[Own, ...], around: Circumstances, now: float
) -> Decision:
    gone = (
        f"node {leader.node} has given its role away"
        if leader.released
        else f"node {leader.node} does not renew its lease"
    )
    if around.paused:
        return Decision(Act.WAIT, f"{gone}; automation is paused ({around.paused})")
    if around.alone:
        return Decision(
            Act.WAIT,
            f"{gone}, and it acknowledged commits that no other node has: only an operator may "
            "replace it",
        )
    if not any(each.runs for each in nodes):
        return Decision(Act.WAIT, f"{gone}; no server runs here that could replace it")
    if now < around.unfit_until:
        return Decision(Act.WAIT, f"{gone}; the last attempt to replace it failed here")
    return Decision(Act.CAMPAIGN, gone)


class Health(enum.StrEnum):
    """The decision about the role after a check of the leader's server."""

    RENEW = "renew"
    HAND_OVER = "hand over"
    KILL = "kill"


@dataclasses.dataclass(frozen=True)
class Signs:
    """The signs of life of the leader's server.

    Attributes:
        gone: True if its process has exited, or no server listens on its control socket.
        stopped_since: since when its process is stopped; None if it is not.
        answered: when it last answered an order.
        failures: orders in a row that it did not answer.
        failed: when the last of those was sent.
    """

    gone: bool = False
    stopped_since: float | None = None
    answered: float = 0.0
    failures: int = 0
    failed: float = 0.0


def examine(signs: Signs, timing: Timing, now: float, *, paused: bool) -> tuple[Health, str]:
    """Return what to do about a leader's server, and why.

    A server that might run on keeps its lease, so it is killed before the role is given away.  A
    time in which this program itself was frozen proves nothing about the server.
    """
    if paused:
        return Health.RENEW, ""
    if signs.gone:
        return Health.HAND_OVER, "its server has died"
    if signs.stopped_since is not None and now - signs.stopped_since >= STOPPED_SECONDS:
        return Health.KILL, f"its server has been stopped for {now - signs.stopped_since:.1f} s"
    if signs.failures >= SILENT_ATTEMPTS and signs.failed - signs.answered >= timing.lease:
        return Health.KILL, f"its server has not answered for {signs.failed - signs.answered:.1f} s"
    return Health.RENEW, ""
