"""Raw results of one round of probes: what ``collect`` gathers and ``assessment`` judges."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from indico_zodbrepl.cluster.lookup import root_of
from indico_zodbrepl.cluster.model import Cluster, NodeState, Role
from indico_zodbrepl.host.data_end import DataEnd
from indico_zodbrepl.host.disks import Disk
from indico_zodbrepl.host.history import Condition
from indico_zodbrepl.monitor.host_status import Automation
from indico_zodbrepl.monitor.node_status import Program, StartRefusal
from indico_zodbrepl.monitor.snapshot import EpochWord, OpenOperation
from indico_zodbrepl.probing.answers import IndicoAnswer, ServerAnswer
from indico_zodbrepl.probing.comparison import Comparison, Failure
from indico_zodbrepl.probing.wire import FailureKind

if TYPE_CHECKING:
    from indico_zodbrepl.etcd.health import Health

Results = Iterable[tuple[tuple[str, str], object]]
"""Results of a probe: a key of kind and name, and the value."""


@dataclasses.dataclass(frozen=True)
class HostReport:
    """What the agent of a host reports.

    Attributes:
        same_file: True if its cluster file is the same as this host's.
        clock_offset: seconds that its clock is ahead of this host's.
        certificate_until: when its certificate expires, seconds since 1970; None if that is not
            known.
        archive: mark of its folder of uploaded files; empty without one.
        archive_problem: why files can't be kept there; empty if they can.
        unrecovered: names of its new recovery exports; see ``host.exports``.
    """

    release: str
    same_file: bool
    clock_offset: float
    certificate_until: float | None = None
    archive: str = ""
    archive_problem: str = ""
    unrecovered: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class LastBackup:
    """The last backup into the folder of the cluster file, as the journal has it.

    Attributes:
        last: when the last good one ended, seconds since 1970; None without one.
        failed: when an attempt after it failed; None if none did.
        error: why, in one line.
        problem: why the journal can't be read; empty if it can.
    """

    last: float | None = None
    failed: float | None = None
    error: str = ""
    problem: str = ""


@dataclasses.dataclass(frozen=True)
class Findings:
    """Results by name of node, instance and program.

    Attributes:
        taken_at: when the round began, seconds since 1970.
        duration: seconds it took.
        states: state files; for a node that never ran, the state it will start with.
        comparisons: only of followers that answered, as their primary did.
        programs: empty when supervisord did not answer; ``supervisor_problem`` says why.
        records: what each record of the epoch says.
        lineages: condition of each node that has a lineage file, and its detail; no condition
            when the file is unusable.
        refusals: of nodes that refused to start.
        refused_at: when each of them did, seconds since 1970; absent when unknown.
        epoch_began: when the highest recorded epoch began; None when no record says.
        operations: those that have not ended.
        disks: of the nodes' data directories, as far as they can be asked.
        control_disk: of the cluster's var directory; None if it can't be asked.
        compared_in: the epoch in which a node's history was last compared, if it only followed
            since.
        data_ends: of the data files of nodes that do not answer, where a node has one.
        hosts: what each host's agent reports, or why it does not answer; empty without host
            sections.
        supervisors: why the supervisord of a host does not answer, by host.
        automation: the automatic failover as etcd has it; None without one.
        etcd: the health of its members; None without etcd, or if it is unknown.
        backup: the last backup; None without a schedule, or if it was not read in time.
    """

    taken_at: float
    duration: float
    states: Mapping[str, NodeState | Failure]
    servers: Mapping[str, ServerAnswer | Failure]
    comparisons: Mapping[str, Comparison]
    indico: Mapping[str, IndicoAnswer | Failure]
    programs: Mapping[str, Program]
    supervisor_problem: str
    records: tuple[EpochWord, ...] = ()
    lineages: Mapping[str, tuple[Condition | None, str]] = dataclasses.field(default_factory=dict)
    refusals: Mapping[str, StartRefusal] = dataclasses.field(default_factory=dict)
    operations: tuple[OpenOperation, ...] = ()
    refused_at: Mapping[str, float] = dataclasses.field(default_factory=dict)
    epoch_began: float | None = None
    disks: Mapping[str, Disk] = dataclasses.field(default_factory=dict)
    control_disk: Disk | None = None
    compared_in: Mapping[str, int] = dataclasses.field(default_factory=dict)
    data_ends: Mapping[str, DataEnd] = dataclasses.field(default_factory=dict)
    hosts: Mapping[str, HostReport | Failure] = dataclasses.field(default_factory=dict)
    supervisors: Mapping[str, str] = dataclasses.field(default_factory=dict)
    automation: Automation | None = None
    etcd: Health | None = None
    backup: LastBackup | None = None


@dataclasses.dataclass(frozen=True)
class Assignment:
    """The assigned role of a node; ``epoch`` is None when its state file is unusable."""

    role: Role
    upstream: str | None
    epoch: int | None


def assignments(
    cluster: Cluster,
    states: Mapping[str, NodeState | Failure],
    records: Iterable[EpochWord] = (),
) -> dict[str, Assignment]:
    """Return the assignments by state file; by cluster.conf if a file is unusable.

    A node whose host does not answer is the primary if the newest of ``records`` says so: the
    roles of cluster.conf are those before the first promotion.
    """
    known = [(each.epoch, each.primary) for each in records if each.epoch is not None]
    promoted = max(known, key=lambda each: each[0])[1] if known else None
    found = {}
    for node in cluster.nodes:
        state = states.get(node.name)
        if isinstance(state, NodeState):
            found[node.name] = Assignment(state.role, state.upstream, state.epoch)
        elif node.name == promoted and state and state.kind is FailureKind.HOST_AWAY:
            found[node.name] = Assignment(Role.PRIMARY, None, None)
        else:
            found[node.name] = Assignment(node.role, node.upstream, None)
    return found


def source_of_truth(name: str, assigned: Mapping[str, Assignment]) -> str | None:
    """Return the primary at the end of a node's chain of upstreams; None without an end.

    None for a primary itself too.
    """
    root = root_of(name, assigned)
    if root is None or root == name or root not in assigned:
        return None
    return root
