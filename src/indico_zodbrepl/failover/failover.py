"""Plans a failover: a primary that is gone is replaced; what that loses is said first.  Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from ..cluster.commands import Commands
from ..cluster.model import Cluster, NodeState
from ..monitor.promotion import states_after
from ..monitor.snapshot import NodeStatus
from ..node.datafs import Comparison
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
    what it remembers may be among it.
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
        return Refusal("nobody can take over", f"bring a follower up: {commands.zodbrepl('up')}",
                       (*findings, *_unfit(situation, old.name)))
    findings += [*target_fit(situation, new), *disk(situation, new.name, new.size)]
    lost = loss(situation, old.name, new)
    others = list(losses_of_others(situation, old.name, new))
    findings += list(_told(new, lost, others))
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
                      "by comparison of the data files" if lost.exact else "an estimate")
    for each in others:
        yield Finding(Verdict.WARNING, each.node, f"has {each.text}",
                      f"choosing {each.node} would keep it")


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
    for state in followers:
        if state.node == old or situation.snapshot.node(state.node).reachable:
            yield moves.see_following(state.node, state.upstream or "")
    yield moves.verify(new, epoch)
