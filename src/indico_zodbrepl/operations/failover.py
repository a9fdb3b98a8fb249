"""Failover: replace a primary that is down, and show the data loss in advance.

``plan_failover`` is pure; ``survey`` gathers the facts.  The order of the steps is in ``_steps``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from indico_zodbrepl.backends import backend_of, can
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.model import Cluster, NodeState
from indico_zodbrepl.host.datafs_answers import Comparison
from indico_zodbrepl.monitor.node_status import NodeStatus
from indico_zodbrepl.monitor.promotion import states_after
from indico_zodbrepl.operations import automatic, doubt, preflight
from indico_zodbrepl.operations.candidates import (
    choose,
    is_fit,
    loss,
    losses_of_others,
)
from indico_zodbrepl.operations.checks import SeeFollowing, SeeWritable, Verify
from indico_zodbrepl.operations.evidence import (
    Process,
    Sight,
    agent_stopped,
    findings_of,
    is_gone,
    reports_of,
)
from indico_zodbrepl.operations.facts import Situation, tail_folder
from indico_zodbrepl.operations.failover_steps import ExportTail
from indico_zodbrepl.operations.model import (
    Finding,
    Loss,
    Plan,
    Refusal,
    Step,
    Verdict,
)
from indico_zodbrepl.operations.native_rejoin_steps import KeepAfterwards
from indico_zodbrepl.operations.roles import Assign, Fence, Follow, Promote
from indico_zodbrepl.operations.start_steps import RestartClient, Start
from indico_zodbrepl.operations.switchover import by_depth, instances_up, target_fit
from indico_zodbrepl.probing import tid


def plan_failover(
    cluster: Cluster, situation: Situation, target: str | None, reason: str, commands: Commands
) -> Plan | Refusal:
    """Plan to make ``target`` primary without the old primary's help.

    Args:
        situation: its comparisons are of each other node, the old primary too, with ``target``,
            or with the node that ``candidates.choose`` chooses.
        target: None for the node with the newest transaction.
        reason: in the operator's words.
    """
    snapshot = situation.snapshot
    old = situation.assigned_primary()
    if old is None:
        return Refusal(
            "no node is assigned as primary",
            f"see {commands.zodbrepl('status')}",
            (Finding(Verdict.AGAINST, "", "no state file names a primary"),),
        )
    if _all_down(situation):
        return _refuse_all_down(cluster, old, commands)
    said = reports_of(
        situation.findings,
        snapshot,
        old.name,
        situation.processes.get(old.name, Process.UNKNOWN),
        situation.holders.get(old.name),
        sights=situation.sights,
    )
    findings = list(findings_of(said, old.name))
    refused = automatic.objection(situation.automation, old.name, commands)
    if not is_gone(said):
        refused = _refuse_alive(
            old,
            said_serving=any(each.sight is Sight.SERVING for each in said),
            agent_stopped=agent_stopped(situation.findings, old),
            commands=commands,
        )
    if refused is not None:
        return dataclasses.replace(refused, findings=(*findings, *refused.findings))
    findings += automatic.findings(situation.automation, old.name)
    new = snapshot.node(target) if target else choose(situation, old.name)
    if new is None or new.name == old.name:
        why_not = _refuse_target(cluster, situation, old, commands, itself=new is not None)
        return dataclasses.replace(why_not, findings=(*findings, *why_not.findings))
    findings += [
        *target_fit(situation, new),
        *preflight.target(situation, new.name, new.size),
        *preflight.followers(
            situation,
            [node.name for node in snapshot.nodes if node.name not in (old.name, new.name)],
            Verdict.WARNING,
        ),
    ]
    lost = doubt.told(situation, old, loss(situation, old.name, new))
    others = list(losses_of_others(situation, old.name, new))
    findings += [
        *_out_of_reach(situation, old),
        *_loss_findings(new, lost, others),
        *doubt.findings(situation, old, new, cluster.synchronous.count),
        *_waits_for_a_follower(cluster, situation, old, new),
        *_short_of_followers(cluster, situation, old, new, lost),
    ]
    if any(finding.verdict is Verdict.AGAINST for finding in findings):
        return Refusal(
            f"failover to {new.name} refused; nothing was changed",
            f"{_remedy(new)}; see {commands.zodbrepl('status')}",
            tuple(findings),
        )
    after = states_after(cluster, snapshot, old, new)
    chosen = _Choice(
        cluster, situation, old.name, new.name, after, lost, tuple(each.node for each in others)
    )
    steps = tuple(_steps(chosen, commands, reason))
    return Plan(
        "failover", new.name, old.name, reason, after[new.name].epoch, steps, lost, tuple(findings)
    )


def _remedy(new: NodeStatus) -> str:
    """Return what to do after a refusal: a server that was just started may still read its log."""
    if new.reachable:
        return "choose another node or repair this one"
    return "wait until it answers, choose another node, or repair this one"


def _all_down(situation: Situation) -> bool:
    """Return True if no node answers, no instance is connected and no process is known alive."""
    alive = (Process.RUNS, Process.FROZEN)
    return not any(
        node.reachable or situation.processes.get(node.name) in alive
        for node in situation.snapshot.nodes
    ) and not any(instance.up and instance.connected for instance in situation.snapshot.indico)


def _refuse_all_down(cluster: Cluster, old: NodeStatus, commands: Commands) -> Refusal:
    return Refusal(
        "the whole cluster is down; a failover needs a running follower",
        f"start it: {_up_or_restore(cluster, old.name, commands)}",
        (Finding(Verdict.AGAINST, "", "no node answers", old.problem),),
    )


def _up_or_restore(cluster: Cluster, node: str, commands: Commands) -> str:
    hint = commands.zodbrepl("up")
    if can(cluster, "restore"):
        restore = commands.zodbrepl("restore", node, "--dry-run")
        hint += f"; if the data of all nodes are lost: {restore}"
    return hint


def _refuse_alive(
    old: NodeStatus,
    *,
    said_serving: bool,
    agent_stopped: bool,
    commands: Commands,
) -> Refusal:
    if said_serving:
        return Refusal(
            f"primary {old.name} is running; a failover would lose transactions",
            f"move the role without loss: {commands.zodbrepl('switchover')}; if {old.name} "
            "can't write, repair it",
            (),
        )
    if agent_stopped:
        return Refusal(
            f"it is not certain that primary {old.name} is down",
            f"on host {old.host}, start the agent: {commands.zodbrepl('agent')}, or its service; "
            f"then retry. If that is impossible, switch host {old.host} off, then retry",
            (),
        )
    return Refusal(
        f"it is not certain that primary {old.name} is down",
        f"retry in a few seconds, or fence it: {commands.zodbrepl('node', 'fence', old.name)}",
        (),
    )


def _refuse_target(
    cluster: Cluster, situation: Situation, old: NodeStatus, commands: Commands, *, itself: bool
) -> Refusal:
    if itself:
        return Refusal(
            f"node {old.name} can't replace itself",
            f"start it again: {commands.zodbrepl('node', 'start', old.name)}",
            (Finding(Verdict.AGAINST, old.name, "is the primary"),),
        )
    mute = _mute(situation, old.name)
    if mute:
        names = " and ".join(mute)
        runs = "runs, but doesn't answer" if len(mute) == 1 else "run, but don't answer"
        return Refusal(
            f"no node can take over: {names} {runs} this host",
            "wait if it has just been started, because it may still read its log; otherwise check "
            "the network and the firewall between this host and the addresses in "
            f"{commands.path(cluster.source)}; if a server hangs: "
            f"{commands.zodbrepl('restart', mute[0])}",
            tuple(_unfit(situation, old.name)),
        )
    return Refusal(
        "no node can take over",
        f"start a follower: {_up_or_restore(cluster, old.name, commands)}",
        tuple(_unfit(situation, old.name)),
    )


def _mute(situation: Situation, primary: str) -> list[str]:
    """Return the followers whose processes run although they don't answer, if all do that."""
    alive = (Process.RUNS, Process.FROZEN)
    followers = [node for node in situation.snapshot.nodes if node.name != primary]
    mute = [
        node.name
        for node in followers
        if not node.reachable and situation.processes.get(node.name) in alive
    ]
    return mute if len(mute) == len(followers) else []


def _unfit(situation: Situation, primary: str) -> Iterator[Finding]:
    for node in situation.snapshot.nodes:
        if node.name != primary and not is_fit(situation, node):
            why = situation.conditions.get(node.name)
            yield Finding(
                Verdict.AGAINST,
                node.name,
                "can't take over",
                f"its history is marked {why}"
                if why
                else node.problem or f"it runs as {node.actual_role}",
            )


def _out_of_reach(situation: Situation, old: NodeStatus) -> Iterator[Finding]:
    """Warn that the old primary can't be fenced."""
    if situation.is_away(old.name):
        yield Finding(
            Verdict.WARNING,
            old.name,
            f"can't be fenced: host {old.host} does not answer",
            "if it only lost its network, clients on its side can commit until it is reachable "
            "again or switched off; what they commit is exported when it rejoins",
        )


def _loss_findings(new: NodeStatus, lost: Loss | None, others: Sequence[Loss]) -> Iterator[Finding]:
    if lost is None:
        yield Finding(
            Verdict.FINE,
            new.name,
            "has every transaction of the old primary",
            "the data files were compared",
        )
    else:
        yield Finding(
            Verdict.WARNING,
            new.name,
            f"would lose {lost.text}",
            "the data files were compared" if lost.exact else _estimated(lost),
        )
    for each in others:
        yield Finding(
            Verdict.WARNING,
            each.node,
            f"is ahead of {new.name}: {each.text}",
            f"choosing {each.node} would keep it",
        )


def _estimated(lost: Loss) -> str:
    """Return until when nothing is lost, as followers get transactions in order."""
    until = "" if lost.after is None else tid.moment(tid.parse(lost.after))
    return f"an estimate; everything written until {until} is kept" if until else "an estimate"


def _waits_for_a_follower(
    cluster: Cluster, situation: Situation, old: NodeStatus, new: NodeStatus
) -> Iterator[Finding]:
    """Warn that synchronous commits of PostgreSQL wait forever without a standby."""
    followers = [
        node
        for node in situation.snapshot.nodes
        if node.name not in (old.name, new.name) and node.reachable
    ]
    if backend_of(cluster).blocks_without_followers(cluster) and not followers:
        yield Finding(
            Verdict.WARNING,
            new.name,
            f"blocks all commits until another node follows it: rejoin {old.name} next",
            "if no other node can come back: "
            f"`{Commands.here(cluster).zodbrepl('synchronous', '0')}`",
        )


def _short_of_followers(
    cluster: Cluster, situation: Situation, old: NodeStatus, new: NodeStatus, lost: Loss | None
) -> Iterator[Finding]:
    """Warn of too few followers; the old primary becomes one where nothing is lost."""
    left = sum(
        (node.name == old.name and lost is None)
        or (node.name not in (old.name, new.name) and node.reachable)
        for node in situation.snapshot.nodes
    )
    if left < cluster.min_followers:
        yield Finding(
            Verdict.WARNING,
            new.name,
            f"will soon block commits until another node follows it: rejoin {old.name} next",
            f"min-followers is {cluster.min_followers}, and {left} can follow; "
            f"if no other node can come back, lower it and restart {new.name}",
        )


@dataclasses.dataclass(frozen=True)
class _Choice:
    """The new primary and the consequences; ``ahead`` have transactions that ``new`` lacks."""

    cluster: Cluster
    situation: Situation
    old: str
    new: str
    after: Mapping[str, NodeState]
    lost: Loss | None
    ahead: tuple[str, ...]


def _steps(choice: _Choice, commands: Commands, reason: str) -> Iterator[Step]:
    # The old primary is fenced even if it looks dead, because a frozen one may continue.  Its
    # divergent transactions are exported before anything can overwrite them.  If transactions may
    # be lost, Indico is restarted, because its caches may hold them.
    situation, old, new, after = choice.situation, choice.old, choice.new, choice.after
    epoch, up = after[new].epoch, instances_up(situation.snapshot)
    for name in (old, *choice.ahead):
        if not situation.is_away(name):
            yield Fence.of(commands, name)
    for name in (*choice.ahead, old):  # the others have a part of what the old primary has
        found = situation.comparisons.get(name)
        if isinstance(found, Comparison):
            folder = tail_folder(choice.cluster, name, epoch, situation.now)
            stamp = situation.fingerprints.get(name, "")
            yield ExportTail.of(commands, name, new, folder=folder, found=found, stamp=stamp)
    yield Promote.of(commands, new, epoch, reason)
    for instance in up:
        yield SeeWritable.of(commands, instance, new)
    followers = [
        state
        for state in by_depth(after, (old, new, *choice.ahead))
        if state.node in situation.disks or situation.snapshot.node(state.node).reachable
    ]
    for state in followers:
        yield Follow.of(commands, state)
    for name in (*choice.ahead, old):
        if name in situation.disks:
            yield Assign.of(commands, after[name])
    if choice.lost is not None or choice.ahead:
        for instance in up:
            yield RestartClient.of(commands, instance)
    if choice.lost is None:
        yield Start.of(commands, old)
        followers.append(after[old])
    yield from _afterwards(choice, commands, followers)


def _afterwards(
    choice: _Choice, commands: Commands, followers: Sequence[NodeState]
) -> Iterator[Step]:
    situation, old, new = choice.situation, choice.old, choice.new
    epoch = choice.after[new].epoch
    # Only its own server can read such a node, after crash recovery: do it once the others work
    # again.
    if not can(choice.cluster, "lineage"):
        for name in (*choice.ahead, old):
            if name in situation.disks:
                folder = tail_folder(choice.cluster, name, epoch, situation.now)
                keep = KeepAfterwards.of if name == old else KeepAfterwards.of_follower
                yield keep(name, new, folder)
    for state in followers:
        if state.node == old or situation.snapshot.node(state.node).reachable:
            yield SeeFollowing.of(commands, state.node, state.upstream or "")
    yield Verify.of(commands, new, epoch)
