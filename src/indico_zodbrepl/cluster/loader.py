"""Reads a cluster file: ZConfig schema, data types, rules, then frozen dataclasses."""

from __future__ import annotations

import importlib.resources
import io
import ipaddress
import re
import socket
from pathlib import Path
from typing import Any, NoReturn

import ZConfig

from ..errors import ExitCode, OperatorError
from .commands import zodbrepl
from .installation import home_from_environment
from .model import Address, Admin, Cluster, IndicoInstance, Node, Positions, Watch
from .positions import PositionedLoader
from .settings import Settings
from .shapes import SHAPES
from .validation import Addresses, problems


def load(path: Path, home: Path) -> Cluster:
    """Read and check a cluster file.

    Args:
        path: the file.
        home: folder of the installation, which ``$(ZODBREPL_HOME)`` stands for.

    Returns:
        The cluster, free of problems.

    Raises:
        OperatorError: the file can't be read or breaks a rule; exit code 2, one
            ``file:line: what`` per line of its detail.

    Host names are resolved, so this may wait for the system's resolver; no file is
    written.  Safe in any thread.
    """
    path, home = path.absolute(), home.absolute()
    loader = PositionedLoader(schema(), home)
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        _refuse(path, home, f"{path}: {error.strerror}")
    except UnicodeDecodeError as error:
        _refuse(path, home, f"{path}: not UTF-8 text: {error}")
    try:
        values, _handlers = loader.loadFile(io.StringIO(text), path.as_uri())
    except ZConfig.ConfigurationError as error:
        _refuse(path, home, f"{loader.where(error, path)}: {_plain(error.message)}")
    cluster = _build(values, path, loader.positions)
    found = problems(cluster, _resolve(cluster))
    if found:
        _refuse(path, home, "\n".join(map(str, found)))
    return cluster


def _plain(message: str) -> str:
    """ZConfig's message, its words for something missing put in those of a cluster file."""
    message = re.sub("not enough values for section type '(.*)'; 0 found, 1 required",
                     r"there is no <\1> section", message)
    message = re.sub("no values for section type '(.*)'; 1 required", r"there is no <\1> section",
                     message)
    return re.sub("no values for ('.*'); 1 required", r"the key \1 is missing", message)


def check_site_conf(cluster: Cluster) -> None:
    """Raise OperatorError (exit 2, file:line) unless ``site-conf`` can be read, if there is one.

    Apart from ``load``: nodes have to start, and everything to end, without that file.
    """
    if cluster.site_conf is None:
        return
    try:
        cluster.site_conf.read_bytes()
    except OSError as error:
        _refuse(cluster.source, home_from_environment(),
                f"{cluster.where(None, key='site-conf')}: "
                f"site-conf {cluster.site_conf}: {error.strerror}")


def schema() -> Any:
    """The ZConfig schema of cluster files."""
    text = importlib.resources.files(__package__).joinpath("schema.xml").read_text("utf-8")
    return ZConfig.loadSchemaFile(io.StringIO(text), "package:schema.xml")


def _build(values: Any, path: Path, positions: Positions) -> Cluster:
    return Cluster(
        name=values.name,
        backend=values.backend,
        nodes=tuple(
            Node(name=node.getSectionName(), host=node.host, storage_port=node.storage_port,
                 replication_port=node.replication_port, data_directory=node.data_directory,
                 role=node.role, upstream=node.upstream, managed=node.managed)
            for node in values.nodes),
        indico=tuple(IndicoInstance(instance.getSectionName(), instance.host, instance.port)
                     for instance in values.indico),
        admin=Admin(values.admin.host, values.admin.port, values.admin.read_only,
                    values.admin.public_url, values.admin.trusted_proxy),
        watch=None if values.watch is None else _watch(values.watch),
        var_directory=values.var_directory,
        reconnect_delay=values.reconnect_delay,
        keep_alive_delay=values.keep_alive_delay,
        allow_public_addresses=values.allow_public_addresses,
        source=path,
        site_conf=values.site_conf,
        backup_directory=values.backup_directory,
        min_followers=values.min_followers,
        settings=_settings(values),
        positions=positions)


def _settings(values: Any) -> Settings | None:
    if values.engine is not None:
        settings: Settings = values.engine
        return settings
    shape = SHAPES.get(values.backend)
    return shape.defaults if shape else None


def _watch(values: Any) -> Watch:
    server = values.mail_host and Address(values.mail_host, values.mail_port)
    return Watch(values.host, values.port, values.lag_limit, values.failover_after,
                 values.webhook, values.webhook_secret_file, server, values.mail_from,
                 values.mail_to or (), values.mail_encryption, values.mail_user,
                 values.mail_password_file)


def _resolve(cluster: Cluster) -> Addresses:
    return {host: _addresses(host)
            for host in {endpoint.address.host for endpoint in cluster.endpoints()}}


def _addresses(host: str) -> frozenset[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError):
        return frozenset()
    return frozenset(ipaddress.ip_address(str(entry[4][0]).partition("%")[0])
                     for entry in found)


def _refuse(path: Path, home: Path, detail: str) -> NoReturn:
    raise OperatorError(f"{path.name} can't be used", detail,
                        "nothing was changed; correct the file, then: "
                        f"{zodbrepl(path, home, 'check')}",
                        ExitCode.BAD_CONFIG)
