"""Failover of a consensus cluster.  Pure.

The cluster itself replaces a process that exits.  But it cannot distinguish a hung process from a
working one, and waits for it forever.  So a plan kills such a process once several observers report
that it hangs, and restarts it.
"""

from __future__ import annotations

from collections.abc import Iterator

from indico_zodbrepl.backends.consensus import ANSWERS, REFUSES, SILENT
from indico_zodbrepl.cluster import Role
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.operations.consensus_facts import ElectingFacts, NodeFacts
from indico_zodbrepl.operations.consensus_steps import START_SECONDS, Serves, Whole
from indico_zodbrepl.operations.evidence import (
    STARTING,
    Process,
    Report,
    Sight,
    findings_of,
    is_gone,
)
from indico_zodbrepl.operations.model import Finding, Plan, Refusal, Step, Verdict
from indico_zodbrepl.operations.roles import Fence
from indico_zodbrepl.operations.start_steps import Start

IMPORTANCE = (Role.MASTER, Role.STORAGE, Role.ADMIN)


def plan_hung_failover(
    facts: ElectingFacts, name: str | None, reason: str, commands: Commands
) -> Plan | Refusal:
    """Plan the end and restart of a hung node, or the start of a stopped master.

    Args:
        facts: with each process asked by itself.
        name: None for the most important node that needs it.
    """
    needy = [each for each in facts.nodes if _needs_it(facts, each, named=name == each.name)]
    if name is not None:
        chosen = facts.node(name)
        if chosen not in needy:
            return _refuse(facts, chosen, commands)
    elif needy:
        chosen = min(needy, key=lambda each: (not _leads(facts, each), IMPORTANCE.index(each.role)))
    else:
        return _nothing_to_do(facts, commands)
    others = [each for each in needy if each is not chosen and _hangs(facts, each)]
    findings = (
        *findings_of(reports_of(facts, chosen), chosen.name),
        *_consequences(facts, chosen),
        *_told(others),
    )
    return Plan(
        "failover",
        chosen.name,
        "",
        reason,
        0,
        tuple(_steps(facts, chosen, commands)),
        None,
        findings,
    )


def reports_of(facts: ElectingFacts, node: NodeFacts) -> tuple[Report, ...]:
    """Return what each observer reports of a node's process."""
    return (_monitor(facts, node), _host(node), _asked(node))


def _monitor(facts: ElectingFacts, node: NodeFacts) -> Report:
    member = facts.member(node.name)
    if node.role is Role.ADMIN and node.here:
        return Report(
            "the NEO monitor",
            *(
                (Sight.SERVING, "it answers, and has looked just now")
                if member is not None
                else (Sight.DOWN, facts.away)
            ),
        )
    if member is None:
        return Report("the NEO monitor", Sight.INCONCLUSIVE, f"it can't be asked: {facts.away}")
    sight, text = {
        ANSWERS: (Sight.SERVING, "it answers pings"),
        SILENT: (Sight.DOWN, f"no answer to pings for {member.silent:.0f} s"),
        REFUSES: (Sight.DOWN, "nothing listens at its address"),
    }.get(member.ping, (Sight.INCONCLUSIVE, "it has not asked yet"))
    if node.role is Role.ADMIN and sight is Sight.SERVING:
        sight, text = Sight.INCONCLUSIVE, "NEO's part of it answers; ask on its host for the rest"
    counts = f"; the cluster calls it {member.state}" if member.state else ""
    return Report("the NEO monitor", sight, text + counts)


def _host(node: NodeFacts) -> Report:
    if not node.reachable:
        return Report("its host", Sight.INCONCLUSIVE, "does not answer")
    said = f"supervisor says {node.program}"
    if node.program in STARTING:
        return Report("its host", Sight.INCONCLUSIVE, f"{said}: it may be back in a moment")
    sight, text = {
        Process.FROZEN: (Sight.DOWN, "its process is stopped (SIGSTOP)"),
        Process.NONE: (Sight.DOWN, "no process of it"),
        Process.RUNS: (Sight.INCONCLUSIVE, "its process is there"),
        Process.UNKNOWN: (Sight.INCONCLUSIVE, "its process is not known"),
    }[node.process]
    return Report("its host", sight, f"{text}; {said}")


def _asked(node: NodeFacts) -> Report:
    observer = "its own answer"
    if node.role is Role.ADMIN and node.ping == ANSWERS:
        return Report(
            observer, Sight.INCONCLUSIVE, "NEO's part of it answers; the NEO monitor is more"
        )
    sight, text = {
        ANSWERS: (Sight.SERVING, "it answers a new connection"),
        SILENT: (Sight.DOWN, "no answer to a new connection"),
        REFUSES: (Sight.DOWN, "nothing listens at its address"),
    }.get(node.ping, (Sight.INCONCLUSIVE, "it was not asked"))
    return Report(observer, sight, text)


def _is_gone(facts: ElectingFacts, node: NodeFacts) -> bool:
    return is_gone(reports_of(facts, node)) and node.program not in STARTING


def _hangs(facts: ElectingFacts, node: NodeFacts) -> bool:
    return _is_gone(facts, node) and _is_there(node)


def _is_there(node: NodeFacts) -> bool:
    """Return True if it has a process; if unknown, if a connection waits."""
    return node.process in (Process.RUNS, Process.FROZEN) or (
        node.process is Process.UNKNOWN and node.ping == SILENT
    )


def _needs_it(facts: ElectingFacts, node: NodeFacts, *, named: bool) -> bool:
    """Return True if a failover helps; for a stopped master if it is missed or named.

    On a host that does not answer nothing can be killed or started.
    """
    if not node.reachable or not _is_gone(facts, node):
        return False
    if _is_there(node):
        return True
    if node.role is Role.MASTER:
        return named or facts.look is None or facts.look.leader is None
    return named and node.role is Role.ADMIN


def _leads(facts: ElectingFacts, node: NodeFacts) -> bool:
    return facts.look is not None and facts.look.leader == node.name


def _consequences(facts: ElectingFacts, node: NodeFacts) -> Iterator[Finding]:
    if facts.look is None:
        yield Finding(Verdict.WARNING, "", "the cluster can't be asked", facts.away)
    if _can_spare(facts, node):
        yield Finding(
            Verdict.FINE,
            node.name,
            "the others stand in for it",
            "nothing that was acknowledged is on it alone",
        )
    else:
        yield Finding(
            Verdict.WARNING,
            node.name,
            "nothing can be saved until it is back",
            "no other node can stand in for it; what was acknowledged is on its disk"
            if node.role is Role.STORAGE
            else "too few other masters answer",
        )


def _can_spare(facts: ElectingFacts, node: NodeFacts) -> bool:
    """Return True if the cluster serves without a node."""
    if node.role is Role.MASTER:
        others = [each for each in facts.of_role(Role.MASTER) if each is not node]
        needed = facts.look.majority if facts.look is not None else 1
        return sum(each.ping == ANSWERS for each in others) >= needed
    if node.role is Role.ADMIN:
        return True
    return facts.look is not None and facts.look.held_without(node.name)


def _told(others: list[NodeFacts]) -> Iterator[Finding]:
    for each in others:
        yield Finding(
            Verdict.WARNING, each.name, "hangs as well", "afterwards it needs a failover of its own"
        )


def _refuse(facts: ElectingFacts, node: NodeFacts, commands: Commands) -> Refusal:
    said = reports_of(facts, node)
    findings = tuple(findings_of(said, node.name))
    if node.program in STARTING:
        findings += (Finding(Verdict.AGAINST, node.name, "supervisor is starting it"),)
    if _is_gone(facts, node) and not _is_there(node):
        return Refusal(
            f"storage {node.name} is gone; the cluster continues without it automatically",
            f"bring it back: {commands.zodbrepl('rejoin', node.name)}",
            (*findings, Finding(Verdict.AGAINST, node.name, "has no process that could hang")),
        )
    return Refusal(
        f"it is not certain that {node.role} {node.name} hangs; nothing was changed",
        "ask again in some seconds; to end it all the same: "
        f"{commands.zodbrepl('node', 'fence', node.name)}",
        findings,
    )


def _nothing_to_do(facts: ElectingFacts, commands: Commands) -> Refusal:
    findings = [finding for node in facts.nodes for finding in _shortly(facts, node)]
    look = facts.look
    if look is not None and look.leader is not None and look.writable:
        what = f"the masters have elected {look.leader} by themselves, and the cluster takes writes"
        return Refusal(
            "nothing hangs: there is nothing left to fail over",
            f"to bring back a node that is missing: {commands.zodbrepl('status')}",
            (*findings, Finding(Verdict.AGAINST, "", what)),
        )
    return Refusal(
        "nothing is seen to hang, and nothing was changed",
        f"ask again in some seconds; what is wrong: {commands.zodbrepl('status')}",
        (
            *findings,
            Finding(
                Verdict.AGAINST,
                "",
                "the cluster takes no writes, but its processes answer or are being started",
            ),
        ),
    )


def _shortly(facts: ElectingFacts, node: NodeFacts) -> Iterator[Finding]:
    for each in reports_of(facts, node):
        yield Finding(Verdict.FINE, node.name, f"{each.observer}: {each.sight}", each.text)


def _steps(facts: ElectingFacts, node: NodeFacts, commands: Commands) -> Iterator[Step]:
    if _is_there(node):
        yield Fence.of(commands, node.name)
        if node.role is not Role.ADMIN and _can_spare(facts, node):
            yield Serves.of(commands, node.name)
    yield Start.of(
        commands,
        node.name,
        seconds=START_SECONDS,
        may_fail=False,
        checks="it is not started twice",
    )
    yield Whole.of(commands, node.name, facts.instances)
