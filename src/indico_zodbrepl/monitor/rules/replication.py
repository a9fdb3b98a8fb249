"""Rules about replication between nodes."""

from __future__ import annotations

from collections.abc import Iterator

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster.model import Role
from indico_zodbrepl.monitor.node_status import NodeStatus
from indico_zodbrepl.monitor.rules.facts import Facts, way_back
from indico_zodbrepl.probing import tid
from indico_zodbrepl.probing.answers import Alert, Level, ServerAnswer, ServerRole

LARGE_LAG = 10.0
"""Seconds.  Measured under load: 99 % of transactions arrive within 0.1 s."""


def warnings(facts: Facts, node: NodeStatus) -> Iterator[Alert]:
    if node.actual_role is None:
        return
    if node.actual_role in (ServerRole.SECONDARY, ServerRole.RELAY):
        yield from _upstream(facts, node)
        yield from _connection(facts, node)
        yield from _lag(facts, node)
        yield from _ahead(facts, node)
    yield from _no_follower(facts, node)


def _upstream(facts: Facts, node: NodeStatus) -> Iterator[Alert]:
    if node.assigned_upstream is not None and node.upstream != node.assigned_upstream:
        why = (
            "Its state file was changed after its start."
            if node.managed
            else "cluster.conf says otherwise, and its server is not managed here."
        )
        fix = facts.restart(node) if node.managed else "correct `upstream` in the cluster file"
        yield Alert(
            Level.WARNING,
            node.name,
            f"node {node.name} follows {node.upstream}, not {node.assigned_upstream} as assigned",
            why,
            fix,
        )


def _connection(facts: Facts, node: NodeStatus) -> Iterator[Alert]:
    if node.connected is not False:
        return
    upstream = next((other for other in facts.nodes if other.name == node.upstream), None)
    detail = f"It follows node {node.upstream}, but the link is down."
    if upstream is not None and not upstream.reachable:
        hint = f"bring node {upstream.name} back; node {node.name} then connects automatically"
    else:
        detail += " What is committed now exists only on the primary."
        delay = backend_of(facts.cluster).retry_seconds(facts.cluster)
        again = " automatically" if delay is None else f" every {delay:g} s"
        hint = f"it retries{again}; if that does not help: {facts.look_at_log(node)}"
    yield Alert(
        Level.WARNING,
        node.name,
        f"{node.actual_role} {node.name} is not connected to its upstream",
        detail,
        hint,
    )


def _lag(facts: Facts, node: NodeStatus) -> Iterator[Alert]:
    comparison = facts.findings.comparisons.get(node.name)
    if comparison is None or node.lag_transactions == 0:
        return
    count = _count(node)
    if node.last_tid == tid.EMPTY:
        yield Alert(
            Level.WARNING,
            node.name,
            f"{node.actual_role} {node.name} holds no transaction yet",
            f"Node {comparison.primary} holds {count}; the first synchronisation runs or never "
            "began.",
            f"watch it: `{facts.commands.zodbrepl('status', '--watch')}`",
        )
    elif node.lag_seconds is not None and node.lag_seconds > LARGE_LAG:
        yield Alert(
            Level.WARNING,
            node.name,
            f"{node.actual_role} {node.name} is far behind",
            f"{node.lag_seconds:.1f} s and {count} behind node {comparison.primary}; a failover "
            "now would lose them.",
            f"look for a slow disk or network between the two, then at {facts.look_at_log(node)}",
        )


def _count(node: NodeStatus) -> str:
    if node.lag_transactions is None:
        return "an unknown number of transactions"
    at_least = "" if node.lag_exact else "at least "
    plural = "" if node.lag_transactions == 1 else "s"
    return f"{at_least}{node.lag_transactions} transaction{plural}"


def _ahead(facts: Facts, node: NodeStatus) -> Iterator[Alert]:
    comparison = facts.findings.comparisons.get(node.name)
    if (
        comparison is None
        or node.last_tid is None
        or node.out_of_line
        or node.last_tid <= comparison.primary_tid
    ):
        return
    stop = (
        f"`{facts.commands.supervisorctl('stop', f'node-{node.name}')}`"
        if node.managed
        else "it is not managed here"
    )
    then = (
        f"; `{facts.commands.zodbrepl('history', node.name)}` then compares the two"
        if facts.can("lineage")
        else f"; then {way_back(facts, node)}"
    )
    yield Alert(
        Level.CRITICAL,
        node.name,
        f"{node.actual_role} {node.name} is ahead of its primary {comparison.primary}",
        f"Its last transaction is {tid.render(node.last_tid)}, the primary's "
        f"{tid.render(comparison.primary_tid)}: it has divergent transactions, or the "
        "primary was restored to an older state.",
        f"stop it: {stop}{then}",
    )


def _no_follower(facts: Facts, node: NodeStatus) -> Iterator[Alert]:
    expected = [other.name for other in facts.nodes if other.assigned_upstream == node.name]
    if (
        node.assigned_role is Role.SECONDARY
        or not expected
        or node.follower_addresses
        or node.followers
    ):
        return
    answering = [
        other for other in facts.nodes if other.name in expected and other.actual_role is not None
    ]
    hint = (
        f"see why with {facts.look_at_log(answering[0])}"
        if answering
        else f"bring node {' or '.join(expected)} back; it then connects automatically"
    )
    yield Alert(
        Level.WARNING,
        node.name,
        f"{node.actual_role} {node.name} has no follower",
        f"Node {' and '.join(expected)} should follow it. What is committed now exists only once.",
        hint,
    )


def engine_warnings(facts: Facts, node: NodeStatus) -> Iterator[Alert]:
    answer = facts.findings.servers[node.name]
    if isinstance(answer, ServerAnswer):
        yield from answer.problems
