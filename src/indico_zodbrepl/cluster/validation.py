"""Rules between the sections of a cluster file.  Pure.

Rules for a single value (range of a port, absolute path) are in ``datatypes``.
"""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Iterator, Mapping

from indico_zodbrepl.cluster.backend_rules import backend_problems
from indico_zodbrepl.cluster.failover_rules import failover_problems
from indico_zodbrepl.cluster.host_rules import host_problems
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.cluster.places import Problem
from indico_zodbrepl.cluster.programs import Encryption, Watch
from indico_zodbrepl.cluster.settings import ServerSettings
from indico_zodbrepl.cluster.shapes import SHAPES

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
Addresses = Mapping[str, frozenset[IPAddress]]

PRIVATE_NETWORKS = tuple(
    ipaddress.ip_network(network)
    for network in (
        "127.0.0.0/8",
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "169.254.0.0/16",
        "::1/128",
        "fc00::/7",
        "fe80::/10",
    )
)


SQL_WORKERS = 10
"""Each has two connections for each of its four threads: 80 of the 100 that PostgreSQL accepts by
default, and of MariaDB's 151; the rest is for the scheduler, the monitor and tools."""


def problems(cluster: Cluster, addresses: Addresses) -> list[Problem]:
    """Return all problems of a cluster, in the order of its lines; empty if it can run.

    Args:
        cluster: as read from the file.
        addresses: IP addresses of each host name; empty for one that does not resolve.
    """
    found = [
        *backend_problems(cluster),
        *host_problems(cluster),
        *_hosts(cluster, addresses),
        *_ports(cluster, addresses),
        *_data_directories(cluster, addresses),
        *failover_problems(cluster),
        *_programs(cluster),
    ]
    return sorted(found, key=lambda problem: (str(problem.where.file), problem.where.line))


def _hosts(cluster: Cluster, addresses: Addresses) -> Iterator[Problem]:
    if cluster.hosts:
        return  # their addresses have rules of their own
    seen = set()
    for endpoint in cluster.endpoints():
        if (endpoint.kind, endpoint.name) in seen:
            continue
        seen.add((endpoint.kind, endpoint.name))
        host = endpoint.address.host
        where = cluster.where(endpoint.kind, endpoint.name, "host")
        if not addresses[host]:
            yield Problem(where, f"host name {host!r} does not resolve")
        elif not cluster.allow_public_addresses and any(map(_public, addresses[host])):
            yield Problem(
                where,
                f"{host} is a public address; to use it set 'allow-public-addresses true'",
            )


def _ports(cluster: Cluster, addresses: Addresses) -> Iterator[Problem]:
    for earlier, later in itertools.combinations(cluster.endpoints(), 2):
        if earlier.address.port == later.address.port and _overlap(
            addresses[earlier.address.host], addresses[later.address.host]
        ):
            yield Problem(
                cluster.where(later.kind, later.name, later.key),
                f"port {later.address.port} is the {earlier} already, at "
                f"{cluster.where(earlier.kind, earlier.name, earlier.key)}",
            )


def _data_directories(cluster: Cluster, addresses: Addresses) -> Iterator[Problem]:
    for earlier, later in itertools.combinations(cluster.nodes, 2):
        mine, other = later.data_directory, earlier.data_directory
        if not _one_machine(addresses[earlier.host], addresses[later.host]):
            continue
        if mine == other or mine in other.parents or other in mine.parents:
            yield Problem(
                cluster.where("node", later.name, "data-directory"),
                f"the data directory of node {earlier.name} overlaps, at "
                f"{cluster.where('node', earlier.name, 'data-directory')}",
            )


def _programs(cluster: Cluster) -> Iterator[Problem]:
    yield from _scheduler(cluster)
    yield from _workers(cluster)
    yield from _mail(cluster)
    yield from _admin(cluster)
    yield from _watch_hooks(cluster)
    yield from _backup_directory(cluster)
    yield from _backup_time(cluster)


def _scheduler(cluster: Cluster) -> Iterator[Problem]:
    found: dict[str | None, str] = {}
    for each in cluster.indico:
        if not each.scheduler:
            continue
        first = found.setdefault(each.on, each.name)
        if first != each.name:
            where = "the cluster" if each.on is None else f"host {each.on}"
            yield Problem(
                cluster.where("indico", each.name, "scheduler"),
                f"{where} has one scheduler, and it runs beside instance {first} already",
            )
    shape = SHAPES.get(cluster.backend)
    if found and shape is not None and shape.one_process:
        yield Problem(
            cluster.where("indico", next(iter(found.values())), "scheduler"),
            f"the backend {cluster.backend} allows no scheduler: one process at a time can open "
            "the data; use the backend zeo",
        )


def _workers(cluster: Cluster) -> Iterator[Problem]:
    shape = SHAPES.get(cluster.backend)
    several = [each for each in cluster.indico if each.workers > 1]
    if several and shape is not None and shape.one_process:
        yield Problem(
            cluster.where("indico", several[0].name, "workers"),
            f"the backend {cluster.backend} allows one worker: one process at a time can open the "
            "data; use the backend zeo",
        )
    if several and isinstance(cluster.settings, ServerSettings):
        total = sum(each.workers for each in cluster.indico)
        more = max(each.workers for each in several)
        if total + more > SQL_WORKERS:
            yield Problem(
                cluster.where("indico", several[-1].name, "workers"),
                f"{total} workers in all, and {more} more while an instance restarts; a database "
                f"server has connections for {SQL_WORKERS}",
            )


def _mail(cluster: Cluster) -> Iterator[Problem]:
    mail = cluster.mail
    if mail is None:
        return
    login = {"user": mail.user, "password-file": mail.password_file}
    for key, other in itertools.permutations(login):
        if login[key] and not login[other]:
            yield Problem(cluster.where("mail", None, key), f"{key} needs {other} too")
    if mail.user and not mail.starttls:
        yield Problem(
            cluster.where("mail", None, "user"),
            "user needs starttls: passwords are never sent unencrypted",
        )


def _admin(cluster: Cluster) -> Iterator[Problem]:
    if cluster.admin.trusted_proxy and not cluster.admin.public_url:
        yield Problem(
            cluster.where("admin", None, "trusted-proxy"),
            "trusted-proxy needs public-url too: the address that users see",
        )


def _watch_hooks(cluster: Cluster) -> Iterator[Problem]:
    watch = cluster.watch
    if watch is None:
        return
    if watch.webhook_secret_file and not watch.webhook:
        yield Problem(
            cluster.where("watch", None, "webhook-secret-file"),
            "webhook-secret-file needs webhook too",
        )
    for key, given in (("mail-from", watch.mail_from), ("mail-to", watch.mail_to)):
        if watch.mail_server and not given:
            yield Problem(cluster.where("watch", None, "mail-host"), f"mail-host needs {key} too")
        if given and not watch.mail_server:
            yield Problem(cluster.where("watch", None, key), f"{key} needs mail-host too")
    yield from _mail_login(cluster, watch)


def _mail_login(cluster: Cluster, watch: Watch) -> Iterator[Problem]:
    login = {"mail-user": watch.mail_user, "mail-password-file": watch.mail_password_file}
    for key, other in itertools.permutations(login):
        if login[key] and not login[other]:
            yield Problem(cluster.where("watch", None, key), f"{key} needs {other} too")
    encrypted = watch.mail_encryption is not Encryption.NONE
    if encrypted and not watch.mail_server:
        yield Problem(
            cluster.where("watch", None, "mail-encryption"), "mail-encryption needs mail-host too"
        )
    if watch.mail_user and not encrypted:
        yield Problem(
            cluster.where("watch", None, "mail-user"),
            "mail-user needs mail-encryption: passwords are never sent unencrypted",
        )


def _backup_directory(cluster: Cluster) -> Iterator[Problem]:
    folder, host = cluster.backup_directory, cluster.backup_host
    if host is not None and host not in {each.name for each in cluster.hosts}:
        yield Problem(
            cluster.where(None, key="backup-directory"), f"{host} is no <host> of this cluster"
        )
    for node in cluster.nodes:
        if host not in (None, node.on):
            continue
        if folder is not None and folder.is_relative_to(node.data_directory):
            yield Problem(
                cluster.where(None, key="backup-directory"),
                f"backups in {folder} would be lost with the data of node {node.name}",
            )


def _backup_time(cluster: Cluster) -> Iterator[Problem]:
    if cluster.backup_time is None:
        return
    where = cluster.where(None, key="backup-time")
    shape = SHAPES.get(cluster.backend)
    if shape is not None and not shape.has_backups:
        yield Problem(
            where, f"the backend {cluster.backend} has backups of its own; schedule those instead"
        )
    elif cluster.backup_directory is None:
        yield Problem(where, "backup-time needs backup-directory too")
    elif cluster.hosts and cluster.backup_host is None:
        yield Problem(
            where,
            "backup-time needs the host in backup-directory, such as "
            f"{cluster.hosts[0].name}:{cluster.backup_directory}: the timer of that host makes the "
            "backup",
        )


def _public(address: IPAddress) -> bool:
    return address.is_unspecified or not any(address in network for network in PRIVATE_NETWORKS)


def _overlap(one: frozenset[IPAddress], other: frozenset[IPAddress]) -> bool:
    return bool(one & other) or any(address.is_unspecified for address in one | other)


def _one_machine(one: frozenset[IPAddress], other: frozenset[IPAddress]) -> bool:
    return _overlap(one, other) or (
        any(address.is_loopback for address in one)
        and any(address.is_loopback for address in other)
    )
