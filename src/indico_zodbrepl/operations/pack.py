"""Pack: the storages of a cluster to pack, their order, and the conditions."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator
from pathlib import Path

from rich.filesize import decimal

from indico_zodbrepl.backends import backend_of, can
from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.interface import host_of
from indico_zodbrepl.host.packing import PROGRAM, Packed, PackedInPart
from indico_zodbrepl.monitor import take_snapshot
from indico_zodbrepl.monitor.snapshot import Snapshot
from indico_zodbrepl.operations.model import (
    Context,
    Figures,
    Finding,
    JsonValue,
    Plan,
    Refusal,
    Step,
    Verdict,
)
from indico_zodbrepl.operations.refusals import objections

ALL = "the database"
DAYS = 7.0
MOST_DAYS = 36500.0
READY_SECONDS = 30.0
REMOVED = (
    "old revisions from before the days of history to keep, and objects that no other object "
    "refers to; only a backup made before the pack has them"
)
PACK_SECONDS = 7 * 86400.0
"""A limit for a hung pack; a working pack has no timeout."""


@dataclasses.dataclass(frozen=True)
class Target:
    """A storage to pack.

    Attributes:
        name: of the node, or ``ALL`` when the backend packs all copies.
        zodb_conf: the configuration that opens it.
    """

    name: str
    zodb_conf: Path


@dataclasses.dataclass(frozen=True)
class PackFacts:
    """Facts for a pack.

    Attributes:
        holder: who has the database open exclusively; empty if no process has.
    """

    snapshot: Snapshot
    holder: str = ""


def prepare(
    cluster: Cluster, installation: Installation, days: float, reason: str
) -> Plan | Refusal:
    """Plan a pack for the cluster as it is now.

    Args:
        days: revisions that were current at any time within this many days are kept.
    """
    return plan_pack(
        cluster,
        PackFacts(take_snapshot(cluster), holder(cluster)),
        days,
        reason,
        Commands(cluster, installation.home),
    )


def plan_pack(
    cluster: Cluster, facts: PackFacts, days: float, reason: str, commands: Commands
) -> Plan | Refusal:
    """Return the plan of a pack.  Pure."""
    found, in_the_way = facts.snapshot, facts.holder
    against = tuple(Finding(Verdict.AGAINST, *each) for each in objections(found))
    if against:
        return Refusal(
            "pack refused: not every node is healthy", commands.zodbrepl("status"), against
        )
    if in_the_way:
        return Refusal(
            f"{ALL} was not packed",
            ending_indico(cluster, commands),
            (Finding(Verdict.AGAINST, "", "another process has it open", in_the_way),),
        )
    chosen = targets(cluster, found)
    findings = (
        Finding(Verdict.FINE, "", "every node is healthy", found.sentence),
        Finding(
            Verdict.WARNING,
            "",
            f"revisions that were replaced more than {days:g} days ago are removed",
            "only a backup has them afterwards",
        ),
    )
    return Plan(
        "pack", cluster.name, "", reason, 0, tuple(_steps(chosen, days, commands)), None, findings
    )


def targets(cluster: Cluster, found: Snapshot) -> tuple[Target, ...]:
    """Return what to pack, in order: each copy, the primary's last; or the whole database."""
    layout, backend = Layout(cluster), backend_of(cluster)
    served = backend.packed_nodes(cluster)
    if not served:
        return (Target(ALL, layout.zodb_conf),)
    primaries = {node.name for node in found.nodes if node.writable_primary}
    return tuple(
        Target(node.name, layout.node_zodb_conf(node))
        for node in sorted(served, key=lambda node: node.name in primaries)
    )


def holder(cluster: Cluster) -> str:
    """Return who has a database open exclusively; empty if no process has."""
    if can(cluster, "two-instances"):
        return ""
    for node in cluster.nodes:
        held = host_of(cluster).lock(node.name)
        if held is not None and held.is_held:
            return f"process {held.pid} has the data file of node {node.name} open"
    return ""


def ending_indico(cluster: Cluster, commands: Commands) -> str:
    """Return how to stop Indico during a pack."""
    programs = [instance.program for instance in cluster.indico]
    return (
        f"stop it while the database is packed: {commands.supervisorctl('stop', *programs)}, "
        f"and afterwards {commands.zodbrepl('up')}"
    )


def _steps(chosen: tuple[Target, ...], days: float, commands: Commands) -> Iterator[Step]:
    python27 = Installation(commands.home).python27
    yield Ready(
        "",
        {"days": days},
        title="Make sure that every node is still healthy",
        checks="every node answers; no process has the database open exclusively",
        command=commands.zodbrepl("status"),
        seconds=READY_SECONDS,
        after_no_return=False,
    )
    before: list[str] = []
    for target in chosen:
        node = "" if target.name == ALL else target.name
        after = f"{before[-1]} was packed; " if before else ""
        yield Pack(
            node,
            {
                "name": target.name,
                "conf": str(target.zodb_conf),
                "days": days,
                "after": before[-1] if before else "",
            },
            title=f"Pack {target.name}; keep the last {days:g} days",
            checks=f"{after}servers and Indico keep running",
            command=shlex.join(
                [
                    commands.path(python27),
                    "-m",
                    PROGRAM,
                    commands.path(target.zodb_conf),
                    "--days",
                    f"{days:g}",
                ]
            ),
            seconds=PACK_SECONDS,
            after_no_return=True,
            may_fail=True,
        )
        before.append(target.name)


class Ready(Step):
    """Check that every node is still healthy, as when the plan was made."""

    action = "pack-ready"

    def do(self, context: Context) -> Figures:
        cluster, commands = context.cluster, Commands.here(context.cluster)
        reasons = [
            f"node {each.subject}: {each.text}" for each in objections(take_snapshot(cluster))
        ]
        if reasons:
            raise OperatorError(
                "pack refused: not every node is healthy",
                "; ".join(reasons),
                commands.zodbrepl("status"),
                ExitCode.REFUSED,
            )
        in_the_way = holder(cluster)
        if in_the_way:
            raise OperatorError(
                f"{ALL} can't be packed now",
                in_the_way,
                ending_indico(cluster, commands),
                ExitCode.REFUSED,
            )
        return {"days": self.arguments["days"]}


class Pack(Step):
    """Pack one storage with a program of its own.

    The step may fail: packed storages stay packed, and nothing has to be resumed before a failover.
    The next storage is not packed then.
    """

    action = "pack"

    def do(self, context: Context) -> Figures:
        name, before = str(self.arguments["name"]), str(self.arguments["after"])
        days = self.arguments["days"]
        if not isinstance(days, int | float):
            raise TypeError(f"days is {days!r}")
        if before and ("pack", before) not in context.results:
            raise OperatorError(
                f"{name} was not packed",
                f"{before} was not packed before it",
                Commands.here(context.cluster).zodbrepl("pack"),
                ExitCode.REFUSED,
            )
        try:
            packed = context.host.pack(
                self.subject,
                Path(str(self.arguments["conf"])),
                float(days),
                lambda seconds: context.say(f"packing {name}, for {seconds:.0f} s"),
            )
        except PackedInPart as error:
            raise OperatorError(
                f"{name} was packed in part",
                error.detail,
                "a copy that was not packed differs from the others until the next pack; "
                "wait until every node is healthy, then: "
                f"{Commands.here(context.cluster).zodbrepl('pack', '--days', f'{days:g}')}",
                error.exit_code,
            ) from error
        except OperatorError as error:
            hint = (
                ending_indico(context.cluster, Commands.here(context.cluster))
                if error.exit_code is ExitCode.REFUSED
                else ""
            )
            raise OperatorError(
                f"{name} was not packed", error.detail, hint, error.exit_code
            ) from error
        context.say(f"packed {name} in {packed.seconds:.1f} s{_sizes(context, packed)}")
        figures: dict[str, JsonValue] = {
            "before": packed.before,
            "after": packed.after,
            "seconds": packed.seconds,
        }
        if packed.unreferenced:
            size, count = decimal(packed.unreferenced_bytes), packed.unreferenced
            context.say(
                f"moved {count} blob file{'' if count == 1 else 's'} without a transaction "
                f"({size}) to the folder blobs.old of {name}; the next pack removes them"
            )
            figures["unreferenced"] = packed.unreferenced
        return {name: figures}


def _sizes(context: Context, packed: Packed) -> str:
    if packed.before is None or packed.after is None or not can(context.cluster, "size"):
        return ""
    return f": {decimal(packed.before)} before, {decimal(packed.after)} after"
