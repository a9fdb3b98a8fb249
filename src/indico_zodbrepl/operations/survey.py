"""Gather the facts for a switchover or failover, and call the planner.  Changes nothing.

There is one round of probes; data files are compared meanwhile if the nodes are clear.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Mapping
from functools import partial

from indico_zodbrepl.backends import Family, backend_of, can
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.lookup import node_named
from indico_zodbrepl.cluster.model import Cluster, NodeState, Role
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.etcd import leadership
from indico_zodbrepl.host.datafs_answers import Comparison
from indico_zodbrepl.host.history import Condition
from indico_zodbrepl.host.interface import Host, HostAwayError, host_of
from indico_zodbrepl.host.last_seen import LastSeen
from indico_zodbrepl.host.peers import of_nodes
from indico_zodbrepl.host.promise import Promise
from indico_zodbrepl.host.sights import Sighting
from indico_zodbrepl.monitor.assessment import assess
from indico_zodbrepl.monitor.collect import TIME_LIMIT, collect
from indico_zodbrepl.monitor.findings import Findings
from indico_zodbrepl.monitor.hosts import look_again
from indico_zodbrepl.monitor.node_status import NodeStatus
from indico_zodbrepl.monitor.promotion import best_candidate, follows_closely
from indico_zodbrepl.monitor.snapshot import Snapshot
from indico_zodbrepl.operations import automatic, consensus_facts, facts, preflight
from indico_zodbrepl.operations.automatic import Automation
from indico_zodbrepl.operations.candidates import against, choose, fingerprint
from indico_zodbrepl.operations.consensus_failover import plan_hung_failover
from indico_zodbrepl.operations.facts import Situation
from indico_zodbrepl.operations.failover import plan_failover
from indico_zodbrepl.operations.model import Plan, Refusal
from indico_zodbrepl.operations.switchover import plan_switchover
from indico_zodbrepl.probing.race import all_at_once
from indico_zodbrepl.probing.waiting import wait_while

FAILOVER_TIME_LIMIT = 1.0
"""Seconds for the probes of a failover: a dead primary answers at once, a frozen one never."""
CATCH_UP_SECONDS = 1.0
"""Seconds that a switchover waits for a target that is too far behind at first."""
POLL_SECONDS = 0.1

Compared = dict[str, Comparison | str]


def survey_switchover(
    cluster: Cluster, installation: Installation, target: str | None, reason: str
) -> Plan | Refusal:
    """Plan a switchover for the cluster as it is now.

    Raises OperatorError (exit 2) if there is no such node.
    """
    _refuse_unknown(cluster, target)
    findings, snapshot = _once_caught_up(cluster, installation, target)
    compared: Compared = {}
    if snapshot.primary is not None and can(cluster, "lineage"):
        primary = snapshot.primary
        all_at_once(
            [
                _comparing(
                    compared,
                    node.name,
                    partial(host_of(cluster, installation).compare_new, node.name, primary),
                )
                for node in cluster.nodes
                if node.name != primary
            ]
        )
    return plan_switchover(
        cluster,
        _situation(cluster, findings, snapshot, compared),
        target,
        reason,
        Commands(cluster, installation.home),
    )


def _once_caught_up(
    cluster: Cluster, installation: Installation, target: str | None
) -> tuple[Findings, Snapshot]:
    """Probe once; wait a moment for a target that is connected but behind."""
    deadline = time.monotonic() + CATCH_UP_SECONDS
    seen: list[tuple[Findings, Snapshot]] = []

    def is_catching_up() -> bool:
        findings = collect(cluster, TIME_LIMIT)
        snapshot = assess(cluster, findings, installation.home)
        seen[:] = [(findings, snapshot)]
        new = snapshot.node(target) if target else best_candidate(snapshot)
        return new is not None and new.connected is True and not follows_closely(new)

    wait_while(is_catching_up, deadline, POLL_SECONDS)
    return seen[0]


def survey_failover(
    cluster: Cluster, installation: Installation, target: str | None, reason: str
) -> Plan | Refusal:
    """Plan a failover for the cluster as it is now.  Errors as ``survey_switchover``."""
    _refuse_unknown(cluster, target)
    plan = _FAILOVERS[backend_of(cluster).family]
    return plan(cluster, installation, target, reason)


def _consensus_failover(
    cluster: Cluster, installation: Installation, target: str | None, reason: str
) -> Plan | Refusal:
    facts = consensus_facts.gather(cluster, installation, target, pinging=True)
    return plan_hung_failover(facts, target, reason, Commands(cluster, installation.home))


def _failover(
    cluster: Cluster, installation: Installation, target: str | None, reason: str
) -> Plan | Refusal:
    compared: Compared = {}
    prints: dict[str, str] = {}
    comparable = can(cluster, "lineage")

    def take_prints() -> None:
        names = [node.name for node in cluster.nodes]
        prints.update(of_nodes(cluster, names, partial(fingerprint, host_of(cluster))))

    # Of several hosts one may be silent, which costs each round of questions a second.
    if comparable and not cluster.hosts:
        take_prints()
    guess = _guess(cluster, target) if comparable and not cluster.hosts else None
    early = (
        []
        if guess is None
        else [_comparing(compared, guess[0], partial(against, cluster, installation, *guess))]
    )
    found: list[Findings] = []
    seen: dict[str, Sighting] = {}
    acting: list[Automation | None] = []
    all_at_once(
        [
            *early,
            *([take_prints] if comparable and cluster.hosts else []),
            lambda: found.append(collect(cluster, FAILOVER_TIME_LIMIT)),
            lambda: seen.update(_sights(cluster)),
            lambda: acting.append(automatic.observe(cluster)),
        ]
    )
    findings = look_again(cluster, found[0])
    snapshot = assess(cluster, findings, installation.home)
    situation = dataclasses.replace(
        _situation(cluster, findings, snapshot, compared),
        fingerprints=prints,
        sights=seen,
        automation=acting[0],
    )
    old = situation.assigned_primary()
    if old is not None and comparable:
        promise = _promise(cluster, old, situation.automation)
        situation = dataclasses.replace(situation, promise=promise)
    new = snapshot.node(target) if target else old and choose(situation, old.name)
    if old is not None and new is not None and comparable:
        all_at_once(
            [
                _comparing(compared, name, partial(against, cluster, installation, name, new.name))
                for name in _to_compare(snapshot, old.name, new.name)
                if guess != (name, new.name)
            ]
        )
    return plan_failover(cluster, situation, target, reason, Commands(cluster, installation.home))


_FAILOVERS = {
    Family.ZRS: _failover,
    Family.NATIVE: _failover,
    Family.CONSENSUS: _consensus_failover,
}


def _refuse_unknown(cluster: Cluster, target: str | None) -> None:
    if target is not None:
        node_named(cluster, target)


def _guess(cluster: Cluster, target: str | None) -> tuple[str, str] | None:
    """Return the old primary and the new one, if the state files leave no doubt."""
    states = dict(_states(cluster))
    primaries = [name for name, found in states.items() if found.role is Role.PRIMARY]
    followers = [name for name, found in states.items() if found.role is not Role.PRIMARY]
    if len(primaries) != 1 or (target is None and len(followers) != 1):
        return None
    new = target or followers[0]
    return None if new == primaries[0] else (primaries[0], new)


def _states(cluster: Cluster) -> dict[str, NodeState]:
    """Return the states of the nodes; the probes report those that can't be read."""
    return of_nodes(cluster, [node.name for node in cluster.nodes], host_of(cluster).state)


def _sights(cluster: Cluster) -> dict[str, Sighting]:
    """Return what other hosts' probes of the recorded primary found, by host.

    Without host sections nothing: this host's own probe is enough.
    """
    record = host_of(cluster).newest_record() if cluster.hosts else None
    if record is None or record.primary not in {node.name for node in cluster.nodes}:
        return {}
    primary = cluster.node(record.primary)
    others = [host.name for host in cluster.hosts if host.name not in (cluster.here, primary.on)]
    return of_nodes(cluster, others, lambda host: host_of(cluster).sight(host, primary.name))


def _to_compare(snapshot: Snapshot, old: str, new: str) -> list[str]:
    """Return the old primary, and the nodes with a newer transaction than the new one."""
    best = snapshot.node(new).last_tid or 0
    return [
        node.name
        for node in snapshot.nodes
        if node.name == old or (node.name != new and (node.last_tid or 0) > best)
    ]


def _comparing(
    compared: Compared, name: str, compare: Callable[[], Comparison]
) -> Callable[[], None]:
    def job() -> None:
        try:
            compared[name] = compare()
        except OperatorError as error:
            compared[name] = error.detail or error.notice

    return job


def _last_seen(host: Host) -> LastSeen | None:
    try:
        return host.last_seen()
    except HostAwayError:
        return None  # the monitor's host is lost


def _promise(cluster: Cluster, primary: NodeStatus, acting: Automation | None) -> Promise | None:
    """Return what a lost primary promised of its commits, by its host, etcd or the other hosts."""
    host, found = host_of(cluster), None
    with contextlib.suppress(OperatorError):  # its host is lost
        found = host.promise(primary.name)
    if found is None and acting is not None and acting.sync is not None:
        sync = acting.sync
        return Promise(sync.epoch, "alone" if sync.alone else "synchronous", sync.count, sync.level)
    if found is None and acting is None and cluster.hosts:
        return host.agreed_promise(primary.assigned_epoch or 0)
    return found


def _condition(host: Host, name: str) -> str:
    """Return why a node's history is not ``ok``; empty if it is, or its host does not answer."""
    try:
        known = host.history(name)
    except HostAwayError:
        return ""
    except OperatorError as error:
        return f"unusable: {error.detail}"
    return "" if known is None or known.condition is Condition.OK else str(known.condition)


def _situation(
    cluster: Cluster,
    findings: Findings,
    snapshot: Snapshot,
    compared: Mapping[str, Comparison | str],
) -> Situation:
    host = host_of(cluster)
    names = [node.name for node in cluster.nodes]
    said = of_nodes(cluster, names, partial(_condition, host))
    conditions = {name: condition for name, condition in said.items() if condition}
    answering = [
        node.name for node in cluster.nodes if node.managed and snapshot.node(node.name).reachable
    ]
    found, holders = facts.look(cluster, snapshot.nodes)
    led = leadership.epoch(cluster)
    if led > (snapshot.epoch or 0):  # a take-over that was not completed has begun it
        snapshot = dataclasses.replace(snapshot, epoch=led)
    return Situation(
        time.time(),
        findings,
        snapshot,
        compared,
        conditions,
        preflight.disks(cluster, names),
        found,
        _last_seen(host),
        holders=holders,
        unwritable=preflight.unwritable(host, answering),
    )
