"""Procedures that no operation carries out: make room, wait, decide what to give up.  Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from indico_zodbrepl.backends import can
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.model import Role
from indico_zodbrepl.host.disks import mib
from indico_zodbrepl.host.history import STARTS_IN_NO_ROLE
from indico_zodbrepl.monitor.node_status import NodeStatus
from indico_zodbrepl.monitor.snapshot import Snapshot
from indico_zodbrepl.monitor.words import called
from indico_zodbrepl.operations.procedures import Procedure, ProcedureStep, look
from indico_zodbrepl.probing import tid

AUTOMATION_SECONDS = 27
"""From the end of the lease until writes are back after an automatic failover, at the longest."""


def wait_for_automation(successors: Sequence[NodeStatus], commands: Commands) -> Procedure:
    """Return the procedure while the automation is expected to fail over.

    Args:
        successors: the nodes that can take over; at least one.
    """
    lease = commands.cluster.lease
    names = " or ".join(node.name for node in successors)
    logs = tuple(commands.show_log(f"automation-{node.host}") for node in successors)
    return Procedure(
        "Wait for the automation",
        (
            ProcedureStep(
                f"Node {names} takes over automatically when the lease of {lease:g} s has ended. "
                "It then exports what only the former primary has, and lets that rejoin."
            ),
            ProcedureStep(
                f"If nothing can be saved after {lease + AUTOMATION_SECONDS:g} s, check the log on "
                f"the host of {names}; only then fail over by hand:",
                logs,
            ),
        ),
    )


def wait_for_rejoin(node: NodeStatus, commands: Commands) -> Procedure:
    """Return the procedure while the automation is expected to rejoin a former primary."""
    command = commands.zodbrepl
    return Procedure(
        f"Wait until node {node.name} rejoins",
        (
            ProcedureStep(
                f"Node {node.name} rejoins automatically within seconds after its host answers. "
                "What only it has is exported first."
            ),
            ProcedureStep(
                "If it does not follow after a minute, check the log on its host; only then "
                "rejoin it by hand:",
                (
                    commands.show_log(f"automation-{node.host}"),
                    command("rejoin", node.name, "--dry-run"),
                    command("rejoin", node.name),
                ),
            ),
            look(commands),
        ),
    )


def make_room(node: NodeStatus, candidate: NodeStatus | None, commands: Commands) -> Procedure:
    """Return the procedure for a node whose disk is full.

    Args:
        candidate: the node that can take over from a primary; None if there is none.
    """
    folder = commands.path(commands.cluster.node(node.name).data_directory)
    called_node = called(commands.cluster, node.actual_role or node.assigned_role, node.name)
    if node.writable_primary:
        then = "Writes then work again at once:"
    elif node.actual_role or node.assigned_role is not Role.PRIMARY:
        then = "It then gets what it lacks, once it runs:"
    else:
        then = (
            "Its server ends or waits without room, and notices new room within a minute. Wait "
            "that long before you do anything else:"
        )
    room = ProcedureStep(
        f"Remove what does not belong there from the disk of {folder}, or enlarge it"
        f"{_at_least(node)}. Never remove a file of the data directory. {then}",
        (f"df -h {shlex.quote(folder)}",),
    )
    if candidate is None:
        return Procedure(f"Make room for {called_node}", (room, look(commands)))
    over = ProcedureStep(
        f"Or hand its role over to {candidate.name}, whose disk has room. Nothing is lost:",
        (commands.zodbrepl("switchover", candidate.name),),
    )
    title = f"Make room for {called_node}, or switch over to {candidate.name}"
    return Procedure(title, (room, over, look(commands)))


def _at_least(node: NodeStatus) -> str:
    """Return how much room a node's disk needs, as the end of a sentence."""
    if node.disk is None:
        return ""
    lacks = max(0, node.disk.full_below - node.disk.free)
    return f": at least {mib(max(lacks, 1 << 20))} more must be free ({node.disk} now)"


def finish_promotion(node: NodeStatus, epoch: int, commands: Commands) -> Procedure:
    """Return the procedure for a node that the epoch records name, and that is no primary yet."""
    promote = ("node", "promote", node.name, "--epoch", str(epoch), "--reason", "TEXT")
    return Procedure(
        f"Finish the promotion of node {node.name}",
        (
            ProcedureStep(
                f"The epoch records name node {node.name} as the primary of epoch {epoch}, and it "
                "still follows. Show what was done:",
                (commands.zodbrepl("journal"),),
            ),
            ProcedureStep("Promote it:", (commands.zodbrepl(*promote),)),
            look(commands),
        ),
    )


def last_resort(snapshot: Snapshot, primary: NodeStatus, commands: Commands) -> Procedure:
    """Return the procedure if no command can restore writes without a decision of a person."""
    folder = commands.path(commands.cluster.node(primary.name).data_directory)
    steps = [
        ProcedureStep(
            f"Check the disk of node {primary.name} ({folder}): if its data can be brought back, "
            "nothing is lost. Then start everything:",
            (commands.zodbrepl("up"),),
        )
    ]
    usable = [
        node
        for node in snapshot.nodes
        if node.newest and not node.is_damaged and node.condition not in STARTS_IN_NO_ROLE
    ]
    if can(commands.cluster, "promote") and usable:
        best = max(usable, key=lambda node: node.newest or 0)
        force = ("node", "start", best.name, "--force", "--reason", "TEXT")
        steps.append(
            ProcedureStep(
                f"Only if that is not possible: {_newest(best)}. Make node {best.name} the "
                "primary; what no other node holds is lost:",
                (
                    *([commands.zodbrepl("node", "fence", best.name)] if best.reachable else []),
                    commands.zodbrepl(*force),
                ),
            )
        )
    if can(commands.cluster, "restore"):
        steps.append(
            ProcedureStep(
                "Only if the data of all nodes are lost: restore a backup. Show each step first:",
                (commands.zodbrepl("restore", primary.name, "--dry-run"),),
            )
        )
    return Procedure(
        f"Bring the data of node {primary.name} back, or decide what to give up",
        (*steps, look(commands)),
    )


def _newest(node: NodeStatus) -> str:
    return f"node {node.name} holds transactions up to {tid.render(node.newest or 0)}"
