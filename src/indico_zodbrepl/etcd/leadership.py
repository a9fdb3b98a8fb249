"""The leader key of a cluster with automation, for operators' commands.

The key decides the epoch.  A promotion swaps the key first.  So if an operator and the automation
promote at once, only one of them succeeds.  After the swap, the old leader can't renew its lease,
and the automation of the new leader's host renews the key until its server is the primary.
"""

from __future__ import annotations

import dataclasses
import time

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.etcd.connection import store_of
from indico_zodbrepl.etcd.keys import Leader, Stored, Written
from indico_zodbrepl.probing import times
from indico_zodbrepl.probing.waiting import wait_until

CALL_SECONDS = 2.0


@dataclasses.dataclass(frozen=True)
class Claim:
    """The outcome of a claim.

    Attributes:
        former: the leader before; None if there was none, or this node's claim was made earlier.
        released: True if the former leader had given its role up.
    """

    former: Leader | None
    released: bool


def read(cluster: Cluster) -> Leader | None:
    """Return the leader key; None if there is none.  Raises OperatorError."""
    found = _stored(cluster)
    return None if found is None else found.record


def epoch(cluster: Cluster) -> int:
    """Return the epoch of the leader key; 0 without automation or a key.  Raises OperatorError."""
    if not cluster.automatic:
        return 0
    found = read(cluster)
    return 0 if found is None else found.epoch


def claim(cluster: Cluster, node: str, new_epoch: int, why: str) -> Claim:
    """Make a node the leader of an epoch; a repeated claim succeeds.

    Raises OperatorError: exit 8, another node leads in this epoch or a later one; others if etcd
    does not answer.
    """
    store = store_of(cluster)
    found = _stored(cluster)
    host = str(cluster.node(node).on)
    since, known = (
        times.now(),
        found.record if found is not None else None,
    )
    if known is not None and known.epoch >= new_epoch:
        if (known.node, known.epoch) == (node, new_epoch) and not known.released:
            return Claim(None, released=False)
        if known.node != node or known.epoch > new_epoch:
            raise _overtaken(cluster, known, new_epoch)
    counter = 1 if known is None else known.counter + 1
    wanted = Leader(node, host, new_epoch, counter, since=since, why=why)
    if found is None:
        written = store.create(store.keys.leader, wanted, CALL_SECONDS)
    else:
        written = _swapped(cluster, found, wanted)
    if not written.done:
        now = written.stored
        raise _overtaken(cluster, now.record if now is not None else wanted, new_epoch)
    return Claim(known, known is not None and known.released)


def refuse_other(cluster: Cluster, node: str, new_epoch: int) -> None:
    """Raise OperatorError (exit 8) unless a node is the leader of an epoch by the key."""
    found = read(cluster)
    if found is None or (found.node, found.epoch) != (node, new_epoch):
        raise _overtaken(cluster, found, new_epoch)


def _stored(cluster: Cluster) -> Stored[Leader] | None:
    store = store_of(cluster)
    return store.read(store.keys.leader, CALL_SECONDS)


ATTEMPTS = 20
"""The holder renews the key several times a second, so a swap may come a moment late."""


def _swapped(cluster: Cluster, found: Stored[Leader], wanted: Leader) -> Written[Leader]:
    """Replace the key although its holder renews it meanwhile."""
    store = store_of(cluster)
    for _ in range(ATTEMPTS):
        written = store.swap(found, wanted, CALL_SECONDS)
        now = written.stored
        renewed = now is not None and (now.record.node, now.record.epoch) == (
            found.record.node,
            found.record.epoch,
        )
        if written.done or now is None or not renewed:
            return written
        found = now
        wanted = dataclasses.replace(wanted, counter=now.record.counter + 1)
    return written


def _overtaken(cluster: Cluster, found: Leader | None, new_epoch: int) -> OperatorError:
    says = (
        "there is no leader key"
        if found is None
        else f"node {found.node} leads in epoch {found.epoch}"
        + (f" ({found.why})" if found.why else "")
    )
    return OperatorError(
        f"epoch {new_epoch} can't begin: the automation took over",
        f"in etcd: {says}",
        f"see {Commands.here(cluster).zodbrepl('status')}, then retry",
        ExitCode.REFUSED,
    )


def wait_for_end(cluster: Cluster, claimed: float) -> None:
    """Wait until the lease of a leader that could not be told has certainly ended.

    Args:
        claimed: when its key was replaced, by CLOCK_BOOTTIME.
    """
    until = claimed + cluster.lease
    wait_until(lambda: boottime() >= until, time.monotonic() + 2 * cluster.lease)


def boottime() -> float:
    """Return the seconds since the host started, its sleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
