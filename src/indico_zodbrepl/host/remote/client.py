"""Calls to the agents of other hosts."""

from __future__ import annotations

import contextlib
import getpass
import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import urllib3

from indico_zodbrepl.cluster import Cluster, ClusterHost
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import certificates, tls
from indico_zodbrepl.host.interface import AgentStoppedError, HostAwayError
from indico_zodbrepl.host.remote import codec, messages
from indico_zodbrepl.host.remote.away import AwayHosts
from indico_zodbrepl.host.remote.messages import Call, Identity, Line

CONNECT_SECONDS = 1.5
"""A round trip of 1 s fits."""
UNHEARD_SECONDS = 2.0
"""Seconds for the kernel of the other host to confirm what was sent: it does while its programs are
frozen, so that a kept connection to a host that is lost ends sooner than with SILENT_SECONDS."""
SOCKET_OPTIONS = [
    *urllib3.connection.HTTPSConnection.default_socket_options,
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(UNHEARD_SECONDS * 1000)),
]
AWAY = AwayHosts()
"""So that a command about many nodes waits once for a host that can't be reached."""
AGENT_STOPPED = "Connection refused"
"""The reason for a host that is away although its kernel answers; agents pass it on."""
AnyLine = TypeVar("AnyLine")
LOCK_KEYS: dict[Path, str] = {}
"""The key of the lock of operations that this process holds, by the lock's file.

Agents refuse a step of a command whose lock another one has by now.
"""


class AgentClient:
    """The agent of one host; any thread may call.

    Args:
        cluster: its certificates authenticate this host.
        host: the host to call.
    """

    def __init__(self, cluster: Cluster, host: ClusterHost) -> None:
        self._cluster = cluster
        self.host = host

    def call(
        self,
        method: str,
        arguments: Mapping[str, object],
        on_progress: Callable[[Any], None] | None = None,
    ) -> Any:
        """Call a method of the host interface on the host; return its result.

        Raises:
            HostAwayError: exit 7; the agent does not answer, or the connection broke.
            OperatorError: what the method raised there, or the agent refused the call.
        """
        signature = codec.signatures()[method]
        body = self.request(**arguments)
        for line in self._answer(method, body):
            if line.error is not None:
                raise codec.raised(line.error)
            if bytes(line.progress) and on_progress is not None:
                on_progress(self._read(bytes(line.progress), signature.progress))
            if bytes(line.result):
                return self._read(bytes(line.result), signature.result)
        raise self.away("the connection ended before the answer")

    def identity(self) -> Identity:
        """Return what the agent reports of itself.  Raises as ``call``."""
        with self.send("GET", "/", b"") as response:
            try:
                content = response.read()
            except urllib3.exceptions.HTTPError as error:
                raise self.away(_reason(error)) from error
            return self._read(content, Identity)  # type: ignore[no-any-return]

    def _read(self, content: bytes, kind: Any) -> Any:
        try:
            return codec.decode(content, kind)
        except msgspec.MsgspecError as error:
            raise OperatorError(
                f"the answer of host {self.host.name} can't be read",
                f"its agent at {self.host.agent_address}: {error}",
                "is its release another one? see: bin/zodbrepl hosts list",
            ) from error

    def request(self, **arguments: object) -> bytes:
        """Return the body of a request with these arguments."""
        call = Call(
            self._cluster.name,
            _digest(self._cluster),
            messages.PROTOCOL,
            actor(),
            {name: msgspec.Raw(codec.encode(value)) for name, value in arguments.items()},
            LOCK_KEYS.get(Layout(self._cluster).operation_lock, ""),
        )
        return codec.encode(call)

    def lines(self, response: Any, kind: type[AnyLine]) -> Iterator[AnyLine]:
        """Yield the lines of an answer as they come.  Raises HostAwayError."""
        rest = b""
        try:
            for chunk in response.stream(1 << 16):
                *whole, rest = (rest + chunk).split(b"\n")
                if len(rest) > messages.LONGEST_LINE:
                    raise self.away("its answer is too long")
                for each in whole:
                    yield codec.decode(each, kind)
        except urllib3.exceptions.HTTPError as error:
            raise self.away(_reason(error)) from error
        except msgspec.MsgspecError as error:
            raise self.away(f"its answer can't be read: {error}") from error

    def _answer(self, method: str, body: bytes) -> Iterator[Line]:
        with self.send("POST", f"/call/{method}", body) as response:
            last = None
            try:
                # Read to its end, so that the connection can be used again.
                for line in self.lines(response, Line):
                    if line.is_last:
                        last = line
                    else:
                        yield line
            except HostAwayError:
                if last is None:
                    raise
            if last is not None:
                yield last

    def download(self, path: str) -> Iterator[bytes]:
        """Yield the parts of a file that the agent sends.  Raises as ``call``."""
        with self.send("POST", path, self.request()) as response:
            try:
                yield from response.stream(1 << 18)
            except urllib3.exceptions.HTTPError as error:
                raise self.away(_reason(error)) from error

    def send(self, verb: str, path: str, body: bytes) -> Any:
        """Send a request; return the response of urllib3, whose body comes later.

        Raises HostAwayError; OperatorError (exit 8) if the agent refuses it.
        """
        why = AWAY.why(str(self.host.agent_address))
        if why:
            raise self.away(why)
        try:
            response = self._sent(verb, path, body)
        except urllib3.exceptions.HTTPError as error:
            why = _reason(error)
            self.expect_away(why)
            raise self.away(why) from error
        if response.status != 200:
            with response:
                text = response.read(1000).decode("utf-8", "replace").strip()
            raise OperatorError(
                f"the agent of host {self.host.name} refused the call",
                f"{response.status}: {text}",
                exit_code=ExitCode.REFUSED,
            )
        return response

    def expect_away(self, why: str) -> None:
        """Let calls to the host fail at once, until it answers."""
        AWAY.add(str(self.host.agent_address), why, self._why_away)

    def _why_away(self) -> str:
        """Return why the host does not answer; empty if it does."""
        try:
            self._sent("GET", "/", b"").release_conn()
        except urllib3.exceptions.HTTPError as error:
            return _reason(error)
        except OperatorError as error:
            return error.notice
        return ""

    def _sent(self, verb: str, path: str, body: bytes) -> Any:
        pool = _pool(self._cluster)
        try:
            return self._sent_by(pool, verb, path, body)
        except (urllib3.exceptions.ProtocolError, urllib3.exceptions.SSLError):
            # The agent closed a kept connection, for example while it could not be reached.
            # It sends its first bytes before it carries out a call, so this one was not.
            _drop(self._cluster, pool)
            return self._sent_by(_pool(self._cluster), verb, path, body)

    def _sent_by(self, pool: urllib3.PoolManager, verb: str, path: str, body: bytes) -> Any:
        return pool.request(
            verb,
            f"https://{self.host.agent_address}{path}",
            body=body or None,
            preload_content=False,
            retries=False,
            timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=messages.SILENT_SECONDS),
        )

    def away(self, why: str) -> HostAwayError:
        """Return the error for a host that does not answer."""
        kind = AgentStoppedError if why == AGENT_STOPPED else HostAwayError
        return kind(
            f"host {self.host.name} does not answer",
            f"its agent at {self.host.agent_address}: {why}",
            f"is the host up, and its agent? there: systemctl status, or zodbrepl up; here: "
            f"ping {self.host.address}",
            ExitCode.TIMED_OUT,
        )


def is_silent(host: ClusterHost) -> bool:
    """Return True if calls to a host fail at once, because even its kernel did not answer."""
    return AWAY.why(str(host.agent_address)) not in ("", AGENT_STOPPED)


def expect_away(cluster: Cluster) -> None:
    """See ``interface.expect_away``; of a cluster with this host."""
    clients = [AgentClient(cluster, host) for host in cluster.hosts]
    own = next(client for client in clients if client.host.name == cluster.here)
    with contextlib.suppress(OperatorError):
        known = own.identity().away
        for client in clients:
            why = known.get(str(client.host.agent_address), "")
            if why:
                client.expect_away(why)


def _reason(error: Exception) -> str:
    """Return the cause of an error of urllib3 in a few words."""
    cause: BaseException = error
    while cause.__cause__ is not None or cause.__context__ is not None:
        cause = cause.__cause__ or cause.__context__ or cause
    if isinstance(cause, ConnectionRefusedError):  # a TimeoutError of urllib3 too
        return AGENT_STOPPED
    if isinstance(error, urllib3.exceptions.TimeoutError):
        return "no answer in time"
    if isinstance(cause, ssl.SSLError):
        return tls.explain(cause)
    if isinstance(cause, http.client.RemoteDisconnected):  # asyncio's servers send no reason
        return "it closed the connection; it may not accept the certificate of this host"
    return getattr(cause, "strerror", None) or str(cause)


def actor() -> str:
    """Return who asks, for the agents' logs."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


def _digest(cluster: Cluster) -> str:
    return messages.digest_of(cluster)


_pools: dict[Path, tuple[tuple[int, ...], urllib3.PoolManager]] = {}
_pools_lock = threading.Lock()


def _pool(cluster: Cluster) -> urllib3.PoolManager:
    """Return the kept connections with this host's certificate; new ones when it was replaced."""
    folder = Layout(cluster).tls
    made = _changed(folder)
    with _pools_lock:
        known = _pools.get(folder)
        if known is None or known[0] != made:
            context = tls.client_context(folder)
            known = (
                made,
                urllib3.PoolManager(
                    num_pools=64, maxsize=64, ssl_context=context, socket_options=SOCKET_OPTIONS
                ),
            )
            _pools[folder] = known
        return known[1]


def _drop(cluster: Cluster, pool: urllib3.PoolManager) -> None:
    """Keep none of a pool's connections any more."""
    folder = Layout(cluster).tls
    with _pools_lock:
        if folder in _pools and _pools[folder][1] is pool:
            del _pools[folder]


def _changed(folder: Path) -> tuple[int, ...]:
    """Return when the certificates were last replaced; zero for a missing file."""
    files = (certificates.authorities_file(folder), certificates.own_file(folder))
    return tuple(each.stat().st_mtime_ns if each.exists() else 0 for each in files)
