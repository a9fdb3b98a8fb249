"""Copying the database of one server to another one, which follows from there."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from typing import IO

from ...cluster import Cluster, Node
from ...errors import ExitCode, OperatorError
from . import asking, data, names, passwords, programs, server_files
from .sessions import administration

OUTPUT_LINES = 20
ANSWER_SECONDS = 30.0
# A copy may take as long as it needs, within reason: bytes a second, and what is added to that.
SLOWEST_COPY = 1e6
LEAST_SECONDS = 600.0

# The copy is one consistent state, with the position at which following it begins.
_DUMP = ("--single-transaction", "--gtid", "--master-data=1", "--routines", "--events",
         "--hex-blob", "--max-allowed-packet=1G")
# What is loaded is no transaction of the follower's own.
_LOAD = ("--binary-mode", "--max-allowed-packet=1G",
         "--init-command=SET SESSION sql_log_bin = 0, SESSION foreign_key_checks = 0")


def seed(cluster: Cluster, node: Node, primary: Node) -> None:
    """Fill a follower that has no whole copy of the database, and let it follow.

    Both servers run here.  Interrupted, it can be repeated: what there is of a copy is replaced.
    The time limit is its own, and depends on how much there is to be copied.

    Raises:
        OperatorError: exit 7, time ran out; exit 8, both are not managed here; exit 1, a program
            failed, with its own words.
    """
    if not (node.managed and primary.managed):
        raise OperatorError(
            f"node {node.name} can't be seeded from node {primary.name} here",
            "a server of one of them is somebody else's",
            f"let its administrator copy it with {programs.DUMP} {' '.join(_DUMP)}",
            ExitCode.REFUSED)
    database = names.settings(cluster).database
    with administration(primary, time.monotonic() + ANSWER_SECONDS) as server:
        seconds = LEAST_SECONDS + asking.size_of(cluster, server) / SLOWEST_COPY
    with administration(node, time.monotonic() + ANSWER_SECONDS) as server:
        for statement in ("STOP SLAVE", "RESET SLAVE ALL", "SET SESSION sql_log_bin = 0",
                          f"DROP DATABASE IF EXISTS `{database}`"):
            server.rows(statement)
    _copy(cluster, node, primary, database, time.monotonic() + seconds)
    data.mark_filled(cluster, node)
    follow(cluster, node, primary, time.monotonic() + ANSWER_SECONDS)


def follow(cluster: Cluster, node: Node, upstream: Node, deadline: float) -> None:
    """Let a server that runs follow another one, from what it has.

    It takes no writes any more.  Raises OperatorError.
    """
    password = passwords.ensure(cluster, names.REPLICATION_USER)
    with administration(node, deadline) as server:
        for statement in ("SET GLOBAL read_only = 1",
                          "SET GLOBAL rpl_semi_sync_master_enabled = OFF", "STOP SLAVE",
                          *server_files.follow_statements(cluster, upstream, password)):
            server.rows(statement)


def _copy(cluster: Cluster, node: Node, primary: Node, database: str, deadline: float) -> None:
    found = programs.find(names.settings(cluster))
    user = f"--user={names.administrator()}"
    dump = (found.path(programs.DUMP), "--no-defaults", f"--socket={names.server_socket(primary)}",
            user, *_DUMP, "--databases", database)
    load = (found.path(programs.CLIENT), "--no-defaults",
            f"--socket={names.server_socket(node)}", user, *_LOAD)
    with tempfile.TemporaryFile() as dump_said, tempfile.TemporaryFile() as load_said:
        with (_started(dump, dump_said, stdout=subprocess.PIPE) as source,
              _started(load, load_said, stdin=source.stdout) as target):
            if source.stdout:
                source.stdout.close()
            try:
                for process in (target, source):
                    process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise OperatorError(f"node {node.name} was not seeded in time",
                                    "repeated, it begins anew",
                                    exit_code=ExitCode.TIMED_OUT) from None
            finally:
                for process in (target, source):
                    process.kill()
        said = [*_last_lines(dump_said), *_last_lines(load_said)]
    if source.returncode or target.returncode:
        raise OperatorError(
            f"node {node.name} was not seeded", f"{programs.DUMP} ended with exit "
            f"{source.returncode}, {programs.CLIENT} with {target.returncode}: " + "\n".join(said))


def _started(command: tuple[str, ...], said: IO[bytes], *, stdin: IO[bytes] | int | None =
             subprocess.DEVNULL, stdout: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=said)


def _last_lines(said: IO[bytes]) -> Iterator[str]:
    said.seek(0)
    yield from said.read().decode("utf-8", "replace").splitlines()[-OUTPUT_LINES:]
