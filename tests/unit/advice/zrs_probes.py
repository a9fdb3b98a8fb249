"""The findings of the monitor's probes in a model of a cluster, and the snapshot of them."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from situations import HOME, ONE_SECOND, REFUSED, SILENT, TID, TID_TIME
from zrs_model import INDICO, Member, Program, Supervisor, World, common

from indico_zodbrepl.cluster.lookup import root_of
from indico_zodbrepl.cluster.model import NodeState, Role
from indico_zodbrepl.host.data_end import DataEnd
from indico_zodbrepl.host.datafs_answers import Common, Comparison, Relation
from indico_zodbrepl.host.disks import Disk
from indico_zodbrepl.host.interface import SUPERVISOR_AWAY
from indico_zodbrepl.monitor.assessment import assess
from indico_zodbrepl.monitor.findings import Findings
from indico_zodbrepl.monitor.node_status import Program as Supervised
from indico_zodbrepl.monitor.snapshot import EpochWord, OpenOperation, Snapshot
from indico_zodbrepl.probing import comparison as probed
from indico_zodbrepl.probing.answers import (
    Hold,
    IndicoAnswer,
    MissingAnswer,
    Replication,
    ServerAnswer,
    ServerRole,
    WriteFailure,
)
from indico_zodbrepl.probing.comparison import Failure, Membership
from indico_zodbrepl.probing.wire import FailureKind

NOW = TID_TIME + 3600
BYTES = 100 << 20
FREE, TOTAL = 50 << 30, 100 << 30
DISKS = {
    False: Disk(FREE, TOTAL, 1),
    True: Disk(0, TOTAL, 1),
}
SUPERVISED = {
    Program.RUNNING: "RUNNING",
    Program.FROZEN: "RUNNING",
    Program.STOPPED: "STOPPED",
    Program.REFUSED: "EXITED",
    Program.CRASHED: "FATAL",
}
KEEPER = "the control host"
PROBLEMS = {
    Supervisor.WORKS: "",
    Supervisor.AWAY: SUPERVISOR_AWAY,
    Supervisor.SILENT: "no answer in time",
}


def tid_of(number: int) -> int:
    """Return the id of a transaction; 0 for none."""
    return TID + number * ONE_SECOND if number else 0


def shown(number: int) -> str:
    """Return the id of a transaction as data files have it."""
    return f"{tid_of(number):016x}"


def state_of(world: World, member: Member) -> NodeState:
    """Return the state with which a node would start; ``host.state.derived`` without a file."""
    if member.state is not None:
        return member.state
    epoch, primary = world.record
    cluster = world.cluster
    node = cluster.node(member.name)
    if primary == member.name:
        return NodeState(cluster.name, member.name, Role.PRIMARY, None, epoch)
    role = Role.SECONDARY if node.role is Role.PRIMARY else node.role
    return NodeState(cluster.name, member.name, role, primary, epoch)


@functools.lru_cache(maxsize=4096)
def compared(file: tuple[int, ...], upstream: tuple[int, ...]) -> Comparison:
    """Return how a data file relates to another one."""
    shared = common(file, upstream)
    private, missing = file[len(shared) :], upstream[len(shared) :]
    if not file:
        relation = Relation.EMPTY
    elif not shared:
        relation = Relation.UNRELATED
    elif private:
        relation = Relation.DIVERGED if missing else Relation.AHEAD
    else:
        relation = Relation.BEHIND if missing else Relation.EQUAL
    return Comparison(
        relation=relation,
        common=Common(shown(shared[-1]), "d" * 64) if shared else None,
        private=len(private),
        private_first=shown(private[0]) if private else None,
        private_last=shown(private[-1]) if private else None,
        missing=len(missing),
        holes=0,
        conflicting=0,
        packed=False,
        packed_away=0,
        packed_away_last=None,
        bytes_private=100 * len(private),
        examined=len(shared) + len(private),
    )


def findings_of(world: World) -> Findings:
    """Return a round of probes."""
    cluster, epoch = world.cluster, world.record[0]
    works = world.supervisor is Supervisor.WORKS
    found = {each.name: state_of(world, each) for each in world.members}
    comparisons = {}
    for each in world.members:
        made = _comparison(world, each, found)
        if made is not None:
            comparisons[each.name] = made
    refused = {each.name: each.refusal for each in world.members if each.refusal is not None}
    programs = {
        cluster.node(each.name).program: Supervised(
            cluster.node(each.name).program,
            "STOPPED" if each.orphan else SUPERVISED[each.program],
            _pid(world, each) if each.has_process else 0,
            "",
        )
        for each in world.members
    }
    program = cluster.indico[0].program
    programs[program] = Supervised(program, "RUNNING" if world.indico else "STOPPED", 99, "")
    return Findings(
        taken_at=NOW,
        duration=0.01,
        states=found,
        servers={each.name: _server(world, each) for each in world.members},
        comparisons=comparisons,
        indico={INDICO: _instance(world)},
        programs=programs if works else {},
        supervisor_problem=PROBLEMS[world.supervisor],
        records=(EpochWord(KEEPER, epoch, world.record[1], ""),),
        lineages={
            each.name: (each.lineage.condition, each.lineage.detail)
            for each in world.members
            if each.lineage is not None
        },
        refusals=refused if works else {},
        refused_at=dict.fromkeys(refused, NOW - 60) if works else {},
        operations=tuple(_operations(world)),
        epoch_began=NOW - 600,
        disks={each.name: DISKS[each.full] for each in world.members if each.has_folder},
        compared_in={
            each.name: each.lineage.epoch
            for each in world.members
            if each.lineage is not None and not each.lineage.was_writable
        },
        data_ends=dict(_data_ends(world, found)),
    )


def snapshot_of(world: World) -> Snapshot:
    """Return the snapshot that the monitor makes."""
    return assess(world.cluster, findings_of(world), HOME)


def _pid(world: World, member: Member) -> int:
    return 100 + world.members.index(member)


def _server(world: World, member: Member) -> ServerAnswer | Failure:
    running = member.running
    if running is None or not member.has_process:
        return REFUSED
    if member.program is Program.FROZEN:
        return SILENT
    cluster = world.cluster
    above = world.upstream_of(member)
    followers = [
        each.name
        for each in world.members
        if (found := world.upstream_of(each)) is not None and found.name == member.name
    ]
    upstream = running.upstream and str(cluster.node(running.upstream).link_address)
    replication = Replication(
        cluster.name,
        member.name,
        ServerRole(running.role.value),
        running.epoch,
        upstream,
        None if upstream is None else above is not None,
        tuple(f"127.0.0.1:4{number:04}" for number, _name in enumerate(followers)),
        _pid(world, member),
        BYTES,
        running.role is not Role.PRIMARY,
        held=Hold.EPOCH if member.told else None,
        write_failure=WriteFailure("No space left on device", int(NOW) - 90, int(NOW), 3)
        if member.full and running.role is Role.PRIMARY
        else None,
    )
    return ServerAnswer(tid_of(member.last), 1, replication)


def _comparison(
    world: World, member: Member, found: dict[str, NodeState]
) -> probed.Comparison | None:
    root = root_of(member.name, found)
    if root is None or root == member.name or not member.serves or not world[root].serves:
        return None
    primary = world[root]
    result = compared(member.file, primary.file)
    return probed.Comparison(
        root,
        tid_of(primary.last),
        MissingAnswer(sum(each > member.last for each in primary.file), True, None),
        None
        if not member.file
        else Membership.HELD
        if member.last in primary.file
        else Membership.ABSENT
        if result.private
        else None,
    )


def _data_ends(world: World, found: dict[str, NodeState]) -> Iterator[tuple[str, DataEnd]]:
    for each in world.members:
        if each.serves:
            continue
        if not each.readable:
            yield each.name, DataEnd(None, "damaged")
            continue
        root = root_of(each.name, found)
        asked = root is not None and root != each.name and world[root].serves and each.file
        held = each.last in world[root].file if asked and root else None
        yield each.name, DataEnd(tid_of(each.last), "", held)


def _instance(world: World) -> IndicoAnswer | Failure:
    if not world.indico:
        return Failure(FailureKind.REFUSED, "nothing listens on 127.0.0.1:8105")
    serving = [each for each in world.members if each.serves]
    writers = [*world.writers()]
    reading = (writers or serving)[:1]
    epoch, primary = world.record
    server = str(world.cluster.node(reading[0].name).storage_address) if reading else None
    return IndicoAnswer(
        INDICO,
        99,
        server,
        bool(reading),
        not writers,
        tid_of(reading[0].last) if reading else None,
        epoch,
        primary,
    )


def _operations(world: World) -> list[OpenOperation]:
    found = world.operation
    if found is None:
        return []
    return [
        OpenOperation(
            "20260101T000000.000Z-" + found.kind,
            found.kind,
            found.target,
            "alice",
            NOW - 300,
            "stopped" if found.failed or found.damaged else "running",
            at_work=False,
            damaged=found.damaged,
        )
    ]
