"""Rules about one node's server: does it run, is it the right one, in the right role."""

from __future__ import annotations

from collections.abc import Iterator

from indico_zodbrepl.cluster.model import NodeState, Role
from indico_zodbrepl.monitor.findings import Failure
from indico_zodbrepl.monitor.rules.facts import (
    RUNNING,
    Facts,
    condition,
    plays,
    remedy,
    shown_program,
    start_verb,
    way_back,
)
from indico_zodbrepl.monitor.snapshot import Alert, Level, NodeStatus
from indico_zodbrepl.probing.answers import ServerAnswer


def warnings(facts: Facts, node: NodeStatus) -> Iterator[Alert]:
    yield from _state_file(facts, node)
    if not node.reachable:
        yield _unreachable(facts, node)
    elif node.actual_role is None:
        yield _wrong_server(facts, node)
    else:
        yield from _role(facts, node)
        yield from _epoch(facts, node)
        yield from _read_only(facts, node)
        yield from _unsupervised(facts, node)


def _state_file(facts: Facts, node: NodeStatus) -> Iterator[Alert]:
    state = facts.findings.states.get(node.name)
    if isinstance(state, Failure):
        yield Alert(Level.WARNING, node.name, f"the state file of node {node.name} is unusable",
                    f"{state.detail}; the node does not start without it.",
                    _state_hint(facts, node))


def _state_hint(facts: Facts, node: NodeStatus) -> str:
    """How to get the file back: from the running server, or, surely unchanged, cluster.conf."""
    role = next((role for role in Role if role.value == node.actual_role), None)
    names = {other.name for other in facts.nodes}
    if role and node.epoch is not None and (node.upstream is None or node.upstream in names):
        lost = NodeState(facts.cluster.name, node.name, role, node.upstream, node.epoch)
        return ("write it again, as its running server has it: "
                f"`{facts.commands.write_state(lost)}`")
    others = [other.assigned_epoch for other in facts.nodes if other is not node]
    if others and set(others) == {1}:
        assigned = facts.cluster.node(node.name)
        first = NodeState(facts.cluster.name, node.name, assigned.role, assigned.upstream, 1)
        return ("restore it from a backup; the other nodes are still in epoch 1, so it is what "
                f"cluster.conf began with: `{facts.commands.write_state(first)}`")
    return "restore it from a backup; do not guess its role, it may have been changed"


def _unreachable(facts: Facts, node: NodeStatus) -> Alert:
    if node.superseded_by is not None:
        return _superseded(facts, node, node.superseded_by)
    level = Level.CRITICAL if node.assigned_role is Role.PRIMARY else Level.WARNING
    program = f"node-{node.name}"
    hint = way_back(facts, node) if node.out_of_line else remedy(facts, program, node.program)
    if isinstance(facts.findings.states.get(node.name), Failure):
        verb = start_verb(node.program) if node.program else "start"
        start = facts.commands.supervisorctl(verb, program)
        hint = f"repair its state file first, then `{start}`"
    return Alert(level, node.name,
                 f"{node.assigned_role} {node.name} {condition(node.program)}",
                 f"{node.problem}; {shown_program(node.program)}", hint)


def _superseded(facts: Facts, node: NodeStatus, primary: str) -> Alert:
    """A primary of the past is not started again: what only it has would come back with it."""
    command = facts.commands.zodbrepl
    return Alert(
        Level.WARNING, node.name, f"node {node.name} is out of reach; it is the primary no more",
        f"{primary} took over from it. {node.problem}; {shown_program(node.program)}",
        "do not start it. When its host and disk are back: "
        f"{way_back(facts, node)}. If its data is gone for good: `{command('seed', node.name)}`")


def _wrong_server(facts: Facts, node: NodeStatus) -> Alert:
    replication = facts.replication(node)
    program = f"node-{node.name}"
    if replication is None:
        found = "It says nothing of cluster and node, so this program did not start it."
    else:
        found = f"It says it is node {replication.node} of cluster {replication.cluster}."
    return Alert(
        Level.CRITICAL, node.name, f"another server answers at node {node.name}'s address",
        f"{found} Address {node.address}; {shown_program(node.program)}",
        f"find it with `ss -ltnp 'sport = :{node.address.rpartition(':')[2]}'`, end it or change "
        f"storage-port, then `{facts.commands.supervisorctl('restart', program)}`")


def _role(facts: Facts, node: NodeStatus) -> Iterator[Alert]:
    if node.actual_role is None or plays(facts.cluster, node.actual_role, node.assigned_role):
        return
    restart = facts.commands.supervisorctl("restart", f"node-{node.name}")
    both_ways = {node.actual_role.value, node.assigned_role.value}
    safe = both_ways <= {Role.SECONDARY.value, Role.RELAY.value}
    yield Alert(
        Level.WARNING if safe else Level.CRITICAL, node.name,
        f"node {node.name} runs as {node.actual_role}, assigned is {node.assigned_role}",
        "Its state file was changed after its start, or somebody started it by hand.",
        f"if the assignment is right: `{restart}`" if safe else
        "first make sure which node clients wrote to last; a node that was a primary must not "
        f"become a secondary with its data. If the assignment is right: `{restart}`")


def _epoch(facts: Facts, node: NodeStatus) -> Iterator[Alert]:
    restart = facts.commands.supervisorctl("restart", f"node-{node.name}")
    highest = max((other.epoch for other in facts.nodes if other.epoch is not None), default=0)
    if node.assigned_epoch is not None and node.epoch != node.assigned_epoch:
        yield Alert(
            Level.WARNING, node.name,
            f"node {node.name} runs in epoch {node.epoch}, its state file says "
            f"{node.assigned_epoch}",
            "The state file was changed after the start.", f"`{restart}`")
    elif node.epoch is not None and node.epoch < highest:
        yield Alert(
            Level.CRITICAL if node.writable_primary else Level.WARNING, node.name,
            f"node {node.name} is in epoch {node.epoch}, the cluster in epoch {highest}",
            "A promotion happened without it: its history may have diverged.",
            f"`{facts.commands.zodbrepl('rejoin', node.name, '--dry-run')}` shows how it becomes "
            "a follower without losing what only it has")


def _read_only(_facts: Facts, node: NodeStatus) -> Iterator[Alert]:
    if node.assigned_role is Role.PRIMARY and node.actual_role == "primary" and node.read_only:
        yield Alert(
            Level.CRITICAL, node.name, f"primary {node.name} refuses writes",
            "Its storage is opened read-only.",
            "remove read-only from its configuration and restart the node")


def _unsupervised(facts: Facts, node: NodeStatus) -> Iterator[Alert]:
    answer = facts.findings.servers[node.name]
    if (isinstance(answer, ServerAnswer) and node.program is not None
            and node.program.state not in RUNNING):
        yield Alert(
            Level.WARNING, node.name, f"node {node.name} runs outside of supervisor",
            f"process {node.pid} answers, but {shown_program(node.program)}.",
            f"end process {node.pid} with `kill {node.pid}`, then "
            f"`{facts.commands.supervisorctl('start', f'node-{node.name}')}`")
