"""Decide if a node may follow another one: compare histories and record the result."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable

from indico_zodbrepl.backends import Family, backend_of
from indico_zodbrepl.backends.zeo_servers import EMPTY_BYTES, has_data
from indico_zodbrepl.cluster import Cluster, Node, NodeState
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import data_fs
from indico_zodbrepl.cluster.lookup import root_of
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import (
    comparing,
    completeness,
    confirmed_commits,
    datafs,
    history,
    peers,
)
from indico_zodbrepl.host.datafs_answers import Comparison, Relation, describe
from indico_zodbrepl.host.history import Condition, Lineage
from indico_zodbrepl.host.interface import host_of
from indico_zodbrepl.probing import times

NO_DATA = "it holds no transaction"


def compare(
    cluster: Cluster, installation: Installation, name: str, upstream: str, *, full: bool = False
) -> Comparison:
    """Compare a node's data file with another's; servers may run.  Raises OperatorError.

    Args:
        full: compare everything, not only the transactions after the last comparison.
    """
    node = cluster.node(name)
    known = None if full else history.read(node)
    return comparing.compare(
        cluster,
        installation,
        node,
        cluster.node(upstream),
        known.verified_tid if known else None,
    )


def admit_follower(
    cluster: Cluster, installation: Installation, state: NodeState, *, dry_run: bool = False
) -> list[str]:
    """Check that a node has nothing that its upstream lacks, before it follows it.

    Records the last common transaction, so that next time only newer ones are compared.  The
    upstream's server may run, or not.  An upstream whose data file is empty, or
    lacks what the node got from it, is the one that lost data: the node is not marked.

    Args:
        state: the node's new state, with an upstream.
        dry_run: record nothing.

    Returns:
        Remarks for the operator although the node may start, one line each.

    Raises:
        OperatorError: exit 8, its history differs, or it cannot be compared and the node was a
            primary since the last comparison; exit 7, timeout.
    """
    node, upstream = cluster.node(state.node), cluster.node(state.upstream or "")
    known = history.known(node, state)
    history.refuse_condition(cluster, node, known)
    refuse(node)
    if not backend_of(cluster).has_data(cluster, node):
        if not dry_run:
            _remember(node, known, history.nothing(state.epoch, was_writable=False))
        return []
    problem = _why_not_comparable(cluster, upstream)
    if not problem:
        try:
            found = comparing.compare(cluster, installation, node, upstream, known.verified_tid)
        except OperatorError as error:
            if error.exit_code is not ExitCode.REFUSED:
                raise
            _refuse_damaged(cluster, installation, state)
            problem = error.detail
        else:
            if found.relation is Relation.AHEAD:
                found = _against_primary(cluster, installation, state, known) or found
            if completeness.is_witness(known, state.epoch) and (
                found.relation is Relation.AHEAD or found.upstream_lacks_blobs
            ):
                problem = f"node {upstream.name} lacks data of epoch {state.epoch}: " + describe(
                    found, node.name, upstream.name
                )
            else:
                judged, refusal = judge(cluster, state, known, found)
                if not dry_run:
                    _remember(node, known, judged)
                if refusal is not None:
                    raise refusal
                return []
    if known.was_writable:
        raise unknown_history(state, problem)
    remark = (
        f"the history of node {node.name} was not compared with that of node "
        f"{upstream.name}: {problem}"
    )
    return [remark]


def unknown_history(state: NodeState, problem: str) -> OperatorError:
    """Return the error for a former primary that can't be compared with its upstream."""
    return OperatorError(
        f"node {state.node} refuses to follow node {state.upstream}",
        f"it was a primary, so it may hold transactions of its own, and that is unknown "
        f"without the data of node {state.upstream}: {problem}",
        f"bring node {state.upstream} back first",
        ExitCode.REFUSED,
    )


def _refuse_damaged(cluster: Cluster, installation: Installation, state: NodeState) -> None:
    """Raise OperatorError (exit 8) if the end of a node's own data file can't be read."""
    try:
        datafs.last(installation, data_fs(cluster.node(state.node)))
    except OperatorError as error:
        if error.exit_code is not ExitCode.REFUSED:
            raise
        raise damaged(cluster, state, error) from error


def damaged(cluster: Cluster, state: NodeState, error: OperatorError) -> OperatorError:
    """Return the error for a follower whose data file has an end that can't be read."""
    clone = Commands.here(cluster).zodbrepl("clone", state.node)
    return OperatorError(
        f"node {state.node} refuses to follow node {state.upstream}: its data file is damaged",
        error.detail,
        f"copy another node's data to it; the damaged file is kept: {clone}",
        ExitCode.REFUSED,
    )


def check_follower(
    cluster: Cluster, installation: Installation, state: NodeState, *, dry_run: bool = False
) -> list[str]:
    """Check that a node may follow its upstream, as far as its backend can before the start.

    Returns remarks, a line each.  Raises OperatorError as ``admit_follower``.
    """
    return _CHECKS[backend_of(cluster).family](cluster, installation, state, dry_run)


def _check_file(
    cluster: Cluster, installation: Installation, state: NodeState, dry_run: bool
) -> list[str]:
    if not dry_run:
        confirmed_commits.check_start(cluster, installation, cluster.node(state.node))
    remarks = admit_follower(cluster, installation, state, dry_run=dry_run)
    if dry_run and not remarks:
        return [f"its history is that of node {state.upstream}"]
    return remarks


def _check_condition(
    cluster: Cluster, _installation: Installation, state: NodeState, _dry_run: bool
) -> list[str]:
    """Check the condition only: the database server compares histories when it connects."""
    history.refuse_unfit(cluster, state)
    return []


_CHECKS: dict[Family, Callable[[Cluster, Installation, NodeState, bool], list[str]]] = {
    Family.ZRS: _check_file,
    Family.NATIVE: _check_condition,
}


def judge(
    cluster: Cluster, state: NodeState, known: Lineage, found: Comparison
) -> tuple[Lineage, OperatorError | None]:
    """Return the history to write after a comparison, and why the node must not follow."""
    node, upstream = cluster.node(state.node), state.upstream or ""
    hidden = known.was_writable and found.unproven(known.verified_tid) > 0
    if found.relation.may_follow and not hidden:
        common = found.common
        return Lineage(
            common.tid if common else known.verified_tid,
            common.digest if common else known.digest,
            upstream,
            state.epoch,
            was_writable=False,
            condition=Condition.OK,
            detail="",
            at=known.at,
        ), None
    why = (
        describe(found, node.name, upstream)
        if not hidden
        else (
            f"{found.packed_away} transactions, up to {found.packed_away_last}, are only on node "
            f"{node.name}, and the pack of node {upstream} hides whether they were on it: node "
            f"{node.name} was a primary since it was last compared"
        )
    )
    diverged = dataclasses.replace(
        known, epoch=state.epoch, condition=Condition.DIVERGED, detail=why
    )
    word = {Relation.AHEAD: "is ahead of", Relation.UNRELATED: "has nothing in common with"}
    return diverged, OperatorError(
        f"node {node.name} refuses to follow node {upstream}: its history "
        f"{word.get(found.relation, 'diverged from')} that of node {upstream}",
        why,
        f"export its divergent transactions and make it follow: "
        f"{Commands.here(cluster).zodbrepl('rejoin', node.name)}",
        ExitCode.REFUSED,
    )


def _against_primary(
    cluster: Cluster, installation: Installation, state: NodeState, known: Lineage
) -> Comparison | None:
    """Compare a node that is ahead of its relay with the primary.

    A relay that was cloned, or was away, catches up; only the primary's history counts.
    """
    states = peers.saved_states(cluster)
    primary = root_of(state.upstream, states)
    if primary in (None, state.node, state.upstream) or primary not in states:
        return None
    above = cluster.node(primary or "")
    if _why_not_comparable(cluster, above):
        return None
    node = cluster.node(state.node)
    return comparing.compare(cluster, installation, node, above, known.verified_tid)


def _remember(node: Node, known: Lineage, new: Lineage) -> None:
    """Write a changed history; an unchanged one is not written, so a full disk blocks no start."""
    if dataclasses.replace(new, at=known.at) != known or not known.at:
        history.write(node, dataclasses.replace(new, at=times.now()))


def _why_not_comparable(cluster: Cluster, upstream: Node) -> str:
    """Return why a node's data file cannot be compared; empty if it can."""
    path = data_fs(upstream)
    if not cluster.is_here(upstream):
        try:
            return "" if host_of(cluster).has_data(upstream.name) else f"{path}: {NO_DATA}"
        except OperatorError as error:
            return f"{error.notice}: {error.detail}"
    try:
        with path.open("rb"):
            return "" if has_data(upstream) else f"{path}: {NO_DATA}"
    except OSError as error:
        return f"{path}: {error.strerror}"


def refuse(node: Node) -> None:
    """Raise OperatorError (exit 8) if a node's data lie beside its missing data file."""
    if has_data(node):
        return
    path = data_fs(node)
    left = {kind: path.with_name(f"{path.name}.{kind}") for kind in ("old", "pack")}
    sizes = {kind: each.stat().st_size for kind, each in left.items() if each.is_file()}
    sizes = {kind: size for kind, size in sizes.items() if size > EMPTY_BYTES}
    if not sizes:
        return
    found = " and ".join(f"{left[kind]} ({size} bytes)" for kind, size in sizes.items())
    if "old" in sizes:
        # The unpacked file, complete and with its index; the next pack repeats the work.
        hint = (
            f"put it back: mv {shlex.quote(str(left['old']))} {shlex.quote(str(path))}; where "
            "a backup is newer than that file, restore it then"
        )
    else:
        hint = (
            "it may be incomplete: restore Data.fs from a backup, or move that file away, "
            "and the node gets another one's data when it follows it"
        )
    raise OperatorError(
        f"node {node.name} refuses to start: its data file is missing",
        f"{path} is not there or empty, but {found} is: a pack did not end, and a server would "
        "begin an empty database",
        hint,
        ExitCode.REFUSED,
    )
