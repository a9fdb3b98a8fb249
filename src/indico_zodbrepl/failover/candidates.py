"""Who can take over from a primary that is gone, and what choosing each would lose.  Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ..monitor.promotion import best_candidate
from ..monitor.snapshot import NodeStatus
from ..node.datafs import Comparison
from ..probing import tid
from .comparing import lost_count, transactions
from .situation import Situation
from .steps import Loss


def choose(situation: Situation, primary: str) -> NodeStatus | None:
    """The fit follower with the newest transaction; None when no follower is fit."""
    return best_candidate(situation.snapshot, unfit=[
        node.name for node in situation.snapshot.nodes
        if node.name == primary or not is_fit(situation, node)])


def is_fit(situation: Situation, node: NodeStatus) -> bool:
    """Whether a node runs as a follower whose history is that of the cluster."""
    return (node.reachable and node.actual_role in ("secondary", "relay")
            and situation.conditions.get(node.name) is None)


def loss(situation: Situation, primary: str, new: NodeStatus) -> Loss | None:
    """What Indico loses when ``new`` takes over from ``primary``.

    The primary's own data file tells exactly, if it can be read; else it is estimated from what
    others saw of the primary.  None when nothing is lost for certain.
    """
    found = situation.comparisons.get(primary, "")
    if isinstance(found, Comparison):
        return _exact(primary, new, found)
    return _estimate(situation, primary, new, found)


def losses_of_others(situation: Situation, primary: str, new: NodeStatus) -> Iterator[Loss]:
    """What other followers have that ``new`` lacks: choosing them would save it."""
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
    span = "" if seconds is None else f", {seconds:.1f} s of work"
    return Loss(holder, count, seconds, True, after,
                f"{transactions(count)} that only {holder} has and {new.name} lacks{span}")


def _estimate(situation: Situation, primary: str, new: NodeStatus, why: str) -> Loss:
    after = None if new.last_tid is None else f"{new.last_tid:016x}"
    newest, witness = new.last_tid or 0, ""
    for name, seen in _sightings(situation, primary):
        if seen > newest:
            newest, witness = seen, name
    since = situation.now
    if situation.last_seen is not None and situation.last_seen.primary == primary:
        since = situation.last_seen.at
    unknown = (f"the data of {primary} can't be read ({why})" if why
               else f"what only {primary} has can't be told")
    if not witness:
        return Loss(primary, None, None, False, after,
                    f"perhaps something: {unknown}; nobody saw anything newer than {new.name} has, "
                    f"but nobody looked in the last {max(0.0, situation.now - since):.1f} s"
                    if since != situation.now else
                    f"perhaps something: {unknown}; nobody saw anything newer than {new.name} has")
    seconds = _span(new.last_tid or 0, newest)
    return Loss(primary, None, seconds, False, after,
                f"at least one transaction: {unknown}; {witness} saw one that is "
                f"{seconds or 0.0:.1f} s newer than the last of {new.name}")


def _sightings(situation: Situation, primary: str) -> Iterator[tuple[str, int]]:
    for instance in situation.snapshot.indico:
        if instance.last_tid is not None:
            yield f"Indico instance {instance.name}", instance.last_tid
    for node in situation.snapshot.nodes:
        if node.name != primary and node.last_tid is not None:
            yield f"node {node.name}", node.last_tid
    if situation.last_seen is not None and situation.last_seen.primary == primary:
        yield "the watch program", situation.last_seen.last_tid


def _between(earlier: str | None, later: str | None) -> float | None:
    if earlier is None or later is None:
        return None
    return _span(tid.parse(earlier), tid.parse(later))


def _span(earlier: int, later: int) -> float | None:
    start, end = tid.committed_at(earlier), tid.committed_at(later)
    return None if start is None or end is None else max(0.0, end - start)
