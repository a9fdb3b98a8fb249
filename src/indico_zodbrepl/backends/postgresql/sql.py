"""SQL statements with one deadline for the whole session, and the users' passwords."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from types import ModuleType

from indico_zodbrepl.backends import passwords
from indico_zodbrepl.backends.passwords import PasswordFile
from indico_zodbrepl.backends.postgresql import config
from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.probing.wire import FailureKind, ProbeError

Row = tuple[str | None, ...]
Run = Callable[[str], list[Row]]
"""Runs a statement and returns its rows, values as text."""


def conninfo(cluster: Cluster, node: Node, user: str, database: str) -> str:
    """Return how this program connects to a node's server; the password is in a file."""
    values = {
        "host": node.host,
        "port": node.storage_port,
        "user": user,
        "dbname": database,
        "passfile": config.passfile(cluster, user),
        "gssencmode": "disable",
        "application_name": "zodbrepl",
    }
    if user == config.SUPERUSER:
        # Also while commits of clients are refused.
        values["options"] = "-c default_transaction_read_only=off"
    return " ".join(f"{key}='{value}'" for key, value in values.items())


def load_driver() -> ModuleType:
    """Return the database driver; it is slow to import."""
    return importlib.import_module(f"{__package__}.nonblocking")


@contextlib.contextmanager
def session(conninfo: str, deadline: float) -> Iterator[Run]:
    """Yield a function that runs a statement and returns its rows, values as text.

    Args:
        deadline: a moment of ``time.monotonic``.  The look-up of a host name is not interrupted.

    Raises:
        ProbeError: no answer in time, or a refusal; the function raises it too.  A statement that
            was sent may still be executed.
    """
    nonblocking = load_driver()
    with nonblocking.connected(conninfo, deadline) as connection:
        yield lambda statement: nonblocking.run(connection, statement, deadline)


def query(conninfo: str, deadline: float, *statements: str) -> list[list[Row]]:
    """Run statements in one connection, each in a transaction of its own; see ``session``."""
    with session(conninfo, deadline) as run:
        return [run(statement) for statement in statements]


def command(
    cluster: Cluster,
    node: Node,
    deadline: float,
    *statements: str,
    database: str = config.MAINTENANCE_DATABASE,
) -> list[list[Row]]:
    """Run statements as the superuser of a managed server; see ``query``.

    Raises OperatorError as ``administration``.
    """
    with administration(cluster, node, deadline, database) as run:
        return [run(statement) for statement in statements]


@contextlib.contextmanager
def administration(
    cluster: Cluster, node: Node, deadline: float, database: str = config.MAINTENANCE_DATABASE
) -> Iterator[Run]:
    """Yield what runs a statement as the superuser of a managed server; see ``session``.

    Raises:
        OperatorError: exit 7, no answer in time; exit 1, it refuses.
    """
    try:
        with session(conninfo(cluster, node, config.SUPERUSER, database), deadline) as run:
            yield run
    except ProbeError as error:
        silent = error.kind is FailureKind.SILENT
        raise OperatorError(
            f"the PostgreSQL server of node {node.name} did not execute the order",
            f"{node.storage_address}: {error.detail}",
            exit_code=ExitCode.TIMED_OUT if silent else ExitCode.FAILED,
        ) from error


def literal(text: str) -> str:
    """Return a text as an SQL literal; the servers use standard_conforming_strings."""
    return "'" + text.replace("'", "''") + "'"


def ensure_password(cluster: Cluster, user: str) -> str:
    """Return a user's password, which is stored in the user's file for libpq.

    One host of several makes it: ``make_password``.  Raises OperatorError (exit 8), as
    ``PasswordFile.ensure``.
    """
    return _password_file(cluster, user).ensure(generate=not cluster.hosts)


def make_password(cluster: Cluster, user: str) -> None:
    """Make a user's password if it is missing; raise as ``PasswordFile.ensure``."""
    _password_file(cluster, user).ensure()


def _password_file(cluster: Cluster, user: str) -> PasswordFile:
    settings = config.settings_of(cluster)
    given = settings.password_file if user == settings.user else None
    return PasswordFile(
        config.passfile(cluster, user),
        user,
        lambda password: passfile_line(user, password),
        lambda text: _parsed(text, user),
        "restore it from a backup; the server knows that password only",
        None if given is None else lambda: passwords.read_given(given),
    )


def passfile_line(user: str, password: str) -> str:
    """Return the line of libpq's passfile for a user of any server and database."""
    escaped = password.replace("\\", "\\\\").replace(":", "\\:")
    return f"*:*:*:{user}:{escaped}\n"


def _parsed(text: str, user: str) -> str | None:
    start = f"*:*:*:{user}:"
    if not text.startswith(start) or not text.endswith("\n"):
        return None
    return text[len(start) : -1].replace("\\:", ":").replace("\\\\", "\\")
