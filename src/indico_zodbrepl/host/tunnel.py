"""The configuration of a host's tunnel: HAProxy encrypts connections between programs of hosts.

A program listens on the inner address of its host.  On that host, the tunnel accepts connections
at the host's own address, from hosts with a certificate of the cluster, and passes them on to the
program; to a port for replication from the inner address of the host that connects, so that the
server knows it.  On every other host, the tunnel listens on the same inner address and passes
connections on to the host's own address.  It forwards the end of one direction alone, as the
storage servers need it at their shutdown.  Pure; ``tunnel_control`` runs it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from indico_zodbrepl.cluster.hosts import ClusterHost, Etcd
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.cluster.places import Address, Endpoint
from indico_zodbrepl.host import certificates
from indico_zodbrepl.host.certificates import Role

# Without a sign of life for this long, a host is away.  A connection whose receiver takes no data
# for as long is closed as well, because the kernel treats both alike (tcp(7), TCP_USER_TIMEOUT).
SILENT_SECONDS = 10
CONNECT_SECONDS = 2
# For the handshake of a stranger; a connection that is established may be idle for any time.
HANDSHAKE_SECONDS = 10
LONGEST = "24d"  # HAProxy has room for 24.8 days
# Each connection takes two sockets; an old default of the hard limit is 4096 open files.
CONNECTIONS = 1800

READABLE = frozenset({"admin", "indico", "watch"})
"""The kinds of endpoints that operators and monitors may reach besides hosts: they ask for
passwords where they have to.
"""


def runs_here(cluster: Cluster) -> bool:
    """Return True if this host has a tunnel."""
    return cluster.encrypted and cluster.here is not None


def name(cluster: Cluster) -> str:
    """Return the name of the program of this host's tunnel."""
    return own_host(cluster).tunnel


def endpoints(cluster: Cluster) -> list[Endpoint]:
    """Return the addresses on which this host's tunnel listens; none without a tunnel."""
    if not runs_here(cluster):
        return []
    incoming = (
        dataclasses.replace(each, address=Address(own_host(cluster).address, each.address.port))
        for each in _passed_on(cluster)
    )
    return [*incoming, *(endpoint for _other, endpoint in _outgoing(cluster))]


def _outgoing(cluster: Cluster) -> Iterator[tuple[ClusterHost, Endpoint]]:
    """Yield the programs of the other hosts, each with its host."""
    for other in cluster.hosts:
        if other.name != cluster.here:
            for endpoint in _passed_on(dataclasses.replace(cluster, here=other.name)):
                yield other, endpoint


def _passed_on(cluster: Cluster) -> list[Endpoint]:
    """Return the addresses of this host's programs that do not encrypt by themselves."""
    return [each for each in cluster.own_endpoints() if each.kind != Etcd.program]


def own_host(cluster: Cluster) -> ClusterHost:
    """Return this host.  Raises ValueError on another machine."""
    if cluster.here is None:
        raise ValueError("this machine is no host of the cluster")
    return cluster.host(cluster.here)


def config(cluster: Cluster) -> str:
    """Return the configuration of this host's tunnel, without I/O."""
    folder, here = Layout(cluster).tls, own_host(cluster)
    own = f'ssl crt "{certificates.own_file(folder)}"'
    verified = f'{own} ca-file "{certificates.authorities_file(folder)}" verify required'
    others = " ".join(each.name for each in cluster.hosts if each is not here)
    parts = [_HEAD]
    for endpoint in _passed_on(cluster):
        may = " or may-read" if endpoint.kind in READABLE else ""
        parts.append(
            f"""
listen from-others-{_label(endpoint)}
    bind {here.address}:{endpoint.address.port} {verified} tcp-ut {SILENT_SECONDS}s
    acl is-host ssl_c_s_dn(OU) {Role.HOST}
    acl is-known ssl_c_s_dn(CN) {others}
    acl may-read ssl_c_s_dn(OU) {Role.OPERATOR} {Role.MONITOR}
    tcp-request session reject unless is-host is-known{may}
{_program(cluster, endpoint)}
"""
        )
    for other, endpoint in _outgoing(cluster):
        parts.append(
            f"""
listen to-{other.name}-{_label(endpoint)}
    bind {endpoint.address}
    server {other.name} {other.address}:{endpoint.address.port} {verified} \
verifyhost {certificates.dns_name(other.name, Role.HOST)} tcp-ut {SILENT_SECONDS}s
"""
        )
    return "".join(parts)


def _program(cluster: Cluster, endpoint: Endpoint) -> str:
    """Return the lines that pass connections on to a program.

    A storage server counts what a follower confirms under its name if it comes from that node's
    host.  So it sees the inner address of the host whose certificate was verified.
    """
    if endpoint.key != "replication-port":
        return f"    server program {endpoint.address}"
    others = [each for each in cluster.hosts if each.name != cluster.here]
    rules = [f"    use-server {each.name} if {{ ssl_c_s_dn(CN) {each.name} }}" for each in others]
    servers = [
        f"    server {each.name} {endpoint.address} source {each.inner_address}" for each in others
    ]
    return "\n".join([*rules, *servers])


def _label(endpoint: Endpoint) -> str:
    return "-".join(part for part in (endpoint.kind, endpoint.name, endpoint.key) if part)


_HEAD = f"""\
# Generated by `zodbrepl up` from the cluster file; do not edit.
# The log has connections that did not end normally. Two letters say why, for example sC: the other
# host could not be reached; see https://docs.haproxy.org/2.6/configuration.html#8.5
global
    log stdout format raw daemon
    maxconn {CONNECTIONS}
    ssl-default-bind-options ssl-min-ver TLSv1.2
    ssl-default-server-options ssl-min-ver TLSv1.2

defaults
    mode tcp
    log global
    option dontlog-normal
    option dontlognull
    log-format "%f from %ci:%cp ended with %ts after %Tt ms %[ssl_bc_err_str]"
    error-log-format "%f from %ci:%cp was refused: %[fc_err_str] %[ssl_fc_err_str]"
    retries 0
    timeout connect {CONNECT_SECONDS}s
    timeout client {HANDSHAKE_SECONDS}s
    timeout server {HANDSHAKE_SECONDS}s
    timeout tunnel {LONGEST}
    timeout client-fin {LONGEST}
    timeout server-fin {LONGEST}
    option clitcpka
    clitcpka-idle 4s
    clitcpka-intvl 2s
    clitcpka-cnt 3
    option srvtcpka
    srvtcpka-idle 4s
    srvtcpka-intvl 2s
    srvtcpka-cnt 3
"""
