"""Closes an operation that can't be ended, or whose file can't be used, as it stands."""

from __future__ import annotations

import dataclasses
import time

from ..cluster import Cluster
from . import journal, operation, store
from .operation import Operation, Outcome
from .steps import Plan


def abandon(cluster: Cluster, reason: str, expected: str = "") -> Operation:
    """Close the operation that has begun and not ended, as it stands.

    For when it can't be ended, such as when its target died too.  One whose file can't be used is
    closed by what the journal knows of it; the file is kept under another name, which the remark
    says.  ``expected`` and errors as of ``executor.resume``.
    """
    with store.alone(cluster):
        damaged = store.damaged(cluster)
        if damaged:
            return _abandon_damaged(cluster, damaged[0], reason)
        store.refuse_another(cluster, expected)
        left = dataclasses.replace(store.the_open_one(cluster), outcome=Outcome.ABANDONED,
                                   ended=time.time(), remark=f"{operation.actor()}: {reason}")
        journal.append(cluster, left)
        store.save(cluster, left)
        return left


def to_abandon(cluster: Cluster) -> tuple[str, str]:
    """What ``abandon`` would close: its identifier, and the file that would be kept, or nothing.

    Changes nothing.  Raises as ``executor.resume``.
    """
    store.refuse_at_work(cluster)
    damaged = store.damaged(cluster)
    if damaged:
        return damaged[0].identifier, f"{damaged[0].path}: {damaged[0].problem}"
    return store.the_open_one(cluster).identifier, ""


def _abandon_damaged(cluster: Cluster, damaged: store.Damaged, reason: str) -> Operation:
    now = time.time()
    plan = Plan("resume", cluster.name, "", reason, 0, (), None, ())
    known = next((entry for entry in journal.read(cluster)[0]
                  if entry.identifier == damaged.identifier),
                 operation.new(cluster.name, plan, operation.actor(), now))
    kept = store.put_away(damaged)
    if known.outcome.is_open:
        known = dataclasses.replace(known, outcome=Outcome.ABANDONED, ended=now)
    left = dataclasses.replace(
        known, identifier=damaged.identifier,
        remark=f"{operation.actor()}: {reason}; its file could not be used "
               f"({damaged.problem}), and is kept as {kept}")
    journal.append(cluster, left)
    return left
