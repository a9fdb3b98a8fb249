"""The facts for a restart."""

from __future__ import annotations

import dataclasses

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Node
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.lookup import instance_named, node_with_program
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.interface import host_of
from indico_zodbrepl.monitor import take_snapshot
from indico_zodbrepl.monitor.snapshot import Snapshot
from indico_zodbrepl.operations import consensus_facts
from indico_zodbrepl.operations.consensus_facts import ElectingFacts
from indico_zodbrepl.probing.probes import indico_release


@dataclasses.dataclass(frozen=True)
class RestartFacts:
    """Facts for a restart.

    Attributes:
        is_node: True if ``name`` is a node's; otherwise it is an Indico instance's.
        admitted: why the node's server may start again, one line; empty without a start-up check.
        refusal: why it would not start; None if it would.
        electing: facts of a cluster that elects its leader.
        release: that an Indico instance runs; None if it does not answer, and for a node.
    """

    name: str
    is_node: bool
    snapshot: Snapshot
    admitted: str = ""
    refusal: OperatorError | None = None
    electing: ElectingFacts | None = None
    release: str | None = None


def gather(cluster: Cluster, installation: Installation, name: str) -> RestartFacts:
    """Return the facts for a restart.  A follower's data are compared with its upstream's.

    Raises:
        OperatorError: exit 2, nothing has that name, or a node and an instance have it; exit 8,
            the node has no program of ours, or a conversion into the cluster has not ended.
    """
    node = _node_named(cluster, name)
    installation.check()
    if node is None:
        host_of(cluster).refuse_unfinished_conversion()
        release = indico_release(instance_named(cluster, name).address)
        return RestartFacts(name, is_node=False, snapshot=take_snapshot(cluster), release=release)
    node_with_program(cluster, name)
    electing = backend_of(cluster).elects_leader and consensus_facts.gather(
        cluster, installation, name, pinging=False
    )
    admitted, refusal = _admitted(cluster, installation, node)
    return RestartFacts(
        name,
        is_node=True,
        snapshot=take_snapshot(cluster),
        admitted=admitted,
        refusal=refusal,
        electing=electing or None,
    )


def _node_named(cluster: Cluster, name: str) -> Node | None:
    """Return the node of that name; None if it is an Indico instance's name."""
    nodes = [node for node in cluster.nodes if node.name == name]
    instances = [each.name for each in cluster.indico]
    if nodes and name in instances:
        raise OperatorError(
            f"{name} is a node and an Indico instance",
            "it is ambiguous what to restart",
            f"give one of them another name in {cluster.source}",
            ExitCode.BAD_CONFIG,
        )
    if not nodes and name not in instances:
        known = ", ".join([*(node.name for node in cluster.nodes), *instances])
        raise OperatorError(
            f"no node or Indico instance {name!r} in {cluster.source}",
            f"it has: {known}",
            exit_code=ExitCode.BAD_CONFIG,
        )
    return nodes[0] if nodes else None


def _admitted(
    cluster: Cluster, installation: Installation, node: Node
) -> tuple[str, OperatorError | None]:
    """Return why a node may start again, one line, or why not; as its start-up check does."""
    if not backend_of(cluster).has_epochs:
        return "", None
    try:
        found = host_of(cluster, installation).dry_run("restart_node", node.name).found
        return "; ".join(found), None
    except OperatorError as error:
        if error.exit_code not in (ExitCode.REFUSED, ExitCode.TIMED_OUT):
            raise
        return "", error
