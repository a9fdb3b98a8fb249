"""Rules about nodes whose history diverged, or that refused to start or to be followed."""

from __future__ import annotations

from collections.abc import Iterator

from indico_zodbrepl.host.history import Condition
from indico_zodbrepl.monitor.node_status import NodeStatus
from indico_zodbrepl.monitor.rules.facts import Facts, way_back
from indico_zodbrepl.probing import tid
from indico_zodbrepl.probing.answers import Alert, Level
from indico_zodbrepl.probing.comparison import Membership


def warnings(facts: Facts, node: NodeStatus) -> Iterator[Alert]:
    yield from _condition(facts, node)
    yield from _membership(facts, node)
    yield from _damaged_file(facts, node)
    yield from _refused_start(facts, node)
    yield from _refused_followers(facts, node)


def _condition(facts: Facts, node: NodeStatus) -> Iterator[Alert]:
    texts = {
        Condition.DIVERGED: (
            f"node {node.name} has diverged",
            "It holds transactions that the cluster never had.",
        ),
        Condition.NEEDS_SEEDING: (
            f"node {node.name} needs a new copy of the database",
            "It can't go on from the data it has.",
        ),
        Condition.QUARANTINED: (
            f"node {node.name} is quarantined",
            "Its data must not be served or followed.",
        ),
    }
    if node.condition in texts:
        text, meaning = texts[node.condition]
        yield Alert(
            Level.CRITICAL,
            node.name,
            text,
            f"{meaning} {node.condition_detail}".strip(),
            way_back(facts, node),
        )
    elif node.condition is None and node.condition_detail:
        yield Alert(
            Level.WARNING,
            node.name,
            f"the history file of node {node.name} is unusable",
            node.condition_detail,
            f"compare it in full: `{facts.commands.zodbrepl('history', node.name, '--full')}`"
            if facts.can("lineage")
            else way_back(facts, node),
        )


def _membership(facts: Facts, node: NodeStatus) -> Iterator[Alert]:
    comparison = facts.findings.comparisons.get(node.name)
    if (
        comparison is None
        or node.last_tid is None
        or node.condition is Condition.DIVERGED
        or node.membership not in (Membership.ABSENT, Membership.DIFFERENT)
    ):
        return
    what = (
        "is not in its history"
        if node.membership is Membership.ABSENT
        else "has another content there"
    )
    stop = (
        f"`{facts.commands.supervisorctl('stop', f'node-{node.name}')}`"
        if node.managed
        else "it is not managed here"
    )
    yield Alert(
        Level.CRITICAL,
        node.name,
        f"{facts.called(node)} diverged from primary {comparison.primary}",
        f"Its last transaction {tid.render(node.last_tid)} {what}: nothing can merge the two "
        "histories.",
        f"stop it at once: {stop}; then {way_back(facts, node)}",
    )


def _damaged_file(facts: Facts, node: NodeStatus) -> Iterator[Alert]:
    if node.data_end is None or not node.is_damaged:
        return
    failover = facts.commands.zodbrepl("failover", "--dry-run")
    yield Alert(
        Level.CRITICAL,
        node.name,
        f"the data file of node {node.name} is damaged",
        node.data_end.damage,
        way_back(facts, node)
        if node.assigned_role.follows
        else f"promote another node: `{failover}` shows what would be lost",
    )


def _refused_start(facts: Facts, node: NodeStatus) -> Iterator[Alert]:
    refusal = node.refusal
    if refusal is None or node.reachable:
        return
    log = facts.commands.show_log(f"node-{node.name}")
    yield Alert(
        Level.CRITICAL,
        node.name,
        refusal.notice or f"node {node.name} refused to start",
        refusal.detail,
        refusal.hint or f"see why with `{log}`",
    )


def _refused_followers(facts: Facts, node: NodeStatus) -> Iterator[Alert]:
    if not node.refused:
        return
    last = node.refused[-1]
    suspects = [
        other
        for other in facts.nodes
        if other.assigned_upstream == node.name and other.connected is not True
    ]
    names = " or ".join(other.name for other in suspects)
    who = f"refuses a follower: node {names}" if suspects else "refused a follower"
    hint = (
        way_back(facts, suspects[0])
        if len(suspects) == 1
        else f"`{facts.commands.zodbrepl('history')}` compares all nodes"
        if facts.can("lineage")
        else "look at the log of each follower"
    )
    yield Alert(
        Level.CRITICAL if suspects else Level.NOTICE,
        node.name,
        f"{facts.called(node)} {who}",
        f"{last.peer} came at {last.at} with transaction {tid.render(last.tid)} as its last, which "
        f"is not in the history of {node.name}.",
        hint,
    )
