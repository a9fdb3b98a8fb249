"""The effect of each advised command on the model: what the steps of the real plan do."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from zrs_dry_runs import NotPossible, is_upstream, plan_of, primary_problem, refuse_up
from zrs_model import INDICO, Program, Supervisor, World, begins_with, common, lineage
from zrs_probes import snapshot_of, state_of
from zrs_start import admit, refuse_without_data, reports_to, start

from indico_zodbrepl.cluster.model import NodeState, Role
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import history, reports
from indico_zodbrepl.host.history import Condition
from indico_zodbrepl.monitor.promotion import states_after
from indico_zodbrepl.operations.model import Plan


class Failed(Exception):
    """A step of a plan failed after its dry run did not refuse."""


def execute(world: World, operation: str, target: str) -> World:
    """Return the world after a command; raise NotPossible if its dry run refuses, or Failed."""
    if operation in SINGLE:
        return SINGLE[operation](world, target)
    plan = plan_of(world, operation, target)
    world = dataclasses.replace(world, operation=None)  # it has ended, or gives way
    if operation == "restart" and target == INDICO:
        return dataclasses.replace(world, indico=True)
    return EFFECTS[operation](world, plan).settled()


def up(world: World, _target: str = "") -> World:
    """Replace what a lost supervisord left, followers first; start what does not run."""
    refuse_up(world)
    lost = world.supervisor is Supervisor.AWAY
    world = dataclasses.replace(world, supervisor=Supervisor.WORKS, indico=True)
    order = sorted(world.members, key=lambda each: state_of(world, each).role.follows)
    for each in reversed(order):
        if each.has_process and (lost or each.orphan):
            world = _replace(world, each.name)
    for each in order:
        if not each.has_process:
            world = start(world, each.name)
    return world.settled()


def _replace(world: World, name: str) -> World:
    """Restart a node under supervisord; one that would refuse keeps its process."""
    try:
        admit(world, name)
    except OperatorError:
        return world.with_(name, orphan=True)
    return start(fenced(world, name), name)


def fenced(world: World, name: str) -> World:
    """Kill a node's server; supervisor does not start it again."""
    return world.with_(
        name, program=Program.STOPPED, running=None, refusal=None, told=False, orphan=False
    )


def make_room(world: World, name: str) -> World:
    """Free space on the disk of a node, as a person does; its server continues by itself."""
    return world.with_(name, full=False).settled()


def wake_supervisor(world: World) -> World:
    """Continue a frozen supervisord, as a person does."""
    return dataclasses.replace(world, supervisor=Supervisor.WORKS)


def _restart(world: World, plan: Plan) -> World:
    return start(fenced(world, plan.target), plan.target)


def _name_loss(world: World, plan: Plan) -> World:
    loss = plan.loss
    if loss is None:
        return world
    target = plan.target if plan.operation == "failover" else world.record[1]
    own = set(world[loss.node].file) - set(world[target].file)
    if loss.exact and loss.transactions is not None and loss.transactions != len(own):
        raise Failed(f"the plan names {loss.transactions} lost transactions, it is {len(own)}")
    return dataclasses.replace(world, named=world.named | own)


def _export(world: World, name: str, numbers: set[int]) -> World:
    if numbers and not world[name].readable:
        return world
    return dataclasses.replace(world, safe=world.safe | numbers)


def _failover(world: World, plan: Plan) -> World:
    new, old = plan.target, plan.source
    ahead = [step.subject for step in plan.steps if step.action == "export-tail"]
    world = _name_loss(world, plan)
    for name in dict.fromkeys((old, *(s.subject for s in plan.steps if s.action == "fence"))):
        world = fenced(world, name)
    for name in ahead:
        private = set(world[name].file) - set(world[new].file)
        if private:
            world = _export(world, name, private)
            marked = lineage(plan.epoch - 1, Condition.DIVERGED, writable=name == old)
            world = world.with_(name, lineage=marked)
    before = snapshot_of(world)
    after = states_after(world.cluster, before, before.node(old), before.node(new))
    world = promote(world, new, plan.epoch)
    for step in plan.steps:
        if step.action == "follow":
            world = follow(world, after[step.subject])
        elif step.action == "assign":
            world = world.with_(step.subject, state=after[step.subject])
        elif step.action == "start":
            world = start(world, step.subject)
    return world


def promote(world: World, name: str, epoch: int) -> World:
    """Make a node the primary of an epoch; raise Failed if the real checks refuse."""
    member, cluster = world[name], world.cluster
    claim = NodeState(cluster.name, name, Role.PRIMARY, None, epoch)
    objection = reports.objection_to(name, epoch, reports_to(world, name))
    if objection:
        raise Failed(f"promotion of {name}: {objection}")
    try:
        refuse_without_data(world, member, claim)
        if member.lineage is not None:
            history.refuse_condition(cluster, cluster.node(name), member.lineage)
    except OperatorError as error:
        raise Failed(f"promotion of {name}: {error.notice}") from error
    for each in world.members:
        if each.running is not None and each.running.role is Role.PRIMARY and each.name != name:
            world = world.with_(each.name, told=each.serves)
    world = dataclasses.replace(world, record=(epoch, name))
    written = lineage(epoch, writable=True)
    if member.serves:
        return world.with_(
            name, state=claim, running=claim, lineage=written, linked=True, told=False
        )
    if world.supervisor is not Supervisor.WORKS:
        raise Failed(f"promotion of {name}: supervisord does not answer")
    return start(world.with_(name, state=claim, lineage=written), name)


def follow(world: World, wanted: NodeState) -> World:
    """Make a node follow another one, in place if it runs; a diverged one is stopped."""
    member = world[wanted.node]
    if not member.has_process:
        return world.with_(wanted.node, state=wanted)
    above = world[wanted.upstream or ""]
    if not begins_with(above.file, member.file):
        marked = lineage(wanted.epoch, Condition.DIVERGED)
        stopped = fenced(world, wanted.node)
        return stopped.with_(wanted.node, lineage=marked)
    if member.program is Program.FROZEN:
        return world  # the step fails, and may
    entered = lineage(wanted.epoch)
    return world.with_(
        wanted.node, state=wanted, running=wanted, lineage=entered, linked=True, told=False
    )


def _joined(world: World, name: str) -> World:
    """Start a node whose data now follow the primary's."""
    epoch, primary = world.record
    role = Role.RELAY if is_upstream(world, name) else Role.SECONDARY
    state = NodeState(world.cluster.name, name, role, primary, epoch)
    world = world.with_(name, state=state, lineage=lineage(epoch), refusal=None)
    return start(world, name)


def _rejoin(world: World, plan: Plan) -> World:
    name, primary = plan.target, world.record[1]
    world = fenced(_name_loss(world, plan), name)
    marks = [step for step in plan.steps if step.action == "rejoin-mark"]
    condition = Condition(marks[0].text("condition"))
    if condition is not Condition.OK:
        return world.with_(name, lineage=lineage(world.record[0], condition, writable=True))
    file = common(world[name].file, world[primary].file)
    world = _export(world, name, set(world[name].file) - set(file))
    return _joined(world.with_(name, file=file), name)


def _clone(world: World, plan: Plan) -> World:
    name, primary = plan.target, world.record[1]
    if not world[primary].readable:
        raise Failed(f"the data of {primary} can't be copied")
    world = fenced(_name_loss(world, plan), name)
    world = dataclasses.replace(world, safe=world.safe | set(world[name].file))
    return _joined(world.with_(name, file=world[primary].file, readable=True), name)


def resume(world: World) -> World:
    """Do the remaining steps; past the point of no return a failure leaves the operation open."""
    found = world.operation
    if found is None:
        raise NotPossible("no operation is open")
    closed = dataclasses.replace(world, operation=None)
    try:
        if not found.past:
            return execute(closed, found.kind, found.target)
        if found.kind == "rejoin":
            return _finish_rejoin(closed, found.target).settled()
        return _finish_failover(closed, found.target, found.source).settled()
    except (Failed, NotPossible):
        if not found.past:
            return closed  # everything is undone
        return dataclasses.replace(world, operation=dataclasses.replace(found, failed=True))


def _finish_rejoin(world: World, name: str) -> World:
    """Truncate, assign, mark and start a node whose own transactions were exported."""
    primary = world[world.record[1]]
    if world[name].full:
        raise Failed("no space left on device")
    if world.supervisor is not Supervisor.WORKS:
        raise Failed("supervisord does not answer")
    world = fenced(world, name)
    if world[name].readable:
        world = world.with_(name, file=common(world[name].file, primary.file))
    world = _joined(world, name)
    if primary_problem(world) or not world[name].serves:
        raise Failed(f"{name} does not catch up")
    return world


def _finish_failover(world: World, name: str, old: str) -> World:
    """Promote a node again in the epoch of the records; the others follow it."""
    epoch = world.record[0]
    before = snapshot_of(world)
    others = [each.name for each in world.members if each.name != name]
    world = promote(fenced(world, old), name, epoch)
    if not world[name].serves:
        raise Failed(f"{name} does not start as the primary")
    after = states_after(world.cluster, before, before.node(old), before.node(name))
    for other in others:
        wanted = dataclasses.replace(after[other], epoch=epoch)
        world = follow(world, wanted) if other != old else world.with_(old, state=wanted)
    return world


def _switchover(world: World, plan: Plan) -> World:
    before = snapshot_of(world)
    after = states_after(world.cluster, before, before.node(plan.source), before.node(plan.target))
    world = world.with_(plan.source, told=True)
    world = promote(world, plan.target, plan.epoch)
    for name, state in after.items():
        if name != plan.target:
            world = follow(world.with_(name, told=False), state)
    return world


def _abandon(world: World, _target: str) -> World:
    return dataclasses.replace(world, operation=None)


SINGLE: Mapping[str, Callable[[World, str], World]] = {
    "up": up,
    "fence": lambda world, name: fenced(world, name).settled(),
    "abandon": _abandon,
    "resume": lambda world, _target: resume(world),
}
EFFECTS: Mapping[str, Callable[[World, Plan], World]] = {
    "failover": _failover,
    "switchover": _switchover,
    "rejoin": _rejoin,
    "clone": _clone,
    "restart": _restart,
}
