"""SQL statements with one deadline for the whole session, and the users' passwords.

PyMySQL's time limits count from one ``recv`` to the next.  Here the deadline applies to the whole
session, so that a frozen or very slow server blocks no caller for longer.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
from pymysql.constants import CR, ER
from pymysql.cursors import DictCursor

from indico_zodbrepl.backends import passwords
from indico_zodbrepl.backends.mariadb import config
from indico_zodbrepl.backends.passwords import PasswordFile
from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.probing.reading import clean
from indico_zodbrepl.probing.wire import FailureKind, ProbeError

Row = dict[str, Any]

# The database or one of its tables does not exist yet.
NOT_THERE = (ER.BAD_DB_ERROR, ER.NO_SUCH_TABLE, ER.DBACCESS_DENIED_ERROR)
# The user may log in, but lacks this privilege.
NOT_ALLOWED = (ER.SPECIFIC_ACCESS_DENIED_ERROR, ER.TABLEACCESS_DENIED_ERROR)
_LOST = (
    CR.CR_SERVER_LOST,
    CR.CR_SERVER_GONE_ERROR,
    CR.CR_CONN_HOST_ERROR,
    ER.SERVER_SHUTDOWN,
    ER.CON_COUNT_ERROR,
)


# Characters that need no escaping between quotes in option files and SQL.
PASSWORD = re.compile(r"[!$-&(-:<-\[\]-_a-~]+")
_IN_FILE = re.compile(r'\[client\]\nuser=(\w+)\npassword="([^"]+)"\n')


class RefusedStatement(ProbeError):
    """A server's error answer to a statement; ``number`` is MariaDB's error number."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(FailureKind.MALFORMED, clean(f"{text} (error {number})"))
        self.number = number


class Session:
    """A connection to a server; it stays usable after a RefusedStatement."""

    def __init__(self, connection: pymysql.Connection[DictCursor], deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline

    def rows(self, statement: str, *arguments: object) -> list[Row]:
        """Execute a statement; return its rows as dicts by column name."""
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(statement, arguments or None)
                return list(cursor.fetchall())
        except (pymysql.MySQLError, OSError) as error:
            raise _problem(error, self._deadline) from error

    def row(self, statement: str, *arguments: object) -> Row:
        """Return the only row of a statement."""
        (found,) = self.rows(statement, *arguments)
        return found


@contextlib.contextmanager
def session(cluster: Cluster, node: Node, user: str, deadline: float) -> Iterator[Session]:
    """Log in over TCP with a stored password.

    Args:
        deadline: a moment of ``time.monotonic``.  The look-up of a host name is not interrupted.

    Raises:
        ProbeError: no answer in time, or a refusal.
    """
    password = _password(cluster, user)
    with _plain_socket(node, deadline) as plain:
        yield from _session(
            plain,
            deadline,
            user=user,
            password=password,
            host=node.host,
            ssl_disabled=is_loopback(plain.getsockname()[0]),
        )


@contextlib.contextmanager
def administration(node: Node, deadline: float) -> Iterator[Session]:
    """Log in as the administrator of a server that was started here, through its socket.

    Raises:
        OperatorError: exit 7, no answer in time; exit 1, it is missing or refuses.
    """
    path = config.server_socket(node)
    try:
        with at_socket(path, deadline) as server:
            yield server
    except ProbeError as error:
        raise not_executed(node, error) from error
    except OSError as error:
        raise OperatorError(
            f"the MariaDB server of node {node.name} can't be reached",
            f"{path}: {error.strerror or 'no answer in time'}",
        ) from error


def not_executed(node: Node, error: ProbeError) -> OperatorError:
    """Return the error for a statement that a server did not execute."""
    silent = error.kind is FailureKind.SILENT
    return OperatorError(
        f"the MariaDB server of node {node.name} did not execute the order",
        error.detail,
        exit_code=ExitCode.TIMED_OUT if silent else ExitCode.FAILED,
    )


def listens(node: Node) -> bool:
    """Return True if a server listens at a node's socket; a killed one leaves the file."""
    with socket.socket(socket.AF_UNIX) as plain:
        try:
            plain.connect(str(config.server_socket(node)))
        except OSError:
            return False
    return True


@contextlib.contextmanager
def at_socket(path: Path, deadline: float) -> Iterator[Session]:
    """Log in as the administrator through a server's socket.  Raises ProbeError, OSError."""
    with socket.socket(socket.AF_UNIX) as plain:
        plain.settimeout(_remaining(deadline))
        plain.connect(str(path))
        yield from _session(
            plain,
            deadline,
            user=config.administrator(),
            unix_socket=str(path),
            ssl_disabled=True,
        )


def is_loopback(address: str) -> bool:
    """Return True if a connection from an IP address does not leave this machine.

    It is not encrypted then; with several hosts it may lead to the tunnel, which does that.
    PyMySQL prepares the encryption even if the server has none: it reads the machine's certificate
    authorities, for 20 ms at each login.

    Args:
        address: the own one, which is known also after the server has reset the connection.
    """
    return ipaddress.ip_address(address).is_loopback


def _session(plain: socket.socket, deadline: float, **arguments: Any) -> Iterator[Session]:
    connection = pymysql.Connection(
        cursorclass=DictCursor,
        defer_connect=True,
        autocommit=True,
        charset="utf8mb4",
        program_name="zodbrepl",
        **arguments,
    )
    try:
        connection.connect(_TimedSocket(plain, deadline))
    except (pymysql.MySQLError, OSError) as error:
        raise _problem(error, deadline) from error
    try:
        yield Session(connection, deadline)
    finally:
        if connection.open:
            connection.close()


class _TimedSocket(socket.socket):
    """A connected socket whose calls all end by the deadline."""

    def __init__(self, plain: socket.socket, deadline: float) -> None:
        self._deadline = deadline
        super().__init__(fileno=plain.detach())

    def settimeout(self, _value: float | None) -> None:
        super().settimeout(_remaining(self._deadline))

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        self.settimeout(None)
        return super().recv_into(buffer, nbytes, flags)


@contextlib.contextmanager
def _plain_socket(node: Node, deadline: float) -> Iterator[socket.socket]:
    address = node.storage_address
    try:
        plain = socket.create_connection((address.host, address.port), _remaining(deadline))
    except TimeoutError:
        raise ProbeError(FailureKind.SILENT, "no answer in time") from None
    except ConnectionRefusedError:
        raise ProbeError(FailureKind.REFUSED, f"nothing listens on {address}") from None
    except OSError as error:
        raise ProbeError(
            FailureKind.UNREACHABLE, f"cannot reach {address}: {error.strerror or error}"
        ) from None
    with plain:
        yield plain


def _password(cluster: Cluster, user: str) -> str:
    try:
        found = of(cluster, user)
    except OperatorError as error:
        raise ProbeError(FailureKind.MALFORMED, f"{error.notice}: {error.detail}") from error
    if found is None:
        raise ProbeError(
            FailureKind.MALFORMED,
            f"no password of user {user}: there is no {config.client_cnf(cluster, user)}",
        )
    return found


def _problem(error: Exception, deadline: float) -> ProbeError:
    if time.monotonic() >= deadline:
        return ProbeError(FailureKind.SILENT, "no answer in time")
    if isinstance(error, OSError):
        return ProbeError(FailureKind.CLOSED, f"connection lost: {error.strerror or error}")
    number, text = (*error.args, "", "")[:2]
    if number in _LOST or not isinstance(number, int):
        return ProbeError(FailureKind.CLOSED, clean(str(text or error)))
    return RefusedStatement(number, str(text))


def _remaining(deadline: float) -> float:
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError
    return remaining


def ensure(cluster: Cluster, user: str) -> str:
    """Return a user's password, which is stored in the user's option file.

    One host of several makes it: ``make``.  Raises OperatorError (exit 8), as
    ``PasswordFile.ensure``.
    """
    return _password_file(cluster, user).ensure(generate=not cluster.hosts)


def make(cluster: Cluster, user: str) -> None:
    """Make a user's password if it is missing; raise as ``PasswordFile.ensure``."""
    _password_file(cluster, user).ensure()


def of(cluster: Cluster, user: str) -> str | None:
    """Return the password in a user's option file; None without one.  Raises OperatorError."""
    return _password_file(cluster, user).read()


def given_in(path: Path) -> str:
    """Return the password in ``password-file``.  Raises OperatorError (exit 8)."""
    password = passwords.read_given(path)
    if not PASSWORD.fullmatch(password):
        raise OperatorError(
            "password-file can't be used",
            f"{path}: it may hold letters, digits and signs, but no blank, quote, backslash, "
            "'#' or ';'",
            "choose another password",
            ExitCode.REFUSED,
        )
    return password


def _password_file(cluster: Cluster, user: str) -> PasswordFile:
    settings = config.settings_of(cluster)
    given = settings.password_file if user == settings.user else None

    def parse(text: str) -> str | None:
        found = _IN_FILE.fullmatch(text)
        return found[2] if found and found[1] == user else None

    return PasswordFile(
        config.client_cnf(cluster, user),
        user,
        lambda password: f'[client]\nuser={user}\npassword="{password}"\n',
        parse,
        "move it away; the next start of the nodes makes a new password",
        None if given is None else lambda: given_in(given),
    )
