"""The steps of each recommendation, in words and commands.  Pure."""

from __future__ import annotations

import dataclasses
import shlex

from indico_zodbrepl.backends import backend_of, can, limit
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Role
from indico_zodbrepl.monitor.node_status import NodeStatus
from indico_zodbrepl.monitor.rules.facts import RUNNING, start_command, start_verb
from indico_zodbrepl.monitor.snapshot import IndicoStatus, Snapshot
from indico_zodbrepl.monitor.words import called, set_up
from indico_zodbrepl.probing import tid


@dataclasses.dataclass(frozen=True)
class ProcedureStep:
    """A step in words, with the commands to type in order; none for a step by hand."""

    text: str
    commands: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Procedure:
    """Steps that belong together, to be done in order."""

    title: str
    steps: tuple[ProcedureStep, ...]


def _patience(commands: Commands) -> str:
    cluster, installation = commands.cluster, Installation(commands.home)
    seconds = max(
        (
            program.stop_seconds
            for node in cluster.nodes
            for program in backend_of(cluster).programs(cluster, installation, node)
        ),
        default=0,
    )
    return f"A frozen server is killed after {seconds} s."


def look(commands: Commands) -> ProcedureStep:
    """Return the last step of most procedures."""
    return ProcedureStep("Check that it worked:", (commands.zodbrepl("status"),))


def find_out(commands: Commands) -> Procedure:
    """Return the procedure for a cluster that does not answer at all."""
    return Procedure(
        "Find out whether the cluster runs",
        (
            ProcedureStep(
                "Nothing answered this program. Retry on the cluster's host:",
                (commands.zodbrepl("status"),),
            ),
            ProcedureStep("If nothing runs there, start it:", (commands.zodbrepl("up"),)),
        ),
    )


def start_everything(snapshot: Snapshot, commands: Commands) -> Procedure:
    """Return the procedure for a cluster that is stopped."""
    servers = any(node.has_program for node in snapshot.nodes)
    what = "No storage server runs" if servers else "No Indico instance runs"
    return Procedure(
        "Start the cluster",
        (
            ProcedureStep(f"{what}. Start everything:", (commands.zodbrepl("up"),)),
            look(commands),
        ),
    )


def supervise_again(commands: Commands) -> Procedure:
    """Return the procedure for programs that a killed supervisord has left."""
    return Procedure(
        "Start supervisord again",
        (
            ProcedureStep(
                "What stops now is not started again. This replaces the programs that run, one "
                "after another, the primary last, and starts what does not run:",
                (commands.zodbrepl("up"),),
            ),
            look(commands),
        ),
    )


def wake_supervisord(commands: Commands) -> Procedure:
    """Return the procedure for a supervisord that runs but does not answer."""
    pid_file = shlex.quote(commands.path(Layout(commands.cluster).supervisord_pid))
    return Procedure(
        "Bring supervisord back",
        (
            ProcedureStep(
                "It runs but does not answer. Continue its process if it was stopped (state T):",
                (f"ps -o pid,stat,args $(cat {pid_file})", f"kill -CONT $(cat {pid_file})"),
            ),
            look(commands),
        ),
    )


def fence(node: NodeStatus, snapshot: Snapshot, commands: Commands) -> Procedure:
    """Return the procedure for a node that must not take writes."""
    title = (
        f"Fence node {node.name}: node {node.superseded_by} is the primary of a later epoch"
        if node.superseded_by and not snapshot.rivals
        else f"Split brain: fence node {node.name} now"
    )
    if not node.managed:
        stop = ProcedureStep(f"Stop its server at {node.address}, where it runs.")
        return Procedure(title, (stop, look(commands)))
    steps = [
        ProcedureStep(
            f"Stop it and keep it from starting. What clients wrote to node {node.name} stays in "
            "its data:",
            (commands.zodbrepl("node", "fence", node.name),),
        )
    ]
    if can(commands.cluster, "rejoin") and not node.leads:
        steps += [
            ProcedureStep(
                "Show its divergent transactions, and the steps; nothing is changed:",
                (commands.zodbrepl("rejoin", node.name, "--dry-run"),),
            ),
            ProcedureStep(
                f"Make it a follower.{_kept(commands)}", (commands.zodbrepl("rejoin", node.name),)
            ),
        ]
    return Procedure(title, (*steps, look(commands)))


def not_yet(procedure: Procedure, refusal: str) -> Procedure:
    """Return a procedure with the reason why it has to wait; unchanged without a reason."""
    if not refusal:
        return procedure
    step = ProcedureStep(f"Not possible yet. {refusal}")
    return dataclasses.replace(procedure, steps=(step, *procedure.steps))


def bring_back(node: NodeStatus, operation: str, commands: Commands) -> Procedure:
    """Return the procedure for a node that does not answer.

    Args:
        operation: what starts it: ``restart``, ``up``, or ``failover`` or ``rejoin`` of NEO.
    """
    title = f"Bring {called(commands.cluster, node.assigned_role, node.name)} back"
    if not node.has_program:
        return Procedure(title, (ProcedureStep(_by_hand(node, commands)), look(commands)))
    running = node.program is not None and node.program.state in RUNNING
    verb = start_verb(node.program) if node.program is not None else "start"
    stopping = f" {_patience(commands)}" if running else ""
    return Procedure(
        title,
        (
            ProcedureStep(
                "Find the reason at the end of its log:",
                (commands.show_log(f"node-{node.name}"),),
            ),
            ProcedureStep(
                f"{verb.capitalize()} it.{stopping} {_consequence(node)}",
                (start_command(commands, operation, node.name),),
            ),
            look(commands),
        ),
    )


def reconnect(node: NodeStatus, commands: Commands) -> Procedure:
    """Return the procedure for a running follower that does not follow as it should."""
    return Procedure(
        f"Reconnect {called(commands.cluster, node.assigned_role, node.name)}",
        (
            ProcedureStep(
                "Find the reason at the end of its log:",
                (commands.show_log(f"node-{node.name}"),),
            ),
            ProcedureStep(
                f"Restart it. {_consequence(node)}",
                (start_command(commands, "restart", node.name),),
            ),
            look(commands),
        ),
    )


def _consequence(node: NodeStatus) -> str:
    return {
        Role.PRIMARY: "Indico becomes writable within seconds, and nothing is lost.",
        Role.MASTER: "The masters then elect the one that leads.",
        Role.STORAGE: "It then fetches what it missed from the other storage nodes.",
        Role.ADMIN: "Data and clients don't depend on it, but status can't be read without it.",
    }.get(node.assigned_role, f"It then fetches what it missed from node {node.assigned_upstream}.")


def _by_hand(node: NodeStatus, commands: Commands) -> str:
    if not node.managed:
        return (
            f"Its server at {node.address} is not managed here. Start it where it runs; "
            "everything else reconnects automatically."
        )
    folder = commands.path(commands.cluster.node(node.name).data_directory)
    return (
        f"Clients open the data in {folder} themselves. Check that its disk is mounted and "
        "that the user who runs Indico may write there."
    )


def restart_indico(instance: IndicoStatus, commands: Commands) -> Procedure:
    """Return the procedure for an Indico instance that does not work."""
    operation = "up" if instance.program is None else "restart"
    start = start_command(commands, operation, instance.name)
    return Procedure(
        f"Bring Indico instance {instance.name} back",
        (
            ProcedureStep(
                "Find the reason at the end of its log:",
                (commands.show_log(f"indico-{instance.name}"),),
            ),
            ProcedureStep("Restart it:", (start,)),
            look(commands),
        ),
    )


def restore_data(node: NodeStatus, commands: Commands) -> Procedure:
    """Return the procedure for the only copy of the data, if it is lost."""
    command = commands.zodbrepl
    title = f"Only if the data of node {node.name} is lost or damaged: restore a backup"
    return Procedure(
        title,
        (
            ProcedureStep(
                "Show each step, and the data loss in Indico; nothing is changed:",
                (command("restore", node.name, "--dry-run"),),
            ),
            ProcedureStep(
                "Restore it. Transactions newer than the backup are exported first, if they can be "
                "read, and the present data is kept.",
                (command("restore", node.name, "--reason", "TEXT"),),
            ),
            look(commands),
        ),
    )


def begin_indico(instance: IndicoStatus, commands: Commands) -> Procedure:
    """Return the procedure for an empty database."""
    folders = ", ".join(
        commands.path(commands.cluster.node(node.name).data_directory)
        for node in commands.cluster.nodes
    )
    return Procedure(
        "Put an Indico into the empty database",
        (
            ProcedureStep(
                "If it should hold an Indico, create nothing: check that each node's "
                f"disk is mounted ({folders})."
            ),
            ProcedureStep(
                "For a new Indico, write its first administrator into a file, as in "
                "docs/how-to/try-a-backend.md, and create it; or copy an existing one into the "
                "database with `convert`:",
                (set_up(commands, instance.name),),
            ),
            look(commands),
        ),
    )


def fail_over(
    primary: NodeStatus, candidate: NodeStatus, commands: Commands, *, back_first: bool
) -> Procedure:
    """Return the procedure that makes another node the primary.

    Args:
        back_first: whether the old primary may come back, which loses nothing.
    """
    command = commands.zodbrepl
    back = (
        ProcedureStep(
            f"When the host and disk of node {primary.name} are back, show how it becomes a "
            "follower:",
            (command("rejoin", primary.name, "--dry-run"),),
        ),
        ProcedureStep(
            f"Then make it a follower.{_kept(commands)}", (command("rejoin", primary.name),)
        ),
    )
    first = f"Only if node {primary.name} does not come back: fail over"
    return Procedure(
        f"{first if back_first else 'Fail over'} to node {candidate.name}",
        (
            ProcedureStep(
                f"{_held_by(candidate)} Show each step, and the data loss; nothing is changed:",
                (command("failover", candidate.name, "--dry-run"),),
            ),
            ProcedureStep(
                f"Fail over. Node {primary.name} is fenced first{_exported(commands)}. "
                f"Then node {candidate.name} takes the writes.",
                (failover_command(commands, primary.name, candidate.name),),
            ),
            look(commands),
            *(
                back
                if can(commands.cluster, "rejoin")
                else (
                    _by_limit(f"When the host and disk of node {primary.name} are back", commands),
                )
            ),
        ),
    )


def failover_command(commands: Commands, primary: str, candidate: str) -> str:
    """Return the command that replaces a primary."""
    return commands.zodbrepl("failover", candidate, "--reason", f"primary {primary} is gone")


def _by_limit(when: str, commands: Commands) -> ProcedureStep:
    return ProcedureStep(f"{when}: {limit(commands.cluster, 'rejoin')}.")


def _exported(commands: Commands) -> str:
    if not can(commands.cluster, "lineage"):
        return ""
    return ", and its divergent transactions are exported, if its data can be read"


def _kept(commands: Commands) -> str:
    if not can(commands.cluster, "lineage"):
        return ""
    folder = commands.path(Layout(commands.cluster).lost_tails)
    return f" Its divergent transactions are kept in {folder}."


def clone(node: NodeStatus, commands: Commands) -> Procedure:
    """Return the procedure for a node that can't continue from its own data."""
    command = commands.zodbrepl
    return Procedure(
        f"Clone the database to node {node.name}",
        (
            ProcedureStep(
                "Show the steps; nothing is changed:", (command("clone", node.name, "--dry-run"),)
            ),
            ProcedureStep("Copy the database:", (command("clone", node.name),)),
            look(commands),
        ),
    )


def rejoin(node: NodeStatus, commands: Commands) -> Procedure:
    """Return the procedure for a node whose history is not that of the cluster."""
    command = commands.zodbrepl
    first = (
        " Its divergent transactions are exported first."
        if can(commands.cluster, "lineage")
        else ""
    )
    return Procedure(
        f"Rejoin node {node.name}",
        (
            ProcedureStep(
                "Show its divergent transactions, and the steps; nothing is changed:",
                (command("rejoin", node.name, "--dry-run"),),
            ),
            ProcedureStep(f"Make it a follower again.{first}", (command("rejoin", node.name),)),
            look(commands),
        ),
    )


def back_by_limit(node: NodeStatus, commands: Commands) -> Procedure:
    """Return the procedure if the backend has no command for it, in the backend's words."""
    return Procedure(
        f"Rejoin node {node.name}", (_by_limit("No command does it", commands), look(commands))
    )


def _held_by(candidate: NodeStatus) -> str:
    held = f"Of the nodes that answer, {candidate.name} holds the most"
    if candidate.last_tid is None or candidate.last_tid == tid.EMPTY:
        return f"{held}, but not a single transaction."
    return f"{held}; its last transaction is {tid.render(candidate.last_tid)}."
