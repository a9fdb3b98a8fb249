"""Queries to a single server, each with a deadline."""

from __future__ import annotations

import http.client
import io
import socket
import time
from typing import cast

from indico_zodbrepl.cluster.places import Address
from indico_zodbrepl.probing import reading
from indico_zodbrepl.probing.answers import HistoryAnswer, IndicoAnswer, MissingAnswer, ServerAnswer
from indico_zodbrepl.probing.wire import MAX_ANSWER, FailureKind, ProbeError, conversation, frame

HEALTH_PATH = "/zodbrepl/health"
RELEASE_SECONDS = 1.0


def probe_server(address: Address, deadline: float) -> ServerAnswer:
    """Ask a ZEO server ``ruok``.

    Args:
        address: its storage address.
        deadline: moment of ``time.monotonic`` at which the probe fails as SILENT.

    Raises:
        ProbeError: no usable answer in time.
    """
    return reading.read_server_answer(_ask(address, b"ruok", deadline))


def probe_missing(address: Address, after: int, deadline: float) -> MissingAnswer:
    """Ask a server how many transactions it holds after a tid; see ``probe_server``."""
    return reading.read_missing_answer(_ask(address, b"since%016x" % after, deadline))


def probe_history(address: Address, transaction: int, deadline: float) -> HistoryAnswer:
    """Ask a server whether its history holds a transaction; see ``probe_server``."""
    return reading.read_history_answer(_ask(address, b"history%016x" % transaction, deadline))


def _ask(address: Address, request: bytes, deadline: float) -> bytes:
    with conversation(address, deadline) as peer:
        peer.send(frame(request))
        protocol = peer.receive_frame()
        if not protocol[:1].isalpha() or len(protocol) > 16:
            raise ProbeError(
                FailureKind.MALFORMED, f"does not speak ZEO: {reading.clean(repr(protocol[:16]))}"
            )
        return peer.receive_frame()


def probe_indico(address: Address, deadline: float) -> IndicoAnswer:
    """Ask an Indico instance for its health; see ``probe_server``.

    200 (connected) and 503 (not connected) both carry the same JSON.
    """
    request = (
        f"GET {HEALTH_PATH} HTTP/1.0\r\nHost: {address}\r\n"
        "Accept: application/json\r\nConnection: close\r\n\r\n"
    )
    with conversation(address, deadline) as peer:
        peer.send(request.encode("ascii"))
        raw = peer.receive_all()
    if not raw:
        raise ProbeError(FailureKind.CLOSED, "closed the connection before it had answered")
    status, body = _read_response(raw)
    if status not in (200, 503):
        raise ProbeError(FailureKind.MALFORMED, f"answered HTTP {status} to {HEALTH_PATH}")
    return reading.read_indico_answer(body)


def indico_release(address: Address) -> str | None:
    """Return the release that an Indico instance runs; None if it does not answer."""
    try:
        return probe_indico(address, time.monotonic() + RELEASE_SECONDS).release
    except ProbeError:
        return None


class _Received:
    """A substitute for ``http.client``'s socket, with bytes that were already received."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._raw)


def _read_response(raw: bytes) -> tuple[int, bytes]:
    response = http.client.HTTPResponse(cast(socket.socket, _Received(raw)))
    try:
        response.begin()
        return response.status, response.read(MAX_ANSWER)
    except (http.client.HTTPException, ValueError):
        raise ProbeError(
            FailureKind.MALFORMED, f"does not speak HTTP: {reading.clean(repr(raw[:20]))}"
        ) from None
