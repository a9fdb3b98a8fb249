"""Decide from the reports of several observers if the primary is down.  Pure.

All observers see a dead process at once.  A frozen one keeps its connections, and an Indico
instance leaves it only after some seconds.  So an observer that is still connected is
inconclusive.  A failover needs two observers that report it down, and none that reports it serving.

Observers on one machine lose their network together.  They count once, unless the primary's host
can be asked: its kernel knows about the process.  With several hosts each of them is an observer
too.

A host that refuses connections to its agent is up.  A primary on it that is silent may continue at
any moment, and without the agent nothing tells it of the epoch and nothing fences it.  So its
silence is inconclusive, and so are the connections that followers and instances closed for it.
"""

from __future__ import annotations

import dataclasses
import enum
import ipaddress
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence

from indico_zodbrepl.host.sights import Sighting
from indico_zodbrepl.monitor.findings import Findings
from indico_zodbrepl.monitor.node_status import NodeStatus
from indico_zodbrepl.monitor.snapshot import IndicoStatus, Snapshot
from indico_zodbrepl.operations.model import Finding, Verdict
from indico_zodbrepl.probing.answers import ServerAnswer, ServerRole
from indico_zodbrepl.probing.comparison import Failure
from indico_zodbrepl.probing.wire import FailureKind

CONTROL_HOST = "the control host"
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
    """The view of one observer, with the reason.

    ``machine`` is the host that it shares with others; empty if the observer counts separately.
    """

    observer: str
    sight: Sight
    text: str
    machine: str = ""


def reports_of(
    findings: Findings,
    snapshot: Snapshot,
    primary: str,
    process: Process,
    holder: int | None,
    *,
    sights: Mapping[str, Sighting] | None = None,
) -> tuple[Report, ...]:
    """Return what each observer reports of the primary.

    Args:
        findings, snapshot: one round of probes, raw and judged.
        primary: the node that should be primary.
        process: its process, as its host sees it.
        holder: process that has its data file open, if supervisor does not answer.
        sights: what the probes of other hosts found, by host.
    """
    node = snapshot.node(primary)
    lost = node.host in snapshot.away and not agent_stopped(findings, node)
    doubtful = node.host in snapshot.away and not lost
    silent = doubtful and _is_silent(findings.servers[primary])
    said = (
        _probe(findings, node, snapshot.here, silent=silent),
        _host_away(node, lost=lost) if node.host in snapshot.away else _host(node, process, holder),
        *_other_hosts(node, sights or {}, doubtful=doubtful),
        *_instances(findings, snapshot, primary, silent=silent),
        *_followers(snapshot, primary, silent=silent),
    )
    known = node.program is not None or process is not Process.UNKNOWN
    if known or _machine_of(node) == CONTROL_HOST:
        return tuple(dataclasses.replace(each, machine="") for each in said)
    return said


def agent_stopped(findings: Findings, node: NodeStatus) -> bool:
    """Return True if a node's host is up, and its agent does not run."""
    found = findings.hosts.get(node.host or "")
    return isinstance(found, Failure) and found.kind is FailureKind.REFUSED


def is_gone(said: Sequence[Report]) -> bool:
    """Return True if enough observers report it down and none reports it serving."""
    return count_down(said) >= NEEDED and all(each.sight is not Sight.SERVING for each in said)


def count_down(said: Sequence[Report]) -> int:
    """Return how many observers report it down; those on one machine count once."""
    down = [each for each in said if each.sight is Sight.DOWN]
    machines = {each.machine for each in down if each.machine}
    return len(machines) + sum(not each.machine for each in down)


def findings_of(said: Sequence[Report], primary: str) -> Iterator[Finding]:
    """Yield the reports as findings of a failover's plan, and the decision."""
    for each in said:
        verdict = Verdict.AGAINST if each.sight is Sight.SERVING else Verdict.FINE
        yield Finding(verdict, primary, f"{each.observer}: {each.sight}", each.text)
    if count_down(said) < NEEDED:
        yield Finding(Verdict.AGAINST, primary, too_few(said))


def reports_in(findings: Iterable[Finding], primary: str) -> tuple[Report, ...]:
    """Return the reports that ``findings_of`` has put into a plan, without their machines."""
    sights = frozenset(Sight)
    said = [(*each.text.rpartition(": ")[::2], each) for each in findings]
    return tuple(
        Report(observer, Sight(sight), each.evidence)
        for observer, sight, each in said
        if each.subject == primary and observer and sight in sights
    )


def too_few(said: Sequence[Report]) -> str:
    """Return the text that too few observers report the primary down."""
    count = count_down(said)
    text = f"Only {count} of {NEEDED} required observers report{'s' if count == 1 else ''} it down"
    together = [each for each in said if each.sight is Sight.DOWN and each.machine]
    for machine in dict.fromkeys(each.machine for each in together):
        names = [each.observer for each in together if each.machine == machine]
        if len(names) > 1:
            text += f"; {', '.join(names[:-1])} and {names[-1]} are on {machine} and count once"
    return text


def _is_silent(found: ServerAnswer | Failure) -> bool:
    return isinstance(found, Failure) and found.kind is FailureKind.SILENT


def _probe(findings: Findings, node: NodeStatus, here: str | None, *, silent: bool) -> Report:
    found = findings.servers[node.name]
    machine = _host_named(here) if here else CONTROL_HOST
    observer = f"{machine}'s probe"
    if isinstance(found, Failure):
        return Report(observer, _down_unless(silent), found.detail, machine)
    if node.actual_role in (ServerRole.PRIMARY, ServerRole.STANDALONE):
        return Report(observer, Sight.SERVING, f"it answers as {node.actual_role}")
    what = f"answers as {node.actual_role}" if node.actual_role else "is not this node's"
    return Report(observer, Sight.DOWN, f"the server on {node.address} {what}", machine)


def _other_hosts(
    node: NodeStatus, sights: Mapping[str, Sighting], *, doubtful: bool
) -> Iterator[Report]:
    """Judge the probes of other hosts than this one and the primary's."""
    for host, found in sights.items():
        observer = f"{_host_named(host)}'s probe"
        if found.role in (ServerRole.PRIMARY, ServerRole.STANDALONE):
            yield Report(observer, Sight.SERVING, f"it answers as {found.role}")
        else:
            text = found.problem or f"the server on {node.address} answers as {found.role}"
            sight = _down_unless(doubtful and found.silent)
            yield Report(observer, sight, text, _host_named(host))


def _host_away(node: NodeStatus, *, lost: bool) -> Report:
    text = "does not answer" if lost else "is up, and its agent does not run"
    return Report("its host", Sight.INCONCLUSIVE, f"host {node.host} {text}")


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


def _instances(
    findings: Findings, snapshot: Snapshot, primary: str, *, silent: bool
) -> Iterator[Report]:
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
            machine = (
                _host_named(instance.host)
                if instance.host
                else _machine(urllib.parse.urlsplit(instance.url).hostname or "")
            )
            yield Report(observer, _down_unless(silent), f"it {where}", machine)


def _connected(observer: str, instance: IndicoStatus, *, cut_off: bool) -> Report:
    """Judge an instance that is connected to the primary.

    A frozen primary looks like that for some seconds.  The instance is right only when this
    program has no network to the primary.
    """
    if cut_off and not instance.read_only:
        return Report(observer, Sight.SERVING, "connected, and only this host can't reach it")
    return Report(observer, Sight.INCONCLUSIVE, "still connected")


def _followers(snapshot: Snapshot, primary: str, *, silent: bool) -> Iterator[Report]:
    for node in snapshot.nodes:
        if node.assigned_upstream != primary or node.name == primary or not node.reachable:
            continue
        observer = f"follower {node.name}"
        if node.upstream == primary and node.connected:
            yield Report(observer, Sight.INCONCLUSIVE, "its replication link still stands")
        else:
            sight = _down_unless(silent)
            yield Report(observer, sight, "its replication link is broken", _machine_of(node))


def _down_unless(silent: bool) -> Sight:
    """Judge a primary that somebody can't use; one that is only silent may continue."""
    return Sight.INCONCLUSIVE if silent else Sight.DOWN


def _host_named(host: str) -> str:
    return f"host {host}"


def _machine_of(node: NodeStatus) -> str:
    if node.host is not None:
        return _host_named(node.host)
    return _machine((node.address or "").rpartition(":")[0])


def _machine(host: str) -> str:
    """Return the machine at a host name or address; the loopback is the control host."""
    plain = host.strip("[]")
    try:
        loopback = ipaddress.ip_address(plain).is_loopback
    except ValueError:
        loopback = plain == "localhost"
    return CONTROL_HOST if loopback else plain
