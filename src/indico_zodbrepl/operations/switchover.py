"""Switchover: another node becomes primary, and nothing is lost.

``plan_switchover`` is pure; ``survey`` gathers the facts.  The order of the steps is in ``_steps``
(ZRS) and ``_engine_steps`` (PostgreSQL, MariaDB); the steps are in ``switchover_steps``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from indico_zodbrepl.backends import can
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.model import Cluster, NodeState, Role
from indico_zodbrepl.monitor.node_status import NodeStatus
from indico_zodbrepl.monitor.promotion import (
    SMALL_LAG_SECONDS,
    best_candidate,
    follows_closely,
    states_after,
)
from indico_zodbrepl.monitor.snapshot import Snapshot
from indico_zodbrepl.operations import preflight
from indico_zodbrepl.operations.candidates import transactions
from indico_zodbrepl.operations.checks import SeeFollowing, SeeWritable, Verify
from indico_zodbrepl.operations.facts import Situation
from indico_zodbrepl.operations.model import Finding, Plan, Refusal, Step, Verdict
from indico_zodbrepl.operations.roles import Assign, Demote, Follow, Promote
from indico_zodbrepl.operations.start_steps import Start, Stop
from indico_zodbrepl.operations.switchover_steps import (
    KeepPaused,
    PauseWrites,
    ProveComplete,
    ProveStopped,
    StopPrimary,
)
from indico_zodbrepl.probing import tid
from indico_zodbrepl.probing.answers import Level


def plan_switchover(
    cluster: Cluster, situation: Situation, target: str | None, reason: str, commands: Commands
) -> Plan | Refusal:
    """Plan to make ``target`` primary in the place of a running one.

    Args:
        situation: its comparisons are of each follower with the primary.
        target: None for the follower with the newest transaction.
        reason: in the operator's words.
    """
    snapshot = situation.snapshot
    primary = snapshot.node(snapshot.primary) if snapshot.primary else None
    if primary is None:
        return _no_primary(snapshot, commands)
    full = [node.name for node in snapshot.nodes if node.is_full]
    new = (
        snapshot.node(target)
        if target
        else best_candidate(snapshot, full) or best_candidate(snapshot)
    )
    if new is None or new.name == primary.name:
        why = (
            f"{primary.name} is already primary"
            if new is not None
            else "no node follows the primary"
        )
        return Refusal(
            f"nothing to switch over: {why}",
            "",
            (Finding(Verdict.AGAINST, primary.name, why),),
        )
    ours = can(cluster, "hold")
    findings = tuple(_precheck(situation, primary, new, ours=ours))
    if any(finding.verdict is Verdict.AGAINST for finding in findings):
        return Refusal(
            f"switchover to {new.name} refused; nothing was changed",
            preflight.hint(situation.unwritable, cluster, commands)
            or f"repair the problems above, then retry; see {commands.zodbrepl('status')}",
            findings,
        )
    after = states_after(cluster, snapshot, primary, new)
    reason = reason or f"switchover from {primary.name}"
    steps = tuple((_steps if ours else _engine_steps)(commands, snapshot, after, reason, primary))
    return Plan(
        "switchover", new.name, primary.name, reason, after[new.name].epoch, steps, None, findings
    )


def catches_up(node: NodeStatus) -> bool:
    """Return True if a follower's disk has room, so that it is expected to catch up."""
    return node.reachable and not node.is_full


def by_depth(states: Mapping[str, NodeState], besides: Collection[str]) -> list[NodeState]:
    """Return the states of the nodes that stay followers, the nearest to the new primary first.

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
    """Return the names of the Indico instances that answer."""
    return [instance.name for instance in snapshot.indico if instance.up]


def _steps(
    commands: Commands,
    snapshot: Snapshot,
    after: Mapping[str, NodeState],
    reason: str,
    old: NodeStatus,
) -> Iterator[Step]:
    # While writes are paused, the target is shown to have everything.  The old primary stays paused
    # until the promotion, so there are never two primaries.  It is demoted after that, so that its
    # clients find the new primary at once.
    new = next(state for state in after.values() if state.role is Role.PRIMARY)
    yield PauseWrites.of(commands, old.name)
    yield ProveComplete.of(commands, new.node, old.name)
    yield KeepPaused.of(commands, old.name)
    yield Promote.of(commands, new.node, new.epoch, reason)
    in_place = all(snapshot.node(name).reachable for name in after)
    yield Demote.of(commands, after[old.name]) if in_place else Stop.of(commands, old.name)
    for instance in instances_up(snapshot):
        yield SeeWritable.of(commands, instance, new.node)
    others = by_depth(after, (old.name, new.node))
    for state in others:
        yield Follow.of(commands, state)
    if not in_place:
        yield Assign.of(commands, after[old.name])
        yield Start.of(commands, old.name)
    for state in [*others, after[old.name]]:
        if catches_up(snapshot.node(state.node)):
            yield SeeFollowing.of(commands, state.node, state.upstream or "")
    yield Verify.of(commands, new.node, new.epoch)


def _engine_steps(
    commands: Commands,
    snapshot: Snapshot,
    after: Mapping[str, NodeState],
    reason: str,
    old: NodeStatus,
) -> Iterator[Step]:
    """Yield the steps for a native replication backend: it can't pause writes, so it stops."""
    new = next(state for state in after.values() if state.role is Role.PRIMARY)
    yield StopPrimary.of(commands, old.name)
    yield ProveStopped.of(commands, new.node, old.name)
    yield Promote.of(commands, new.node, new.epoch, reason)
    for instance in instances_up(snapshot):
        yield SeeWritable.of(commands, instance, new.node)
    others = by_depth(after, (old.name, new.node))
    for state in others:
        yield Follow.of(commands, state)
    yield Assign.of(commands, after[old.name])
    yield Start.of(commands, old.name)
    for state in [*others, after[old.name]]:
        if catches_up(snapshot.node(state.node)):
            yield SeeFollowing.of(commands, state.node, state.upstream or "")
    yield Verify.of(commands, new.node, new.epoch)


def _no_primary(snapshot: Snapshot, commands: Commands) -> Refusal:
    writable = [node.name for node in snapshot.nodes if node.writable_primary]
    what = f"{' and '.join(writable)} both are" if writable else "no node is"
    return Refusal(
        "a switchover needs exactly one running primary",
        f"{commands.zodbrepl('status')}; if the primary is down for good: "
        f"{commands.zodbrepl('failover', '--dry-run')}",
        (Finding(Verdict.AGAINST, "", f"{what} a writable primary", snapshot.sentence),),
    )


def _precheck(
    situation: Situation, primary: NodeStatus, new: NodeStatus, *, ours: bool
) -> Iterator[Finding]:
    """Yield the findings of the precheck; histories of data files only if they are ``ours``."""
    snapshot = situation.snapshot
    yield Finding(
        Verdict.FINE,
        primary.name,
        "runs as the only writable primary",
        f"epoch {primary.epoch}, last transaction {primary.last_tid or 0:016x}",
    )
    if snapshot.supervisor_problem:
        yield Finding(
            Verdict.AGAINST,
            "",
            "supervisord does not answer, so no program can be stopped or started",
            snapshot.supervisor_problem,
        )
    yield from target_fit(situation, new)
    yield _lag(new)
    for node in snapshot.nodes:
        if node.name != primary.name and ours:
            yield _history(situation, node, is_target=node.name == new.name)
    yield from preflight.target(situation, new.name, primary.size)
    others = [node.name for node in snapshot.nodes if node.name != new.name]
    yield from preflight.followers(situation, others, Verdict.AGAINST)
    yield from _clients(snapshot, primary)
    told = {primary.name, new.name}
    for alert in snapshot.warnings:
        if alert.level is not Level.NOTICE and alert.subject not in told:
            yield Finding(Verdict.WARNING, alert.subject, alert.text, alert.detail)


def target_fit(situation: Situation, new: NodeStatus) -> Iterator[Finding]:
    """Yield if a node can be promoted: it runs, follows, and has not diverged."""
    condition = situation.conditions.get(new.name)
    if not new.reachable:
        yield Finding(Verdict.AGAINST, new.name, "does not answer", new.problem)
    elif new.actual_role not in ("secondary", "relay"):
        yield Finding(
            Verdict.AGAINST,
            new.name,
            "does not run as a secondary",
            f"the server on {new.address} is {new.actual_role or 'another one'}",
        )
    elif condition is not None:
        yield Finding(Verdict.AGAINST, new.name, f"its history is marked {condition}")
    elif situation.snapshot.lacks_data(new):
        yield Finding(Verdict.AGAINST, new.name, "holds no transaction, and another node does")
    else:
        yield Finding(
            Verdict.FINE,
            new.name,
            f"runs as {new.actual_role}",
            f"epoch {new.epoch}, last transaction {new.last_tid or 0:016x}",
        )
        if lag := tid.clock_lag(new.last_tid, situation.findings.taken_at):
            yield Finding(
                Verdict.WARNING,
                new.name,
                f"the clock is {lag:.0f} s behind its last transaction",
                "ids of new transactions count on from it; set the clock of its host",
            )


def _lag(new: NodeStatus) -> Finding:
    if new.reachable and not new.connected:
        return Finding(
            Verdict.AGAINST,
            new.name,
            "is disconnected from the primary",
            f"its link to {new.upstream or 'its upstream'} is down",
        )
    if not follows_closely(new):
        seconds = "unknown" if new.lag_seconds is None else f"{new.lag_seconds:.1f} s"
        return Finding(
            Verdict.AGAINST,
            new.name,
            "is too far behind",
            f"lag {seconds}, at most {SMALL_LAG_SECONDS:g} s is allowed",
        )
    return Finding(
        Verdict.FINE,
        new.name,
        "follows closely",
        f"lag {new.lag_seconds or 0.0:.1f} s, {new.lag_transactions} missing",
    )


def _history(situation: Situation, node: NodeStatus, *, is_target: bool) -> Finding:
    found = situation.comparisons.get(node.name, "it was not compared")
    worse = Verdict.AGAINST if is_target else Verdict.WARNING
    if isinstance(found, str):
        return Finding(worse, node.name, "its history can't be compared with the primary's", found)
    if not found.relation.may_follow:
        return Finding(
            Verdict.AGAINST,
            node.name,
            f"its history is {found.relation}",
            f"{transactions(found.private)} that the primary lacks",
        )
    if not node.reachable and not is_target:
        return Finding(
            Verdict.WARNING, node.name, "does not answer; it is left as it is", node.problem
        )
    return Finding(
        Verdict.FINE,
        node.name,
        "its history is the primary's",
        f"{found.relation}; {transactions(found.examined)} compared",
    )


def _clients(snapshot: Snapshot, primary: NodeStatus) -> Iterator[Finding]:
    working = 0
    for instance in snapshot.indico:
        if instance.up and instance.server_node == primary.name and instance.writable:
            working += 1
        else:
            yield Finding(
                Verdict.WARNING,
                instance.name,
                "is not connected and writable",
                instance.problem or "it is left as it is",
            )
    others = (primary.clients or 0) - working - sum(each.schedules for each in snapshot.indico)
    if others > 0:
        yield Finding(
            Verdict.WARNING,
            primary.name,
            f"{others} client{'s' * (others > 1)} besides Indico will be disconnected",
            "a bulk loader, a script or a probe",
        )
    yield Finding(
        Verdict.FINE, "", f"{working} of {len(snapshot.indico)} Indico instances can write"
    )
