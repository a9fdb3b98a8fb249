"""Statements to a server, with one deadline for all of it."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from types import ModuleType

from ...cluster import Cluster, Node
from ...errors import ExitCode, OperatorError
from ...probing.wire import FailureKind, ProbeError
from . import names

Row = tuple[str | None, ...]


def conninfo(cluster: Cluster, node: Node, user: str, database: str) -> str:
    """How this program reaches a node's server; the password is in a file."""
    values = {"host": node.host, "port": node.storage_port, "user": user, "dbname": database,
              "passfile": names.passfile(cluster, user), "gssencmode": "disable",
              "application_name": "zodbrepl"}
    return " ".join(f"{key}='{value}'" for key, value in values.items())


def load_driver() -> ModuleType:
    """The module that talks to servers: slow to import, and for clusters of this backend only."""
    return importlib.import_module(f"{__package__}.nonblocking")


@contextlib.contextmanager
def session(conninfo: str, deadline: float) -> Iterator[Callable[[str], list[Row]]]:
    """A connection: a function that runs a statement and returns its rows, values as texts.

    Args:
        deadline: a moment of ``time.monotonic``.  The look-up of a host name is not interrupted.

    Raises:
        ProbeError: nobody answers in time, or refuses; the function raises it too.  A statement
            that was sent may still be carried out.
    """
    nonblocking = load_driver()
    with nonblocking.connected(conninfo, deadline) as connection:
        yield lambda statement: nonblocking.run(connection, statement, deadline)


def query(conninfo: str, deadline: float, *statements: str) -> list[list[Row]]:
    """Run statements in one connection, each in a transaction of its own; see ``session``."""
    with session(conninfo, deadline) as run:
        return [run(statement) for statement in statements]


def command(cluster: Cluster, node: Node, deadline: float, *statements: str,
            database: str = names.MAINTENANCE_DATABASE) -> list[list[Row]]:
    """As ``query``, as the superuser of a server that was started here.

    Raises:
        OperatorError: exit 7, no answer in time; exit 1, it refuses.
    """
    try:
        return query(conninfo(cluster, node, names.SUPERUSER, database), deadline, *statements)
    except ProbeError as error:
        silent = error.kind is FailureKind.SILENT
        raise OperatorError(f"the PostgreSQL server of node {node.name} did not do as it was told",
                            f"{node.storage_address}: {error.detail}",
                            exit_code=ExitCode.TIMED_OUT if silent else ExitCode.FAILED) from error


def literal(text: str) -> str:
    """A text as SQL has it; the servers have standard_conforming_strings."""
    return "'" + text.replace("'", "''") + "'"
