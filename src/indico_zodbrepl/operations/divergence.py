"""The transactions that only a node has, as proven by data files, history files and the journal.

A pack of the primary may hide that a transaction is the node's own.  It cannot if the point of
divergence is known: the primary never had what the node committed after that.
"""

from __future__ import annotations

from collections.abc import Sequence

from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.cluster.layout import data_fs
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.datafs_answers import Comparison
from indico_zodbrepl.host.history import Lineage
from indico_zodbrepl.host.interface import Host
from indico_zodbrepl.operations import journal
from indico_zodbrepl.operations.operation import Operation, Progress
from indico_zodbrepl.operations.roles import PROMOTED_AFTER, Promote
from indico_zodbrepl.operations.takeover import Lead


def find_fork(cluster: Cluster, node: str, known: Lineage | None, epoch: int) -> str | None:
    """Return the last transaction that the primary got from a node; see ``from_journal``.

    Args:
        known: the node's history file; only one that says "writable since" gives an answer.
        epoch: the current one.

    Raises OperatorError if the journal is unreadable.
    """
    if known is None or not known.was_writable:
        return None
    entries, _notices = journal.read(cluster)
    return from_journal(entries, node, epoch)


def from_journal(entries: Sequence[Operation], node: str, epoch: int) -> str | None:
    """Return the last transaction that the primary of an epoch got from a node.

    That is the oldest transaction at which another node was promoted since the node lost its role.
    None if the journal lacks one of these promotions, or its transaction.

    Args:
        node: a former primary that has followed no other node since.
        epoch: the current one.
    """
    promotions = {
        entry.plan.epoch: entry
        for entry in entries
        for step, record in zip(entry.plan.steps, entry.records, strict=True)
        if step.action in (Promote.action, Lead.action) and record.progress is Progress.DONE
    }
    found: list[str] = []
    for number in range(epoch, 0, -1):
        entry = promotions.get(number)
        if entry is None or entry.plan.target == node:
            return None
        after = _promoted_after(entry)
        if after is None:
            return None
        found.append(after)
        if entry.plan.source == node:
            return min(found)
    return None


def _promoted_after(entry: Operation) -> str | None:
    after = entry.figures.get(PROMOTED_AFTER)
    if after is None and entry.plan.loss is not None:
        after = entry.plan.loss.after
    return None if after is None else str(after)


def lineage(host: Host, name: str) -> Lineage | None:
    """Return the history of a node; None also if its history file is unusable."""
    try:
        return host.history(name)
    except OperatorError:
        return None  # an unknown history is not trusted: everything is compared


def verified_against(host: Host, name: str, primary: str) -> str | None:
    """Return the tid up to which a node's history is verified against the primary; else None.

    The first primary keeps no comparison of its own; that of its follower counts for both.
    """
    own, other = lineage(host, name), lineage(host, primary)
    known = [own] if own is not None else []
    known += [other] if other is not None and other.against == name else []
    return max((each.verified_tid for each in known if each.verified_tid), default=None)


def compare(
    host: Host,
    node: Node,
    primary: Node,
    verified: str | None,
    fork: str | None,
    *,
    damaged: bool = False,
) -> tuple[Comparison | None, str]:
    """Return the comparison of two data files, or None and the problem of the first one.

    The cost grows with what follows ``verified``, not with the files.

    Args:
        verified: a tid up to which earlier comparisons found both to be the same; None compares
            everything.
        fork: see ``find_fork``.
        damaged: True to compare what comes before a damaged end of the first one.
    """
    try:
        return host.compare(node.name, primary.name, verified, fork=fork, damaged=damaged), ""
    except OperatorError as error:
        own, other = str(data_fs(node)), str(data_fs(primary))
        if (
            error.exit_code is not ExitCode.REFUSED
            or own not in error.detail
            or (other in error.detail)
        ):
            raise
        return None, error.detail


def doubtful(found: Comparison | None, verified: str | None, fork: str | None) -> int:
    """Return how many of a former primary's transactions are not proven to be common.

    Args:
        found: its comparison with the primary, which was told the same ``fork``.
        verified: the tid up to which its history is that of the cluster.
        fork: the last transaction that the primary got from it.
    """
    return 0 if found is None or fork is not None else found.unproven(verified)
