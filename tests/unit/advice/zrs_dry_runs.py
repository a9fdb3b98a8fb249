"""The dry run of an advised command in the model, decided by the real planners."""

from __future__ import annotations

from pathlib import Path

from situations import HOME
from zrs_model import Member, Program, Supervisor, World
from zrs_probes import BYTES, DISKS, FREE, NOW, compared, findings_of, snapshot_of, state_of
from zrs_start import admit

from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.layout import data_fs
from indico_zodbrepl.cluster.model import Role
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.datafs_answers import Comparison
from indico_zodbrepl.host.history import Condition
from indico_zodbrepl.operations import rejoin, survey
from indico_zodbrepl.operations.candidates import choose
from indico_zodbrepl.operations.clone import plan_clone
from indico_zodbrepl.operations.clone_facts import CloneFacts
from indico_zodbrepl.operations.evidence import Process
from indico_zodbrepl.operations.facts import Situation
from indico_zodbrepl.operations.failover import plan_failover
from indico_zodbrepl.operations.model import Plan, Refusal, Verdict
from indico_zodbrepl.operations.refusals import gives_way
from indico_zodbrepl.operations.rejoin import plan_rejoin
from indico_zodbrepl.operations.restart import plan_restart
from indico_zodbrepl.operations.restart_facts import RestartFacts
from indico_zodbrepl.operations.switchover import plan_switchover

EXPORT = Path("/exported")


class NotPossible(Exception):
    """The dry run refuses; its text says why."""


def plan_of(world: World, operation: str, target: str) -> Plan:
    """Return the plan of a command; raise NotPossible with the reasons if its dry run refuses."""
    found = world.operation
    if found is not None and (
        found.damaged or not gives_way(found.kind, found.target, operation, target)
    ):
        raise NotPossible(f"the {found.kind} was interrupted")
    if operation in ("rejoin", "clone") and world[target].full and world[target].has_folder:
        raise NotPossible(f"the disk of {target} is full")
    try:
        made = PLANS[operation](world, target)
    except OperatorError as error:
        raise NotPossible(f"{error.notice}: {error.detail}") from error
    if isinstance(made, Refusal):
        reasons = [each.text for each in made.findings if each.verdict is Verdict.AGAINST]
        raise NotPossible(f"{made.notice}: {'; '.join(reasons)}; hint: {made.hint}")
    return made


def refuse_up(world: World) -> None:
    """Raise NotPossible if ``up`` refuses: supervisord runs, but does not answer."""
    if world.supervisor is Supervisor.SILENT:
        raise NotPossible("supervisord does not answer")


def situation_of(world: World) -> Situation:
    """Return the facts of the planners of failover and switchover, without comparisons."""
    conditions = {
        each.name: str(each.condition)
        for each in world.members
        if each.condition not in (None, Condition.OK)
    }
    return Situation(
        now=NOW,
        findings=findings_of(world),
        snapshot=snapshot_of(world),
        comparisons={},
        conditions=conditions,
        disks={each.name: DISKS[each.full] for each in world.members if each.has_folder},
        processes={each.name: _process(world, each) for each in world.members},
    )


def _process(world: World, member: Member) -> Process:
    if world.supervisor is not Supervisor.WORKS and not member.has_folder:
        return Process.UNKNOWN
    return {Program.RUNNING: Process.RUNS, Program.FROZEN: Process.FROZEN}.get(
        member.program, Process.NONE
    )


def _against(world: World, name: str, other: str) -> Comparison | str:
    for each in (world[name], world[other]):
        if not each.readable:
            return f"{data_fs(world.cluster.node(each.name))}: damaged"
    if not world[name].has_folder:
        return f"{data_fs(world.cluster.node(name))}: no such file"
    return compared(world[name].file, world[other].file)


def _failover(world: World, target: str) -> Plan | Refusal:
    found = situation_of(world)
    old = found.assigned_primary()
    new = found.snapshot.node(target) if target else old and choose(found, old.name)
    if old is not None and new is not None:
        found = _with(
            found,
            {
                name: _against(world, name, new.name)
                for name in survey._to_compare(found.snapshot, old.name, new.name)
            },
        )
    return plan_failover(world.cluster, found, target or None, "TEXT", _commands(world))


def _switchover(world: World, target: str) -> Plan | Refusal:
    found = situation_of(world)
    primary = found.snapshot.primary
    if primary is not None:
        others = [each.name for each in world.members if each.name != primary]
        found = _with(found, {name: _against(world, name, primary) for name in others})
    return plan_switchover(world.cluster, found, target, "TEXT", _commands(world))


def _with(found: Situation, comparisons: dict[str, Comparison | str]) -> Situation:
    return Situation(**{**vars(found), "comparisons": comparisons})


def primary_problem(world: World) -> str:
    """Return why the primary of the records does not serve; as ``facts.why_not_serving``."""
    epoch, name = world.record
    running = world[name].running
    if not world[name].serves or running is None:
        return "nothing listens"
    if running.role is not Role.PRIMARY or running.epoch != epoch:
        return f"it runs as {running.role} of epoch {running.epoch}"
    return ""


def follows(world: World, name: str) -> bool:
    """Return True if a node's server is connected to the primary; as ``facts.follows``."""
    above = world.upstream_of(world[name])
    return above is not None and above.name == world.record[1]


def is_upstream(world: World, name: str) -> bool:
    """Return True if other nodes are assigned to follow a node."""
    return any(state_of(world, each).upstream == name for each in world.members)


def _comparison(world: World, name: str) -> tuple[Comparison | None, str]:
    found = _against(world, name, world.record[1])
    if isinstance(found, str) and world[name].has_folder:
        if not world[world.record[1]].readable:
            raise OperatorError("the primary's data can't be read", found)
        return None, found
    return compared(world[name].file, world[world.record[1]].file), ""


def exported(world: World, name: str) -> bool:
    """Return True if what only a node has was exported before."""
    private = [number for number in world[name].file if number not in world[world.record[1]].file]
    return bool(private) and set(private) <= world.safe


def _rejoin(world: World, target: str) -> Plan | Refusal:
    epoch, primary = world.record
    problem = primary_problem(world)
    found, damage = None, ""
    if target != primary and not problem:
        found, damage = _comparison(world, target)
    member = world[target]
    facts = rejoin.Facts(
        now=NOW,
        node=target,
        state=state_of(world, member),
        primary=primary,
        epoch=epoch,
        primary_problem=problem,
        following=follows(world, target),
        has_followers=is_upstream(world, target),
        comparison=found,
        damage=damage,
        verified=None,
        was_writable=member.lineage is None or member.lineage.was_writable,
        size=BYTES,
        exported=EXPORT if exported(world, target) else None,
    )
    return plan_rejoin(world.cluster, facts, "TEXT", _commands(world))


def _clone(world: World, target: str) -> Plan | Refusal:
    epoch, primary = world.record
    problem, member = primary_problem(world), world[target]
    private: int | None = 0
    after = None
    if target != primary and member.file and not problem:
        found, _damage = _comparison(world, target)
        private = None if found is None else found.private
        after = found.common.tid if found and found.private and found.common else None
    facts = CloneFacts(
        now=NOW,
        node=target,
        primary=primary,
        epoch=epoch,
        primary_problem=problem,
        source=primary,
        source_problem="" if target != primary else "a node can't be cloned from itself",
        has_followers=is_upstream(world, target),
        following=follows(world, target),
        aside=Path("/aside"),
        size=BYTES,
        copied=0,
        free=0 if member.full else FREE,
        has_data=bool(member.file),
        private=private,
        exported=EXPORT if exported(world, target) else None,
        given_up=member.condition in (Condition.QUARANTINED, Condition.NEEDS_SEEDING),
        after=after,
    )
    return plan_clone(world.cluster, facts, "TEXT", _commands(world))


def _restart(world: World, target: str) -> Plan | Refusal:
    is_node = target in {each.name for each in world.members}
    admitted, refusal = "", None
    if is_node:
        try:
            admit(world, target)
            admitted = "it may"
        except OperatorError as error:
            refusal = error
    facts = RestartFacts(target, is_node, snapshot_of(world), admitted, refusal)
    return plan_restart(world.cluster, facts, "TEXT", _commands(world))


def _commands(world: World) -> Commands:
    return Commands(world.cluster, HOME)


PLANS = {
    "failover": _failover,
    "switchover": _switchover,
    "rejoin": _rejoin,
    "clone": _clone,
    "restart": _restart,
}
