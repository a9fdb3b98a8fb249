"""What an operator does next, in words and exact commands.  Pure.

Failover is done by hand: nothing here starts anything.  The order of the steps is what keeps data
safe, see ``_promote``.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator
from pathlib import Path

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster, NodeState, Role
from indico_zodbrepl.monitor.promotion import best_candidate, states_after
from indico_zodbrepl.monitor.rules.facts import RUNNING, start_verb
from indico_zodbrepl.monitor.snapshot import IndicoStatus, Mark, NodeStatus, Snapshot, State
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
    return tuple(_procedures(cluster, snapshot, Commands(cluster, home)))


def _procedures(cluster: Cluster, snapshot: Snapshot, commands: Commands) -> Iterator[Procedure]:
    if snapshot.state is State.UNKNOWN:
        yield Procedure("Find out whether the cluster runs at all", (
            Step("Nothing answered this program. On the host of the cluster, ask again:",
                 (commands.zodbrepl("status"),)),
            Step("If nothing runs there, start it:", (commands.zodbrepl("up"),))))
        return
    stopped = not any(_seems_to_run(node) for node in snapshot.nodes)
    if stopped:
        yield Procedure("Start the cluster", (
            Step("No storage server runs. Start everything:", (commands.zodbrepl("up"),)),
            _look(commands)))
    primary = next((n for n in snapshot.nodes if n.assigned_role is Role.PRIMARY), None)
    if primary is not None and not any(node.writable_primary for node in snapshot.nodes):
        if not stopped:
            yield _bring_back(primary, commands)
        candidate = best_candidate(snapshot)
        if candidate is not None:
            yield _promote(cluster, snapshot, primary, candidate, commands)
    if stopped:
        return
    for node in snapshot.nodes:
        if node.assigned_role is not Role.PRIMARY and not node.reachable:
            yield _bring_back(node, commands)
    for instance in snapshot.indico:
        if not instance.up or (snapshot.primary and instance.mark is not Mark.AS_ASSIGNED):
            yield _restart_indico(instance, commands)


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


def _promote(cluster: Cluster, snapshot: Snapshot, primary: NodeStatus, candidate: NodeStatus,
             commands: Commands) -> Procedure:
    """A failover by hand.

    Everything stops first, so that no client keeps what the new primary never had; then the old
    primary's data goes out of reach, since ZRS accepts a diverged follower without a word as soon
    as the new primary commits; roles change in the state files, which rule, with a higher epoch.
    """
    after = states_after(cluster, snapshot, primary, candidate)
    epoch = after[candidate.name].epoch
    old_data = cluster.node(primary.name).data_directory
    kept = old_data.with_name(f"{old_data.name}.before-epoch-{epoch}")
    cache = Layout(cluster).indico / "cache"
    return Procedure(
        f"Only if the disk or host of node {primary.name} is lost for good: "
        f"promote node {candidate.name}", (
            Step(f"Decide. {_held_by(candidate)} What node {primary.name} committed after that "
                 f"is lost to Indico. If node {primary.name} can be "
                 "repaired within the time you can be without saving, repair it instead."),
            Step("Stop everything, the admin page too, so copy these steps first. Nobody writes "
                 "meanwhile, and no Indico instance keeps in its cache what the new primary never "
                 f"had. {_patience(commands)}", (commands.zodbrepl("down"),)),
            Step(f"Move the data of node {primary.name} away, if any is left, and keep it: the "
                 "lost transactions are in it. Never start the node with it again: ZRS would "
                 "accept it as a follower without a word, with transactions the others don't have.",
                 (shlex.join(["mv", commands.path(old_data), commands.path(kept)]),)),
            Step("Move Indico's file cache away: pages in it may show what is lost. Its users "
                 "log in again.", (shlex.join(["mv", commands.path(cache), commands.path(
                     cache.with_name(f"{cache.name}.before-epoch-{epoch}"))]),)),
            Step(f"Write the new roles, in epoch {epoch}, into the state files:",
                 tuple(commands.write_state(state) for state in after.values())),
            Step(f"Write the same into {commands.path(cluster.source)}, so that a lost state file "
                 "never brings the old roles back: " + "; ".join(
                     _conf_line(state) for state in after.values()
                     if _differs(cluster, state)) + ".",
                 (commands.zodbrepl("check"),)),
            Step(f"Start everything. Node {primary.name} starts empty and receives the whole "
                 f"database from node {candidate.name}.", (commands.zodbrepl("up"),)),
            Step(f"See that it worked. Indico may need some seconds to connect, and "
                 f"node {primary.name} is behind until it has everything.",
                 (commands.zodbrepl("status"),))))


def _held_by(candidate: NodeStatus) -> str:
    if candidate.last_tid is None:
        return (f"Node {candidate.name} cannot be reached, so what it holds is not known: "
                "bring it up and look first.")
    held = f"Of the nodes that answer, {candidate.name} holds the most"
    if candidate.last_tid == tid.EMPTY:
        return f"{held}, but not a single transaction."
    return f"{held}; its last transaction is {tid.render(candidate.last_tid)}."


def _differs(cluster: Cluster, state: NodeState) -> bool:
    node = cluster.node(state.node)
    return (node.role, node.upstream) != (state.role, state.upstream)


def _conf_line(state: NodeState) -> str:
    upstream = "without upstream" if state.upstream is None else f"upstream {state.upstream}"
    return f"node {state.node}: role {state.role}, {upstream}"
