"""Judge raw findings: findings in, snapshot out.  Pure: no clock, no socket, no file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.hosts import ClusterHost
from indico_zodbrepl.cluster.model import Cluster, Node, Role
from indico_zodbrepl.cluster.places import Address
from indico_zodbrepl.cluster.programs import IndicoInstance
from indico_zodbrepl.host.disks import Room
from indico_zodbrepl.monitor import rules
from indico_zodbrepl.monitor.automation import automation_status, etcd_status
from indico_zodbrepl.monitor.backups import backup_status
from indico_zodbrepl.monitor.findings import (
    Assignment,
    Findings,
    HostReport,
    assignments,
    source_of_truth,
)
from indico_zodbrepl.monitor.host_status import HostStatus
from indico_zodbrepl.monitor.node_status import Mark, NodeStatus, StartRefusal
from indico_zodbrepl.monitor.snapshot import IndicoStatus, Snapshot
from indico_zodbrepl.monitor.verdict import overall_state, sentence
from indico_zodbrepl.probing import tid
from indico_zodbrepl.probing.answers import (
    IndicoAnswer,
    MissingAnswer,
    Replication,
    ServerAnswer,
    ServerRole,
    WriteFailure,
)
from indico_zodbrepl.probing.comparison import Comparison, Failure, Membership

PRIMARIES = (ServerRole.PRIMARY, ServerRole.STANDALONE)
FAILURE_SECONDS = 60.0
"""Seconds for which a failed write counts after its disk has room again."""


def assess(cluster: Cluster, findings: Findings, home: Path) -> Snapshot:
    """Judge a round of probes.

    Args:
        cluster: what the cluster is meant to be.
        findings: what the probes found.
        home: folder of the installation, for the commands in hints.
    """
    assigned = assignments(cluster, findings.states, findings.records)
    nodes = tuple(_node(cluster, node, assigned, findings) for node in cluster.nodes)
    indico = tuple(_instance(cluster, instance, findings) for instance in cluster.indico)
    commands = Commands(cluster, home)
    hosts = tuple(_host(cluster, host, findings) for host in cluster.hosts)
    facts = rules.Facts(cluster, findings, nodes, indico, commands, hosts)
    warnings = tuple(rules.warnings(facts))
    primaries = [node.name for node in nodes if node.writable_primary]
    state = overall_state(facts, warnings)
    return Snapshot(
        cluster=cluster.name,
        backend=cluster.backend,
        taken_at=findings.taken_at,
        duration=findings.duration,
        state=state,
        sentence=sentence(facts, state, warnings),
        primary=primaries[0] if len(primaries) == 1 else None,
        supervisor_problem=findings.supervisor_problem,
        nodes=nodes,
        indico=indico,
        warnings=warnings,
        epoch=_epoch(nodes, findings),
        records=findings.records,
        operations=findings.operations,
        rivals=tuple(node.name for node in facts.rivals),
        control_disk=findings.control_disk,
        hosts=hosts,
        files=cluster.files,
        automation=automation_status(findings.automation, nodes),
        etcd=etcd_status(cluster, findings),
        backup=backup_status(cluster, findings),
    )


def _host(cluster: Cluster, host: ClusterHost, findings: Findings) -> HostStatus:
    found = findings.hosts.get(host.name)
    here = host.name == cluster.here
    if not isinstance(found, HostReport):
        why = "no answer in time" if found is None else found.detail
        return HostStatus(host.name, host.address, here, why)
    return HostStatus(
        host.name,
        host.address,
        here,
        "",
        found.release,
        found.same_file,
        found.clock_offset,
        findings.supervisor_problem if here else findings.supervisors.get(host.name, ""),
        found.certificate_until,
        found.archive,
        found.archive_problem,
        findings.programs.get(host.automation),
    )


def _epoch(nodes: Sequence[NodeStatus], findings: Findings) -> int | None:
    said = [
        *(node.epoch for node in nodes),
        *(node.assigned_epoch for node in nodes),
        *(record.epoch for record in findings.records),
    ]
    return max((epoch for epoch in said if epoch is not None), default=None)


def _node(
    cluster: Cluster, node: Node, assigned: dict[str, Assignment], findings: Findings
) -> NodeStatus:
    own = assigned[node.name]
    found = findings.servers[node.name]
    answer = found if isinstance(found, ServerAnswer) else None
    replication = answer.replication if answer else None
    ours = replication if replication and _is(cluster, node, replication) else None
    last = _last(answer.last_tid, ours) if answer and ours else None
    lag = _Lag.of(cluster, node, assigned, findings)
    leader = _leader(assigned, findings)
    condition, detail = findings.lineages.get(node.name, (None, ""))
    return NodeStatus(
        name=node.name,
        address=_shown(node, node.storage_port),
        replication_address=_shown(node, node.replication_port),
        program=findings.programs.get(node.program),
        mark=_mark(cluster, answer, ours, own),
        problem=found.detail if isinstance(found, Failure) else "",
        assigned_role=own.role,
        assigned_upstream=own.upstream,
        assigned_epoch=own.epoch if backend_of(cluster).has_epochs else None,
        actual_role=ours.role if ours else None,
        upstream=_node_at(cluster, ours.upstream, "replication") if ours else None,
        connected=ours.connected if ours else None,
        epoch=ours.epoch if ours and backend_of(cluster).has_epochs else None,
        pid=ours.pid if ours else None,
        read_only=ours.read_only if ours else None,
        size=ours.size if ours else None,
        clients=answer.clients if answer and ours else None,
        last_tid=last,
        last_time=None if last is None else tid.committed_at(last),
        followers=_followers(cluster, node, findings),
        follower_addresses=ours.followers if ours else (),
        lag_seconds=lag.seconds,
        lag_transactions=lag.transactions,
        lag_exact=lag.exact,
        held=ours.held if ours else None,
        min_followers=ours.min_followers if ours else 0,
        refused=ours.refused if ours else (),
        membership=lag.membership,
        condition=condition,
        condition_detail=detail,
        facts=answer.facts if answer else (),
        managed=node.managed,
        disk=findings.disks.get(node.name),
        write_failure=_write_failure(ours, findings, node.name) if ours else None,
        missing_blob_folder=ours.missing_blob_folder if ours else None,
        blobs_missing=ours.blobs_missing if ours else 0,
        blob_missing=ours.blob_missing if ours else "",
        refusal=_refusal(findings, node.name),
        compared_in=findings.compared_in.get(node.name),
        data_end=findings.data_ends.get(node.name),
        host=node.on,
        acknowledging=ours.acknowledging if ours and ours.role in PRIMARIES else None,
        lease_left=ours.lease_left if ours else None,
        superseded_by=leader[1]
        if own.role is Role.PRIMARY and leader[1] != node.name and leader[0] > (own.epoch or 0)
        else None,
    )


def _write_failure(ours: Replication, findings: Findings, name: str) -> WriteFailure | None:
    """Return a server's failed writes; None if the disk has had room for a while since."""
    found, disk = ours.write_failure, findings.disks.get(name)
    if found is None or disk is None or disk.room is Room.FULL:
        return found
    return found if findings.taken_at - found.at < FAILURE_SECONDS else None


def _refusal(findings: Findings, name: str) -> StartRefusal | None:
    """Return why a node refused to start; None if a later promotion made that obsolete."""
    began, refused_at = findings.epoch_began, findings.refused_at.get(name)
    # Both are whole seconds; after a refusal a program is held for more than one second.
    if began is not None and refused_at is not None and refused_at <= began:
        return None
    return findings.refusals.get(name)


def _last(last_tid: int, replication: Replication) -> int | None:
    """Return a server's last transaction; a NEO storage has none while no master leads."""
    if last_tid == tid.EMPTY and replication.role is ServerRole.STORAGE:
        return None
    return last_tid


def _shown(node: Node, port: int | None) -> str | None:
    return None if port is None else str(Address(node.host, port))


def _leader(assigned: dict[str, Assignment], findings: Findings) -> tuple[int, str | None]:
    """Return the highest epoch in records and state files that names a primary, and the primary."""
    said = [
        (record.epoch, record.primary)
        for record in findings.records
        if record.epoch is not None and record.primary is not None
    ]
    said += [
        (own.epoch, name)
        for name, own in assigned.items()
        if own.role is Role.PRIMARY and own.epoch is not None
    ]
    return max(said, key=lambda each: each[0], default=(0, None))


def _is(cluster: Cluster, node: Node, replication: Replication) -> bool:
    return replication.cluster == cluster.name and replication.node == node.name


def _mark(
    cluster: Cluster, answer: ServerAnswer | None, ours: Replication | None, assigned: Assignment
) -> Mark:
    if answer is None:
        return Mark.UNREACHABLE
    as_assigned = (
        ours is not None
        and rules.plays(cluster, ours.role, assigned.role)
        and ours.connected is not False
    )
    return Mark.AS_ASSIGNED if as_assigned else Mark.DIFFERS


def _node_at(cluster: Cluster, address: str | None, kind: str) -> str | None:
    """Return the node with that address; the address itself if no node has it."""

    def of(node: Node) -> str | None:
        if kind == "storage" or node.replication_port is None:
            return _shown(node, node.storage_port)
        return _shown(node, node.replication_port)

    return next(
        (node.name for node in cluster.nodes if address is not None and of(node) == address),
        address,
    )


def _followers(cluster: Cluster, node: Node, findings: Findings) -> tuple[str, ...]:
    def follows(other: Node) -> bool:
        answer = findings.servers[other.name]
        return (
            isinstance(answer, ServerAnswer)
            and answer.replication is not None
            and _is(cluster, other, answer.replication)
            and answer.replication.connected is True
            and answer.replication.upstream == str(node.link_address)
        )

    return tuple(other.name for other in cluster.nodes if other is not node and follows(other))


class _Lag:
    """Lag of a node; every field is None if there is no valid comparison."""

    def __init__(
        self,
        seconds: float | None,
        transactions: int | None,
        exact: bool,
        membership: Membership | None = None,
    ) -> None:
        self.seconds = seconds
        self.transactions = transactions
        self.exact = exact
        self.membership = membership

    @classmethod
    def of(
        cls, cluster: Cluster, node: Node, assigned: dict[str, Assignment], findings: Findings
    ) -> _Lag:
        comparison = findings.comparisons.get(node.name)
        answer = findings.servers[node.name]
        if (
            comparison is None
            or not isinstance(answer, ServerAnswer)
            or answer.replication is None
            or not _is(cluster, node, answer.replication)
            or comparison.primary != source_of_truth(node.name, assigned)
            or not _runs_as_primary(cluster, comparison.primary, findings)
        ):
            return cls(None, None, True)
        membership = comparison.membership
        if answer.last_tid >= comparison.primary_tid:
            return cls(0.0, 0, True, membership)
        missing = comparison.missing
        seconds = _seconds_behind(answer.last_tid, comparison, findings.taken_at)
        if isinstance(missing, MissingAnswer):
            return cls(seconds, missing.transactions, missing.exact, membership)
        return cls(seconds, None, True, membership)


def _seconds_behind(last: int, comparison: Comparison, now: float) -> float | None:
    """Return how long ago the oldest transaction that a node lacks was committed.

    If its tid is unknown, the time since the node's own last transaction: an upper bound.
    """
    missing, oldest = comparison.missing, last
    if isinstance(missing, MissingAnswer):
        if missing.first is not None:
            oldest = missing.first
        elif missing.exact and missing.transactions == 1:
            oldest = comparison.primary_tid
    committed = tid.committed_at(oldest)
    return None if committed is None else max(0.0, now - committed)


def _runs_as_primary(cluster: Cluster, name: str, findings: Findings) -> bool:
    answer = findings.servers[name]
    return (
        isinstance(answer, ServerAnswer)
        and answer.replication is not None
        and _is(cluster, cluster.node(name), answer.replication)
        and rules.plays(cluster, answer.replication.role, Role.PRIMARY)
    )


def _instance(cluster: Cluster, instance: IndicoInstance, findings: Findings) -> IndicoStatus:
    found = findings.indico[instance.name]
    answer = found if isinstance(found, IndicoAnswer) else None
    server_node = _node_at(cluster, answer.server, "storage") if answer else None
    waits = (
        answer is not None
        and answer.connected
        and isinstance(findings.servers.get(server_node or ""), Failure)
    )
    return IndicoStatus(
        name=instance.name,
        url=instance.base_url,
        program=findings.programs.get(instance.program),
        mark=_instance_mark(instance, answer, waits),
        problem=found.detail if isinstance(found, Failure) else "",
        instance=answer.instance if answer else None,
        connected=answer.connected if answer else None,
        read_only=answer.read_only if answer else None,
        waits=waits,
        server=answer.server if answer else None,
        server_node=server_node,
        last_tid=answer.last_tid if answer else None,
        pid=answer.pid if answer else None,
        built=answer.built if answer else None,
        set_up=answer.set_up if answer else None,
        failure=answer.failure if answer else None,
        scheduler=(
            findings.programs.get(instance.scheduler_program) if instance.scheduler else None
        ),
        host=instance.on,
        files_in_archive=answer.files_in_archive if answer else None,
        files_missing=answer.files_missing if answer else 0,
        file_missing=answer.file_missing if answer else "",
    )


def _instance_mark(instance: IndicoInstance, answer: IndicoAnswer | None, waits: bool) -> Mark:
    if answer is None:
        return Mark.UNREACHABLE
    as_meant = (
        answer.instance == instance.name
        and answer.connected
        and not answer.read_only
        and not waits
        and answer.set_up
        and answer.failure is None
    )
    return Mark.AS_ASSIGNED if as_meant else Mark.DIFFERS
