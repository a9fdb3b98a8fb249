"""The record ``sync`` of acknowledged commits: its meaning and its changes.  Pure.

A record that is too weak makes a take-over wait for a person.  A record that is too strong loses
acknowledged commits.  So a record may name K nodes only when every acknowledged commit is on K
other nodes, commits of earlier epochs included.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from indico_zodbrepl.cluster.model import Synchronous
from indico_zodbrepl.etcd.keys import Sync
from indico_zodbrepl.host.acknowledging import weakest
from indico_zodbrepl.host.promise import ALONE
from indico_zodbrepl.probing.answers import Acknowledging

SETTLED = "synchronous"
"""The state of a server whose secondaries have everything that it has committed."""


def confirmations(sync: Sync | None, configured: int, epoch: int) -> int:
    """Return how many secondaries certainly confirmed each commit that was acknowledged.

    A record of an earlier epoch does not say what the leader of this one has asked for: what it
    says and what the cluster file says are both possible.  Each leader writes one before its first
    commit, so a missing record was lost.

    Args:
        configured: the number of the cluster file.
        epoch: of the leader key.
    """
    if sync is None:
        return min(1, configured)
    if sync.epoch >= epoch:
        return sync.count
    return min(sync.count, configured) or min(1, sync.count + configured)


def voters(nodes: Collection[str], sync: Sync | None) -> tuple[str, ...]:
    """Return the nodes that may have confirmed commits.

    A node that is not in the cluster file of every host yet, or no longer, counts as well.
    """
    known = dict.fromkeys(nodes)
    if sync is not None and sync.count:
        known.update(dict.fromkeys(sync.members))
    return tuple(known)


def next_record(known: Sync | None, actual: Sync, state: str) -> Sync:
    """Return what the record has to say from now on.

    Args:
        known: the record; None if there is none.
        actual: what the server does for the commits that come.
        state: of the server's acknowledgements.
    """
    actual = dataclasses.replace(actual, alone=state == ALONE)
    if known is None or state == SETTLED:
        return actual
    least = weakest(known, actual)
    # What a leader acknowledged alone is on itself and its successor only.
    is_alone = known.alone and (known.epoch == actual.epoch or least.count > 1)
    # One that was added or removed meanwhile may be the only one that has a commit.
    members = tuple(dict.fromkeys([*actual.members, *known.members]))
    return dataclasses.replace(least, alone=actual.alone or is_alone, members=members)


def first_record(
    epoch: int, configured: Synchronous, found: Acknowledging | None, members: tuple[str, ...]
) -> Sync:
    """Return what the first commits of a promoted server need.

    The order to promote it has the cluster file's settings.  A server of an earlier release keeps
    its own, which may be older.

    Args:
        found: what a follower's server reports before; None if it reports nothing.
    """
    wanted = Sync(epoch, configured.count, str(configured.level), members=members)
    if found is None:
        return wanted
    return weakest(dataclasses.replace(wanted, count=found.count, level=found.level), wanted)


def says_the_same(known: Sync | None, other: Sync) -> bool:
    """Return True if a record says the same, apart from since when."""
    return known is not None and dataclasses.replace(known, since=other.since) == other
