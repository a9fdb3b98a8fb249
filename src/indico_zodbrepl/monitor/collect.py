"""One round of probes: servers, Indico instances, files of this host, and supervisord."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from functools import partial
from typing import TypeVar

from indico_zodbrepl.backends import backend_of, can
from indico_zodbrepl.cluster.hosts import Etcd
from indico_zodbrepl.cluster.installation import home_from_environment
from indico_zodbrepl.cluster.model import Cluster, Node, NodeState
from indico_zodbrepl.cluster.programs import IndicoInstance
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.data_end import DataEnd
from indico_zodbrepl.host.disks import Disk
from indico_zodbrepl.host.epochs import EpochRecord, seconds
from indico_zodbrepl.host.interface import HostAwayError, answer_deadline, host_of, prepare
from indico_zodbrepl.monitor.assessment import assess
from indico_zodbrepl.monitor.automation import automation_jobs, automation_of, health_of
from indico_zodbrepl.monitor.backups import backup_jobs
from indico_zodbrepl.monitor.files import jobs, start_refusal
from indico_zodbrepl.monitor.findings import (
    Findings,
    LastBackup,
    Results,
    assignments,
    source_of_truth,
)
from indico_zodbrepl.monitor.hosts import host_jobs, reports
from indico_zodbrepl.monitor.node_status import Program, StartRefusal
from indico_zodbrepl.monitor.snapshot import EpochWord, Snapshot
from indico_zodbrepl.probing.answers import IndicoAnswer, ServerAnswer
from indico_zodbrepl.probing.comparison import Comparison, Failure
from indico_zodbrepl.probing.probes import probe_history, probe_indico
from indico_zodbrepl.probing.race import Race
from indico_zodbrepl.probing.wire import FailureKind, ProbeError

Value = TypeVar("Value")

TIME_LIMIT = 1.25
"""Seconds for a round; leaves room within the two seconds promised for a whole command."""
STATE_FILES_LIMIT = 0.3
"""Seconds to read state files, which determine the nodes to compare."""
REMOTE_STATES_LIMIT = 0.6
"""The same for a cluster of several hosts, whose first connections take a while."""
SUPERVISOR_SECONDS = 0.1
"""Least time limit for asking supervisord."""


def look(cluster: Cluster, time_limit: float = TIME_LIMIT) -> tuple[Findings, Snapshot]:
    """Take a snapshot and return it with the raw findings."""
    findings = collect(cluster, time_limit)
    return findings, assess(cluster, findings, home_from_environment())


def take_snapshot(cluster: Cluster, time_limit: float = TIME_LIMIT) -> Snapshot:
    """Probe everything and judge it.

    Args:
        cluster: the cluster to probe.
        time_limit: seconds after which a source without an answer counts as silent.

    Threads: may be called from several at once; each call probes by itself.
    """
    return look(cluster, time_limit)[1]


def collect(cluster: Cluster, time_limit: float) -> Findings:
    """Make one round of probes, which ends within ``time_limit`` seconds in any case."""
    prepare(cluster)
    taken_at, started = time.time(), time.monotonic()
    deadline = started + time_limit
    limit = REMOTE_STATES_LIMIT if cluster.hosts else STATE_FILES_LIMIT
    states = _read_states(cluster, min(deadline, started + limit))
    assigned = assignments(cluster, states)
    race = Race(_series(cluster))
    for node in cluster.nodes:
        truth = source_of_truth(node.name, assigned)
        primary = None if truth is None else cluster.node(truth)
        race.start(node.name, partial(probe_node, cluster, node, primary, deadline))
    for instance in cluster.indico:
        race.start(instance.name, partial(probe_instance, cluster, instance, deadline))
    # Reading the states of a silent host has used a part of the limit.
    left = max(SUPERVISOR_SECONDS, deadline - time.monotonic())
    race.start("supervisor", partial(ask_supervisor, cluster, left))
    for name, job in (
        *jobs(cluster),
        *host_jobs(cluster),
        *automation_jobs(cluster),
        *backup_jobs(cluster),
    ):
        race.start(name, job)
    found = race.wait(deadline)
    return _findings(cluster, found, states, taken_at, time.monotonic() - started)


def _series(cluster: Cluster) -> str:
    return f"monitor of {cluster.var_directory}"


def _read_states(cluster: Cluster, deadline: float) -> dict[str, NodeState | Failure]:
    race = Race(_series(cluster))
    for node in cluster.nodes:
        race.start(f"state-{node.name}", partial(_read_state, cluster, node))
    found = race.wait(deadline)
    late = Failure(
        FailureKind.SILENT, "the state file could not be read in time; its disk may hang"
    )
    away = Failure(FailureKind.HOST_AWAY, "its host did not answer in time")
    states: dict[str, NodeState | Failure] = {}
    for node in cluster.nodes:
        state = found.get(("state", node.name), late if cluster.is_here(node) else away)
        states[node.name] = state if isinstance(state, NodeState | Failure) else late
    return states


def _read_state(cluster: Cluster, node: Node) -> Results:
    try:
        yield ("state", node.name), host_of(cluster).state(node.name)
    except HostAwayError as error:
        yield ("state", node.name), Failure(FailureKind.HOST_AWAY, error.detail)
    except OperatorError as error:
        yield ("state", node.name), Failure(FailureKind.MALFORMED, error.detail or error.notice)
    except OSError as error:
        yield ("state", node.name), Failure(FailureKind.UNREACHABLE, str(error))


def _findings(
    cluster: Cluster,
    found: Mapping[tuple[str, str], object],
    states: Mapping[str, NodeState | Failure],
    taken_at: float,
    duration: float,
) -> Findings:
    late = Failure(FailureKind.SILENT, "no answer in time")
    servers: dict[str, ServerAnswer | Failure] = {}
    comparisons = {}
    for node in cluster.nodes:
        server = found.get(("server", node.name), late)
        servers[node.name] = server if isinstance(server, ServerAnswer | Failure) else late
        comparison = found.get(("comparison", node.name))
        if isinstance(comparison, Comparison):
            comparisons[node.name] = comparison
    indico: dict[str, IndicoAnswer | Failure] = {}
    for instance in cluster.indico:
        health = found.get(("indico", instance.name), late)
        indico[instance.name] = health if isinstance(health, IndicoAnswer | Failure) else late
    lineages = {
        node.name: lineage
        for node in cluster.nodes
        if isinstance(lineage := found.get(("lineage", node.name)), tuple)
    }
    words = [
        found.get(("record", keeper), EpochWord(keeper, None, None, "not read in time"))
        for keeper in host_of(cluster).keepers()
    ]
    operations = found.get(("operations", ""), ())
    control_disk = found.get(("control disk", ""))
    backup = found.get(("backup", ""))
    programs, problem, supervisors = _programs(cluster, found.get(("programs", "")))
    return Findings(
        taken_at=taken_at,
        duration=duration,
        states=states,
        servers=servers,
        comparisons=comparisons,
        indico=indico,
        programs=programs,
        supervisor_problem=problem,
        records=tuple(word for word in words if isinstance(word, EpochWord)),
        lineages=lineages,
        refusals=_by_node(cluster, found, "refusal", StartRefusal),
        operations=operations if isinstance(operations, tuple) else (),
        refused_at=_by_node(cluster, found, "refused at", float),
        epoch_began=_epoch_began(found),
        disks=_by_node(cluster, found, "disk", Disk),
        control_disk=control_disk if isinstance(control_disk, Disk) else None,
        compared_in=_by_node(cluster, found, "compared", int),
        data_ends=_by_node(cluster, found, "data end", DataEnd),
        hosts=reports(cluster, found),
        supervisors=supervisors,
        automation=automation_of(cluster, found),
        etcd=health_of(found),
        backup=backup if isinstance(backup, LastBackup) else None,
    )


def _epoch_began(found: Mapping[tuple[str, str], object]) -> float | None:
    """Return when the highest epoch was first recorded."""
    recorded = [
        (-each.epoch, seconds(each.at))
        for key, each in found.items()
        if key[0] == "recorded" and isinstance(each, EpochRecord)
    ]
    known = [(epoch, at) for epoch, at in recorded if at is not None]
    return min(known)[1] if known else None


def _by_node(
    cluster: Cluster, found: Mapping[tuple[str, str], object], what: str, kind: type[Value]
) -> dict[str, Value]:
    """Return what was found of the nodes, without those of which nothing was found in time."""
    return {
        node.name: value
        for node in cluster.nodes
        if isinstance(value := found.get((what, node.name)), kind)
    }


def _programs(cluster: Cluster, found: object) -> tuple[dict[str, Program], str, dict[str, str]]:
    """Return the programs, why this host's supervisord does not answer, and why others' do not."""
    if not isinstance(found, dict):
        return {}, "no answer in time", {}
    known = {name: each for name, each in found.items() if each.state != "UNREACHABLE"}
    lost = {name: each.description for name, each in found.items() if name not in known}
    if not cluster.hosts:
        return ({}, next(iter(lost.values())), {}) if lost else (known, "", {})
    problems = {}
    for host in cluster.hosts:
        # The member of etcd has the same name on all hosts, so it says nothing of one.
        programs = dataclasses.replace(cluster, here=host.name).program_names()
        names = [name for name in programs if name != Etcd.program]
        problems[host.name] = next((lost[name] for name in names if name in lost), "")
    return known, problems.pop(cluster.here or "", ""), {k: v for k, v in problems.items() if v}


def probe_node(cluster: Cluster, node: Node, primary: Node | None, deadline: float) -> Results:
    """Probe a node: yield ("server", name), and ("comparison", name) with its primary, if any.

    If it does not answer, yield ("data end", name) as well: what its data file holds.
    """
    backend = backend_of(cluster)
    try:
        answer = backend.ask(cluster, node, answer_deadline(cluster, node.on, deadline))
    except ProbeError as error:
        yield ("server", node.name), Failure(error.kind, error.detail)
        yield from _data_end(cluster, node, primary, deadline)
        return
    yield ("server", node.name), answer
    if primary is None:
        return
    deadline = answer_deadline(cluster, primary.on, deadline)
    for comparison in backend.compare(cluster, node, primary, answer, deadline):
        yield ("comparison", node.name), comparison


def _data_end(cluster: Cluster, node: Node, primary: Node | None, deadline: float) -> Results:
    """Read the end of a node's data file, and ask the primary if it has that transaction."""
    if not node.managed or not can(cluster, "lineage"):
        return
    try:
        found = host_of(cluster).data_end(node.name)
    except HostAwayError:
        return  # its host's own probe tells
    if found is None:
        return
    yield ("data end", node.name), found
    if primary is None or not found.last_tid:
        return
    try:
        held = probe_history(primary.storage_address, found.last_tid, deadline)
    except ProbeError:
        return  # the primary's own probe reports it
    yield ("data end", node.name), dataclasses.replace(found, in_primary=held.known)


def probe_instance(cluster: Cluster, instance: IndicoInstance, deadline: float) -> Results:
    """Probe an Indico instance: yield ("indico", name)."""
    deadline = answer_deadline(cluster, instance.on, deadline)
    try:
        yield ("indico", instance.name), probe_indico(instance.address, deadline)
    except ProbeError as error:
        yield ("indico", instance.name), Failure(error.kind, error.detail)


def ask_supervisor(cluster: Cluster, time_limit: float) -> Results:
    """Ask supervisord: yield ("programs", ""), and ("refusal", node) for refused starts."""
    host = host_of(cluster)
    programs = host.programs(time_limit)
    yield (
        ("programs", ""),
        {
            name: Program(
                program.name,
                program.state,
                program.pid or 0,
                program.description,
                program.exit_status,
            )
            for name, program in programs.items()
        },
    )
    refused = [
        node
        for node in cluster.nodes
        if node.has_program
        and node.program in programs
        and programs[node.program].state == "EXITED"
        and programs[node.program].exit_status == ExitCode.REFUSED
    ]
    for node in refused:
        yield ("refusal", node.name), start_refusal(host.last_refusal(node.name))
        yield ("refused at", node.name), programs[node.program].stopped_at
