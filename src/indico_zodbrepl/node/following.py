"""Whether a node may follow another one: histories are compared, the result is remembered."""

from __future__ import annotations

import dataclasses

from ..backends import backend_of
from ..cluster import Cluster, Node, NodeState
from ..cluster.commands import Commands
from ..cluster.installation import Installation
from ..cluster.layout import data_fs
from ..errors import ExitCode, OperatorError
from . import datafs, epochs, half_packed, lineage, testimony
from . import state as node_state
from .datafs import Comparison, Relation
from .lineage import Condition, Lineage


def compare(cluster: Cluster, installation: Installation, name: str, upstream: str, *,
            full: bool = False) -> Comparison:
    """Compare a node's data file with another's; servers may run.  Raises OperatorError.

    Args:
        full: look at everything, not only at what came after the last such comparison.
    """
    node = cluster.node(name)
    known = None if full else lineage.read(node)
    return datafs.compare(installation, data_fs(node), data_fs(cluster.node(upstream)),
                          known.verified_tid if known else None)


def admit_follower(cluster: Cluster, installation: Installation, state: NodeState, *,
                   dry_run: bool = False) -> list[str]:
    """Make sure that a node holds nothing that its upstream lacks before it follows it.

    Remembers the last common transaction, so that the next time only what is newer is
    compared.  The upstream's server may run, or not.

    Args:
        state: what the node is to be; it has an upstream.
        dry_run: remember nothing.

    Returns:
        What an operator should know although the node may start, one line each.

    Raises:
        OperatorError: exit 8, its history is another one, or it can't be compared and the
            node was a primary since it last was; exit 7, it took too long.
    """
    node, upstream = cluster.node(state.node), cluster.node(state.upstream or "")
    known = lineage.known(node, state)
    lineage.refuse_condition(cluster, node, known)
    half_packed.refuse(node)
    if not backend_of(cluster).has_data(cluster, node):
        if not dry_run:
            _remember(node, known, lineage.nothing(state.epoch, was_writable=False))
        return []
    problem = _why_unreachable(upstream)
    if not problem:
        try:
            found = datafs.compare(installation, data_fs(node), data_fs(upstream),
                                   known.verified_tid)
        except OperatorError as error:
            if error.exit_code is not ExitCode.REFUSED:
                raise
            datafs.last(installation, data_fs(node))  # tells when it is the node's own file
            problem = error.detail
        else:
            if found.relation is Relation.AHEAD:
                found = _against_primary(cluster, installation, state, known) or found
            judged, refusal = _judge(cluster, state, known, found)
            if not dry_run:
                _remember(node, known, judged)
            if refusal is not None:
                raise refusal
            return []
    if known.was_writable:
        raise OperatorError(
            f"node {node.name} refuses to follow node {upstream.name}",
            f"it was a primary, so it may hold transactions of its own, and that can't be told "
            f"without the data of node {upstream.name}: {problem}",
            f"bring node {upstream.name} back first", ExitCode.REFUSED)
    remark = (f"the history of node {node.name} was not compared with that of node "
              f"{upstream.name}: {problem}")
    return [remark]


def says(found: Comparison, name: str, upstream: str) -> str:
    """A comparison in one line."""
    parts = [f"{found.private} transaction{'s' * (found.private != 1)} only on node {name}"
             + (f" ({found.private_first} to {found.private_last})" if found.private else ""),
             f"{found.conflicting} with the same id and other content" if found.conflicting else "",
             f"{found.holes} missing among older ones" if found.holes else "",
             f"{found.missing} only on node {upstream}",
             f"the last common one is {found.common.tid}" if found.common
             else "no transaction in common"]
    return "; ".join(filter(None, parts))


def _judge(cluster: Cluster, state: NodeState, known: Lineage,
           found: Comparison) -> tuple[Lineage, OperatorError | None]:
    """What is to be remembered of a comparison, and why the node may not follow, if so."""
    node, upstream = cluster.node(state.node), state.upstream or ""
    hidden = (known.was_writable and found.packed_away_last is not None
              and found.packed_away_last > (known.verified_tid or ""))
    if found.relation.may_follow and not hidden:
        common = found.common
        return Lineage(
            common.tid if common else known.verified_tid, common.digest if common else known.digest,
            upstream, state.epoch, was_writable=False, condition=Condition.OK, detail="",
            at=known.at), None
    why = says(found, node.name, upstream) if not hidden else (
        f"{found.packed_away} transactions, up to {found.packed_away_last}, are only on node "
        f"{node.name}, and the pack of node {upstream} hides whether they were on it: node "
        f"{node.name} was a primary since it was last compared")
    diverged = dataclasses.replace(
        known, epoch=state.epoch, condition=Condition.DIVERGED, detail=why)
    word = {Relation.AHEAD: "is ahead of", Relation.UNRELATED: "has nothing in common with"}
    return diverged, OperatorError(
        f"node {node.name} refuses to follow node {upstream}: its history "
        f"{word.get(found.relation, 'diverged from')} that of node {upstream}", why,
        f"keep and list what only it has, then let it follow: "
        f"{Commands.here(cluster).zodbrepl('rejoin', node.name)}", ExitCode.REFUSED)


def _against_primary(cluster: Cluster, installation: Installation, state: NodeState,
                     known: Lineage) -> Comparison | None:
    """The comparison with the primary, for a node that is ahead of the relay it follows.

    A relay that was seeded, or was away, catches up; what counts is the primary's history.
    """
    states = node_state.readable(cluster)
    primary = testimony.root_of(state.upstream, states)
    if primary in (None, state.node, state.upstream) or primary not in states:
        return None
    above = cluster.node(primary or "")
    if _why_unreachable(above):
        return None
    return datafs.compare(installation, data_fs(cluster.node(state.node)), data_fs(above),
                          known.verified_tid)


def _remember(node: Node, known: Lineage, new: Lineage) -> None:
    """Write what changed; the same is not written again, so that a full disk hinders no start."""
    if dataclasses.replace(new, at=known.at) != known or not known.at:
        lineage.write(node, dataclasses.replace(new, at=epochs.now()))


def _why_unreachable(upstream: Node) -> str:
    path = data_fs(upstream)
    try:
        with path.open("rb"):
            return ""
    except OSError as error:
        return f"{path}: {error.strerror}"
