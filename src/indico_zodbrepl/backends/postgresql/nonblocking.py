"""Non-blocking calls of libpq, with this module's own waiting.

psycopg's own connections wait for the end of a cancelled statement, which a frozen server never
reports.
"""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Iterator

import psycopg
from psycopg import pq

from indico_zodbrepl.cluster import Address
from indico_zodbrepl.probing.reading import clean
from indico_zodbrepl.probing.wire import FailureKind, ProbeError

_GOOD = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)
# Errors of this class (SQLSTATE): the server is starting, stopping, or out of connections.
_NOT_NOW = ("57P", "53")


@contextlib.contextmanager
def connected(conninfo: str, deadline: float) -> Iterator[pq.abc.PGconn]:
    """Yield a connection; see ``sql.session``."""
    connection = pq.PGconn.connect_start(conninfo.encode())
    try:
        while True:
            state = connection.connect_poll()
            if state == pq.PollingStatus.OK:
                break
            if state == pq.PollingStatus.FAILED:
                raise _failed_to_connect(connection)
            _wait(connection.socket, deadline, write=state == pq.PollingStatus.WRITING)
        connection.nonblocking = 1
        yield connection
    finally:
        connection.finish()


def run(connection: pq.abc.PGconn, statement: str, deadline: float) -> list[tuple[str | None, ...]]:
    """Return the rows of a statement; see ``sql.session``."""
    rows: list[tuple[str | None, ...]] = []
    try:
        connection.send_query(statement.encode())
        while connection.flush():
            _wait(connection.socket, deadline, write=True)
        while True:
            while connection.is_busy():
                _wait(connection.socket, deadline)
                connection.consume_input()
            result = connection.get_result()
            if result is None:
                return rows
            if result.status not in _GOOD:
                state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
                kind = FailureKind.CLOSED if state.startswith(_NOT_NOW) else FailureKind.MALFORMED
                raise ProbeError(kind, _message(result.error_message))
            rows = [
                tuple(_text(result.get_value(row, column)) for column in range(result.nfields))
                for row in range(result.ntuples)
            ]
    except psycopg.Error as error:
        raise ProbeError(FailureKind.CLOSED, f"connection lost: {_one_line(str(error))}") from None


def _wait(socket: int, deadline: float, *, write: bool = False) -> None:
    remaining = deadline - time.monotonic()
    if remaining > 0:
        poll = select.poll()
        poll.register(socket, select.POLLOUT if write else select.POLLIN)
        if poll.poll(remaining * 1000):
            return
    raise ProbeError(FailureKind.SILENT, "no answer in time")


def _failed_to_connect(connection: pq.abc.PGconn) -> ProbeError:
    """Return the kind of failure; libpq gives only a text."""
    message = _message(connection.error_message)
    if "Connection refused" in message:
        address = Address(connection.host.decode(), int(connection.port))
        return ProbeError(FailureKind.REFUSED, f"nothing listens on {address}")
    kind = FailureKind.MALFORMED
    for words, meaning in (
        ("timed out", FailureKind.SILENT),
        ("the database system is", FailureKind.CLOSED),
        ("closed the connection", FailureKind.CLOSED),
        ("Connection reset", FailureKind.CLOSED),
        ("too many clients", FailureKind.CLOSED),
        ("No route to host", FailureKind.UNREACHABLE),
        ("unreachable", FailureKind.UNREACHABLE),
        ("could not translate host name", FailureKind.UNREACHABLE),
    ):
        if words in message:
            kind = meaning
            break
    return ProbeError(kind, message)


def _message(raw: bytes | None) -> str:
    return _one_line((raw or b"").decode("utf-8", "replace"))


def _one_line(text: str) -> str:
    return clean(" ".join(text.split()))


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")
