"""What an operator does next, in words and exact commands.  Pure: nothing here starts anything."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster, Role
from indico_zodbrepl.monitor.promotion import best_candidate
from indico_zodbrepl.monitor.rules.facts import RUNNING, start_verb
from indico_zodbrepl.monitor.snapshot import (
    IndicoStatus,
    Mark,
    NodeStatus,
    OpenOperation,
    Snapshot,
    State,
)
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


def advise(cluster: Cluster, snapshot: Snapshot, home: Path) -> tuple[Procedure, ...]:
    """Procedures for the present situation, the most urgent first; empty when all is well.

    Args:
        cluster: the cluster.
        snapshot: its situation.
        home: folder of the installation; commands are to be typed there.
    """
    return tuple(_procedures(snapshot, Commands(cluster, home)))


def _procedures(snapshot: Snapshot, commands: Commands) -> Iterator[Procedure]:
    if snapshot.state is State.UNKNOWN:
        yield Procedure("Find out whether the cluster runs at all", (
            Step("Nothing answered this program. On the host of the cluster, ask again:",
                 (commands.zodbrepl("status"),)),
            Step("If nothing runs there, start it:", (commands.zodbrepl("up"),))))
        return
    for operation in snapshot.operations:
        if not operation.at_work:
            yield _finish(operation, commands)
    stopped = not any(_seems_to_run(node) for node in snapshot.nodes)
    if stopped:
        yield Procedure("Start the cluster", (
            Step("No storage server runs. Start everything:", (commands.zodbrepl("up"),)),
            _look(commands)))
    yield from _for_writes(snapshot, commands, stopped=stopped)
    if stopped:
        return
    for node in snapshot.nodes:
        if node.out_of_line or (node.superseded_by and not node.reachable):
            yield _back_in_line(node, commands)
        elif node.assigned_role is not Role.PRIMARY and not node.reachable and not node.refusal:
            yield _bring_back(node, commands)
    for instance in snapshot.indico:
        if not instance.up or (snapshot.primary and instance.mark is not Mark.AS_ASSIGNED):
            yield _restart_indico(instance, commands)


def _for_writes(snapshot: Snapshot, commands: Commands, *, stopped: bool) -> Iterator[Procedure]:
    """How there is a writable primary again, when there is none."""
    assigned = [node for node in snapshot.nodes if node.assigned_role is Role.PRIMARY]
    primary = max(assigned, key=lambda node: node.assigned_epoch or 0, default=None)
    if primary is None or any(node.writable_primary for node in snapshot.nodes):
        return
    if not (stopped or primary.held or primary.refusal or primary.out_of_line
            or primary.superseded_by):
        yield _bring_back(primary, commands)
    candidate = best_candidate(snapshot, unfit=[
        node.name for node in snapshot.nodes if not node.reachable or node.out_of_line])
    if candidate is not None and not primary.reachable:
        yield _fail_over(primary, candidate, commands)


def _seems_to_run(node: NodeStatus) -> bool:
    return node.reachable or (node.program is not None and node.program.state in RUNNING)


def _patience(commands: Commands) -> str:
    """How long supervisor waits for a server that does not end."""
    cluster, installation = commands.cluster, Installation(commands.home)
    seconds = max(program.stop_seconds for node in cluster.nodes
                  for program in backend_of(cluster).programs(cluster, installation, node))
    return f"A frozen server is killed after {seconds} s."


def _look(commands: Commands) -> Step:
    return Step("See that it worked:", (commands.zodbrepl("status"),))


def _bring_back(node: NodeStatus, commands: Commands) -> Procedure:
    program = f"node-{node.name}"
    running = node.program is not None and node.program.state in RUNNING
    verb = start_verb(node.program) if node.program is not None else "start"
    stopping = f" {_patience(commands)}" if running else ""
    start = (commands.supervisorctl(verb, program) if node.program is not None
             else commands.zodbrepl("up"))
    consequence = ("Indico becomes writable by itself within seconds, and nothing is lost."
                   if node.assigned_role is Role.PRIMARY else
                   f"It then fetches from node {node.assigned_upstream} what it missed.")
    return Procedure(f"Bring {node.assigned_role} {node.name} back", (
        Step("Look at the end of its log for the reason:", (commands.show_log(program),)),
        Step(f"{verb.capitalize()} it.{stopping} {consequence}", (start,)),
        _look(commands)))


def _restart_indico(instance: IndicoStatus, commands: Commands) -> Procedure:
    program = f"indico-{instance.name}"
    start = (commands.supervisorctl("restart", program) if instance.program is not None
             else commands.zodbrepl("up"))
    return Procedure(f"Bring Indico instance {instance.name} back", (
        Step("Look at the end of its log for the reason:", (commands.show_log(program),)),
        Step("Restart it:", (start,)),
        _look(commands)))


def _fail_over(primary: NodeStatus, candidate: NodeStatus, commands: Commands) -> Procedure:
    command = commands.zodbrepl
    return Procedure(
        f"Only if node {primary.name} does not come back: fail over to node {candidate.name}", (
            Step(f"{_held_by(candidate)} See each step, and what of node {primary.name} would be "
                 "missing in Indico; nothing is changed:",
                 (command("failover", candidate.name, "--dry-run"),)),
            Step(f"Do it. Node {primary.name} is fenced first, and what only it has is exported, "
                 f"if its data can be read. Then node {candidate.name} takes the writes.",
                 (command("failover", candidate.name, "--reason",
                          f"primary {primary.name} is gone"),)),
            _look(commands),
            Step(f"When the host and disk of node {primary.name} are back, see how it becomes a "
                 f"follower:", (command("rejoin", primary.name, "--dry-run"),)),
            Step("Then let it follow. What only it has is kept in "
                 f"{commands.path(Layout(commands.cluster).lost_tails)}.",
                 (command("rejoin", primary.name),))))


def _back_in_line(node: NodeStatus, commands: Commands) -> Procedure:
    command = commands.zodbrepl
    if node.condition is Condition.NEEDS_SEEDING:
        return Procedure(f"Give node {node.name} a new copy of the database", (
            Step("See the steps; nothing is changed:", (command("seed", node.name, "--dry-run"),)),
            Step("Copy the database:", (command("seed", node.name),)), _look(commands)))
    return Procedure(f"Bring node {node.name} back in line", (
        Step("See what only it has, and the steps; nothing is changed:",
             (command("rejoin", node.name, "--dry-run"),)),
        Step("Let it follow again. What only it has is exported and kept first.",
             (command("rejoin", node.name),)), _look(commands)))


def _finish(operation: OpenOperation, commands: Commands) -> Procedure:
    command = commands.zodbrepl
    return Procedure(f"End the {operation.operation} that was not finished", (
        Step("See how far it came:", (command("journal", operation.identifier),)),
        Step("Go on with it:", (command("resume"),)), _look(commands)))


def _held_by(candidate: NodeStatus) -> str:
    held = f"Of the nodes that answer, {candidate.name} holds the most"
    if candidate.last_tid is None or candidate.last_tid == tid.EMPTY:
        return f"{held}, but not a single transaction."
    return f"{held}; its last transaction is {tid.render(candidate.last_tid)}."
