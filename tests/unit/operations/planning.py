"""Situations for the planners: those of the monitor's tests, with data files compared."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "monitor"))

import situations
from situations import HOME, TID, TID_TIME

from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.model import Cluster, Node, NodeState, Role
from indico_zodbrepl.host.datafs_answers import Common, Comparison, Relation
from indico_zodbrepl.host.disks import Disk
from indico_zodbrepl.host.last_seen import LastSeen
from indico_zodbrepl.monitor.assessment import assess
from indico_zodbrepl.operations.evidence import Process
from indico_zodbrepl.operations.facts import Situation
from indico_zodbrepl.operations.model import Plan
from indico_zodbrepl.probing.answers import ServerAnswer, ServerRole

ROOM = 10 << 30


def COMMANDS(cluster: Cluster) -> Commands:  # noqa: N802  # as a constant of each cluster
    return Commands(cluster, HOME)


def cluster_of(**more: tuple[str, Role]) -> Cluster:
    """The pair a and b, with more nodes: their upstream and role by name.

    A secondary that is an upstream becomes a relay.
    """
    pair = situations.cluster()
    nodes = list(pair.nodes)
    for number, (name, (upstream, role)) in enumerate(more.items(), 3):
        nodes = [
            dataclasses.replace(node, role=Role.RELAY)
            if node.name == upstream and node.role is Role.SECONDARY
            else node
            for node in nodes
        ]
        nodes.append(
            Node(
                name,
                "127.0.0.1",
                8101 + 10 * number,
                8102 + 10 * number,
                HOME / "var/node" / name,
                role,
                upstream,
            )
        )
    return dataclasses.replace(pair, nodes=tuple(nodes))


def compared(relation: Relation, private: int = 0, conflicting: int = 0) -> Comparison:
    """A comparison of which only the relation and what is private matter."""
    first = f"{TID + situations.ONE_SECOND:016x}" if private else None
    return Comparison(
        relation=relation,
        common=Common(f"{TID:016x}", "d" * 64),
        private=private,
        private_first=first,
        private_last=first,
        missing=0,
        holes=0,
        conflicting=conflicting,
        packed=False,
        packed_away=0,
        packed_away_last=None,
        bytes_private=100 * private,
        examined=5,
    )


def situation(
    cluster: Cluster,
    *,
    compared: dict[str, Any] | None = None,
    conditions: dict[str, str] | None = None,
    free: dict[str, int] | None = None,
    unwritable: dict[str, str] | None = None,
    processes: dict[str, Process] | None = None,
    last_seen: LastSeen | None = None,
    **changes: Any,
) -> Situation:
    """A healthy situation but for the changes, which go to ``situations.findings``."""
    more = [node for node in cluster.nodes if node.name not in ("a", "b")]
    servers = {node.name: _server(cluster, node) for node in more}
    states = {
        node.name: NodeState("demo", node.name, node.role, node.upstream, 1)
        for node in cluster.nodes
    }
    if cluster.node("b").role is Role.RELAY:
        servers["b"] = situations.server("b", role=ServerRole.RELAY)
    comparisons = {node.name: situations.behind(0) for node in more}
    programs = {node.program: situations.program(node.program) for node in more}
    laid: dict[str, dict[str, Any]] = {
        "servers": servers,
        "states": states,
        "comparisons": comparisons,
        "programs": programs,
    }
    for name, values in laid.items():
        if values and changes.get(name, True):  # an empty change removes all
            changes[name] = {**values, **changes.get(name, {})}
    findings = situations.findings(**changes)
    return Situation(
        now=TID_TIME + 60,
        findings=findings,
        snapshot=assess(cluster, findings, HOME),
        comparisons={**{node.name: EQUAL for node in cluster.nodes}, **(compared or {})},
        conditions=conditions or {},
        disks={
            node.name: Disk((free or {}).get(node.name, ROOM), 100 << 30, 1)
            for node in cluster.nodes
        },
        unwritable=unwritable or {},
        processes={**{node.name: Process.RUNS for node in cluster.nodes}, **(processes or {})},
        last_seen=last_seen,
    )


def steps_of(plan: Plan) -> list[str]:
    """Its steps as short texts."""
    return [f"{step.action} {step.subject}" for step in plan.steps]


def _server(cluster: Cluster, node: Node) -> ServerAnswer:
    upstream = cluster.node(node.upstream or "")
    return situations.server(
        "b", node=node.name, role=ServerRole(node.role), upstream=str(upstream.replication_address)
    )


EQUAL = compared(Relation.EQUAL)
