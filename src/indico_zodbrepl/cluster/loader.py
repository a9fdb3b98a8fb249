"""Read a cluster file: schema, data types, rules, then frozen dataclasses."""

from __future__ import annotations

import dataclasses
import ipaddress
import socket
import urllib.parse
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from indico_zodbrepl.cluster.addresses import is_of_this_machine
from indico_zodbrepl.cluster.commands import zodbrepl
from indico_zodbrepl.cluster.hosts import ClusterHost, Etcd
from indico_zodbrepl.cluster.installation import home_from_environment
from indico_zodbrepl.cluster.model import Cluster, FileStore, Node, Synchronous
from indico_zodbrepl.cluster.places import Address, Positions
from indico_zodbrepl.cluster.programs import Admin, IndicoInstance, Mail, Watch
from indico_zodbrepl.cluster.settings import Settings
from indico_zodbrepl.cluster.shapes import SHAPES
from indico_zodbrepl.cluster.validation import Addresses, problems
from indico_zodbrepl.errors import ExitCode, OperatorError

Placed = tuple[str, str | None]
Place = Callable[[str], Placed]


def load(path: Path, home: Path) -> Cluster:
    """Read, check and return the cluster of a cluster file.

    Args:
        path: the file.
        home: folder of the installation, the value of ``$(ZODBREPL_HOME)``.

    Raises:
        OperatorError: exit 2; the file cannot be read or breaks a rule.  Its detail has one
            line ``file:line: problem`` for each problem.

    Resolves host names, so it may wait for the system's resolver.  Safe in any thread.
    """
    from indico_zodbrepl.cluster.parsing import parse  # noqa: PLC0415  # ZConfig imports slowly.

    path, home = path.absolute(), home.absolute()
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        _refuse(path, home, f"{path}: {error.strerror}")
    except UnicodeDecodeError as error:
        _refuse(path, home, f"{path}: not UTF-8 text: {error}")
    try:
        values, positions = parse(path, text, home)
    except ValueError as error:
        _refuse(path, home, str(error))
    cluster = _build(values, path, positions)
    found = problems(cluster, _resolve(cluster))
    if found:
        _refuse(path, home, "\n".join(map(str, found)))
    shape = SHAPES.get(cluster.backend)
    if shape is not None and shape.elects:  # its servers replace a lost leader in any case
        return dataclasses.replace(cluster, automatic=False)
    return cluster


def check_site_conf(cluster: Cluster) -> None:
    """Raise OperatorError (exit 2, file:line) if there is a ``site-conf`` that cannot be read.

    Not a part of ``load``: nodes start, and everything stops, without that file.
    """
    if cluster.site_conf is None:
        return
    try:
        cluster.site_conf.read_bytes()
    except OSError as error:
        _refuse(
            cluster.source,
            home_from_environment(),
            f"{cluster.where(None, key='site-conf')}: "
            f"site-conf {cluster.site_conf}: {error.strerror}",
        )


def _build(values: Any, path: Path, positions: Positions) -> Cluster:
    hosts = {
        host.getSectionName(): ClusterHost(
            host.getSectionName(), host.address, host.agent_port, values.encryption
        )
        for host in values.hosts
    }
    place = partial(_place, hosts)
    return Cluster(
        name=values.name,
        backend=values.backend,
        nodes=tuple(
            Node(
                name=node.getSectionName(),
                host=place(node.host)[0],
                storage_port=node.storage_port,
                replication_port=node.replication_port,
                data_directory=node.data_directory,
                role=node.role,
                upstream=node.upstream,
                managed=node.managed,
                on=place(node.host)[1],
                forwards=node.forward_acknowledgements,
            )
            for node in values.nodes
        ),
        indico=_indico(values, place),
        admin=Admin(
            place(values.admin.host)[0],
            values.admin.port,
            values.admin.read_only,
            values.admin.public_url,
            values.admin.trusted_proxy,
            place(values.admin.host)[1],
        ),
        watch=None if values.watch is None else _watch(values.watch, place),
        var_directory=values.var_directory,
        reconnect_delay=values.reconnect_delay,
        keep_alive_delay=values.keep_alive_delay,
        allow_public_addresses=values.allow_public_addresses,
        source=path,
        site_conf=values.site_conf,
        backup_directory=values.backup_directory and values.backup_directory[1],
        backup_host=values.backup_directory and values.backup_directory[0],
        backup_time=values.backup_time,
        archive_directory=values.archive_directory,
        files=values.files or _file_store(values.backend),
        public_url=values.public_url and values.public_url.rstrip("/"),
        mail=None if values.mail is None else _mail(values.mail),
        scheduler_takeover=values.scheduler_takeover,
        min_followers=values.min_followers,
        synchronous=Synchronous(
            values.synchronous,
            values.synchronous_level,
            values.synchronous_timeout,
            values.synchronous_alone,
        ),
        automatic=values.automatic,
        lease=values.lease,
        etcd=None if values.etcd is None else _etcd(values.etcd),
        settings=_settings(values),
        hosts=tuple(hosts.values()),
        here=next((name for name, host in hosts.items() if _is_of_this_machine(host)), None),
        positions=positions,
    )


def _file_store(backend: str) -> FileStore:
    shape = SHAPES.get(backend)
    return FileStore.BLOBS if shape is None or shape.keeps_blobs else FileStore.ARCHIVE


def _place(hosts: Mapping[str, ClusterHost], host: str) -> Placed:
    """Return the address to listen on, and the name of the host section, for a key ``host``."""
    if not hosts:
        return host, None
    found = hosts.get(host)
    return (host if found is None else found.inner_address), host


def _is_of_this_machine(host: ClusterHost) -> bool:
    try:
        return is_of_this_machine(host.address)
    except OSError:
        return False  # another problem than an address of another machine: validation names it


def _indico(values: Any, place: Place) -> tuple[IndicoInstance, ...]:
    """Return the instances; if none asks for the scheduler, the first of each host gets one."""
    asked = [instance.scheduler for instance in values.indico]
    shape = SHAPES.get(values.backend)
    allowed = shape is not None and not shape.one_process
    if allowed and True not in asked:
        seen: set[str | None] = set()
        for number, instance in enumerate(values.indico):
            host = place(instance.host)[1]
            if asked[number] is None and host not in seen:
                asked[number] = True
                seen.add(host)
    path = "/indico"
    if values.public_url is not None:
        path = urllib.parse.urlsplit(values.public_url).path.rstrip("/")
    return tuple(
        IndicoInstance(
            instance.getSectionName(),
            place(instance.host)[0],
            instance.port,
            bool(scheduler),
            path,
            instance.workers,
            place(instance.host)[1],
        )
        for instance, scheduler in zip(values.indico, asked, strict=True)
    )


def _etcd(values: Any) -> Etcd:
    return Etcd(
        values.client_port,
        values.peer_port,
        values.data_directory,
        values.endpoints or (),
        values.ca_file,
        values.certificate_file,
        values.key_file,
        values.user,
        values.password_file,
        values.generation,
    )


def _mail(values: Any) -> Mail:
    return Mail(
        Address(values.smtp_server, values.smtp_port),
        values.support_address,
        values.no_reply_address,
        values.starttls,
        values.user,
        values.password_file,
    )


def _settings(values: Any) -> Settings | None:
    if values.engine is not None:
        settings: Settings = values.engine
        return settings
    shape = SHAPES.get(values.backend)
    return shape.defaults if shape else None


def _watch(values: Any, place: Place) -> Watch:
    server = values.mail_host and Address(values.mail_host, values.mail_port)
    return Watch(
        place(values.host)[0],
        values.port,
        values.lag_limit,
        values.failover_after,
        values.webhook,
        values.webhook_secret_file,
        server,
        values.mail_from,
        values.mail_to or (),
        values.mail_encryption,
        values.mail_user,
        values.mail_password_file,
        place(values.host)[1],
    )


def _resolve(cluster: Cluster) -> Addresses:
    return {
        host: _addresses(host)
        for host in {endpoint.address.host for endpoint in cluster.endpoints()}
    }


def _addresses(host: str) -> frozenset[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError):
        return frozenset()
    return frozenset(ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found)


def _refuse(path: Path, home: Path, detail: str) -> NoReturn:
    raise OperatorError(
        f"{path.name} is invalid",
        detail,
        f"nothing was changed; correct the file, then run: {zodbrepl(path, home, 'check')}",
        ExitCode.BAD_CONFIG,
    )
