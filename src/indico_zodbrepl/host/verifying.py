"""Compare a follower with the primary while both serve, so that its next start is a short one."""

from __future__ import annotations

import dataclasses

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import data_fs
from indico_zodbrepl.host import datafs, epochs, history
from indico_zodbrepl.host.datafs import Relation
from indico_zodbrepl.host.history import Condition

SECONDS = 600.0
"""For one comparison; the first one of a node reads both files whole."""


@dataclasses.dataclass(frozen=True)
class Verified:
    """What came of a comparison.

    Attributes:
        tid: up to there the node's history was shown to be that of the cluster.
        diverged: what is wrong with it, one line; the node is marked then.  Empty when it may
            follow.
    """

    tid: str | None
    diverged: str


def verify(
    cluster: Cluster, installation: Installation, name: str, primary: str, seconds: float = SECONDS
) -> Verified | None:
    """Compare what a follower got since it was last compared, and remember how far it is the same.

    Hinders nobody: files are only read, and what anybody else wrote about the node meanwhile
    stands.  A condition is never turned back to ``ok``.

    Args:
        primary: whose history is the right one.
        seconds: time limit.

    Returns:
        None when nothing is to be compared: the node was a primary since, is not ``ok``, was never
        compared, or became something else meanwhile.

    Raises:
        OperatorError: it could not be compared, or the result not be written.
    """
    node = cluster.node(name)
    known = history.read(node)
    if known is None or known.was_writable or known.condition is not Condition.OK:
        return None
    found = datafs.compare(
        installation, data_fs(node), data_fs(cluster.node(primary)), known.verified_tid, seconds
    )
    if found.relation.may_follow:
        if found.common is None or found.common.tid == known.verified_tid:
            return Verified(known.verified_tid, "")
        new = dataclasses.replace(
            known, verified_tid=found.common.tid, digest=found.common.digest, against=primary
        )
        why = ""
    elif found.relation is Relation.AHEAD:
        return None  # it took no writes since: the primary's file lost something, or is not there
    else:
        why = datafs.describe(found, name, primary)
        new = dataclasses.replace(known, condition=Condition.DIVERGED, detail=why)
    if not history.replace(node, known, dataclasses.replace(new, at=epochs.now())):
        return None
    return Verified(new.verified_tid, why)
