"""Errors of calls to etcd."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterable

import urllib3

from indico_zodbrepl.errors import ExitCode, OperatorError

NO_SPACE = "database space exceeded"
"""Part of etcd's error when its quota is used up."""
COMMON_NAME = "CommonName of client"
"""Part of etcd's refusal of a client certificate whose CommonName could be taken for a user."""
HOW_TO = "docs/how-to/etcd.md"

UNAUTHENTICATED = 16
OLD_AUTHORISATION = "revision of auth store is old"
BUSY = "too many requests"
# Codes of gRPC: cancelled, unknown, deadline exceeded, internal, unavailable.
_TRY_ANOTHER = frozenset({1, 2, 4, 13, 14})


class EtcdError(OperatorError):
    """A call to etcd failed."""


class EtcdAwayError(EtcdError):
    """No member of etcd answered in time, or those that did have no majority.

    Attributes:
        unknown: True if the call was a write that may count in spite of this.
    """

    def __init__(self, reasons: list[str], seconds: float, *, unknown: bool) -> None:
        super().__init__(
            "etcd does not answer",
            "; ".join([*dict.fromkeys(reasons), f"gave up after {seconds:.1f} s"]),
            f"on each host of etcd: bin/zodbrepl status; {HOW_TO}",
            ExitCode.TIMED_OUT,
        )
        self.unknown = unknown


class EtcdFullError(EtcdError):
    """The quota of etcd's database is used up, so it refuses writes."""

    def __init__(self, detail: str) -> None:
        super().__init__(
            "etcd refuses writes: its database is full",
            detail,
            f"compact and defragment it, then clear the alarm: {HOW_TO}",
            ExitCode.REFUSED,
        )


class EtcdRefusedError(EtcdError):
    """Etcd has refused a call; another try would fail as well."""

    def __init__(self, detail: str, hint: str = "") -> None:
        super().__init__("etcd refused the call", detail, hint or HOW_TO, ExitCode.REFUSED)


class EtcdCertificateError(EtcdError):
    """No member accepts the certificate of this host, or this host accepts none of a member."""

    def __init__(self, reasons: Iterable[str]) -> None:
        super().__init__(
            "etcd and this host don't accept each other's certificates",
            "; ".join(reasons),
            "see ca-file, certificate-file and key-file of <etcd> in the cluster file; for members "
            f"of your own: bin/zodbrepl hosts list; {HOW_TO}",
            ExitCode.REFUSED,
        )


class ForeignKeysError(EtcdError):
    """The keys belong to another cluster of the same name."""

    def __init__(self, prefix: str, hosts: str) -> None:
        super().__init__(
            "the keys in etcd belong to another cluster of the same name",
            f"{prefix}cluster has another identity than this cluster; it was written by hosts "
            f"{hosts or 'unknown'}",
            "give each cluster that shares an etcd another `name`; if the other one is gone for "
            f"good: etcdctl del --prefix {prefix}; {HOW_TO}",
            ExitCode.REFUSED,
        )


def is_for_another(code: int, message: str) -> bool:
    """Return True if the same call to another member may succeed."""
    return code in _TRY_ANOTHER or BUSY in message


def refusal(endpoint: str, code: int, message: str) -> EtcdError:
    """Return the error for an answer that is final."""
    detail = f"{endpoint}: {message} (code {code})"
    return EtcdFullError(detail) if NO_SPACE in message else EtcdRefusedError(detail)


def no_login(endpoint: str, user: str, message: str) -> EtcdError:
    """Return the error for a login that was refused."""
    hint = "see user and password-file of <etcd> in the cluster file"
    if COMMON_NAME in message:
        hint = (
            "beside a login etcd accepts only client certificates without a CommonName: issue "
            f"certificate-file without one; {HOW_TO}"
        )
    return EtcdRefusedError(f"{endpoint}: the login of user {user} failed: {message}", hint)


def was_sent(error: urllib3.exceptions.HTTPError) -> bool:
    """Return False if a request certainly did not reach the member."""
    return not isinstance(
        error, urllib3.exceptions.NewConnectionError | urllib3.exceptions.ConnectTimeoutError
    )


def is_about_certificates(error: urllib3.exceptions.HTTPError) -> bool:
    """Return True if a certificate was refused; a connection that just ended proves nothing."""
    cause = _cause(error)
    return isinstance(cause, ssl.SSLError) and not isinstance(
        cause, ssl.SSLEOFError | ssl.SSLZeroReturnError
    )


def reason(error: urllib3.exceptions.HTTPError) -> str:
    """Return why a call failed, in a few words."""
    cause = _cause(error)
    if isinstance(cause, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, urllib3.exceptions.TimeoutError) or isinstance(cause, TimeoutError):
        return "no answer in time"
    if isinstance(cause, ssl.SSLError):
        return _tls_reason(cause)
    if isinstance(cause, http.client.RemoteDisconnected):
        return "it closed the connection"
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__


def _tls_reason(cause: ssl.SSLError) -> str:
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {cause.verify_message}"
    if "ALERT" in (cause.reason or ""):
        return f"it refuses the certificate of this host ({cause.reason})"
    return f"TLS: {cause.reason or cause}"


def _cause(error: BaseException) -> BaseException:
    """Return the first of the errors that led to this one."""
    while error.__cause__ is not None or error.__context__ is not None:
        error = error.__cause__ or error.__context__ or error
    return error
