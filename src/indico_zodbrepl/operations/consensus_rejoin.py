"""Rejoin of a storage in a consensus cluster.

No data are removed from a storage unless the others hold everything.  The steps are in
``consensus_steps``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from indico_zodbrepl.backends.consensus import CORRUPTED, PENDING, RUNNING, SILENT, Look, Member
from indico_zodbrepl.cluster import Cluster, Role
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.host.programs import ENDED
from indico_zodbrepl.operations import consensus_facts
from indico_zodbrepl.operations.consensus_facts import ElectingFacts, NodeFacts
from indico_zodbrepl.operations.consensus_steps import Copy, Drop, Return, Spread, TakeIn, Whole
from indico_zodbrepl.operations.model import Finding, Plan, Refusal, Step, Verdict


@dataclasses.dataclass(frozen=True)
class _Way:
    """The necessary steps of a rejoin.

    Attributes:
        why: the storage's problem, one line.
        drop: its copy is obsolete: the cluster forgets it, and it starts empty.
        start: its program does not run.
        fill: it is added, and partitions are redistributed.
    """

    why: str
    drop: bool = False
    start: bool = False
    fill: bool = False


def prepare(cluster: Cluster, installation: Installation, name: str, reason: str) -> Plan | Refusal:
    """Gather the facts and plan the rejoin of a node; change nothing.  Raises OperatorError."""
    facts = consensus_facts.gather(cluster, installation, name, pinging=False)
    return plan_storage_rejoin(facts, name, reason, Commands(cluster, installation.home))


def plan_storage_rejoin(
    facts: ElectingFacts, name: str, reason: str, commands: Commands
) -> Plan | Refusal:
    """Plan the steps after which all partitions of a storage are up to date.

    A Refusal whose findings are all fine means that there is nothing to do.
    """
    node, look = facts.node(name), facts.look
    refusal = _unable(facts, node, commands)
    if refusal is not None or look is None:
        return refusal or Refusal("the cluster can't be asked", "", ())
    member = look.member(name)
    if member.whole and node.program not in ENDED:
        return Refusal(
            f"node {name} has joined already",
            "",
            (Finding(Verdict.FINE, name, "is a working storage", _cells(member)),),
        )
    way = _way(node, member)
    findings = (
        *_of_the_cluster(look),
        *_of_the_storage(node, member, way),
        *_of_the_others(look, name, way),
    )
    against = [each for each in findings if each.verdict is Verdict.AGAINST]
    if against:
        return Refusal(
            f"node {name} can't rejoin now; nothing was changed",
            f"repair that first: {commands.zodbrepl('status')}",
            findings,
        )
    return Plan(
        "rejoin",
        name,
        "",
        reason,
        0,
        tuple(_steps(commands, facts, node, way)),
        None,
        findings,
    )


def _unable(facts: ElectingFacts, node: NodeFacts, commands: Commands) -> Refusal | None:
    name, look, start = node.name, facts.look, commands.zodbrepl("node", "start", node.name)
    if node.role is not Role.STORAGE:
        return Refusal(
            f"node {name} has no data that could fall out",
            f"start it: {start}",
            (Finding(Verdict.AGAINST, name, f"is a node of role {node.role}"),),
        )
    if look is None:
        monitor = next(each.name for each in facts.of_role(Role.ADMIN) if each.here)
        return Refusal(
            "the cluster can't be asked",
            commands.zodbrepl("failover", monitor, "--dry-run"),
            (Finding(Verdict.AGAINST, monitor, "the NEO monitor does not answer", facts.away),),
        )
    if look.state != RUNNING:
        return Refusal(
            f"node {name} can't rejoin: there is nobody to copy from",
            f"start it, as its data may be what is waited for: {start}"
            if node.has_data and node.program in ENDED
            else commands.zodbrepl("status"),
            (
                Finding(
                    Verdict.AGAINST, "", f"the cluster is {look.state or 'silent'}, not {RUNNING}"
                ),
            ),
        )
    member = look.member(name)
    if member.ping == SILENT:
        return Refusal(
            f"node {name} hangs",
            commands.zodbrepl("failover", name, "--dry-run"),
            (Finding(Verdict.AGAINST, name, f"has not answered for {member.silent:.0f} s"),),
        )
    return None


def _way(node: NodeFacts, member: Member) -> _Way:
    start = node.program in ENDED
    corrupted = member.cells.get(CORRUPTED, 0)
    if corrupted:
        return _Way(
            f"{corrupted} of its partitions are corrupted", drop=True, start=start, fill=True
        )
    had = bool(member.cells)
    if member.state == PENDING:
        return _Way("runs without data, and is not taken in", drop=had, fill=True)
    if member.state == RUNNING and not had:
        return _Way("takes part, but holds no partition", fill=True)
    if not node.has_data:
        return _Way("its data are gone", drop=had, start=start, fill=True)
    if had:
        return _Way("does not run; it has data" if start else "copies what it missed", start=start)
    return _Way("the cluster has dropped it", start=start, fill=True)


def _of_the_cluster(look: Look) -> Iterator[Finding]:
    yield Finding(
        Verdict.FINE,
        "",
        f"the cluster is {look.state}; master {look.leader} leads",
        f"{look.copies} of {look.wanted} copies of each partition are up to date",
    )


def _of_the_storage(node: NodeFacts, member: Member, way: _Way) -> Iterator[Finding]:
    if node.program == consensus_facts.UNREACHABLE:
        yield Finding(
            Verdict.AGAINST,
            node.name,
            "the supervisord of its host does not answer",
            "`up` starts the programs of that host",
        )
    evidence = f"the cluster calls it {member.state or 'unknown'}; {_cells(member)}"
    yield Finding(Verdict.WARNING if way.drop else Verdict.FINE, node.name, way.why, evidence)
    if not node.mounted:
        yield Finding(
            Verdict.AGAINST,
            node.name,
            "its data directory is not there",
            "mount its disk, or an empty one",
        )
    elif way.fill and (way.drop or not node.has_data):
        yield Finding(
            Verdict.WARNING,
            node.name,
            "gets a new copy of everything it is to hold",
            "is its disk mounted? what it has now is deleted",
        )


def _of_the_others(look: Look, name: str, way: _Way) -> Iterator[Finding]:
    if not way.fill:
        return
    if look.held_without(name):
        yield Finding(
            Verdict.FINE,
            "",
            "the other storages hold everything",
            f"each of {len(look.holders)} partitions",
        )
    else:
        yield Finding(
            Verdict.AGAINST,
            name,
            f"{look.only_on(name)} of {len(look.holders)} partitions would be without "
            "an up-to-date copy",
            "no other storage that works has them",
        )
    for each in look.members:
        if each.role is not Role.STORAGE or each.name == name:
            continue
        if each.state == PENDING:
            yield Finding(
                Verdict.WARNING,
                each.name,
                "is not taken in either",
                "it gets its copy by a rejoin of its own",
            )
        elif each.state != RUNNING and each.cells:
            yield Finding(
                Verdict.AGAINST,
                each.name,
                "does not take part",
                "its copies would be given to others; bring it back first",
            )
        elif each.ping == SILENT:
            yield Finding(
                Verdict.AGAINST,
                each.name,
                "hangs",
                f"no answer for {each.silent:.0f} s; nothing can be copied meanwhile",
            )


def _cells(member: Member) -> str:
    return (
        ", ".join(
            f"{count} partitions {state.replace('_', ' ')}"
            for state, count in sorted(member.cells.items())
        )
        or "no partitions"
    )


def _steps(commands: Commands, facts: ElectingFacts, node: NodeFacts, way: _Way) -> Iterator[Step]:
    name = node.name
    if way.drop:
        yield Drop.of(name)
    if way.drop or way.start:
        yield Return.of(commands, name, empty=way.fill)
    if way.fill:
        yield TakeIn.of(name)
        yield Spread.of(name)
    yield Copy.of(commands, name)
    yield Whole.of(commands, name, facts.instances)
