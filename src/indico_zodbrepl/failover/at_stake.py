"""What would be lost by a plan, by the names that Indico's users know: read, never changed."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

from ..backends import backend_of
from ..cluster import Cluster
from ..cluster.installation import Installation
from ..cluster.layout import Layout, data_fs
from ..errors import OperatorError
from ..node import datafs
from .contents import contents
from .exports import exported_before
from .steps import Loss, Plan

MOST_TRANSACTIONS = 5000
"""A longer tail is not exported for a look alone."""


@dataclasses.dataclass(frozen=True)
class AtStake:
    """What a plan's loss consists of.

    Attributes:
        names: such as ``Conference 12 "Title"``; the last one may count those not named.
        tail: name of the folder of lost tails that has it already; empty if none.
        unknown: why it can't be said; empty when it can.
    """

    names: tuple[str, ...] = ()
    tail: str = ""
    unknown: str = ""


def at_stake(cluster: Cluster, installation: Installation, plan: Plan) -> AtStake:
    """Look at what a plan would lose, where a data file can be read.

    What is no tail of a lost-tails folder yet is exported to a temporary one, which takes time
    with the tail's size: not for a thread that somebody waits for.
    """
    loss = plan.loss
    if loss is None or loss.transactions == 0:
        return AtStake()
    unknown = _why_not(cluster, loss)
    if unknown or loss.after is None:
        return AtStake(unknown=unknown)
    node = cluster.node(loss.node)
    kept = exported_before(cluster, installation, node, loss.after)
    if kept is not None:
        return AtStake(tuple(contents(kept)), kept.name)
    try:
        with tempfile.TemporaryDirectory(dir=Layout(cluster).var, prefix="at-stake-") as folder:
            done = datafs.export(installation, data_fs(node), loss.after, Path(folder) / "tail")
            return AtStake(tuple(contents(done.folder)))
    except OperatorError as error:
        return AtStake(unknown=f"{error.notice}: {error.detail}")
    except OSError as error:
        return AtStake(unknown=f"{Layout(cluster).var}: {error.strerror}")


def _why_not(cluster: Cluster, loss: Loss) -> str:
    """Why what is lost can't be listed now; empty when it can."""
    if not backend_of(cluster).data_files:
        return "its engine tells it only while the node is out of service; it is exported then"
    if not loss.exact:
        return f"the data of node {loss.node} could not be compared"
    if loss.after is None:
        return "it is not known where it begins"
    if loss.transactions is None or loss.transactions > MOST_TRANSACTIONS:
        return "there are too many transactions to list before they are exported"
    return ""
