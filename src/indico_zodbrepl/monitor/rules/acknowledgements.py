"""Rules about commits that followers acknowledge."""

from __future__ import annotations

from collections.abc import Iterator

from indico_zodbrepl.cluster.model import WhenAlone
from indico_zodbrepl.monitor.node_status import NodeStatus
from indico_zodbrepl.monitor.rules.facts import Facts
from indico_zodbrepl.monitor.words import listed
from indico_zodbrepl.probing.answers import Acknowledging, AckState, Alert, Hold, Level

STARTING_SECONDS = 6.0
"""Seconds that followers of a server that has just started may take to confirm what they have."""


def warnings(facts: Facts, node: NodeStatus) -> Iterator[Alert]:
    found = node.acknowledging
    if found is None or node.held is Hold.EPOCH:
        return
    yield from _state(facts, node, found)
    for name, why in sorted(found.not_counted.items()):
        yield Alert(
            Level.WARNING,
            node.name,
            f"what node {name} confirms to {facts.called(node)} does not count",
            f"It connects to the replication port and confirms transactions, but {why}.",
            f"if node {name} is to follow, put it into the cluster file and type "
            f"`{facts.commands.zodbrepl('up')}`; if it was removed, stop its server",
        )
    if found.count != facts.cluster.synchronous.count:
        configured = facts.cluster.synchronous.count
        yield Alert(
            Level.NOTICE,
            node.name,
            f"{facts.called(node)} runs with synchronous {found.count}, not {configured}",
            "It was changed at run time, or the cluster file was changed since the server started. "
            "The value of the cluster file applies after the next start or change of the primary.",
            f"to apply it now: `{_synchronous(facts, configured)}`; to keep the other value, set "
            f"`synchronous {found.count}` in the cluster file",
        )


def _state(facts: Facts, node: NodeStatus, found: Acknowledging) -> Iterator[Alert]:
    who = facts.called(node)
    match found.state:
        case AckState.REFUSING:
            yield Alert(
                Level.CRITICAL,
                node.name,
                f"{who} refuses commits: too few secondaries acknowledge them",
                f"{confirmed(found)}{_in_doubt(found)}",
                f"{_bring_back(facts, node, found)}; commits then continue automatically. To "
                "accept commits that a loss of this host would lose: "
                f"`{_synchronous(facts, len(found.confirming))}`",
            )
        case AckState.WAITING:
            then = (
                "refused" if found.alone == WhenAlone.REFUSE else "acknowledged without secondaries"
            )
            yield Alert(
                Level.WARNING,
                node.name,
                f"commits on {who} wait: too few secondaries acknowledge them",
                f"{confirmed(found)}{_in_doubt(found)} After {found.timeout:g} s commits are "
                f"{then}.",
                _bring_back(facts, node, found),
            )
        case AckState.STARTING if found.since > STARTING_SECONDS:
            yield Alert(
                Level.WARNING,
                node.name,
                f"{who} has started, and too few secondaries confirm its last transaction",
                f"{confirmed(found)}{_in_doubt(found)}",
                _bring_back(facts, node, found),
            )
        case AckState.ASKING:
            yield Alert(
                Level.CRITICAL,
                node.name,
                f"commits on {who} wait until the cluster has recorded that they go on alone",
                f"{confirmed(found)} Without that record a failover could lose commits unnoticed.",
                f"{_bring_back(facts, node, found)}, or repair what keeps the record: "
                f"`{facts.commands.zodbrepl('status')}` shows whether etcd and the agents answer",
            )
        case AckState.ALONE:
            yield Alert(
                Level.WARNING,
                node.name,
                f"no secondary acknowledges the commits on {who}",
                f"{confirmed(found)} synchronous-alone is degrade, so commits go on. If this host "
                "is lost now, it takes the last commits with it.",
                f"{_bring_back(facts, node, found)}; commits are acknowledged again when it has "
                "caught up",
            )


def confirmed(found: Acknowledging) -> str:
    """Return who confirms transactions, as a sentence."""
    names = sorted(found.confirming)
    needed = f"{found.count} {'secondary' if found.count == 1 else 'secondaries'}"
    those = f"{listed(names)} {'does' if len(names) == 1 else 'do'}" if names else "none does"
    return f"Each commit needs {needed} to confirm it ({found.level}); {those}."


def _in_doubt(found: Acknowledging) -> str:
    if not found.in_doubt:
        return ""
    one = found.in_doubt == 1
    return (
        f" {found.in_doubt} transaction{' is' if one else 's are'} in doubt: written here, "
        "acknowledged to nobody."
    )


def _bring_back(facts: Facts, node: NodeStatus, found: Acknowledging) -> str:
    missing = [
        each.name
        for each in facts.nodes
        if each.name not in found.confirming and each.name != node.name
    ]
    which = f"node {listed(missing, 'or')}" if missing else "a secondary"
    return f"bring {which} back"


def _synchronous(facts: Facts, count: int) -> str:
    return facts.commands.zodbrepl("synchronous", str(count), "--reason", "TEXT")
