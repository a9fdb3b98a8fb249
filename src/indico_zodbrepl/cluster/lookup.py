"""Find nodes and Indico instances by name, and the primary that a node finally follows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from indico_zodbrepl.cluster import Cluster, IndicoInstance, Node, Role
from indico_zodbrepl.cluster.hosts import ClusterHost
from indico_zodbrepl.errors import ExitCode, OperatorError


def node_named(cluster: Cluster, name: str) -> Node:
    """Return a node.  Raises OperatorError (BAD_CONFIG) if there is no such node."""
    try:
        return cluster.node(name)
    except KeyError:
        known = ", ".join(node.name for node in cluster.nodes)
        raise OperatorError(
            f"no node {name!r} in {cluster.source}",
            f"it has: {known}",
            exit_code=ExitCode.BAD_CONFIG,
        ) from None


def node_with_program(cluster: Cluster, name: str) -> Node:
    """Return a node whose server we run.

    Raises OperatorError: BAD_CONFIG if there is no such node, REFUSED if its server is not ours.
    """
    node = node_named(cluster, name)
    if not node.has_program:
        reason = (
            "managed is false: another system runs its server"
            if not node.managed
            else f"with the backend {cluster.backend} clients open the data themselves"
        )
        raise OperatorError(
            f"node {name} has no program here",
            f"{cluster.where('node', name)}: {reason}",
            exit_code=ExitCode.REFUSED,
        )
    return node


def instance_named(cluster: Cluster, name: str) -> IndicoInstance:
    """Return an Indico instance.  Raises OperatorError (BAD_CONFIG) if there is none."""
    for instance in cluster.indico:
        if instance.name == name:
            return instance
    known = ", ".join(instance.name for instance in cluster.indico) or "none"
    raise OperatorError(
        f"no Indico instance {name!r} in {cluster.source}",
        f"it has: {known}",
        exit_code=ExitCode.BAD_CONFIG,
    )


class Assigned(Protocol):
    """The role and the upstream of a node."""

    @property
    def role(self) -> Role: ...

    @property
    def upstream(self) -> str | None: ...


def root_of(name: str | None, assigned: Mapping[str, Assigned]) -> str | None:
    """Return the primary at the end of a chain of upstreams; None if it has no end.

    The chain also ends at a node that is not in ``assigned``.
    """
    seen: set[str] = set()
    while name is not None and name not in seen:
        seen.add(name)
        if name not in assigned or assigned[name].role is Role.PRIMARY:
            return name
        name = assigned[name].upstream
    return None


def own_host(cluster: Cluster) -> ClusterHost:
    """Return the host section of this machine.  Raises OperatorError (exit 2, 8)."""
    if not cluster.hosts:
        raise OperatorError(
            f"cluster {cluster.name} has no hosts",
            f"{cluster.source} has no <host> section: all its programs run on this host",
            exit_code=ExitCode.BAD_CONFIG,
        )
    if cluster.here is None:
        addresses = ", ".join(f"{host.name} {host.address}" for host in cluster.hosts)
        raise OperatorError(
            f"this machine is no host of cluster {cluster.name}",
            f"no interface of this machine has the address of a <host>: {addresses}",
            exit_code=ExitCode.REFUSED,
        )
    return cluster.host(cluster.here)


def host_named(cluster: Cluster, name: str) -> ClusterHost:
    """Return the host section of this name.  Raises OperatorError (exit 2)."""
    try:
        return cluster.host(name)
    except KeyError:
        known = ", ".join(host.name for host in cluster.hosts) or "none"
        raise OperatorError(
            f"{cluster.source.name} has no host {name}",
            f"the <host> sections of {cluster.source}: {known}",
            exit_code=ExitCode.BAD_CONFIG,
        ) from None
