"""Plans a pack: which storages of a cluster are packed, in which order, and when none is."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator
from pathlib import Path

from ..backends import backend_of, can
from ..cluster import Cluster
from ..cluster.commands import Commands
from ..cluster.installation import Installation
from ..cluster.layout import Layout
from ..monitor import take_snapshot
from ..monitor.snapshot import Level, Snapshot
from ..node import data_lock, packing
from .steps import Finding, Plan, Refusal, Step, Verdict

ALL = "the database"
DAYS = 7.0
MOST_DAYS = 36500.0
READY_SECONDS = 30.0
PACK_SECONDS = 7 * 86400.0
"""A pack takes as long as it takes; this ends one of which nothing is heard any more."""


@dataclasses.dataclass(frozen=True)
class Target:
    """One storage to be packed.

    Attributes:
        name: of the node, or ``ALL`` when the engine sees to all copies.
        zodb_conf: what opens it.
    """

    name: str
    zodb_conf: Path


@dataclasses.dataclass(frozen=True)
class PackFacts:
    """What a pack is planned by.

    Attributes:
        holder: who has the database open so that nobody else can; empty when nobody has.
    """

    snapshot: Snapshot
    holder: str = ""


def prepare(cluster: Cluster, installation: Installation, days: float,
            reason: str) -> Plan | Refusal:
    """What a pack would do now, or why this is not the moment; changes nothing.

    Args:
        days: what was current at any time in the last so many days is kept.
    """
    return plan_pack(cluster, PackFacts(take_snapshot(cluster), holder(cluster)), days, reason,
                     Commands(cluster, installation.home))


def plan_pack(cluster: Cluster, facts: PackFacts, days: float, reason: str,
              commands: Commands) -> Plan | Refusal:
    """The steps of a pack.  Pure."""
    found, in_the_way = facts.snapshot, facts.holder
    against = tuple(objections(found))
    if against:
        return Refusal("nothing is packed while a node is not in order",
                       commands.zodbrepl("status"), against)
    if in_the_way:
        return Refusal(f"{ALL} was not packed", ending_indico(cluster, commands), (
            Finding(Verdict.AGAINST, "", "another process has it open", in_the_way),))
    chosen = targets(cluster, found)
    findings = (
        Finding(Verdict.FINE, "", "every node is there and in order", found.sentence),
        Finding(Verdict.WARNING, "", f"what was no longer current {days:g} days ago is gone "
                "afterwards", "nothing older can be undone, or restored but from a backup"))
    return Plan("pack", cluster.name, "", reason, 0,
                tuple(_steps(chosen, days, commands)), None, findings)


def targets(cluster: Cluster, found: Snapshot) -> tuple[Target, ...]:
    """What is packed, in order: a copy after another, the primary's last, where a pack does not
    travel between servers; else the database through the storage that Indico uses."""
    layout, backend = Layout(cluster), backend_of(cluster)
    served = [node for node in backend.readable_nodes(cluster)
              if backend.programs(cluster, Installation(Path()), node)]
    if not (backend.data_files and served):
        return (Target(ALL, layout.zodb_conf),)
    primaries = {node.name for node in found.nodes if node.writable_primary}
    return tuple(Target(node.name, layout.node_zodb_conf(node))
                 for node in sorted(served, key=lambda node: node.name in primaries))


def objections(found: Snapshot) -> Iterator[Finding]:
    """Why this is not the moment to pack: every node has to be there and in order.

    A node that is away would miss the pack, or keep what the others dropped; and what a pack
    removes can't be compared with a node that is out of line.
    """
    for node in found.nodes:
        if not node.reachable:
            yield Finding(Verdict.AGAINST, node.name, node.problem or "it does not answer")
    names = {node.name for node in found.nodes if node.reachable}
    for alert in found.warnings:
        if alert.subject in names and alert.level is not Level.NOTICE:
            yield Finding(Verdict.AGAINST, alert.subject, alert.text, alert.detail)


def holder(cluster: Cluster) -> str:
    """Who has a database open that one process alone can have open; empty when nobody has."""
    if can(cluster, "two-instances") or not backend_of(cluster).data_files:
        return ""
    for node in cluster.nodes:
        held = data_lock.look(node)
        if held.is_held:
            return f"process {held.pid} has {data_lock.path_of(node)}"
    return ""


def ending_indico(cluster: Cluster, commands: Commands) -> str:
    """How Indico is ended for the time of a pack."""
    programs = [instance.program for instance in cluster.indico]
    return (f"end it while the database is packed: {commands.supervisorctl('stop', *programs)}, "
            f"and afterwards {commands.zodbrepl('up')}")


def _steps(chosen: tuple[Target, ...], days: float, commands: Commands) -> Iterator[Step]:
    python27 = Installation(commands.home).python27
    yield Step("pack-ready", "", {"days": days}, "See that this is still the moment to pack",
               "every node is there and in order; nobody keeps the database to himself", "",
               commands.zodbrepl("status"), READY_SECONDS, False)
    before: list[str] = []
    for target in chosen:
        node = "" if target.name == ALL else target.name
        after = f"{before[-1]} was packed; " if before else ""
        yield Step("pack", node, {"name": target.name, "conf": str(target.zodb_conf), "days": days,
                                  "after": before[-1] if before else ""},
                   f"Pack {target.name}, and keep the last {days:g} days",
                   f"{after}servers and Indico go on meanwhile", "",
                   shlex.join([commands.path(python27), "-m", packing.PROGRAM,
                               commands.path(target.zodb_conf), "--days", f"{days:g}"]),
                   PACK_SECONDS, True, may_fail=True)
        before.append(target.name)
