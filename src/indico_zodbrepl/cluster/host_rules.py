"""Rules for the host sections of a cluster file.  Pure."""

from __future__ import annotations

import ipaddress
import itertools
import math
from collections import Counter
from collections.abc import Iterator

from indico_zodbrepl.cluster.hosts import ClusterHost, LinkEncryption
from indico_zodbrepl.cluster.model import Cluster, Node, Role
from indico_zodbrepl.cluster.places import Problem
from indico_zodbrepl.cluster.programs import Admin, IndicoInstance, Watch
from indico_zodbrepl.cluster.shapes import SHAPES

_WORDS = {
    "node": "node {name}",
    "indico": "Indico {name}",
    "admin": "the admin page",
    "watch": "the monitor",
}


def host_problems(cluster: Cluster) -> Iterator[Problem]:
    """Yield the problems of the host sections and of what is placed on them."""
    if not cluster.hosts:
        encryption = cluster.positions.find(None, None, "encryption")
        if encryption is not None:
            yield Problem(encryption, "encryption is for clusters with <host> sections")
        return
    for host in cluster.hosts:
        yield from _address(cluster, host)
    yield from _same_address(cluster)
    yield from _placed(cluster)
    yield from _agent_ports(cluster)
    yield from _one_host_only(cluster)
    yield from _masters(cluster)
    yield from _storages(cluster)
    yield from _admin_nodes(cluster)


def _address(cluster: Cluster, host: ClusterHost) -> Iterator[Problem]:
    address = ipaddress.IPv4Address(host.address)
    where = cluster.where("host", host.name, "address")
    if address.is_loopback or address.is_unspecified or address.is_multicast:
        yield Problem(where, f"{host.address} is no address at which other hosts reach {host.name}")
    elif not address.is_private and not cluster.allow_public_addresses:
        yield Problem(
            where,
            f"{host.address} is a public address; to use it set 'allow-public-addresses true'",
        )
    elif not address.is_private and host.encryption is LinkEncryption.NONE:
        yield Problem(
            where,
            f"{host.address} is a public address and 'encryption none' is set: "
            "data and commands would cross a public network in clear",
        )


def _same_address(cluster: Cluster) -> Iterator[Problem]:
    for earlier, later in itertools.combinations(cluster.hosts, 2):
        if earlier.inner_address == later.inner_address:
            same = (
                later.address
                if earlier.address == later.address
                else f"the last three numbers of {later.address}"
            )
            yield Problem(
                cluster.where("host", later.name, "address"),
                f"host {earlier.name} has {same} already, at "
                f"{cluster.where('host', earlier.name, 'address')}",
            )


def _programs(
    cluster: Cluster,
) -> Iterator[tuple[str, str | None, Node | IndicoInstance | Admin | Watch]]:
    for node in cluster.nodes:
        yield "node", node.name, node
    for instance in cluster.indico:
        yield "indico", instance.name, instance
    yield "admin", None, cluster.admin
    if cluster.watch:
        yield "watch", None, cluster.watch


def _placed(cluster: Cluster) -> Iterator[Problem]:
    names = [host.name for host in cluster.hosts]
    for kind, name, what in _programs(cluster):
        if what.on not in names:
            yield Problem(
                cluster.where(kind, name, "host"),
                f"{what.on} is no <host> of this cluster (known: {', '.join(names)})",
            )


def _agent_ports(cluster: Cluster) -> Iterator[Problem]:
    """Yield programs with the port of their host's agent: the tunnel listens beside it."""
    for host in cluster.hosts:
        for endpoint in cluster.endpoints():
            if endpoint.kind == "host" or endpoint.address.host != host.inner_address:
                continue
            if endpoint.address.port == host.agent_port:
                yield Problem(
                    cluster.where(endpoint.kind, endpoint.name, endpoint.key),
                    f"port {host.agent_port} is the agent's of host {host.name}, at "
                    f"{cluster.where('host', host.name, 'agent-port')}",
                )


def _one_host_only(cluster: Cluster) -> Iterator[Problem]:
    shape = SHAPES.get(cluster.backend)
    if shape is None or not shape.one_host:
        return
    data = cluster.nodes[0]
    for kind, name, what in _programs(cluster):
        if what.on != data.on:
            words = _WORDS[kind].format(name=name)
            yield Problem(
                cluster.where(kind, name, "host"),
                f"the backend {cluster.backend} runs on one host only: {words} has to be on host "
                f"{data.on}, because it opens the data of node {data.name} as a file; or use the "
                "backend zeo or zrs",
            )


def _count_by_host(cluster: Cluster, role: Role) -> Counter[str]:
    """Return the number of nodes of a role on each host that has some."""
    return Counter(str(node.on) for node in cluster.nodes if node.role is role)


def _last(cluster: Cluster, role: Role, host: str) -> Node:
    return [node for node in cluster.nodes if node.role is role and node.on == host][-1]


def _masters(cluster: Cluster) -> Iterator[Problem]:
    found = _count_by_host(cluster, Role.MASTER)
    count = found.total()
    if not count:
        return
    if count % 2 == 0:
        last = [node for node in cluster.nodes if node.role is Role.MASTER][-1]
        yield Problem(
            cluster.where("node", last.name, "role"),
            f"there are {count} masters; with several hosts use an odd number, because "
            "a majority of them elects the leader",
        )
    busiest, most = found.most_common(1)[0]
    majority, spread = count // 2 + 1, math.ceil(count / len(cluster.hosts))
    if spread < majority <= most:
        yield Problem(
            cluster.where("node", _last(cluster, Role.MASTER, busiest).name, "host"),
            f"{most} of {count} masters are on host {busiest}: without it no majority can elect a "
            "leader; place them on different hosts",
        )


def _storages(cluster: Cluster) -> Iterator[Problem]:
    found = _count_by_host(cluster, Role.STORAGE)
    replicas = getattr(cluster.settings, "replicas", 0)
    if replicas and len(found) == 1 < len(cluster.hosts):
        (only,) = found
        yield Problem(
            cluster.where("node", _last(cluster, Role.STORAGE, only).name, "host"),
            f"all storages are on host {only}, which holds every copy of the data: place one on "
            "another host, or set replicas 0",
        )


def _admin_nodes(cluster: Cluster) -> Iterator[Problem]:
    found = _count_by_host(cluster, Role.ADMIN)
    for host in cluster.hosts:
        if found and host.name not in found:
            yield Problem(
                cluster.where("host", host.name),
                f"host {host.name} has no node with the role admin; with several hosts each needs "
                "one: its NEO monitor answers the commands typed there, and kills what hangs there",
            )
