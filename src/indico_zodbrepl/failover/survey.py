"""Gathers what the planners of switchover and failover look at, and asks them for a plan.

Changes nothing.  One round of probes; data files are compared meanwhile where it is clear from
the start which ones will matter.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from ..backends import electing_of, engine_of
from ..cluster.commands import Commands
from ..cluster.installation import Installation
from ..cluster.layout import Layout
from ..cluster.model import Cluster, NodeState, Role
from ..errors import OperatorError
from ..monitor.assessment import assess
from ..monitor.collect import TIME_LIMIT, collect
from ..monitor.findings import Findings
from ..monitor.promotion import best_candidate
from ..monitor.snapshot import Snapshot
from ..node import following, lineage, state
from ..node.datafs import Comparison
from ..node.run import node_named
from . import electing_facts, processes, store
from .candidates import choose
from .comparing import against, fingerprint
from .failover import plan_failover
from .hung import plan_hung_failover
from .situation import LastSeen, Situation, read_last_seen
from .steps import Plan, Refusal
from .switchover import follows_closely, plan_switchover

FAILOVER_TIME_LIMIT = 1.0
"""Seconds for the probes of a failover: a dead primary answers at once, a frozen one never."""
CATCH_UP_SECONDS = 1.0
"""How long a switchover waits for a target that is too far behind when it is looked at."""
POLL_SECONDS = 0.1

Compared = dict[str, Comparison | str]


def survey_switchover(cluster: Cluster, installation: Installation, target: str | None,
                      reason: str) -> Plan | Refusal:
    """A plan for a switchover in the cluster's present situation.

    Raises OperatorError: exit 2, no such node; exit 8, another operation has not ended.
    """
    _refuse(cluster, target)
    findings, snapshot = _once_caught_up(cluster, installation, target)
    compared: Compared = {}
    if snapshot.primary is not None and engine_of(cluster) is None:
        primary = snapshot.primary
        _all_at_once([_comparing(compared, node.name, partial(
            following.compare, cluster, installation, node.name, primary))
            for node in cluster.nodes if node.name != primary])
    return plan_switchover(cluster, _situation(cluster, findings, snapshot, compared), target,
                           reason, Commands(cluster, installation.home))


def _once_caught_up(cluster: Cluster, installation: Installation,
                    target: str | None) -> tuple[Findings, Snapshot]:
    """A round of probes; a target that is linked but behind gets a moment to catch up first."""
    deadline = time.monotonic() + CATCH_UP_SECONDS
    while True:
        findings = collect(cluster, TIME_LIMIT)
        snapshot = assess(cluster, findings, installation.home)
        new = snapshot.node(target) if target else best_candidate(snapshot)
        if (new is None or not new.connected or follows_closely(new)
                or time.monotonic() > deadline):
            return findings, snapshot
        time.sleep(POLL_SECONDS)


def survey_failover(cluster: Cluster, installation: Installation, target: str | None,
                    reason: str) -> Plan | Refusal:
    """A plan for a failover in the cluster's present situation.  Raises as ``survey_switchover``.
    """
    _refuse(cluster, target)
    if electing_of(cluster) is not None:
        return plan_hung_failover(
            cluster, electing_facts.gather(cluster, installation, target, pinging=True), target,
            reason, Commands(cluster, installation.home))
    compared: Compared = {}
    ours = engine_of(cluster) is None
    prints = {node.name: fingerprint(node) for node in cluster.nodes} if ours else {}
    guess = _guess(cluster, target) if ours else None
    early = [] if guess is None else [_comparing(
        compared, guess[0], partial(against, cluster, installation, *guess))]
    found: list[Findings] = []
    _all_at_once([*early, lambda: found.append(collect(cluster, FAILOVER_TIME_LIMIT))])
    snapshot = assess(cluster, found[0], installation.home)
    situation = dataclasses.replace(_situation(cluster, found[0], snapshot, compared),
                                    fingerprints=prints)
    old = situation.assigned_primary()
    new = snapshot.node(target) if target else old and choose(situation, old.name)
    if old is not None and new is not None and ours:
        _all_at_once([_comparing(compared, name, partial(
            against, cluster, installation, name, new.name))
            for name in _to_compare(snapshot, old.name, new.name)
            if guess != (name, new.name)])
    return plan_failover(cluster, situation, target, reason,
                         Commands(cluster, installation.home))


def _refuse(cluster: Cluster, target: str | None) -> None:
    if target is not None:
        node_named(cluster, target)
    store.refuse_open(cluster)


def _guess(cluster: Cluster, target: str | None) -> tuple[str, str] | None:
    """The old primary and the new one, when the state files leave no doubt."""
    states = dict(_states(cluster))
    primaries = [name for name, found in states.items() if found.role is Role.PRIMARY]
    followers = [name for name, found in states.items() if found.role is not Role.PRIMARY]
    if len(primaries) != 1 or (target is None and len(followers) != 1):
        return None
    new = target or followers[0]
    return None if new == primaries[0] else (primaries[0], new)


def _states(cluster: Cluster) -> dict[str, NodeState]:
    states = {}
    for node in cluster.nodes:
        try:
            states[node.name] = state.current(cluster, node)
        except OperatorError:
            continue  # the probes tell of it
    return states


def _to_compare(snapshot: Snapshot, old: str, new: str) -> list[str]:
    """The old primary, and whoever seems to have more than the new one."""
    best = snapshot.node(new).last_tid or 0
    return [node.name for node in snapshot.nodes if node.name == old
            or (node.name != new and (node.last_tid or 0) > best)]


def _comparing(compared: Compared, name: str,
               compare: Callable[[], Comparison]) -> Callable[[], None]:
    def job() -> None:
        try:
            compared[name] = compare()
        except OperatorError as error:
            compared[name] = error.detail or error.notice

    return job


def _all_at_once(jobs: list[Callable[[], None]]) -> None:
    """Do all jobs, one of them in this thread; raises what one of them raised."""
    raised: list[BaseException] = []

    def guarded(job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:  # noqa: BLE001 - raised again below
            raised.append(error)

    threads = [threading.Thread(target=guarded, args=(job,), daemon=True) for job in jobs[:-1]]
    for thread in threads:
        thread.start()
    for job in jobs[-1:]:
        guarded(job)
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


def _situation(cluster: Cluster, findings: Findings, snapshot: Snapshot,
               compared: Mapping[str, Comparison | str]) -> Situation:
    conditions, free = {}, {}
    for node in cluster.nodes:
        try:
            known = lineage.read(node)
        except OperatorError as error:
            conditions[node.name] = f"unusable: {error.detail}"
        else:
            if known is not None and known.condition is not lineage.Condition.OK:
                conditions[node.name] = str(known.condition)
        if node.data_directory.is_dir():
            free[node.name] = shutil.disk_usage(node.data_directory).free
    found, holders = processes.look(cluster, snapshot.nodes)
    return Situation(
        time.time(), findings, snapshot, compared, conditions, free, found,
        _last_seen(Layout(cluster).last_seen), holders=holders)


def _last_seen(path: Path) -> LastSeen | None:
    """What the watch program left; None when there is nothing usable: it is only an estimate."""
    try:
        return read_last_seen(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError):
        return None
