"""Copy a database to a follower, and let it follow."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Iterator
from typing import IO

from indico_zodbrepl.backends.mariadb import config, received, sql, status
from indico_zodbrepl.backends.mariadb import server as servers
from indico_zodbrepl.backends.mariadb.sql import (
    Session,
    administration,
    not_executed,
    session,
)
from indico_zodbrepl.backends.native_replication import ENDS_WITH_US
from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.probing.wire import ProbeError

OUTPUT_LINES = 20
START_COPY_SECONDS = 30.0
# Time limit of a copy: at this many bytes per second, plus a constant.
SLOWEST_COPY = 1e6
LEAST_SECONDS = 600.0

# The copy is one consistent state, with the position from which to follow.
_DUMP = (
    "--single-transaction",
    "--gtid",
    "--master-data=1",
    "--routines",
    "--events",
    "--hex-blob",
    "--max-allowed-packet=1G",
)
# The loaded data are no transactions of the follower itself.
_LOAD = (
    "--binary-mode",
    "--max-allowed-packet=1G",
    "--init-command=SET SESSION sql_log_bin = 0, SESSION foreign_key_checks = 0",
)


def seed(cluster: Cluster, node: Node, primary: Node) -> None:
    """Copy the database to a follower without a complete copy, and let it follow.

    Its server runs here, the primary's here or on another host.  After an interruption it can be
    repeated: a partial copy is replaced. It has its own time limit, which depends on the amount of
    data.

    Raises:
        OperatorError: exit 7, timeout; exit 8, one of them is not managed here; exit 1, a program
            failed, with its message.
    """
    if not (node.managed and primary.managed):
        raise OperatorError(
            f"node {node.name} can't be cloned from node {primary.name} here",
            "a server of one of them is somebody else's",
            f"let its administrator copy it with {servers.DUMP} {' '.join(_DUMP)}",
            ExitCode.REFUSED,
        )
    database = config.settings_of(cluster).database
    with upstream_session(cluster, primary, time.monotonic() + START_COPY_SECONDS) as server:
        seconds = LEAST_SECONDS + status.size_of(cluster, server) / SLOWEST_COPY
    with administration(node, time.monotonic() + START_COPY_SECONDS) as server:
        for statement in (
            "STOP SLAVE",
            "RESET SLAVE ALL",
            "SET SESSION sql_log_bin = 0",
            f"DROP DATABASE IF EXISTS `{database}`",
        ):
            server.rows(statement)
    _copy(cluster, node, primary, database, time.monotonic() + seconds)
    received.forget(node)
    servers.mark_filled(cluster, node)
    follow(cluster, node, primary, time.monotonic() + START_COPY_SECONDS)


def follow(cluster: Cluster, node: Node, upstream: Node, deadline: float) -> None:
    """Make a running server follow another one, from its present data.

    It accepts no more writes.  Raises OperatorError.
    """
    password = sql.ensure(cluster, config.REPLICATION_USER)
    with administration(node, deadline) as server:
        for statement in (
            "SET GLOBAL read_only = 1",
            "SET GLOBAL rpl_semi_sync_master_enabled = OFF",
            "STOP SLAVE",
            *config.follow_statements(cluster, upstream, password),
        ):
            server.rows(statement)


@contextlib.contextmanager
def upstream_session(cluster: Cluster, upstream: Node, deadline: float) -> Iterator[Session]:
    """Log in to a managed upstream: as its administrator, or on another host for replication.

    Raises OperatorError: exit 7, no answer in time; exit 1, it is missing or refuses.
    """
    if cluster.is_here(upstream):
        with administration(upstream, deadline) as server:
            yield server
        return
    try:
        with session(cluster, upstream, config.REPLICATION_USER, deadline) as server:
            yield server
    except ProbeError as error:
        raise not_executed(upstream, error) from error


def _copy(cluster: Cluster, node: Node, primary: Node, database: str, deadline: float) -> None:
    found = servers.find(config.settings_of(cluster))
    user = f"--user={config.administrator()}"
    if cluster.is_here(primary):
        login: tuple[str, ...] = (
            "--no-defaults",
            f"--socket={config.server_socket(primary)}",
            user,
        )
    else:
        login = (
            f"--defaults-file={config.client_cnf(cluster, config.REPLICATION_USER)}",
            "--protocol=TCP",
            f"--host={primary.host}",
            f"--port={primary.storage_port}",
        )
    dump = (
        found.path(servers.DUMP),
        *login,
        *_DUMP,
        "--databases",
        database,
    )
    load = (
        found.path(servers.CLIENT),
        "--no-defaults",
        f"--socket={config.server_socket(node)}",
        user,
        *_LOAD,
    )
    with tempfile.TemporaryFile() as dump_said, tempfile.TemporaryFile() as load_said:
        with (
            _started(dump, dump_said, stdout=subprocess.PIPE) as source,
            _started(load, load_said, stdin=source.stdout) as target,
        ):
            if source.stdout:
                source.stdout.close()
            try:
                for process in (target, source):
                    process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise OperatorError(
                    f"node {node.name} was not cloned in time",
                    "rerun the command; it starts from the beginning",
                    exit_code=ExitCode.TIMED_OUT,
                ) from None
            finally:
                for process in (target, source):
                    process.kill()
        said = [*_last_lines(dump_said), *_last_lines(load_said)]
    if source.returncode or target.returncode:
        raise OperatorError(
            f"node {node.name} was not cloned",
            f"{servers.DUMP} ended with exit "
            f"{source.returncode}, {servers.CLIENT} with {target.returncode}: " + "\n".join(said),
        )


def _started(
    command: tuple[str, ...],
    said: IO[bytes],
    *,
    stdin: IO[bytes] | int | None = subprocess.DEVNULL,
    stdout: int = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*ENDS_WITH_US, *command], stdin=stdin, stdout=stdout, stderr=said)


def _last_lines(said: IO[bytes]) -> Iterator[str]:
    said.seek(0)
    yield from said.read().decode("utf-8", "replace").splitlines()[-OUTPUT_LINES:]
