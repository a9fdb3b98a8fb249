"""The state of the automation before a failover by hand, and why it did not act.

``observe`` asks etcd; the rest is pure.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.etcd.connection import store_of
from indico_zodbrepl.etcd.keys import Leader, Paused, Store, Sync
from indico_zodbrepl.operations.model import Finding, Refusal, Verdict
from indico_zodbrepl.probing.waiting import wait_until

ACT_SECONDS = 5.0
"""Seconds after the end of a lease in which the automation replaces a primary, if it can."""
POLL_SECONDS = 0.1


@dataclasses.dataclass(frozen=True)
class Automation:
    """The state of the automation, by its keys in etcd.

    Attributes:
        leader: None if no node has led yet.
        renewed: True if the leader's lease is renewed.
        taken_over: True if another node has become the leader meanwhile.
        unchanged: seconds for which the key was observed without a change.
        sync: what commits needed; None if that is unknown.
    """

    leader: Leader | None
    renewed: bool = False
    taken_over: bool = False
    unchanged: float = 0.0
    paused: Paused | None = None
    sync: Sync | None = None


def observe(cluster: Cluster) -> Automation | None:
    """Return what the automation does; None without one.

    A lease that is not renewed is observed until the automation should have acted.  Raises
    EtcdError if etcd does not answer.
    """
    if not cluster.automatic:
        return None
    store = store_of(cluster)
    paused, sync = store.read(store.keys.paused), store.read(store.keys.sync)
    first, began = _leader(store), time.monotonic()
    now = first

    def has_changed() -> bool:
        nonlocal now
        now = _leader(store)
        return now != first

    seconds = 0.0 if paused is not None else cluster.lease + ACT_SECONDS
    wait_until(has_changed, began + seconds, POLL_SECONDS)
    same = first is not None and now is not None and (first.node, first.epoch) == _who(now)
    return Automation(
        now,
        renewed=now != first and same and now is not None and not now.released,
        taken_over=now is not None and first is not None and now.epoch > first.epoch,
        unchanged=time.monotonic() - began if now == first else 0.0,
        paused=None if paused is None else paused.record,
        sync=None if sync is None else sync.record,
    )


def objection(found: Automation | None, old: str, commands: Commands) -> Refusal | None:
    """Return why an operator may not replace a primary now; None if they may.

    Args:
        old: the primary that would be replaced.
    """
    if found is None or found.leader is None:
        return None
    leader = found.leader
    if found.taken_over or leader.node != old:
        return Refusal(
            f"the automation replaces {old}: node {leader.node} leads in epoch {leader.epoch}",
            f"see what it does: {commands.zodbrepl('status')}",
            (Finding(Verdict.AGAINST, leader.node, "is the leader in etcd", leader.why),),
        )
    # While it is paused, the automation renews the lease also of a leader without a server.
    if found.renewed and found.paused is None:
        return Refusal(
            f"primary {old} renews its lease: the automation replaces it if that ends",
            f"move the role without loss: {commands.zodbrepl('switchover')}",
            (Finding(Verdict.AGAINST, old, "is the leader, and renews its lease in etcd"),),
        )
    return None


def findings(found: Automation | None, old: str) -> Iterator[Finding]:
    """Yield why the automation did not replace a primary, for a failover that may begin."""
    if found is None:
        return
    if found.paused is not None:
        yield Finding(
            Verdict.WARNING,
            "",
            "the automation is paused, so it does not act",
            f"by {found.paused.by} since {found.paused.since}: {found.paused.reason}",
        )
        return
    if found.leader is None:
        yield Finding(
            Verdict.WARNING,
            "",
            "there is no leader key in etcd, so the automation does not act",
            "etcd is new or has lost its data; the failover writes the key again",
        )
        return
    why = f"the lease of {old} was not renewed for {found.unchanged:.0f} s, and no node took over"
    if found.sync is not None and found.sync.alone:
        why = f"{old} acknowledged commits that no other node has, since {found.sync.since}"
    yield Finding(
        Verdict.WARNING,
        "",
        "the automation can't prove that no acknowledged commit is lost, so it does not act",
        why,
    )


def _leader(store: Store) -> Leader | None:
    found = store.read(store.keys.leader)
    return None if found is None else found.record


def _who(leader: Leader) -> tuple[str, int]:
    return leader.node, leader.epoch
