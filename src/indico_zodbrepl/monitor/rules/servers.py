"""Rules about one node's server: it runs, it is the right one, and it has the right role."""

from __future__ import annotations

from collections.abc import Iterator

from indico_zodbrepl.cluster.commands import move_away
from indico_zodbrepl.cluster.layout import state_file
from indico_zodbrepl.cluster.model import NodeState, Role
from indico_zodbrepl.monitor.node_status import NodeStatus
from indico_zodbrepl.monitor.rules.facts import (
    RUNNING,
    Facts,
    bring_back,
    condition,
    plays,
    rejoins_automatically,
    shown_program,
    start_verb,
    way_back,
)
from indico_zodbrepl.probing.answers import Alert, Level, ServerAnswer, ServerRole
from indico_zodbrepl.probing.comparison import Failure
from indico_zodbrepl.probing.tid import clock_lag
from indico_zodbrepl.probing.wire import FailureKind


def warnings(facts: Facts, node: NodeStatus) -> Iterator[Alert]:
    if node.has_program:
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
        yield from _clock(facts, node)


def _clock(facts: Facts, node: NodeStatus) -> Iterator[Alert]:
    """Tell of a clock that was set back: ids go on from the last transaction."""
    lag = clock_lag(node.last_tid, facts.findings.taken_at)
    if lag and node.writable_primary:
        yield Alert(
            Level.NOTICE,
            node.name,
            f"the clock is {lag:.0f} s behind the last transaction of {facts.called(node)}",
            "Nothing is lost: the ids of new transactions count on from it. Their times are wrong "
            "until the clock has caught up.",
            "set the clock of its host, and keep it right with NTP",
        )


def _state_file(facts: Facts, node: NodeStatus) -> Iterator[Alert]:
    state = facts.findings.states.get(node.name)
    if isinstance(state, Failure) and state.kind is not FailureKind.HOST_AWAY:
        yield Alert(
            Level.WARNING,
            node.name,
            f"the state file of node {node.name} is unusable",
            f"{state.detail}; the node does not start without it.",
            _state_hint(facts, node),
        )


def _state_hint(facts: Facts, node: NodeStatus) -> str:
    """Return how to restore the file: from the running server or an unchanged cluster.conf."""
    role = next((role for role in Role if role.value == node.actual_role), None)
    names = {other.name for other in facts.nodes}
    if role and node.epoch is not None and (node.upstream is None or node.upstream in names):
        lost = NodeState(facts.cluster.name, node.name, role, node.upstream, node.epoch)
        return f"write it again, as its running server has it: `{facts.commands.write_state(lost)}`"
    others = [other.assigned_epoch for other in facts.nodes if other is not node]
    if others and set(others) == {1}:
        assigned = facts.cluster.node(node.name)
        first = NodeState(facts.cluster.name, node.name, assigned.role, assigned.upstream, 1)
        return (
            "the other nodes are still in epoch 1, so write it again as cluster.conf began with: "
            f"`{facts.commands.write_state(first)}`"
        )
    aside = move_away(state_file(facts.cluster.node(node.name)))
    return f"move it away; its role then follows from the records of the epoch: `{aside}`"


def _unreachable(facts: Facts, node: NodeStatus) -> Alert:
    if node.superseded_by is not None:
        return _superseded(facts, node, node.superseded_by)
    vital = node.assigned_role is Role.PRIMARY or (
        node.assigned_role in (Role.MASTER, Role.STORAGE) and facts.nobody_takes_writes
    )
    program = f"node-{node.name}"
    no_start = node.out_of_line or (node.is_damaged and node.assigned_role.follows)
    hint = way_back(facts, node) if no_start else bring_back(facts, node)
    state = facts.findings.states.get(node.name)
    unusable = isinstance(state, Failure) and state.kind is not FailureKind.HOST_AWAY
    if node.has_program and unusable:
        verb = start_verb(node.program) if node.program else "start"
        start = facts.commands.supervisorctl(verb, program)
        hint = f"repair its state file first, then `{start}`"
    what = condition(node.program) if node.address is not None else "can't be opened"
    return Alert(
        Level.CRITICAL if vital else Level.WARNING,
        node.name,
        f"{facts.called(node)} {what}",
        _evidence(node),
        hint,
    )


def _evidence(node: NodeStatus) -> str:
    """Return why there is no answer, and the state of the program."""
    return f"{node.problem}; {shown_program(node.program)}" if node.has_program else node.problem


def _superseded(facts: Facts, node: NodeStatus, primary: str) -> Alert:
    """Warn of a replaced primary; its start would bring divergent transactions back."""
    command = facts.commands.zodbrepl
    if rejoins_automatically(facts.findings.automation, node):
        way = "bring its host and disk back: it then rejoins automatically"
    else:
        start = "do not start it. When" if facts.can("rejoin") else "when"
        way = f"{start} its host and disk are back: {way_back(facts, node)}"
    return Alert(
        Level.WARNING,
        node.name,
        f"node {node.name} is unreachable; it is no longer the primary",
        f"node {primary} took over from it; {_evidence(node)}",
        f"{way}."
        + (
            f" If its data is gone for good: `{command('clone', node.name)}`"
            if facts.can("clone")
            else ""
        ),
    )


def _wrong_server(facts: Facts, node: NodeStatus) -> Alert:
    replication = facts.replication(node)
    program = f"node-{node.name}"
    port = facts.cluster.node(node.name).storage_port
    if replication is None:
        found = "It says nothing of cluster and node, so this program did not start it."
    elif not node.managed:
        found = "It is not the server that the cluster file means."
    else:
        found = f"It says it is node {replication.node} of cluster {replication.cluster}."
    return Alert(
        Level.CRITICAL,
        node.name,
        f"another server answers at node {node.name}'s address",
        f"{found} Address {node.address}"
        + (f"; {shown_program(node.program)}" if node.has_program else ""),
        f"find it with `ss -ltnp 'sport = :{port}'`, end it or change storage-port, then "
        f" `{facts.commands.supervisorctl('restart', program)}`"
        if node.has_program
        else f"correct node {node.name} in `{facts.commands.path(facts.cluster.source)}`",
    )


def _role(facts: Facts, node: NodeStatus) -> Iterator[Alert]:
    if node.actual_role is None or plays(facts.cluster, node.actual_role, node.assigned_role):
        return
    if not node.managed:
        yield Alert(
            Level.CRITICAL,
            node.name,
            f"node {node.name} runs as {node.actual_role}, assigned is {node.assigned_role}",
            "Its server is not managed here: somebody else changed its role.",
            f"correct its role in `{facts.commands.path(facts.cluster.source)}`, or have its "
            "owner change it back",
        )
        return
    restart = facts.commands.supervisorctl("restart", f"node-{node.name}")
    both_ways = {node.actual_role.value, node.assigned_role.value}
    safe = both_ways <= {Role.SECONDARY.value, Role.RELAY.value}
    yield Alert(
        Level.WARNING if safe else Level.CRITICAL,
        node.name,
        f"node {node.name} runs as {node.actual_role}, assigned is {node.assigned_role}",
        "Its state file was changed after its start, or somebody started it by hand.",
        f"if the assignment is right: `{restart}`"
        if safe
        else "first make sure which node clients wrote to last; a node that was a primary must not "
        f"become a secondary with its data. If the assignment is right: `{restart}`",
    )


def _epoch(facts: Facts, node: NodeStatus) -> Iterator[Alert]:
    restart = facts.commands.supervisorctl("restart", f"node-{node.name}")
    highest = max((other.epoch for other in facts.nodes if other.epoch is not None), default=0)
    if node.epoch is None:
        return
    if node.assigned_epoch is not None and node.epoch != node.assigned_epoch:
        yield Alert(
            Level.WARNING,
            node.name,
            f"node {node.name} runs in epoch {node.epoch}, its state file says "
            f"{node.assigned_epoch}",
            "The state file was changed after the start.",
            f"`{restart}`",
        )
    elif node.epoch < highest:
        yield Alert(
            Level.CRITICAL if node.writable_primary else Level.WARNING,
            node.name,
            f"node {node.name} is in epoch {node.epoch}, the cluster in epoch {highest}",
            "A promotion happened without it: its history may have diverged.",
            f"`{facts.commands.zodbrepl('rejoin', node.name, '--dry-run')}` shows how it becomes "
            "a follower without losing what only it has"
            if facts.can("rejoin")
            else way_back(facts, node),
        )


def _read_only(facts: Facts, node: NodeStatus) -> Iterator[Alert]:
    if (
        node.assigned_role is Role.PRIMARY
        and node.read_only
        and node.actual_role in (ServerRole.PRIMARY, ServerRole.STANDALONE)
    ):
        detail = f"Its {'storage' if node.address is None else 'server'} is read-only."
        hint = (
            f"restart it, which writes its configuration again: {facts.restart(node)}"
            if node.has_program
            else "remove read-only from its configuration and restart the node"
        )
        yield Alert(Level.CRITICAL, node.name, f"{facts.called(node)} refuses writes", detail, hint)


def _unsupervised(facts: Facts, node: NodeStatus) -> Iterator[Alert]:
    answer = facts.findings.servers[node.name]
    if (
        isinstance(answer, ServerAnswer)
        and node.program is not None
        and node.program.state not in RUNNING
    ):
        yield Alert(
            Level.WARNING,
            node.name,
            f"node {node.name} runs outside of supervisor",
            f"{f'process {node.pid}' if node.pid else 'a server'} answers, but "
            f"{shown_program(node.program)}.",
            (
                f"end process {node.pid} with `kill {node.pid}`"
                if node.pid
                else f"end it: `{facts.commands.zodbrepl('node', 'fence', node.name)}`"
            )
            + f", then `{facts.commands.supervisorctl('start', f'node-{node.name}')}`",
        )
