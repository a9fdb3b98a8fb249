"""Recovery exports in VAR/lost-tails: make one, or find one with the same transactions."""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from indico_zodbrepl.backends import can
from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout, data_fs
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.datafs import Export
from indico_zodbrepl.host.interface import Host, host_of
from indico_zodbrepl.operations.model import Figures, Loss, Plan

MOST = 10
"""Objects that are named; the list in the folder has all."""
KNOWN = (
    "Conference",
    "Contribution",
    "AcceptedContribution",
    "SubContribution",
    "Category",
    "Avatar",
    "Session",
    "Abstract",
    "Registrant",
    "LocalFile",
    "Link",
    "Room",
    "Reservation",
)

MOST_TRANSACTIONS = 5000
"""Bytes; more divergent transactions are not exported just for display."""


def exported_before(
    cluster: Cluster, installation: Installation, node: Node, after: str
) -> Path | None:
    """Return the newest folder with all that a node's file holds after a transaction.

    A failover exports what only the old primary has; a rejoin need not do it again.
    """
    host = host_of(cluster, installation)
    folders = sorted(
        Layout(cluster).lost_tails.glob(f"{node.name}-*/tail.json"),
        reverse=True,
        key=lambda path: path.stat().st_mtime,
    )
    return next((path.parent for path in folders if covers(host, node, path.parent, after)), None)


def export(
    host: Host, node: Node, after: str, folder: Path, say: Callable[[str], None]
) -> tuple[Export, Figures]:
    """Export a node's transactions after a given one; report what the export lacks.

    Returns what was done, and figures of what the export lacks, if it lacks anything.
    Raises OperatorError.
    """
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    done = host.export(node.name, after, folder)
    if not done.missing_blobs:
        return done, {}
    say(f"blob files that were not there, and are not in the export: {done.missing_blobs}")
    return done, {"missing_blobs": done.missing_blobs}


def covers(host: Host, node: Node, folder: Path, after: str) -> bool:
    """Return True if a folder has exactly the transactions after one of a node's file.

    It compares their number, and the contents of the first and the last one; a file only grows at
    its end.  False also if that cannot be checked, for example while a server has the file open.
    """
    file = data_fs(node)
    try:
        kept = json.loads((folder / "tail.json").read_text("utf-8"))
        tids = [str(each["tid"]) for each in kept["transactions"]]
        if not tids or (kept["file"], kept["after"]) != (os.path.abspath(file), after):
            return False
        there = host.truncate(node.name, after, folder, dry_run=True)
        return (there.transactions, there.first, there.last) == (
            len(tids),
            tids[0],
            tids[-1],
        ) and all(
            host.digest(node.name, tid) == host.export_digest(folder, tid)
            for tid in {tids[0], tids[-1]}
        )
    except (OSError, ValueError, KeyError, TypeError, OperatorError):
        return False  # transactions without a proven export are exported


def contents(folder: Path) -> list[str]:
    """Return what an export holds, such as ``Conference 12 "Title"``, and how many more objects.

    Empty if the folder's list is unreadable: the export has already checked it.
    """
    try:
        kept = json.loads((folder / "tail.json").read_text("utf-8"))
        objects = [
            (str(each["oid"]), str(each["class"]), each["what"])
            for transaction in kept["transactions"]
            for each in transaction["objects"]
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    named = {oid: (_rank(kind, what), what) for oid, kind, what in objects if what}
    texts = list(dict.fromkeys(what for _, what in sorted(named.values(), key=lambda one: one[0])))
    more = len({oid for oid, _, _ in objects}) - len(texts[:MOST])
    return texts[:MOST] + ([f"and {more} more object{'s' * (more != 1)}"] if more > 0 else [])


def _rank(kind: str, what: str) -> tuple[bool, int]:
    name = kind.rpartition(".")[2]
    return '"' not in what, KNOWN.index(name) if name in KNOWN else len(KNOWN)


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
        return AtStake(tuple(contents(kept)), kept.name)
    try:
        with tempfile.TemporaryDirectory(dir=Layout(cluster).var, prefix="at-stake-") as folder:
            done = host.export(node.name, loss.after, Path(folder) / "tail")
            return AtStake(tuple(contents(done.folder)))
    except OperatorError as error:
        return AtStake(unknown=f"{error.notice}: {error.detail}")
    except OSError as error:
        return AtStake(unknown=f"{Layout(cluster).var}: {error.strerror}")


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
