"""The connection to the etcd cluster of a cluster file: endpoints and credentials."""

from __future__ import annotations

import functools
import os
import ssl
import stat
import threading
from pathlib import Path

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.layout import Layout, authorities_file, host_file
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.etcd.client import Etcd
from indico_zodbrepl.etcd.keys import Keys, Store
from indico_zodbrepl.etcd.transport import Login, Transport

Files = tuple[Path | None, Path | None, Path | None]
"""Certificates of the authorities, the client's certificate, its key."""


def etcd_of(cluster: Cluster) -> Etcd:
    """Return a client of the cluster's etcd, which keeps its connections and its login.

    All clients of this process share them.  Nothing is sent and no file is read before the first
    call, which raises OperatorError (exit 8) if a certificate or the password can't be read.
    Raises ValueError without ``<etcd>``.
    """
    etcd = cluster.etcd
    if etcd is None:
        raise ValueError("the cluster has no etcd")
    if etcd.is_ours:
        folder = Layout(cluster).tls
        own = host_file(folder)
        files: Files = (authorities_file(folder), own, own)
    else:
        files = (etcd.ca_file, etcd.certificate_file, etcd.key_file)
    return Etcd(_transport(endpoints(cluster), files, etcd.user, etcd.password_file))


@functools.cache
def _transport(
    urls: tuple[str, ...], files: Files, user: str | None, password_file: Path | None
) -> Transport:
    login = None
    if user is not None and password_file is not None:
        login = lambda: Login(user, _password(password_file))  # noqa: E731
    return Transport(urls, Context(*files).current, login)


def store_of(cluster: Cluster) -> Store:
    """Return the cluster's records in etcd.  Raises as ``etcd_of``."""
    return Store(etcd_of(cluster), Keys(cluster), lambda: identity(cluster))


def identity(cluster: Cluster) -> str:
    """Return the identity of the cluster.  Raises OperatorError (exit 8) if this host lacks it."""
    path = Layout(cluster).cluster_id
    try:
        return path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise OperatorError(
            "this host lacks the identity of the cluster, which etcd's keys are compared with",
            f"{path}: {getattr(error, 'strerror', None) or error}",
            "on the host that issues certificates: bin/zodbrepl hosts push",
            ExitCode.REFUSED,
        ) from error


def endpoints(cluster: Cluster) -> tuple[str, ...]:
    """Return the URLs of the members of etcd, that of this host first."""
    etcd = cluster.etcd
    if etcd is None:
        return ()
    if not etcd.is_ours:
        return etcd.endpoints
    hosts = sorted(cluster.hosts, key=lambda host: host.name != cluster.here)
    return tuple(f"https://{host.address}:{etcd.client_port}" for host in hosts)


class Context:
    """The TLS context of a client, renewed when its files were replaced; any thread may call.

    Args:
        authorities: certificates of the authorities that are trusted; None for the system's.
        certificate, key: of the client; None for none.
    """

    def __init__(
        self, authorities: Path | None, certificate: Path | None, key: Path | None
    ) -> None:
        self._files = (authorities, certificate, key)
        self._lock = threading.Lock()
        self._made: tuple[tuple[int, ...], ssl.SSLContext] | None = None

    def current(self) -> ssl.SSLContext:
        """Return the context.  Raises OperatorError (exit 8): a file is missing or unusable."""
        when = tuple(_changed(path) for path in self._files)
        with self._lock:
            if self._made is None or self._made[0] != when:
                self._made = (when, self._new())
            return self._made[1]

    def _new(self) -> ssl.SSLContext:
        authorities, certificate, key = self._files
        try:
            context = ssl.create_default_context(cafile=authorities)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            if certificate is not None:
                context.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as error:
            named = " or ".join(str(path) for path in self._files if path is not None)
            raise OperatorError(
                "a certificate for etcd can't be used",
                f"{named}: {getattr(error, 'strerror', None) or error}",
                "see docs/how-to/etcd.md",
                ExitCode.REFUSED,
            ) from error
        return context


def _changed(path: Path | None) -> int:
    """Return when a file was last replaced; 0 if there is none."""
    try:
        return 0 if path is None else path.stat().st_mtime_ns
    except OSError:
        return 0


def _password(path: Path) -> str:
    """Return the password in a file that only its owner can read.

    Raises OperatorError (exit 8).
    """
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise OperatorError(
            "the password for etcd can't be read",
            f"{path}: {getattr(error, 'strerror', None) or error}",
            "see password-file of <etcd> in the cluster file",
            ExitCode.REFUSED,
        ) from error
    if mode & 0o077:
        raise OperatorError(
            "others can read the password for etcd",
            f"{path} has mode {mode:04o}",
            f"chmod 600 {path}",
            ExitCode.REFUSED,
        )
    return text
