"""The start of a node in the model, judged by the real start-up checks as far as they are pure.

``admit`` follows ``host.run.admit``: what that reads from disks and sockets comes from the model.
"""

from __future__ import annotations

import dataclasses

from zrs_model import Member, Program, World, lineage, states
from zrs_probes import KEEPER, compared, state_of, tid_of

from indico_zodbrepl.cluster.layout import data_fs
from indico_zodbrepl.cluster.lookup import root_of
from indico_zodbrepl.cluster.model import NodeState, Role
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import completeness, following, history, precheck, reports, run
from indico_zodbrepl.host.completeness import Witness
from indico_zodbrepl.host.epochs import EpochRecord
from indico_zodbrepl.host.history import Condition, Lineage
from indico_zodbrepl.host.reports import Report
from indico_zodbrepl.monitor.files import start_refusal


def record_of(world: World) -> EpochRecord:
    """Return the newest record of the epoch."""
    epoch, primary = world.record
    return EpochRecord(world.cluster.name, epoch, primary, "2026-01-01T00:00:00Z", "")


def known(member: Member, state: NodeState) -> Lineage:
    """Return a node's history file, or the cautious view without one, as ``history.known``."""
    return member.lineage or history.nothing(
        state.epoch, was_writable=state.upstream is None or state.epoch > 1
    )


def wanted_state(world: World, member: Member) -> NodeState:
    """Return the state in which a node would start: a follower gets that of a later epoch."""
    present = state_of(world, member)
    if present.role is Role.PRIMARY:
        return present
    return run.follower_of(record_of(world), present, states(world.members), world.cluster)


def admit(world: World, name: str) -> NodeState:
    """Return the state with which a node starts; raise OperatorError if it refuses."""
    member = world[name]
    wanted = wanted_state(world, member)
    had = known(member, wanted)
    history.refuse_condition(world.cluster, world.cluster.node(name), had)
    if wanted.role is Role.PRIMARY:
        _admit_primary(world, member, wanted)
    else:
        _admit_follower(world, member, wanted, had)
    return wanted


def start(world: World, name: str) -> World:
    """Return the world after supervisor has started a node that does not run."""
    member = world[name]
    try:
        wanted = admit(world, name)
    except OperatorError as error:
        marked = member.lineage
        if error.exit_code is not ExitCode.REFUSED:
            raise
        if "diverged" in error.notice or "ahead" in error.notice or "nothing in" in error.notice:
            before = known(member, wanted_state(world, member))
            marked = dataclasses.replace(before, condition=Condition.DIVERGED)
        return world.with_(
            name,
            program=Program.REFUSED,
            running=None,
            refusal=start_refusal(error),
            lineage=marked,
            state=member.state or state_of(world, member),
        )
    entered = lineage(wanted.epoch, writable=wanted.role is Role.PRIMARY)
    if not member.readable:  # the storage moves what it can't read to Data.fs.tr0
        world = dataclasses.replace(world, safe=world.safe | {member.last})
        world = world.with_(name, file=member.file[:-1], readable=True)
    return world.with_(
        name,
        program=Program.RUNNING,
        running=wanted,
        state=wanted,
        refusal=None,
        linked=True,
        told=False,
        lineage=entered,
    ).settled()


def reports_to(world: World, name: str) -> list[Report]:
    """Return what all sources but one node report of the epoch; see ``host.reports.gather``."""
    epoch, primary = world.record
    known_states = states(world.members)
    made = [Report(f"the record of {KEEPER}", epoch, primary)]
    if world.indico:
        made.append(Report("the running Indico instance", epoch, primary))
    for each in world.members:
        if each.name == name:
            continue
        lost = bool(world[name].file) and not each.file
        if each.serves and each.running is not None:
            root = (
                each.name
                if each.running.role is Role.PRIMARY
                else _primary_of(each.running.upstream, known_states)
            )
            writable = each.running.role is Role.PRIMARY and not each.told
            source = f"the running server of node {each.name}"
            if lost and root != each.name:
                root = None
            made.append(Report(source, each.running.epoch, root, writable, node=each.name))
        if each.state is not None:
            root = _primary_of(each.name, known_states)
            if lost and root != each.name:
                root = None
            source = f"the state file of node {each.name}"
            made.append(Report(source, each.state.epoch, root, node=each.name))
    return made


def _primary_of(name: str | None, known_states: dict[str, NodeState]) -> str | None:
    root = root_of(name, known_states)
    return root if root in known_states else None


def _admit_primary(world: World, member: Member, claim: NodeState) -> None:
    cluster, said = world.cluster, reports_to(world, member.name)
    decision = reports.judge(claim, said)
    if not decision.allowed:
        raise precheck.refusal(cluster, claim, decision, said)
    refuse_without_data(world, member, claim)
    if not member.file:
        return
    witnesses = [
        Witness(f"node {each.name}", tid_of(each.last), each.name)
        for each in world.members
        if each.name != member.name
        and each.file
        and completeness.is_witness(each.lineage, claim.epoch)
    ]
    if not member.readable:
        if not witnesses:
            return
        followers = [cluster.node(each.node or "") for each in witnesses]
        raise completeness.damaged(cluster, claim, followers, _unreadable(world, member))
    witnesses = [each for each in witnesses if world[each.node or ""].readable]
    own = tid_of(member.last)
    found = completeness.newest(witnesses, own)
    if found is not None:
        raise completeness.refusal(cluster, claim, own, found, witnesses)


def refuse_without_data(world: World, member: Member, claim: NodeState) -> None:
    """Raise OperatorError (REFUSED) as ``precheck.refuse_without_data``."""
    holders = [each.name for each in world.members if each.name != member.name and each.file]
    if holders and not member.file:
        raise precheck.without_data(world.cluster, claim, holders)


def _admit_follower(world: World, member: Member, state: NodeState, had: Lineage) -> None:
    cluster = world.cluster
    above = world[state.upstream or ""]
    if not member.file:
        return
    problem = "" if above.file else "it holds no transaction"
    if not problem:
        if not member.readable:
            raise following.damaged(cluster, state, _unreadable(world, member))
        if not above.readable:
            problem = _unreadable(world, above).detail
    if not problem:
        found = compared(member.file, above.file)
        root = root_of(state.upstream, states(world.members))
        if (
            found.relation.value == "ahead"
            and root not in (None, above.name)
            and world[root or ""].file
        ):
            found = compared(member.file, world[root or ""].file)
        if not (
            found.relation.value == "ahead" and completeness.is_witness(member.lineage, state.epoch)
        ):
            _lineage, refusal = following.judge(cluster, state, had, found)
            if refusal is not None:
                raise refusal
            return
        problem = "it lacks transactions of this epoch"
    if had.was_writable:
        raise following.unknown_history(state, problem)


def _unreadable(world: World, member: Member) -> OperatorError:
    return OperatorError(
        "the end of a data file can't be read",
        f"{data_fs(world.cluster.node(member.name))}: damaged",
        exit_code=ExitCode.REFUSED,
    )
