"""One query over TCP with one deadline, and an answer of bounded length.

A socket's own timeout counts from one ``recv`` to the next, so a peer that sends one byte per
second blocks its caller forever.  Here the deadline applies to the whole conversation.
"""

from __future__ import annotations

import enum
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager

from indico_zodbrepl.cluster.places import Address

MAX_ANSWER = 256 * 1024
"""Bytes; a status with a hundred followers takes about 4 KiB."""


class FailureKind(enum.StrEnum):
    REFUSED = "refused"
    SILENT = "silent"
    UNREACHABLE = "unreachable"
    CLOSED = "closed"
    MALFORMED = "malformed"
    TOO_LONG = "too long"
    HOST_AWAY = "host away"


class ProbeError(Exception):
    """A probe without a usable answer.

    Attributes:
        kind: what went wrong, for rules.
        detail: the same for people.
    """

    def __init__(self, kind: FailureKind, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail


class Conversation:
    """A connected socket and its deadline (``time.monotonic``)."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock = sock
        self._deadline = deadline

    def send(self, data: bytes) -> None:
        self._sock.settimeout(remaining(self._deadline))
        self._sock.sendall(data)

    def receive(self, most: int) -> bytes:
        """Return the next bytes, at most that many; empty at the end of the stream."""
        self._sock.settimeout(remaining(self._deadline))
        return self._sock.recv(most)

    def receive_exactly(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            chunk = self.receive(count - len(received))
            if not chunk:
                raise ProbeError(FailureKind.CLOSED, "closed the connection before it had answered")
            received += chunk
        return bytes(received)

    def receive_frame(self) -> bytes:
        """Return one length-prefixed frame of ZEO's protocol, not longer than MAX_ANSWER."""
        (length,) = struct.unpack(">I", self.receive_exactly(4))
        if length > MAX_ANSWER:
            raise ProbeError(
                FailureKind.TOO_LONG, f"announced an answer of {length} bytes; not a ZEO server?"
            )
        return self.receive_exactly(length)

    def receive_all(self) -> bytes:
        """Return everything up to the end of the stream, not longer than MAX_ANSWER."""
        received = bytearray()
        while chunk := self.receive(65536):
            received += chunk
            if len(received) > MAX_ANSWER:
                raise ProbeError(
                    FailureKind.TOO_LONG, f"sent more than {MAX_ANSWER} bytes in answer"
                )
        return bytes(received)


def frame(payload: bytes) -> bytes:
    return struct.pack(">I", len(payload)) + payload


@contextmanager
def conversation(address: Address, deadline: float) -> Iterator[Conversation]:
    """Connect, and turn socket errors inside the block into ProbeError.

    Args:
        address: of the server.
        deadline: a moment of ``time.monotonic`` after which everything fails as SILENT.  The
            look-up of a host name is not interrupted; callers with host names run in a thread that
            is not waited for beyond the deadline.

    Raises:
        ProbeError: no connection, no answer in time, or a connection lost.
    """
    try:
        with socket.create_connection(
            (address.host, address.port), timeout=remaining(deadline)
        ) as sock:
            yield Conversation(sock, deadline)
    except TimeoutError:
        raise ProbeError(FailureKind.SILENT, "no answer in time") from None
    except ConnectionRefusedError:
        raise ProbeError(FailureKind.REFUSED, f"nothing listens on {address}") from None
    except ConnectionError as error:
        raise ProbeError(FailureKind.CLOSED, f"connection lost: {error.strerror}") from None
    except OSError as error:
        raise ProbeError(
            FailureKind.UNREACHABLE, f"cannot reach {address}: {error.strerror or error}"
        ) from None


def remaining(deadline: float) -> float:
    """Return the seconds until a moment of ``time.monotonic``; TimeoutError if it is over."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
