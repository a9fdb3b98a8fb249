"""Whether the primary is gone, judged from all who could know.  Pure.

A dead process is seen by everybody at once.  A frozen one is not: its links stand, and an Indico
instance leaves it only after some seconds.  So who merely has not noticed counts as undecided,
and what is asked for is two vantage points that see it gone and none that sees it serve.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Sequence

from ..monitor.findings import Findings
from ..monitor.snapshot import IndicoStatus, NodeStatus, Snapshot
from ..probing.answers import ServerRole
from ..probing.comparison import Failure
from ..probing.wire import FailureKind
from .steps import Finding, Verdict

PROBE = "the control host's probe"
NEEDED = 2
"""Vantage points that have to see the primary gone."""
RUNNING = ("RUNNING",)
STARTING = ("STARTING", "BACKOFF")


class Process(enum.StrEnum):
    """A node's process, as its host sees it."""

    NONE = "none"
    FROZEN = "frozen"
    RUNS = "runs"
    UNKNOWN = "unknown"


class Sight(enum.StrEnum):
    """What one vantage point sees of the primary."""

    GONE = "gone"
    SERVING = "serving"
    UNDECIDED = "undecided"


@dataclasses.dataclass(frozen=True)
class Testimony:
    """What one vantage point says, and how it knows."""

    witness: str
    sight: Sight
    text: str


def testimonies(findings: Findings, snapshot: Snapshot, primary: str,
                process: Process, holder: int | None) -> tuple[Testimony, ...]:
    """What each vantage point says of the primary.

    Args:
        findings, snapshot: one round of probes, raw and judged.
        primary: the node that ought to be primary.
        process: its process, as its host sees it.
        holder: process id of who has its data file, if supervisor could not be asked.
    """
    node = snapshot.node(primary)
    return (_probe(findings, node), _host(node, process, holder),
            *_instances(findings, snapshot, primary), *_followers(snapshot, primary))


def is_gone(said: Sequence[Testimony]) -> bool:
    """Whether enough of them see it gone, and none sees it serve."""
    gone = sum(each.sight is Sight.GONE for each in said)
    return gone >= NEEDED and all(each.sight is not Sight.SERVING for each in said)


def findings_of(said: Sequence[Testimony], primary: str) -> Iterator[Finding]:
    """The testimonies as findings of a failover's plan, and the judgement on them."""
    for each in said:
        verdict = Verdict.AGAINST if each.sight is Sight.SERVING else Verdict.FINE
        yield Finding(verdict, primary, f"{each.witness}: {each.sight}", each.text)
    gone = sum(each.sight is Sight.GONE for each in said)
    if gone < NEEDED:
        yield Finding(Verdict.AGAINST, primary,
                      f"seen gone from {gone} vantage points, not from {NEEDED} or more")


def _probe(findings: Findings, node: NodeStatus) -> Testimony:
    found = findings.servers[node.name]
    if isinstance(found, Failure):
        return Testimony(PROBE, Sight.GONE, found.detail)
    if node.actual_role in (ServerRole.PRIMARY, ServerRole.STANDALONE):
        return Testimony(PROBE, Sight.SERVING, f"it answers as {node.actual_role}")
    what = f"answers as {node.actual_role}" if node.actual_role else "is another server"
    return Testimony(PROBE, Sight.GONE, f"what listens on {node.address} {what}")


def _host(node: NodeStatus, process: Process, holder: int | None) -> Testimony:
    program = node.program
    said = f"supervisor says {program.state}" if program else "supervisor did not say"
    if program is None and process is Process.NONE:
        return Testimony("its host", Sight.GONE, f"no process has its data file open; {said}")
    if holder is not None:
        said = f"process {holder} has its data file open; {said}"
    if process is Process.FROZEN:
        return Testimony("its host", Sight.GONE, f"its process is stopped (SIGSTOP); {said}")
    if program is not None and program.state in STARTING:
        return Testimony("its host", Sight.UNDECIDED,
                         f"{said}: it may be back in a moment")
    if process is Process.NONE and program is not None and program.state not in RUNNING:
        return Testimony("its host", Sight.GONE, f"no process of it; {said}")
    if process is Process.RUNS:
        return Testimony("its host", Sight.UNDECIDED, f"its process runs; {said}")
    return Testimony("its host", Sight.UNDECIDED, said)


def _instances(findings: Findings, snapshot: Snapshot, primary: str) -> Iterator[Testimony]:
    failure = findings.servers[primary]
    cut_off = isinstance(failure, Failure) and failure.kind is FailureKind.UNREACHABLE
    for instance in snapshot.indico:
        witness = f"Indico instance {instance.name}"
        if not instance.up:
            yield Testimony(witness, Sight.UNDECIDED, instance.problem)
        elif instance.server_node == primary and instance.connected:
            yield _connected(witness, instance, cut_off=cut_off)
        else:
            where = f"reads from {instance.server_node}" if instance.connected else "has no storage"
            yield Testimony(witness, Sight.GONE, f"it {where}")


def _connected(witness: str, instance: IndicoStatus, *, cut_off: bool) -> Testimony:
    """Of an instance that counts itself connected to the primary.

    That is how a frozen one is seen in its first seconds.  Only when this program has no
    network to the primary does the instance know better.
    """
    if cut_off and not instance.read_only:
        return Testimony(witness, Sight.SERVING, "it is connected, and we can't reach that host")
    return Testimony(witness, Sight.UNDECIDED, "it is connected and has not noticed anything yet")


def _followers(snapshot: Snapshot, primary: str) -> Iterator[Testimony]:
    for node in snapshot.nodes:
        if node.assigned_upstream != primary or node.name == primary or not node.reachable:
            continue
        witness = f"follower {node.name}"
        if node.upstream == primary and node.connected:
            yield Testimony(witness, Sight.UNDECIDED, "its link has not broken yet")
        else:
            yield Testimony(witness, Sight.GONE, "its replication link is broken")
