"""Which nodes can replace a primary, and the data loss that each choice means."""

from __future__ import annotations

from collections.abc import Iterator

from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import data_fs
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.datafs import Comparison
from indico_zodbrepl.host.interface import host_of
from indico_zodbrepl.monitor.promotion import best_candidate
from indico_zodbrepl.monitor.snapshot import NodeStatus
from indico_zodbrepl.operations.facts import Situation
from indico_zodbrepl.operations.model import Loss
from indico_zodbrepl.probing import tid

COMPARE_SECONDS = 300.0


def choose(situation: Situation, primary: str) -> NodeStatus | None:
    """Return the fit follower with the newest transaction; None when no follower is fit."""
    return best_candidate(
        situation.snapshot,
        unfit=[
            node.name
            for node in situation.snapshot.nodes
            if node.name == primary or not is_fit(situation, node)
        ],
    )


def is_fit(situation: Situation, node: NodeStatus) -> bool:
    """Return True if a node runs as a follower and its history has not diverged."""
    return (
        node.reachable
        and node.actual_role in ("secondary", "relay")
        and situation.conditions.get(node.name) is None
    )


def loss(situation: Situation, primary: str, new: NodeStatus) -> Loss | None:
    """Return what Indico loses when ``new`` replaces ``primary``; None when nothing is lost.

    Exact where the primary's data file can be read, else an estimate of what others saw of it.
    """
    found = situation.comparisons.get(primary, "")
    if isinstance(found, Comparison):
        return _exact(primary, new, found)
    return _estimate(situation, primary, new, found)


def losses_of_others(situation: Situation, primary: str, new: NodeStatus) -> Iterator[Loss]:
    """Yield what other followers have and ``new`` lacks; choosing them would keep it."""
    for node in situation.snapshot.nodes:
        found = situation.comparisons.get(node.name)
        if node.name in (primary, new.name) or not isinstance(found, Comparison):
            continue
        exact = _exact(node.name, new, found)
        if exact is not None:
            yield exact


def _exact(holder: str, new: NodeStatus, found: Comparison) -> Loss | None:
    count = lost_count(found)
    if not count:
        return None
    after = found.common.tid if found.common else None
    seconds = _between(after, found.private_last)
    span = "" if seconds is None else f", made within {seconds:.1f} s"
    return Loss(
        holder,
        count,
        seconds,
        True,
        after,
        f"{transactions(count)} that only {holder} has and {new.name} lacks{span}",
    )


def _estimate(situation: Situation, primary: str, new: NodeStatus, why: str) -> Loss:
    after = None if new.last_tid is None else f"{new.last_tid:016x}"
    newest, observer = new.last_tid or 0, ""
    for name, seen in _sightings(situation, primary):
        if seen > newest:
            newest, observer = seen, name
    since = situation.now
    if situation.last_seen is not None and situation.last_seen.primary == primary:
        since = situation.last_seen.at
    unknown = (
        f"the data of {primary} can't be read ({why})"
        if why
        else f"the transactions that only {primary} has are unknown"
    )
    if not observer:
        return Loss(
            primary,
            None,
            None,
            False,
            after,
            f"possibly some transactions: {unknown}; no observer saw a newer one than {new.name} "
            f"has, but none looked in the last {max(0.0, situation.now - since):.1f} s"
            if since != situation.now
            else f"possibly some transactions: {unknown}; no observer saw a newer one than "
            f"{new.name} has",
        )
    seconds = _span(new.last_tid or 0, newest)
    return Loss(
        primary,
        None,
        seconds,
        False,
        after,
        f"at least one transaction: {unknown}; {observer} saw one that is "
        f"{seconds or 0.0:.1f} s newer than the last of {new.name}",
    )


def _sightings(situation: Situation, primary: str) -> Iterator[tuple[str, int]]:
    for instance in situation.snapshot.indico:
        if instance.last_tid is not None:
            yield f"Indico instance {instance.name}", instance.last_tid
    for node in situation.snapshot.nodes:
        if node.name != primary and node.last_tid is not None:
            yield f"node {node.name}", node.last_tid
    if situation.last_seen is not None and situation.last_seen.primary == primary:
        yield "the monitor process", situation.last_seen.last_tid


def _between(earlier: str | None, later: str | None) -> float | None:
    if earlier is None or later is None:
        return None
    return _span(tid.parse(earlier), tid.parse(later))


def _span(earlier: int, later: int) -> float | None:
    start, end = tid.committed_at(earlier), tid.committed_at(later)
    return None if start is None or end is None else max(0.0, end - start)


def against(cluster: Cluster, installation: Installation, name: str, new: str) -> Comparison:
    """Compare a node's data file with the new primary's; both may be served meanwhile.

    The primary keeps no comparison of its own; those of its followers count for both.  Raises
    OperatorError.
    """
    host = host_of(cluster, installation)
    known, own = host.history(new), host.history(name)
    verified = None
    if known is not None and known.against == name:
        verified = known.verified_tid
    elif own is not None and own.against == new:
        verified = own.verified_tid
    file = data_fs(cluster.node(name))
    try:
        with file.open("rb"):
            pass
    except OSError as error:
        raise OperatorError(f"{file}: {error.strerror}") from error
    return host.compare(name, new, verified, seconds=COMPARE_SECONDS)


def fingerprint(node: Node) -> str:
    """Return a text that changes with a node's data file; empty when there is no file."""
    try:
        found = data_fs(node).stat()
    except OSError:
        return ""
    return f"{found.st_ino} {found.st_size} {found.st_mtime_ns}"


def lost_count(found: Comparison) -> int:
    """Return how many transactions the first file of a comparison has and the second lacks."""
    return found.private + found.conflicting


def transactions(count: int) -> str:
    """Return a number of transactions in words."""
    return "1 transaction" if count == 1 else f"{count} transactions"
