"""Plans a switchover: another node becomes primary, and nothing may be lost.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from ..backends import engine_of
from ..cluster.commands import Commands
from ..cluster.model import Cluster, NodeState, Role
from ..monitor.promotion import best_candidate, states_after
from ..monitor.snapshot import Level, NodeStatus, Snapshot
from .comparing import transactions
from .moves import Moves
from .situation import Situation
from .steps import Finding, Plan, Refusal, Step, Verdict

SMALL_LAG_SECONDS = 10.0
"""A target further behind would keep writes held for longer than the promised second."""
LEAST_FREE = 64 * 1024 * 1024
"""Bytes; a primary whose disk fills up refuses writes."""


def plan_switchover(cluster: Cluster, situation: Situation, target: str | None, reason: str,
                    commands: Commands) -> Plan | Refusal:
    """A plan that makes ``target`` primary in the place of a running one.

    Args:
        situation: its comparisons hold each follower against the primary.
        target: None for the follower that is furthest.
        reason: the operator's words.

    The order of the steps: while writes are held on the old primary, the target is shown to
    have everything; the old one may not write again before it ends; only then is the target
    promoted.  So nothing is lost and there are never two that write.  The old one ends after
    that, since its clients go over only then and find a primary at once.
    """
    snapshot = situation.snapshot
    primary = snapshot.node(snapshot.primary) if snapshot.primary else None
    if primary is None:
        return _no_primary(snapshot, commands)
    new = snapshot.node(target) if target else best_candidate(snapshot)
    if new is None or new.name == primary.name:
        why = (f"{primary.name} is primary already" if new is not None
               else "no node follows the primary")
        return Refusal(f"there is nothing to switch over: {why}", "",
                       (Finding(Verdict.AGAINST, primary.name, why),))
    ours = engine_of(cluster) is None
    findings = tuple(_preflight(situation, primary, new, ours=ours))
    if any(finding.verdict is Verdict.AGAINST for finding in findings):
        return Refusal(f"switchover to {new.name} refused; nothing was changed",
                       f"repair what is named, then try again; see {commands.zodbrepl('status')}",
                       findings)
    after = states_after(cluster, snapshot, primary, new)
    reason = reason or f"switchover from {primary.name}"
    steps = tuple((_steps if ours else _engine_steps)(Moves(cluster, commands), snapshot, after,
                                                      reason, primary))
    return Plan("switchover", new.name, primary.name, reason, after[new.name].epoch, steps, None,
                findings)


def follows_closely(node: NodeStatus) -> bool:
    """Whether a node lacks so little that a switchover to it holds writes for a moment only."""
    return node.lag_seconds is not None and node.lag_seconds <= SMALL_LAG_SECONDS


def by_depth(states: Mapping[str, NodeState], besides: Collection[str]) -> list[NodeState]:
    """States of the nodes that stay followers, the nearest to the new primary first.

    Args:
        states: of every node, by name.
        besides: names to leave out.
    """
    def depth(state: NodeState) -> int:
        count, upstream = 0, state.upstream
        while upstream is not None and count <= len(states):
            count, upstream = count + 1, states[upstream].upstream
        return count

    return sorted((state for name, state in states.items() if name not in besides), key=depth)


def instances_up(snapshot: Snapshot) -> list[str]:
    """Names of the Indico instances that answer."""
    return [instance.name for instance in snapshot.indico if instance.up]


def _steps(moves: Moves, snapshot: Snapshot, after: Mapping[str, NodeState], reason: str,
           old: NodeStatus) -> Iterator[Step]:
    new = next(state for state in after.values() if state.role is Role.PRIMARY)
    yield moves.hold(old.name)
    yield moves.prove(new.node, old.name)
    yield moves.seal(old.name)
    yield moves.promote(new.node, new.epoch, reason)
    in_place = all(snapshot.node(name).reachable for name in after)
    yield moves.turn(after[old.name]) if in_place else moves.stop(old.name)
    for instance in instances_up(snapshot):
        yield moves.see_writable(instance, new.node)
    others = by_depth(after, (old.name, new.node))
    for state in others:
        yield moves.follow(state)
    if not in_place:
        yield moves.assign(after[old.name])
        yield moves.start(old.name)
    for state in [*others, after[old.name]]:
        if snapshot.node(state.node).reachable:
            yield moves.see_following(state.node, state.upstream or "")
    yield moves.verify(new.node, new.epoch)


def _engine_steps(moves: Moves, snapshot: Snapshot, after: Mapping[str, NodeState], reason: str,
                  old: NodeStatus) -> Iterator[Step]:
    """The same where the engine replicates by itself: it can't hold writes, so the old one ends."""
    new = next(state for state in after.values() if state.role is Role.PRIMARY)
    yield moves.end(old.name)
    yield moves.prove_end(new.node, old.name)
    yield moves.promote(new.node, new.epoch, reason)
    for instance in instances_up(snapshot):
        yield moves.see_writable(instance, new.node)
    others = by_depth(after, (old.name, new.node))
    for state in others:
        yield moves.follow(state)
    yield moves.assign(after[old.name])
    yield moves.start(old.name)
    for state in [*others, after[old.name]]:
        if snapshot.node(state.node).reachable:
            yield moves.see_following(state.node, state.upstream or "")
    yield moves.verify(new.node, new.epoch)


def _no_primary(snapshot: Snapshot, commands: Commands) -> Refusal:
    writable = [node.name for node in snapshot.nodes if node.writable_primary]
    what = f"{' and '.join(writable)} both are" if writable else "no node is"
    return Refusal(
        "a switchover needs one running primary to hand over from",
        f"{commands.zodbrepl('status')}; if the primary is gone for good: "
        f"{commands.zodbrepl('failover', '--dry-run')}",
        (Finding(Verdict.AGAINST, "", f"{what} a writable primary", snapshot.sentence),))


def _preflight(situation: Situation, primary: NodeStatus, new: NodeStatus, *,
               ours: bool) -> Iterator[Finding]:
    """What is looked at before; the histories of data files only where they are ``ours``."""
    snapshot = situation.snapshot
    yield Finding(Verdict.FINE, primary.name, "runs as the only writable primary",
                  f"epoch {primary.epoch}, last transaction {primary.last_tid or 0:016x}")
    if snapshot.supervisor_problem:
        yield Finding(Verdict.AGAINST, "", "supervisord does not answer, so nothing could be "
                      "ended or started", snapshot.supervisor_problem)
    yield from target_fit(situation, new)
    yield _lag(new)
    for node in snapshot.nodes:
        if node.name != primary.name and ours:
            yield _lineage(situation, node, is_target=node.name == new.name)
    yield from disk(situation, new.name, primary.size)
    yield from _clients(snapshot, primary)
    told = {primary.name, new.name}
    for alert in snapshot.warnings:
        if alert.level is not Level.NOTICE and alert.subject not in told:
            yield Finding(Verdict.WARNING, alert.subject, alert.text, alert.detail)


def target_fit(situation: Situation, new: NodeStatus) -> Iterator[Finding]:
    """Whether a node is one that can be promoted: it runs, follows, and is not diverged."""
    condition = situation.conditions.get(new.name)
    if not new.reachable:
        yield Finding(Verdict.AGAINST, new.name, "does not answer", new.problem)
    elif new.actual_role not in ("secondary", "relay"):
        yield Finding(Verdict.AGAINST, new.name, "does not run as a secondary",
                      f"what listens on {new.address} is {new.actual_role or 'another server'}")
    elif condition is not None:
        yield Finding(Verdict.AGAINST, new.name, f"its lineage is marked {condition}")
    else:
        yield Finding(Verdict.FINE, new.name, f"runs as {new.actual_role}",
                      f"epoch {new.epoch}, last transaction {new.last_tid or 0:016x}")


def disk(situation: Situation, node: str, size: int | None) -> Iterator[Finding]:
    """Whether a node has room to be primary."""
    free = situation.free.get(node)
    if free is None:
        yield Finding(Verdict.WARNING, node, "the space left on its disk is not known")
    elif free < LEAST_FREE:
        yield Finding(Verdict.AGAINST, node, "its disk is nearly full", _mib(free))
    elif size is not None and free < size:
        yield Finding(Verdict.WARNING, node, "its disk has too little room to pack the database",
                      f"{_mib(free)}, the data file has {size / 2**20:.0f} MiB")
    else:
        yield Finding(Verdict.FINE, node, "its disk has room", _mib(free))


def _mib(free: int) -> str:
    return f"{free / 2**20:.0f} MiB free"


def _lag(new: NodeStatus) -> Finding:
    if new.reachable and not new.connected:
        return Finding(Verdict.AGAINST, new.name, "is cut off from the primary",
                       f"its link to {new.upstream or 'its upstream'} does not stand")
    if not follows_closely(new):
        seconds = "unknown" if new.lag_seconds is None else f"{new.lag_seconds:.1f} s"
        return Finding(Verdict.AGAINST, new.name, "is too far behind",
                       f"lag {seconds}, at most {SMALL_LAG_SECONDS:g} s is small enough")
    return Finding(Verdict.FINE, new.name, "follows closely",
                   f"lag {new.lag_seconds or 0.0:.1f} s, {new.lag_transactions} missing")


def _lineage(situation: Situation, node: NodeStatus, *, is_target: bool) -> Finding:
    found = situation.comparisons.get(node.name, "it was not compared")
    worse = Verdict.AGAINST if is_target else Verdict.WARNING
    if isinstance(found, str):
        return Finding(worse, node.name, "its history can't be compared with the primary's", found)
    if not found.relation.may_follow:
        return Finding(Verdict.AGAINST, node.name, f"its history is {found.relation}",
                       f"{transactions(found.private)} that the primary lacks")
    if not node.reachable and not is_target:
        return Finding(Verdict.WARNING, node.name, "does not answer; it stays as it is",
                       node.problem)
    return Finding(Verdict.FINE, node.name, "its history is the primary's",
                   f"{found.relation}; {transactions(found.examined)} compared")


def _clients(snapshot: Snapshot, primary: NodeStatus) -> Iterator[Finding]:
    working = 0
    for instance in snapshot.indico:
        if instance.up and instance.server_node == primary.name and instance.writable:
            working += 1
        else:
            yield Finding(Verdict.WARNING, instance.name, "is not connected and writable now",
                          instance.problem or "it stays as it is")
    others = (primary.clients or 0) - working
    if others > 0:
        yield Finding(Verdict.WARNING, primary.name,
                      f"{others} other client{'s' * (others > 1)} than Indico instances will be "
                      "disconnected",
                      "a bulk loader, a script, or a probe that asked just now")
    yield Finding(Verdict.FINE, "",
                  f"{working} of {len(snapshot.indico)} Indico instances can save")
