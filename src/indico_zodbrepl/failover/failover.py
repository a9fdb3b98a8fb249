"""Plans a failover: a primary that is gone is replaced; what that loses is said first.  Pure."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence

from ..backends import can, engine_of
from ..cluster.commands import Commands
from ..cluster.model import Cluster, NodeState
from ..cluster.settings import PostgreSQLSettings
from ..monitor.promotion import states_after
from ..monitor.snapshot import NodeStatus
from ..node.datafs import Comparison
from ..probing import tid
from .candidates import choose, is_fit, loss, losses_of_others
from .evidence import Process, Sight, findings_of, is_gone, testimonies
from .moves import Moves
from .situation import Situation, tail_folder
from .steps import Finding, Loss, Plan, Refusal, Step, Verdict
from .switchover import by_depth, disk, instances_up, target_fit


def plan_failover(cluster: Cluster, situation: Situation, target: str | None, reason: str,
                  commands: Commands) -> Plan | Refusal:
    """A plan that makes ``target`` primary without the old primary's help.

    Args:
        situation: its comparisons hold each other node, the old primary too, against
            ``target``, or against the one that ``candidates.choose`` chooses.
        target: None for the one with the newest transaction.
        reason: the operator's words.

    The order of the steps: the old primary is fenced even when it looks dead, since a frozen
    one comes back; what only it has is exported before anything else can happen to it; then
    the new one is promoted.  Where something may be lost, Indico is restarted afterwards, as
    what it remembers may be among it.  An engine's old primary can be read only by a server of
    its own, which recovers first: it is looked at when the others work again.
    """
    snapshot = situation.snapshot
    old = situation.assigned_primary()
    if old is None:
        return Refusal("no node is assigned as primary", f"look: {commands.zodbrepl('status')}",
                       (Finding(Verdict.AGAINST, "", "no state file names a primary"),))
    said = testimonies(situation.findings, snapshot, old.name,
                       situation.processes.get(old.name, Process.UNKNOWN),
                       situation.holders.get(old.name))
    findings = list(findings_of(said, old.name))
    if not is_gone(said):
        return _refuse_alive(old, said_serving=any(each.sight is Sight.SERVING for each in said),
                             findings=findings, commands=commands)
    new = snapshot.node(target) if target else choose(situation, old.name)
    if new is not None and new.name == old.name:
        return Refusal(f"node {old.name} can't take over from itself",
                       f"start it again: {commands.zodbrepl('node', 'start', old.name)}",
                       (*findings, Finding(Verdict.AGAINST, old.name, "is the primary")))
    if new is None:
        hint = f"bring a follower up: {commands.zodbrepl('up')}"
        if can(cluster, "restore"):
            hint += (f"; if the data of all nodes are lost: "
                     f"{commands.zodbrepl('restore', old.name, '--dry-run')}")
        return Refusal("nobody can take over", hint,
                       (*findings, *_unfit(situation, old.name)))
    findings += [*target_fit(situation, new), *disk(situation, new.name, new.size)]
    lost = loss(situation, old.name, new)
    others = list(losses_of_others(situation, old.name, new))
    findings += [*_told(new, lost, others), *_waits_for_a_follower(cluster, situation, old, new),
                 *_short_of_followers(cluster, situation, old, new, lost)]
    if any(finding.verdict is Verdict.AGAINST for finding in findings):
        return Refusal(f"failover to {new.name} refused; nothing was changed",
                       f"choose another node, or repair this one; see "
                       f"{commands.zodbrepl('status')}", tuple(findings))
    after = states_after(cluster, snapshot, old, new)
    chosen = _Choice(cluster, situation, old.name, new.name, after, lost,
                     tuple(each.node for each in others))
    steps = tuple(_steps(chosen, Moves(cluster, commands), reason))
    return Plan("failover", new.name, old.name, reason, after[new.name].epoch, steps, lost,
                tuple(findings))


def _refuse_alive(old: NodeStatus, *, said_serving: bool, findings: Sequence[Finding],
                  commands: Commands) -> Refusal:
    if said_serving:
        return Refusal(
            f"primary {old.name} is alive; a failover would lose transactions",
            f"{commands.zodbrepl('switchover')} moves the role and loses nothing; if {old.name} "
            "can't write, repair it", tuple(findings))
    return Refusal(
        f"it is not certain that primary {old.name} is gone",
        f"ask again in some seconds, or fence it: {commands.zodbrepl('node', 'fence', old.name)}",
        tuple(findings))


def _unfit(situation: Situation, primary: str) -> Iterator[Finding]:
    for node in situation.snapshot.nodes:
        if node.name != primary and not is_fit(situation, node):
            why = situation.conditions.get(node.name)
            yield Finding(Verdict.AGAINST, node.name, "can't take over",
                          f"its lineage is marked {why}" if why
                          else node.problem or f"it runs as {node.actual_role}")


def _told(new: NodeStatus, lost: Loss | None, others: Sequence[Loss]) -> Iterator[Finding]:
    if lost is None:
        yield Finding(Verdict.FINE, new.name, "has everything the old primary had",
                      "their data files were compared")
    else:
        yield Finding(Verdict.WARNING, new.name, f"would lose {lost.text}",
                      "by comparison of the data files" if lost.exact else _estimated(lost))
    for each in others:
        yield Finding(Verdict.WARNING, each.node, f"has {each.text}",
                      f"choosing {each.node} would keep it")


def _estimated(lost: Loss) -> str:
    """Until when what was saved is there for certain, as followers get it in order."""
    until = None if lost.after is None else tid.committed_at(tid.parse(lost.after))
    if until is None:
        return "an estimate"
    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(until))
    return f"an estimate; what was saved until {moment} UTC is there"


def _waits_for_a_follower(cluster: Cluster, situation: Situation, old: NodeStatus,
                          new: NodeStatus) -> Iterator[Finding]:
    """PostgreSQL's synchronous commits have no end while nobody follows."""
    settings = cluster.settings
    followers = [node for node in situation.snapshot.nodes
                 if node.name not in (old.name, new.name) and node.reachable]
    if isinstance(settings, PostgreSQLSettings) and settings.synchronous and not followers:
        yield Finding(Verdict.WARNING, new.name,
                      f"will save nothing until another node follows it: rejoin {old.name} next",
                      "synchronous is true; if no other node can come back, set it to false, "
                      "then up")


def _short_of_followers(cluster: Cluster, situation: Situation, old: NodeStatus, new: NodeStatus,
                        lost: Loss | None) -> Iterator[Finding]:
    """Where nothing is lost, the old primary is started again and follows."""
    left = sum((node.name == old.name and lost is None)
               or (node.name not in (old.name, new.name) and node.reachable)
               for node in situation.snapshot.nodes)
    if left < cluster.min_followers:
        yield Finding(Verdict.WARNING, new.name,
                      f"will soon refuse writes until another node follows it: rejoin {old.name} "
                      "next", f"min-followers is {cluster.min_followers}, and {left} can follow; "
                      f"if no other node can come back, lower it and start {new.name} again")


@dataclasses.dataclass(frozen=True)
class _Choice:
    """Who takes over, and what that means; ``ahead`` have what ``new`` lacks, and diverge."""

    cluster: Cluster
    situation: Situation
    old: str
    new: str
    after: Mapping[str, NodeState]
    lost: Loss | None
    ahead: tuple[str, ...]


def _steps(choice: _Choice, moves: Moves, reason: str) -> Iterator[Step]:
    situation, old, new, after = choice.situation, choice.old, choice.new, choice.after
    epoch, up = after[new].epoch, instances_up(situation.snapshot)
    for name in (old, *choice.ahead):
        yield moves.fence(name)
    for name in (old, *choice.ahead):
        found = situation.comparisons.get(name)
        if isinstance(found, Comparison):
            folder = tail_folder(choice.cluster, name, epoch, situation.now)
            yield moves.export_tail(name, new, folder, found,
                                    situation.fingerprints.get(name, ""))
    yield moves.promote(new, epoch, reason)
    for instance in up:
        yield moves.see_writable(instance, new)
    followers = [state for state in by_depth(after, (old, new, *choice.ahead))
                 if state.node in situation.free or situation.snapshot.node(state.node).reachable]
    for state in followers:
        yield moves.follow(state)
    for name in (*choice.ahead, old):
        if name in situation.free:
            yield moves.assign(after[name])
    if choice.lost is not None or choice.ahead:
        for instance in up:
            yield moves.restart_client(instance)
    if choice.lost is None:
        yield moves.start(old)
        followers.append(after[old])
    yield from _afterwards(choice, moves, followers)


def _afterwards(choice: _Choice, moves: Moves, followers: Sequence[NodeState]) -> Iterator[Step]:
    situation, old, new = choice.situation, choice.old, choice.new
    epoch = choice.after[new].epoch
    if engine_of(choice.cluster) is not None and old in situation.free:
        yield moves.keep_tail(old, new, tail_folder(choice.cluster, old, epoch, situation.now),
                              afterwards=True)
    for state in followers:
        if state.node == old or situation.snapshot.node(state.node).reachable:
            yield moves.see_following(state.node, state.upstream or "")
    yield moves.verify(new, epoch)
