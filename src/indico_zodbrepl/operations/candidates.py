"""Which nodes can replace a primary, and the data loss that each choice means."""

from __future__ import annotations

from collections.abc import Iterator

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.host.datafs_answers import Comparison
from indico_zodbrepl.host.interface import Host, host_of
from indico_zodbrepl.host.last_seen import LastSeen
from indico_zodbrepl.monitor.node_status import NodeStatus
from indico_zodbrepl.monitor.promotion import best_candidate
from indico_zodbrepl.operations.facts import Situation
from indico_zodbrepl.operations.model import Loss
from indico_zodbrepl.probing import tid

COMPARE_SECONDS = 300.0


def choose(situation: Situation, primary: str) -> NodeStatus | None:
    """Return the fit follower with the newest transaction; None if none is fit."""
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
    """Return what Indico loses if ``new`` replaces ``primary``; None if nothing is lost.

    The result is exact if the primary's data file is readable and no source saw more than it holds;
    otherwise it is an estimate from other sources.
    """
    found = situation.comparisons.get(primary, "")
    if not isinstance(found, Comparison):
        return _estimate(situation, primary, new, found and f"can't be read ({found})")
    if lacks := incomplete(situation, primary, new):
        return _estimate(situation, primary, new, f"are incomplete ({lacks})")
    return _exact(primary, new, found)


def incomplete(situation: Situation, primary: str, new: NodeStatus) -> str:
    """Return the source of transactions that the primary's data file lacks; empty if none.

    A follower has only what its primary had: a file that ends sooner was truncated, replaced by
    an older one, or begun on an empty disk.
    """
    found = situation.comparisons.get(primary)
    if not isinstance(found, Comparison):
        return ""
    last = tid.parse(found.last)
    known = [(f"node {new.name}", new.last_tid or 0), *_sightings(situation, primary)]
    observer, newest = max(known, key=lambda each: each[1])
    if newest <= last:
        return ""
    return f"they end with {last:016x}, and {observer} knows {newest:016x}"


def losses_of_others(situation: Situation, primary: str, new: NodeStatus) -> Iterator[Loss]:
    """Yield what other followers have and ``new`` lacks; choosing them would keep it.

    Nodes whose stopped data only their own server can read are not compared; their last
    transactions tell.
    """
    for node in situation.snapshot.nodes:
        if node.name in (primary, new.name):
            continue
        found = situation.comparisons.get(node.name)
        if isinstance(found, Comparison):
            known = _exact(node.name, new, found)
        else:
            known = _newer(situation, node, new) if found is None else None
        if known is not None:
            yield known


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


def _newer(situation: Situation, node: NodeStatus, new: NodeStatus) -> Loss | None:
    """Return the loss of a follower that was not compared, if it has a newer transaction."""
    last = node.last_tid or 0
    if last <= (new.last_tid or 0) or not is_fit(situation, node):
        return None
    after = None if new.last_tid is None else f"{new.last_tid:016x}"
    seconds = _span(new.last_tid or 0, last)
    made = "" if seconds is None else f", the last one {seconds:.1f} s newer"
    text = f"at least one transaction that {node.name} has and {new.name} lacks{made}"
    return Loss(node.name, None, seconds, False, after, text)


def _estimate(situation: Situation, primary: str, new: NodeStatus, why: str) -> Loss:
    after = None if new.last_tid is None else f"{new.last_tid:016x}"
    newest, observer = new.last_tid or 0, ""
    for name, seen in _sightings(situation, primary):
        if seen > newest:
            newest, observer = seen, name
    monitored = _last_seen(situation, primary)
    since = situation.now if monitored is None else monitored.at
    unknown = (
        f"the data of {primary} {why}"
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
        if (
            node.name != primary
            and node.last_tid is not None
            and node.name not in situation.conditions
        ):
            yield f"node {node.name}", node.last_tid
    monitored = _last_seen(situation, primary)
    if monitored is not None:
        yield "the monitor process", monitored.last_tid


def _last_seen(situation: Situation, primary: str) -> LastSeen | None:
    """Return the primary in its present epoch as the monitor process last saw it."""
    seen = situation.last_seen
    if seen is None or seen.primary != primary:
        return None
    epoch = situation.snapshot.node(primary).assigned_epoch
    return seen if seen.epoch is None or epoch is None or seen.epoch >= epoch else None


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
    host.check_readable(name)
    return host.compare(name, new, verified, seconds=COMPARE_SECONDS)


def fingerprint(host: Host, name: str) -> str:
    """Return a text that changes with a node's data file; empty when there is no file."""
    found = host.data_file(name)
    return "" if found is None else found.identity


def lost_count(found: Comparison) -> int:
    """Return how many transactions the first file of a comparison has and the second lacks.

    With those that the second one has, but not with the content of their blobs.
    """
    return found.private + found.conflicting + found.blobs_private


def files(count: int) -> str:
    """Return a number of uploaded files in words."""
    return "1 file" if count == 1 else f"{count} files"


def transactions(count: int) -> str:
    """Return a number of transactions in words."""
    return "1 transaction" if count == 1 else f"{count} transactions"
