"""Recovery exports in VAR/lost-tails: make one, or find one with the same transactions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from indico_zodbrepl.backends import can
from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.datafs_answers import Export
from indico_zodbrepl.host.interface import Host, host_of
from indico_zodbrepl.operations.model import Figures, Loss, Plan

MOST_TRANSACTIONS = 5000
"""Bytes; more divergent transactions are not exported just for display."""


def exported_before(
    cluster: Cluster, installation: Installation, node: Node, after: str
) -> Path | None:
    """Return the newest folder with all that a node's file holds after a transaction.

    It is on the node's host.  A failover exports what only the old primary has; a rejoin need not
    do it again.
    """
    return host_of(cluster, installation).exported_before(node.name, after)


def export(
    host: Host,
    node: Node,
    after: str,
    folder: Path,
    say: Callable[[str], None],
    *,
    damaged: bool = False,
) -> tuple[Export, Figures]:
    """Export a node's transactions after a given one; report what the export lacks.

    Args:
        damaged: True to export what comes before a damaged end of its data file.

    Returns what was done, and figures of what the export lacks, if it lacks anything.
    Raises OperatorError.
    """
    done = host.export(node.name, after, folder, damaged=damaged)
    if not done.missing_blobs:
        return done, {}
    say(f"blob files that were not there, and are not in the export: {done.missing_blobs}")
    return done, {"missing_blobs": done.missing_blobs}


def complete(host: Host, node: str, folder: Path) -> tuple[int, str] | None:
    """Return how many transactions an export has, and the one before them; None without an export.

    Raises OperatorError if it can't be read.
    """
    kept = host.kept_export(node, folder)
    if kept is None:
        return None
    if kept.transactions is None:
        raise OperatorError("the recovery export can't be read", str(folder))
    return kept.transactions, kept.after


def names(host: Host, node: str, folder: Path) -> list[str]:
    """Return what an export of a node holds, such as ``Conference 12 "Title"``.

    The last item may count further objects.  Empty if the list is unreadable: the export has
    already checked it.
    """
    found = host.kept_export(node, folder)
    return [] if found is None else list(found.names)


@dataclasses.dataclass(frozen=True)
class AtStake:
    """The objects in a plan's data loss.

    Attributes:
        names: such as ``Conference 12 "Title"``; the last one may count those not named.
        tail: name of the recovery export that already has them; empty if none.
        unknown: why they are unknown; empty if they are known.
    """

    names: tuple[str, ...] = ()
    tail: str = ""
    unknown: str = ""


def at_stake(cluster: Cluster, installation: Installation, plan: Plan) -> AtStake:
    """Find what a plan would lose, if a data file can be read.

    Transactions without a recovery export are exported to a temporary folder, which may take long:
    do not call it in a thread that serves requests.
    """
    loss = plan.loss
    if loss is None or loss.transactions == 0:
        return AtStake()
    unknown = _why_not(cluster, loss)
    if unknown or loss.after is None:
        return AtStake(unknown=unknown)
    node = cluster.node(loss.node)
    host = host_of(cluster, installation)
    kept = exported_before(cluster, installation, node, loss.after)
    if kept is not None:
        return AtStake(tuple(names(host, node.name, kept)), kept.name)
    try:
        return AtStake(tuple(host.names_after(node.name, loss.after)))
    except OperatorError as error:
        told = f"{error.notice}: {error.detail}" if error.detail else error.notice
        return AtStake(unknown=told)


def _why_not(cluster: Cluster, loss: Loss) -> str:
    """Return why the data loss can't be listed now; empty if it can."""
    if not can(cluster, "lineage"):
        return "its engine tells it only while the node is out of service; it is exported then"
    if not loss.exact:
        return f"the data of node {loss.node} could not be compared"
    if loss.after is None:
        return "it is not known where it begins"
    if loss.transactions is None or loss.transactions > MOST_TRANSACTIONS:
        return "there are too many transactions to list before they are exported"
    return ""
