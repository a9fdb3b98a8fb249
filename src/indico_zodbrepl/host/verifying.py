"""Compare a follower with the primary while both serve, so that its next start is fast."""

from __future__ import annotations

import dataclasses

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import comparing, history, node_files
from indico_zodbrepl.host.datafs_answers import Relation, describe
from indico_zodbrepl.host.history import Condition
from indico_zodbrepl.probing import times

SECONDS = 3600.0
"""Seconds for one comparison; the first one of a node, or after an import of files, reads all."""


@dataclasses.dataclass(frozen=True)
class Verified:
    """The result of a comparison.

    Attributes:
        tid: the transaction up to which the node's history is verified.
        diverged: the problem, one line; the node is marked then.  Empty if it may follow.
    """

    tid: str | None
    diverged: str


def verify(
    cluster: Cluster, installation: Installation, name: str, primary: str, seconds: float = SECONDS
) -> Verified | None:
    """Compare a follower's new transactions with the primary's; record the verified part.

    It blocks nothing: files are only read, and a record that others wrote meanwhile stays.  A
    condition is never reset to ``ok``.

    Args:
        primary: the node with the authoritative history.
        seconds: time limit.

    Returns:
        None if there is nothing to compare: the node was a primary since, is not ``ok``, was never
        compared, or changed its role meanwhile.

    Raises:
        OperatorError: it could not be compared, or the result could not be written.
    """
    node = cluster.node(name)
    known = history.read(node)
    if known is None or known.was_writable or known.condition is not Condition.OK:
        return None
    found = comparing.compare(
        cluster, installation, node, cluster.node(primary), known.verified_tid, seconds=seconds
    )
    if found.relation.may_follow:
        if found.common is None or found.common.tid == known.verified_tid:
            return Verified(known.verified_tid, "")
        new = dataclasses.replace(
            known, verified_tid=found.common.tid, digest=found.common.digest, against=primary
        )
        why = ""
    elif found.relation is Relation.AHEAD:
        return None  # it accepted no writes since: the primary's file lost data, or is missing
    elif found.upstream_lacks_blobs:
        raise OperatorError(
            f"node {primary} lacks blob files that node {name} has",
            describe(found, name, primary),
            f"copy them from the folder {node_files.BLOBS} of node {name}'s data directory",
        )
    else:
        why = describe(found, name, primary)
        new = dataclasses.replace(known, condition=Condition.DIVERGED, detail=why)
    if not history.replace(node, known, dataclasses.replace(new, at=times.now())):
        return None
    return Verified(new.verified_tid, why)
