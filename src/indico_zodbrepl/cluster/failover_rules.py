"""Rules for acknowledged commits, automatic failover and etcd in a cluster file.  Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from indico_zodbrepl.cluster.hosts import Etcd
from indico_zodbrepl.cluster.model import Cluster, Role
from indico_zodbrepl.cluster.places import Problem
from indico_zodbrepl.cluster.shapes import SHAPES

LEAST_MEMBERS = 3
"""Members of etcd that survive the loss of one."""


def failover_problems(cluster: Cluster) -> Iterator[Problem]:
    """Yield the problems of acknowledged commits, automatic failover and etcd."""
    yield from _synchronous(cluster)
    yield from _relays(cluster)
    yield from _automatic(cluster)
    if cluster.etcd is not None:
        yield from _etcd(cluster, cluster.etcd)


def _synchronous(cluster: Cluster) -> Iterator[Problem]:
    where = cluster.where(None, key="synchronous")
    count, shape = cluster.synchronous.count, SHAPES.get(cluster.backend)
    most = None if shape is None else shape.most_acknowledgements
    others = len(cluster.nodes) - 1
    if not count or shape is None:
        return
    if most == 0:
        yield Problem(where, f"the backend {cluster.backend} has no acknowledged commits")
    elif most is not None and count > most:
        yield Problem(
            where,
            f"synchronous is {count}; the backend {cluster.backend} waits for at most {most}",
        )
    elif count > others:
        yield Problem(
            where,
            f"synchronous is {count}, but the primary can have at most {others} secondaries; it "
            "would never acknowledge a commit",
        )


def _relays(cluster: Cluster) -> Iterator[Problem]:
    for node in cluster.nodes:
        if node.forwards and node.role is not Role.RELAY:
            yield Problem(
                cluster.where("node", node.name, "forward-acknowledgements"),
                f"node {node.name} is no relay, so it has nothing to forward",
            )


def _automatic(cluster: Cluster) -> Iterator[Problem]:
    if not cluster.automatic:
        return
    where = cluster.where(None, key="automatic")
    shape = SHAPES.get(cluster.backend)
    if not cluster.hosts:
        yield Problem(where, "automatic needs <host> sections: of one host nothing is left")
    if shape is not None and not shape.fails_over:
        yield Problem(where, f"the backend {cluster.backend} has nothing to fail over to")
    elif cluster.etcd is None and (shape is None or not shape.elects):
        yield Problem(where, "automatic needs a section <etcd>")


def _etcd(cluster: Cluster, etcd: Etcd) -> Iterator[Problem]:
    ports = {"client-port": etcd.client_port, "peer-port": etcd.peer_port}
    for key, other in itertools.permutations(ports):
        if ports[key] is not None and ports[other] is None:
            yield Problem(cluster.where("etcd", None, key), f"{key} needs {other} too")
    if etcd.is_ours and etcd.endpoints:
        yield Problem(
            cluster.where("etcd", None, "endpoints"),
            "endpoints are of an existing cluster; client-port is of one of our own: use one",
        )
    if not etcd.is_ours and not etcd.endpoints:
        yield Problem(
            cluster.where("etcd", None),
            "give client-port and peer-port, or the endpoints of an existing cluster",
        )
    if etcd.is_ours and len(cluster.hosts) < LEAST_MEMBERS:
        yield Problem(
            cluster.where("etcd", None, "client-port"),
            f"members of etcd on {len(cluster.hosts)} hosts have no majority after the loss of "
            f"one; {LEAST_MEMBERS} are needed: add a <host>, which may be without a node",
        )
    if etcd.client_port is not None and etcd.client_port == etcd.peer_port:
        yield Problem(
            cluster.where("etcd", None, "peer-port"), "client-port is the same; use another one"
        )
    yield from _beside_tunnels(cluster, etcd)
    yield from _logins(cluster, etcd)


def _beside_tunnels(cluster: Cluster, etcd: Etcd) -> Iterator[Problem]:
    """Yield programs with a port of etcd on their host, whose tunnel listens beside it."""
    ports = {etcd.client_port: "client-port", etcd.peer_port: "peer-port"}
    inner = {host.inner_address for host in cluster.hosts} - {
        host.address for host in cluster.hosts
    }
    for endpoint in cluster.endpoints():
        key = ports.get(endpoint.address.port)
        if key is None or endpoint.kind == Etcd.program or endpoint.address.host not in inner:
            continue
        yield Problem(
            cluster.where(endpoint.kind, endpoint.name, endpoint.key),
            f"port {endpoint.address.port} is {key} of etcd, at {cluster.where('etcd', None, key)}",
        )


def _logins(cluster: Cluster, etcd: Etcd) -> Iterator[Problem]:
    for pair in (
        {"certificate-file": etcd.certificate_file, "key-file": etcd.key_file},
        {"user": etcd.user, "password-file": etcd.password_file},
    ):
        for key, other in itertools.permutations(pair):
            if pair[key] and not pair[other]:
                yield Problem(cluster.where("etcd", None, key), f"{key} needs {other} too")
    if etcd.is_ours:
        for key, value in {
            "ca-file": etcd.ca_file,
            "certificate-file": etcd.certificate_file,
            "user": etcd.user,
        }.items():
            if value:
                yield Problem(
                    cluster.where("etcd", None, key),
                    f"{key} is for the endpoints of an existing cluster; our own members use the "
                    "certificates of the hosts",
                )
    if etcd.user and any(each.startswith("http:") for each in etcd.endpoints):
        yield Problem(
            cluster.where("etcd", None, "endpoints"),
            "a password needs https: it is never sent unencrypted",
        )
