"""Requests to the JSON gateway of etcd: kept connections, several members, a limit of time.

Any thread may call.
"""

from __future__ import annotations

import dataclasses
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import urllib3

from indico_zodbrepl.etcd import problems
from indico_zodbrepl.etcd.problems import EtcdAwayError, EtcdCertificateError

FIRST_TRY = 0.3
"""Seconds after which a silent member is given up for the next one; each try has twice as many."""
PAUSE = 0.02
"""Seconds between two tries of a member that refuses connections."""
SOCKET_OPTIONS = [
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 2),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
]


@dataclasses.dataclass(frozen=True)
class Login:
    """A user of an etcd cluster that has authentication enabled."""

    user: str
    password: str = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True)
class Answer:
    """An answer of etcd.

    Attributes:
        endpoint: URL of the member that gave it.
        lost: True if an earlier try of the same call may count as well.
    """

    content: Mapping[str, Any]
    endpoint: str
    lost: bool = False


class Transport:
    """The members of an etcd cluster; calls go to the one that answered last.

    Args:
        endpoints: URLs, the preferred one first.
        context: returns the TLS context; a new one after the certificates were replaced.
        login: None if the cluster asks for none.
    """

    def __init__(
        self,
        endpoints: tuple[str, ...],
        context: Callable[[], ssl.SSLContext | None] = lambda: None,
        login: Callable[[], Login] | None = None,
    ) -> None:
        self.endpoints = endpoints
        self._context = context
        self._login = login
        self._preferred = 0
        self._token = ""
        self._lock = threading.Lock()
        self._logging_in = threading.Lock()
        self._pool: tuple[ssl.SSLContext | None, urllib3.PoolManager] | None = None

    def call(self, path: str, body: Mapping[str, object], limit: float) -> Answer:
        """Send a request to one member after the other until one answers.

        A write must be one that can be repeated: an earlier try may have counted.

        Args:
            limit: seconds for all tries together.

        Raises:
            EtcdAwayError: none answered in time.
            EtcdCertificateError: a certificate was refused in the connection to each of them.
            EtcdError: a member refused the call.
        """
        end, patience = time.monotonic() + limit, FIRST_TRY
        reasons: list[str] = []
        uncertified: dict[str, str] = {}
        lost = renewed = False
        while True:
            number = self._preferred
            endpoint = self.endpoints[number % len(self.endpoints)]
            left = end - time.monotonic()
            if left <= 0:
                raise EtcdAwayError(reasons, limit, unknown=lost)
            try:
                content = self._one(endpoint, path, body, min(patience, left))
            except urllib3.exceptions.HTTPError as error:
                lost = lost or problems.was_sent(error)
                reasons.append(f"{endpoint}: {problems.reason(error)}")
                if problems.is_about_certificates(error):
                    uncertified[endpoint] = reasons[-1]
                    if len(uncertified) == len(self.endpoints):
                        raise EtcdCertificateError(uncertified.values()) from error
            except _Refused as error:
                if error.is_about_token and self._login is not None and not renewed:
                    self._token, renewed = "", True
                    continue
                if not error.is_for_another:
                    raise problems.refusal(endpoint, error.code, error.message) from error
                lost = True
                reasons.append(f"{endpoint}: {error.message}")
            else:
                return Answer(content, endpoint, lost)
            self._avoid(number)
            if (number + 1) % len(self.endpoints) == 0:
                time.sleep(min(PAUSE, max(0.0, end - time.monotonic())))
            patience *= 2

    def ask(self, endpoint: str, path: str, body: Mapping[str, object], limit: float) -> Answer:
        """Send a request for which etcd asks no login to one member.  Raises as ``call``."""
        single = Transport((endpoint,), self._context)
        single._pool = self._current_pool()
        return single.call(path, body, limit)

    def stream(self, path: str, body: Mapping[str, object], silent: float) -> Any:
        """Return urllib3's response to a request whose answer comes in lines.

        Args:
            silent: seconds without a line after which reading fails.

        Raises EtcdAwayError or another EtcdError.
        """
        number = self._preferred
        endpoint = self.endpoints[number % len(self.endpoints)]
        timeout = urllib3.Timeout(connect=FIRST_TRY, read=silent)
        try:
            response = self._send(endpoint, path, body, timeout, preload=False)
        except urllib3.exceptions.HTTPError as error:
            self._avoid(number)
            raise EtcdAwayError(
                [f"{endpoint}: {problems.reason(error)}"], silent, unknown=False
            ) from error
        if response.status == 200:
            return response
        try:
            refused = _Refused.of(response.status, response.read())
        finally:
            response.close()
        if refused.is_about_token:
            self._token = ""
        if refused.is_for_another or refused.is_about_token:
            self._avoid(number)
            raise EtcdAwayError([f"{endpoint}: {refused.message}"], silent, unknown=False)
        raise problems.refusal(endpoint, refused.code, refused.message)

    def avoid_current(self) -> None:
        """Make the next call go to another member."""
        self._avoid(self._preferred)

    def _avoid(self, number: int) -> None:
        """Prefer the next member, unless another thread has done so."""
        with self._lock:
            if self._preferred == number:
                self._preferred = number + 1

    def _one(
        self, endpoint: str, path: str, body: Mapping[str, object], limit: float
    ) -> Mapping[str, Any]:
        """Return the answer of one member.

        Raises urllib3's HTTPError without an answer, _Refused with another one.
        """
        response = self._send(endpoint, path, body, urllib3.Timeout(total=limit), preload=True)
        if response.status != 200:
            raise _Refused.of(response.status, response.data)
        try:
            content = json.loads(response.data)
        except ValueError as error:
            raise urllib3.exceptions.ProtocolError("its answer is not JSON") from error
        if not isinstance(content, Mapping):
            raise urllib3.exceptions.ProtocolError("its answer is no JSON object")
        return content

    def _send(
        self,
        endpoint: str,
        path: str,
        body: Mapping[str, object],
        timeout: urllib3.Timeout,
        *,
        preload: bool,
    ) -> urllib3.BaseHTTPResponse:
        headers = {"Content-Type": "application/json"}
        if self._login is not None and path != "auth/authenticate":
            headers["Authorization"] = self._token or self._log_in(endpoint)
        return self._current_pool()[1].request(
            "POST",
            f"{endpoint}/v3/{path}",
            body=json.dumps(body).encode(),
            headers=headers,
            preload_content=preload,
            retries=False,
            timeout=timeout,
        )

    def _log_in(self, endpoint: str) -> str:
        """Return the token; one thread asks for a new one.  Raises as ``_authenticate``.

        Etcd makes each login cost a tenth of a second of CPU time.
        """
        with self._logging_in:
            return self._token or self._authenticate(endpoint)

    def _authenticate(self, endpoint: str) -> str:
        """Return a new token.  Raises as ``_one``, and EtcdError if it is refused."""
        assert self._login is not None  # noqa: S101  # the caller has looked
        login = self._login()
        body = {"name": login.user, "password": login.password}
        try:
            content = self._one(endpoint, "auth/authenticate", body, FIRST_TRY * 4)
        except _Refused as error:
            if error.is_for_another:
                raise
            raise problems.no_login(endpoint, login.user, error.message) from error
        self._token = str(content.get("token", ""))
        return self._token

    def _current_pool(self) -> tuple[ssl.SSLContext | None, urllib3.PoolManager]:
        """Return the kept connections; new ones after the certificates were replaced."""
        context = self._context()
        with self._lock:
            if self._pool is None or self._pool[0] is not context:
                self._pool = (
                    context,
                    urllib3.PoolManager(
                        maxsize=8, ssl_context=context, socket_options=SOCKET_OPTIONS
                    ),
                )
            return self._pool


class _Refused(Exception):
    """An answer that is an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @classmethod
    def of(cls, status: int, content: bytes) -> _Refused:
        """Return the error in the content of an answer."""
        try:
            values = json.loads(content)
            return cls(int(values["code"]), str(values.get("message") or values["error"]))
        except (ValueError, KeyError, TypeError, AttributeError):
            text = content[:200].decode("utf-8", "replace").strip()
            if status == 404:
                text = "it has no JSON gateway: start it with enable-grpc-gateway: true"
            return cls(14 if status >= 500 else 0, f"HTTP status {status}: {text}")

    @property
    def is_for_another(self) -> bool:
        return problems.is_for_another(self.code, self.message)

    @property
    def is_about_token(self) -> bool:
        return self.code == problems.UNAUTHENTICATED or problems.OLD_AUTHORISATION in self.message
