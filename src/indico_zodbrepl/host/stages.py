"""The stages in which the programs of a cluster start and stop, and where they listen."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, Endpoint, Node, NodeState
from indico_zodbrepl.cluster.hosts import Etcd
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.etcd import member
from indico_zodbrepl.host import readiness, state, tunnel
from indico_zodbrepl.host.programs import Stage


def starting(cluster: Cluster, states: Mapping[str, NodeState]) -> list[Stage]:
    """Return the stages of a start.

    Tunnel, etcd, election, nodes in these states, Indico, scheduler, observers.
    """
    endpoints, here = needed(cluster, states), cluster.local

    def listens(program: str) -> Callable[[], str | None]:
        own = tuple(e for e in endpoints if program_of(cluster, e) == program)
        return functools.partial(readiness.listening, own)

    return [
        connecting(cluster),
        electing(cluster),
        [(program, _runs) for program in election(cluster)],
        [
            (node.program, listens(node.program))
            for node in here.nodes
            if node.has_program and node.name in states
        ],
        [
            (instance.program, functools.partial(readiness.indico_answers, instance))
            for instance in here.indico
        ],
        [(instance.scheduler_program, _runs) for instance in here.indico if instance.scheduler],
        [(program, listens(program)) for program in lookouts(cluster)],
    ]


def connecting(cluster: Cluster) -> Stage:
    """Return the first stage of a start: the tunnel, if this host has one."""
    listens = functools.partial(readiness.listening, tuple(tunnel.endpoints(cluster)))
    return [(name, listens) for name in _tunnel(cluster)]


def electing(cluster: Cluster) -> Stage:
    """Return the second stage of a start: the member of etcd, if this host has one."""
    own = tuple(each for each in cluster.own_endpoints() if each.kind == Etcd.program)
    return [(name, functools.partial(readiness.listening, own)) for name in _etcd(cluster)]


def _etcd(cluster: Cluster) -> list[str]:
    """Return the program that automatic failover needs: it stops after the nodes."""
    return [Etcd.program] if member.runs_here(cluster) else []


def _runs() -> None:
    """Return None: a program that listens nowhere is ready once supervisor reports it running."""


def _tunnel(cluster: Cluster) -> list[str]:
    """Return the program that other hosts are reached through: it starts first and stops last."""
    return [tunnel.name(cluster)] if tunnel.runs_here(cluster) else []


def election(cluster: Cluster) -> list[str]:
    """Return the program that elects the leader: without it, servers take no commits."""
    here = cluster.here
    return [cluster.host(here).automation] if here and cluster.automates(here) else []


def lookouts(cluster: Cluster) -> list[str]:
    """Return the observing programs: they start last and stop first."""
    watch = cluster.watch
    return [
        *([cluster.admin.program] if cluster.is_here(cluster.admin) else []),
        *([watch.program] if watch and cluster.is_here(watch) else []),
    ]


def ending(cluster: Cluster) -> list[list[str]]:
    """Return the stages of a stop of this host: the programs of a stage stop at the same time."""
    here = cluster.local
    upstreams = {node.name: _upstream(cluster, node) for node in here.nodes}
    stages = stopping(here, upstreams)
    return [
        *(stage[cluster.here] for stage in stages if cluster.here in stage),
        _etcd(cluster),
        _tunnel(cluster),
    ]


def stopping(
    cluster: Cluster, upstreams: Mapping[str, str | None]
) -> list[dict[str | None, list[str]]]:
    """Return the stages of a stop: the programs of each host that stop at the same time.  Pure.

    First what observes and Indico, then the election, so that no node replaces one that stops, then
    each node before its followers.  Tunnels are in no stage: they stop with the rest of their host.

    Args:
        upstreams: of the nodes, by name.
    """
    first: dict[str | None, list[str]] = {cluster.admin.on: [cluster.admin.program]}
    if cluster.watch:
        first.setdefault(cluster.watch.on, []).append(cluster.watch.program)
    for instance in cluster.indico:
        first.setdefault(instance.on, []).extend(instance.programs)
    nodes = drain_order(cluster.nodes, upstreams)
    electing: dict[str | None, list[str]] = {
        host.name: [host.automation] for host in cluster.hosts if cluster.automates(host.name)
    }
    return [
        first,
        *([electing] if electing else []),
        *({node.on: [node.program]} for node in nodes if node.has_program),
    ]


def _upstream(cluster: Cluster, node: Node) -> str | None:
    """Return the node's upstream; by cluster.conf if its state file is unusable.

    The state affects only the order here, and everything must stop.
    """
    try:
        return state.current(cluster, node).upstream
    except OperatorError:
        return state.initial(cluster, node).upstream


def needed(cluster: Cluster, states: Mapping[str, NodeState]) -> list[Endpoint]:
    """Return the addresses that this host listens on when the nodes are in these states."""
    backend = backend_of(cluster)
    return [
        *(
            endpoint
            for node in cluster.local.nodes
            if node.has_program and node.name in states
            for endpoint in backend.listens_on(cluster, states[node.name])
        ),
        *(endpoint for endpoint in cluster.own_endpoints() if endpoint.kind != "node"),
        *tunnel.endpoints(cluster),
    ]


def program_of(cluster: Cluster, endpoint: Endpoint) -> str:
    """Return the program of this host that listens on an endpoint."""
    if endpoint in tunnel.endpoints(cluster):
        return tunnel.name(cluster)
    named = {("node", node.name): node.program for node in cluster.nodes}
    named |= {("indico", instance.name): instance.program for instance in cluster.indico}
    named |= {(Etcd.program, host.name): Etcd.program for host in cluster.hosts}
    if cluster.watch:
        named[("watch", "")] = cluster.watch.program
    return named.get((endpoint.kind, endpoint.name or ""), cluster.admin.program)


def drain_order(nodes: Iterable[Node], upstreams: Mapping[str, str | None]) -> list[Node]:
    """Return the nodes in the order in which they stop: each before its followers.

    A node sends what its followers lack before it stops, so they must still run.
    """

    def depth(name: str) -> int:
        seen: list[str] = []
        upstream = upstreams[name]
        while upstream is not None and upstream in upstreams and upstream not in seen:
            seen.append(upstream)
            upstream = upstreams[upstream]
        return len(seen)

    return sorted(nodes, key=lambda node: depth(node.name))
