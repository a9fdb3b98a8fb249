"""Find the programs of a cluster that can be started on this host."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from indico_zodbrepl.cluster import Cluster, IndicoInstance, Node, NodeState
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import peers, ports, stages
from indico_zodbrepl.host.interface import host_of


def states(
    cluster: Cluster, read: Callable[[Cluster, Node], NodeState]
) -> tuple[dict[str, NodeState], dict[str, OperatorError]]:
    """Return the states of this host's nodes, and by program why others cannot be started.

    Raises the first reason when no node of the cluster can.  Other hosts have nodes too, and need
    this host's member of etcd and its tunnel.
    """
    found, failures = {}, {}
    for node in cluster.local.nodes:
        try:
            found[node.name] = read(cluster, node)
        except OperatorError as error:
            failures[node.program] = error
    if failures and not found and not cluster.hosts:
        raise next(iter(failures.values()))
    return found, failures


def everywhere(cluster: Cluster, here: Mapping[str, NodeState]) -> dict[str, NodeState]:
    """Return the states of this host's nodes, and of the nodes of hosts that answer."""
    others = [node.name for node in cluster.nodes if not cluster.is_here(node)]
    return {**here, **peers.of_nodes(cluster, others, host_of(cluster).state)}


def missing(
    cluster: Cluster,
    states: Mapping[str, NodeState],
    running: Collection[str] | None,
    wanted: Iterable[str],
) -> list[str]:
    """Return the wanted programs that don't run and can be started: their ports are free.

    Raises OperatorError (exit 5) when a port is taken.
    """
    unstartable = {node.program for node in cluster.local.nodes if node.name not in states}
    found = [name for name in wanted if name not in unstartable and name not in (running or ())]
    ports.check_free(
        cluster,
        [
            endpoint
            for endpoint in stages.needed(cluster, states)
            if stages.program_of(cluster, endpoint) in found
        ],
    )
    return found


def with_former_settings(cluster: Cluster, instance: IndicoInstance) -> str:
    """Return the remark about an Indico that runs while its settings change."""
    command = Commands.here(cluster).zodbrepl("restart", instance.name)
    return f"{instance.program} runs with its former settings; to apply the new ones: {command}"
