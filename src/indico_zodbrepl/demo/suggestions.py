"""Suggestions for a demo, by its backend and its situation."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from indico_zodbrepl.backends import can
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.model import Cluster, Role
from indico_zodbrepl.monitor.node_status import Mark, NodeStatus
from indico_zodbrepl.monitor.rules.facts import reviving, start_command
from indico_zodbrepl.monitor.snapshot import Snapshot
from indico_zodbrepl.operations.offers import offers
from indico_zodbrepl.operations.recommend import recommend

Suggestion = tuple[str, tuple[str, ...]]


def suggestions(cluster: Cluster, snapshot: Snapshot) -> Iterator[Suggestion]:
    """Yield commands and pages to read, each with lines that explain it.

    Recommendations for the situation come first; an operation is suggested only while it is
    possible.
    """
    commands = Commands.here(cluster)
    for each in recommend(cluster, snapshot, commands.home):
        typed = [command for step in each.procedure.steps for command in step.commands]
        if typed and not each.refusal:
            yield typed[0], (each.procedure.title,)
    yield (
        commands.zodbrepl("status", "--watch"),
        (
            "shows the state of everything, each second"
            if len(cluster.nodes) == 1
            else "shows the state of replication, each second",
        ),
    )
    yield from _outage(cluster, snapshot, commands)
    possible = {
        each.operation for each in offers(cluster, snapshot, None, False) if not each.why_not
    }
    if "switchover" in possible:
        yield (
            commands.zodbrepl("switchover", "--dry-run"),
            ("shows how another node becomes the primary; then rerun it without --dry-run",),
        )
    if len(cluster.nodes) == 1:
        target = commands.path(cluster.source.with_name("cluster.conf"))
        yield (
            commands.zodbrepl("convert", "--to", target, "--dry-run"),
            ("after Ctrl-C here: shows how the data is copied into a cluster that replicates",),
        )
    yield commands.zodbrepl("stats"), ("shows what the database holds, by class",)
    yield (
        ("docs/tutorial.md", ("explains all of this",))
        if can(cluster, "lineage")
        else ("docs/how-to/try-a-backend.md", ("explains this storage, and where to read on",))
    )


def _outage(cluster: Cluster, snapshot: Snapshot, commands: Commands) -> Iterator[Suggestion]:
    node = _to_stop(snapshot)
    if node is None:
        if len(cluster.indico) > 1:
            yield (
                f"make an event on {cluster.indico[0].base_url}/",
                (f"and see it on {cluster.indico[1].base_url}/: both use one database",),
            )
        return
    if can(cluster, "switchover"):
        what = "stops the primary: pages stay readable, and saving is answered 503;"
    elif len(cluster.nodes) == 1:
        what = "stops the only server: every page is answered 503, and nothing is lost;"
    else:
        what = "stops a node: what other nodes hold too stays readable and writable;"
    yield (
        commands.supervisorctl("stop", f"node-{node.name}"),
        (what, f"then `{_start(node, snapshot, commands)}` brings it back"),
    )


def _start(node: NodeStatus, snapshot: Snapshot, commands: Commands) -> str:
    """Return the command that is recommended once the node is stopped."""
    program = node.program and dataclasses.replace(node.program, state="STOPPED", pid=0)
    stopped = dataclasses.replace(node, mark=Mark.UNREACHABLE, program=program)
    led = snapshot.primary not in (None, node.name)
    return start_command(commands, reviving(stopped, led=led), node.name)


def _to_stop(snapshot: Snapshot) -> NodeStatus | None:
    """Return the most instructive node to stop: the primary, or a node that keeps data."""
    shown = (Role.PRIMARY, Role.STORAGE)
    return next(
        (node for node in snapshot.nodes if node.has_program and node.assigned_role in shown), None
    )
