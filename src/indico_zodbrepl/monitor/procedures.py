"""The procedures that advice is made of: each brings back one thing.  Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from indico_zodbrepl.backends import backend_of, can, limit
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Role
from indico_zodbrepl.monitor.rules.facts import RUNNING, start_verb
from indico_zodbrepl.monitor.snapshot import IndicoStatus, NodeStatus, OpenOperation
from indico_zodbrepl.monitor.words import called, set_up
from indico_zodbrepl.node.lineage import Condition
from indico_zodbrepl.probing import tid


@dataclasses.dataclass(frozen=True)
class Step:
    """One step: what and why, and the commands to type, in order; none for a step by hand."""

    text: str
    commands: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Procedure:
    """Steps that belong together, to be done in order and all of them."""

    title: str
    steps: tuple[Step, ...]


def _patience(commands: Commands) -> str:
    """How long supervisor waits for a server that does not end."""
    cluster, installation = commands.cluster, Installation(commands.home)
    seconds = max((program.stop_seconds for node in cluster.nodes
                   for program in backend_of(cluster).programs(cluster, installation, node)),
                  default=0)
    return f"A frozen server is killed after {seconds} s."


def look(commands: Commands) -> Step:
    """The last step of most."""
    return Step("See that it worked:", (commands.zodbrepl("status"),))


def bring_back(node: NodeStatus, commands: Commands) -> Procedure:
    """A node that does not answer."""
    title = f"Bring {called(commands.cluster, node.assigned_role, node.name)} back"
    if not node.has_program:
        return Procedure(title, (Step(_by_hand(node, commands)), look(commands)))
    program = f"node-{node.name}"
    running = node.program is not None and node.program.state in RUNNING
    verb = start_verb(node.program) if node.program is not None else "start"
    stopping = f" {_patience(commands)}" if running else ""
    start = (commands.zodbrepl("restart", node.name) if node.program is not None
             else commands.zodbrepl("up"))
    return Procedure(title, (
        Step("Look at the end of its log for the reason:", (commands.show_log(program),)),
        Step(f"{verb.capitalize()} it.{stopping} {_consequence(node)}", (start,)),
        look(commands)))


def _consequence(node: NodeStatus) -> str:
    """What comes of a node that is back."""
    return {
        Role.PRIMARY: "Indico becomes writable by itself within seconds, and nothing is lost.",
        Role.MASTER: "The masters agree by themselves on who leads.",
        Role.STORAGE: "It then fetches from the other storage nodes what it missed.",
        Role.ADMIN: "Data and clients don't depend on it, but status can't be asked without it.",
    }.get(node.assigned_role, f"It then fetches from node {node.assigned_upstream} what it missed.")


def _by_hand(node: NodeStatus, commands: Commands) -> str:
    if not node.managed:
        return (f"Its server at {node.address} is not managed here. Start it where it runs; "
                "everything else follows by itself.")
    folder = commands.path(commands.cluster.node(node.name).data_directory)
    return (f"Clients open the data in {folder} by themselves. See that its disk is mounted and "
            "that the user who runs Indico may write there.")


def restart_indico(instance: IndicoStatus, commands: Commands) -> Procedure:
    """An Indico instance that does not work."""
    program = f"indico-{instance.name}"
    start = (commands.zodbrepl("restart", instance.name) if instance.program is not None
             else commands.zodbrepl("up"))
    return Procedure(f"Bring Indico instance {instance.name} back", (
        Step("Look at the end of its log for the reason:", (commands.show_log(program),)),
        Step("Restart it:", (start,)),
        look(commands)))


def restore_data(node: NodeStatus, commands: Commands) -> Procedure:
    """Data of which there is one copy, from a backup."""
    command = commands.zodbrepl
    title = f"Only if the data of node {node.name} are lost or damaged: restore a backup"
    return Procedure(title, (
        Step("See each step, and what of the present data would be missing in Indico; nothing is "
             "changed:", (command("restore", node.name, "--dry-run"),)),
        Step("Do it. What the present data have and the backup lacks is exported first, as far as "
             "it can be read, and the present data are kept.",
             (command("restore", node.name, "--reason", "TEXT"),)),
        look(commands)))


def begin_indico(instance: IndicoStatus, commands: Commands) -> Procedure:
    """An empty database."""
    folders = ", ".join(commands.path(commands.cluster.node(node.name).data_directory)
                        for node in commands.cluster.nodes)
    return Procedure("Put an Indico into the empty database", (
        Step("Should it be there already? Then something is wrong with where the data are: see "
             f"that each node's disk is mounted ({folders}), and begin nothing."),
        Step("For a new Indico, write its first administrator into a file, as in "
             "docs/how-to/try-a-backend.md, and begin it; or copy an existing one into the "
             "database, with `convert`:", (set_up(commands, instance.name),)),
        look(commands)))


def fail_over(primary: NodeStatus, candidate: NodeStatus, commands: Commands) -> Procedure:
    """Writes, by another primary."""
    command = commands.zodbrepl
    back = (
        Step(f"When the host and disk of node {primary.name} are back, see how it becomes a "
             f"follower:", (command("rejoin", primary.name, "--dry-run"),)),
        Step(f"Then let it follow.{_kept(commands)}", (command("rejoin", primary.name),)))
    return Procedure(
        f"Only if node {primary.name} does not come back: fail over to node {candidate.name}", (
            Step(f"{_held_by(candidate)} See each step, and what of node {primary.name} would be "
                 "missing in Indico; nothing is changed:",
                 (command("failover", candidate.name, "--dry-run"),)),
            Step(f"Do it. Node {primary.name} is fenced first{_exported(commands)}. "
                 f"Then node {candidate.name} takes the writes.",
                 (command("failover", candidate.name, "--reason",
                          f"primary {primary.name} is gone"),)),
            look(commands), *(back if can(commands.cluster, "rejoin") else (
                _by_limit(f"When the host and disk of node {primary.name} are back", commands),))))


def _by_limit(when: str, commands: Commands) -> Step:
    """What brings a node back where no command of ours does, in its backend's words."""
    return Step(f"{when}: {limit(commands.cluster, 'rejoin')}.")


def _exported(commands: Commands) -> str:
    """What a failover does with what only the old primary has."""
    return (", and what only it has is exported, if its data can be read"
            if backend_of(commands.cluster).data_files else "")


def _kept(commands: Commands) -> str:
    """Where a rejoin keeps what only the node has."""
    if not backend_of(commands.cluster).data_files:
        return ""
    return (" What only it has is kept in "
            f"{commands.path(Layout(commands.cluster).lost_tails)}.")


def back_in_line(node: NodeStatus, commands: Commands) -> Iterator[Procedure]:
    """A node whose history is not that of the cluster."""
    command, cluster = commands.zodbrepl, commands.cluster
    rejoins, seeds = can(cluster, "rejoin"), can(cluster, "seed")
    if seeds and (node.condition is Condition.NEEDS_SEEDING or not rejoins):
        yield Procedure(f"Give node {node.name} a new copy of the database", (
            Step("See the steps; nothing is changed:", (command("seed", node.name, "--dry-run"),)),
            Step("Copy the database:", (command("seed", node.name),)), look(commands)))
    elif not rejoins:
        yield Procedure(f"Bring node {node.name} back in line", (
            _by_limit("It takes no command of its own", commands), look(commands)))
    else:
        first = " What only it has is exported and kept first." if backend_of(
            cluster).data_files else ""
        yield Procedure(f"Bring node {node.name} back in line", (
            Step("See what only it has, and the steps; nothing is changed:",
                 (command("rejoin", node.name, "--dry-run"),)),
            Step(f"Let it follow again.{first}", (command("rejoin", node.name),)),
            look(commands)))


def finish(operation: OpenOperation, commands: Commands) -> Procedure:
    """An operation that was cut short."""
    command = commands.zodbrepl
    if operation.damaged:
        return Procedure(f"Put the file of operation {operation.identifier} away", (
            Step("It can't be used. See what is known of the operation:",
                 (command("journal", operation.identifier),)),
            Step("Close it as it stands; the file is kept under another name:",
                 (command("resume", "--abandon", "--reason", "its file was damaged"),)),
            look(commands)))
    return Procedure(f"End the {operation.operation} that was not finished", (
        Step("See how far it came:", (command("journal", operation.identifier),)),
        Step("Go on with it:", (command("resume"),)), look(commands)))


def _held_by(candidate: NodeStatus) -> str:
    held = f"Of the nodes that answer, {candidate.name} holds the most"
    if candidate.last_tid is None or candidate.last_tid == tid.EMPTY:
        return f"{held}, but not a single transaction."
    return f"{held}; its last transaction is {tid.render(candidate.last_tid)}."
