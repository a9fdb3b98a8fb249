"""Decide from the reports of several observers if the primary is down.  Pure.

All observers see a dead process at once.  A frozen one keeps its connections, and an Indico
instance leaves it only after some seconds.  So an observer that is still connected is
inconclusive.  A failover needs two observers that report it down, and none that reports it serving.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Sequence

from indico_zodbrepl.monitor.findings import Findings
from indico_zodbrepl.monitor.snapshot import IndicoStatus, NodeStatus, Snapshot
from indico_zodbrepl.operations.model import Finding, Verdict
from indico_zodbrepl.probing.answers import ServerRole
from indico_zodbrepl.probing.comparison import Failure
from indico_zodbrepl.probing.wire import FailureKind

PROBE = "the control host's probe"
NEEDED = 2
"""Number of observers that must report the primary down."""
RUNNING = ("RUNNING",)
STARTING = ("STARTING", "BACKOFF")


class Process(enum.StrEnum):
    """State of a node's process on its host."""

    NONE = "none"
    FROZEN = "frozen"
    RUNS = "runs"
    UNKNOWN = "unknown"


class Sight(enum.StrEnum):
    """The view of the primary by one observer."""

    DOWN = "down"
    SERVING = "serving"
    INCONCLUSIVE = "inconclusive"


@dataclasses.dataclass(frozen=True)
class Report:
    """What one observer reports, and how it knows."""

    observer: str
    sight: Sight
    text: str


def reports_of(
    findings: Findings, snapshot: Snapshot, primary: str, process: Process, holder: int | None
) -> tuple[Report, ...]:
    """Return what each observer reports of the primary.

    Args:
        findings, snapshot: one round of probes, raw and judged.
        primary: the node that should be primary.
        process: its process, as its host sees it.
        holder: process that has its data file open, if supervisor does not answer.
    """
    node = snapshot.node(primary)
    return (
        _probe(findings, node),
        _host(node, process, holder),
        *_instances(findings, snapshot, primary),
        *_followers(snapshot, primary),
    )


def is_gone(said: Sequence[Report]) -> bool:
    """Return True if enough observers report it down and none reports it serving."""
    down = sum(each.sight is Sight.DOWN for each in said)
    return down >= NEEDED and all(each.sight is not Sight.SERVING for each in said)


def findings_of(said: Sequence[Report], primary: str) -> Iterator[Finding]:
    """Yield the reports as findings of a failover's plan, and the decision."""
    for each in said:
        verdict = Verdict.AGAINST if each.sight is Sight.SERVING else Verdict.FINE
        yield Finding(verdict, primary, f"{each.observer}: {each.sight}", each.text)
    down = sum(each.sight is Sight.DOWN for each in said)
    if down < NEEDED:
        yield Finding(
            Verdict.AGAINST,
            primary,
            too_few(down),
        )


def too_few(down: int) -> str:
    """Return the text that too few observers report the primary down."""
    return f"Only {down} of {NEEDED} required observers report{'s' if down == 1 else ''} it down"


def _probe(findings: Findings, node: NodeStatus) -> Report:
    found = findings.servers[node.name]
    if isinstance(found, Failure):
        return Report(PROBE, Sight.DOWN, found.detail)
    if node.actual_role in (ServerRole.PRIMARY, ServerRole.STANDALONE):
        return Report(PROBE, Sight.SERVING, f"it answers as {node.actual_role}")
    what = f"answers as {node.actual_role}" if node.actual_role else "is not this node's"
    return Report(PROBE, Sight.DOWN, f"the server on {node.address} {what}")


def _host(node: NodeStatus, process: Process, holder: int | None) -> Report:
    program = node.program
    said = f"supervisor says {program.state}" if program else "supervisor does not answer"
    if program is None and process is Process.NONE:
        return Report("its host", Sight.DOWN, f"no process has its data file open; {said}")
    if holder is not None:
        said = f"process {holder} has its data file open; {said}"
    if process is Process.FROZEN:
        return Report("its host", Sight.DOWN, f"its process is frozen (SIGSTOP); {said}")
    if program is not None and program.state in STARTING:
        return Report("its host", Sight.INCONCLUSIVE, f"{said}: it may be starting")
    if process is Process.NONE and program is not None and program.state not in RUNNING:
        return Report("its host", Sight.DOWN, f"it has no process; {said}")
    if process is Process.RUNS:
        return Report("its host", Sight.INCONCLUSIVE, f"its process runs; {said}")
    return Report("its host", Sight.INCONCLUSIVE, said)


def _instances(findings: Findings, snapshot: Snapshot, primary: str) -> Iterator[Report]:
    failure = findings.servers[primary]
    cut_off = isinstance(failure, Failure) and failure.kind is FailureKind.UNREACHABLE
    for instance in snapshot.indico:
        observer = f"Indico instance {instance.name}"
        if not instance.up:
            yield Report(observer, Sight.INCONCLUSIVE, instance.problem)
        elif instance.server_node == primary and instance.connected:
            yield _connected(observer, instance, cut_off=cut_off)
        else:
            where = f"reads from {instance.server_node}" if instance.connected else "has no storage"
            yield Report(observer, Sight.DOWN, f"it {where}")


def _connected(observer: str, instance: IndicoStatus, *, cut_off: bool) -> Report:
    """Judge an instance that is connected to the primary.

    A frozen primary looks like that for some seconds.  The instance is right only when this
    program has no network to the primary.
    """
    if cut_off and not instance.read_only:
        return Report(observer, Sight.SERVING, "connected, and only this host can't reach it")
    return Report(observer, Sight.INCONCLUSIVE, "still connected")


def _followers(snapshot: Snapshot, primary: str) -> Iterator[Report]:
    for node in snapshot.nodes:
        if node.assigned_upstream != primary or node.name == primary or not node.reachable:
            continue
        observer = f"follower {node.name}"
        if node.upstream == primary and node.connected:
            yield Report(observer, Sight.INCONCLUSIVE, "its replication link still stands")
        else:
            yield Report(observer, Sight.DOWN, "its replication link is broken")
