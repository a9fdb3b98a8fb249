"""Making a node's data folder, with a server in it that holds no database yet."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from ...cluster import Cluster, Node, NodeState
from ...cluster.files import sync_folder, write_atomically
from ...errors import ExitCode, OperatorError
from ..one_copy import require_data_of_before
from . import names, passwords, programs, server_files

INSTALL_SECONDS = 300
OUTPUT_LINES = 20

_SITE_CNF = """\
# Options of this node's MariaDB server, read after the generated ones. It is yours.
[mariadbd]
"""


def prepare(cluster: Cluster, state: NodeState) -> Iterable[str]:
    """Make what a node's server needs before it starts in a state: data, passwords, statements.

    Yields remarks.  Raises OperatorError (exit 8; exit 4 without the programs).
    """
    node = cluster.node(state.node)
    if state.upstream is None:
        require_data_of_before(cluster, node, has_data=is_filled(node))
    secret = {user: passwords.ensure(cluster, user)
              for user in (names.settings(cluster).user, *names.GENERATED_USERS)}
    folder = names.data_folder(node)
    try:
        _make_socket_folder(names.server_socket(node))
        names.temporary_folder(node).mkdir(mode=0o700, exist_ok=True)
        if not folder.exists():
            _install(cluster, node)
            yield f"node {node.name} has new data in {folder}"
        if not names.site_cnf(node).exists():
            write_atomically(names.site_cnf(node), _SITE_CNF)
        if state.upstream is None:
            remember_primary(node)
        write_atomically(names.init_sql(cluster, node), server_files.init_sql(
            cluster, state, secret, filled=is_filled(node),
            locked=state.upstream is not None and names.led_mark(node).exists()), 0o600)
    except OSError as error:
        raise OperatorError(f"the data of node {node.name} can't be made ready",
                            f"{error.filename}: {error.strerror}",
                            exit_code=ExitCode.REFUSED) from error


def is_filled(node: Node) -> bool:
    """Whether a node's copy of the database can be seen and was whole at some time."""
    try:
        return names.filled_mark(node).exists()
    except OSError:
        return False


def mark_filled(cluster: Cluster, node: Node) -> None:
    """Keep that a node's copy of the database is whole.  Raises OSError, OperatorError."""
    write_atomically(names.filled_mark(node), "")
    require_data_of_before(cluster, node, has_data=True)


def remember_primary(node: Node) -> None:
    """Keep that a node may hold what nobody else has.  Raises OSError."""
    write_atomically(names.led_mark(node), "")


def forget_primary(node: Node) -> None:
    """Keep that a node that was a primary has joined another one.  Raises OSError."""
    names.led_mark(node).unlink(missing_ok=True)


def _install(cluster: Cluster, node: Node) -> None:
    """Make the folder under another name, so that it is whole or not there."""
    folder = names.data_folder(node)
    unfinished = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(unfinished, ignore_errors=True)
    found = programs.find(names.settings(cluster))
    user = names.administrator()
    command = [found.path(programs.INSTALL), "--no-defaults", f"--datadir={unfinished}",
               f"--tmpdir={names.temporary_folder(node)}",
               "--auth-root-authentication-method=socket", f"--auth-root-socket-user={user}",
               "--skip-test-db", "--skip-name-resolve", f"--user={user}"]
    try:
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output,
                                  stderr=subprocess.STDOUT, timeout=INSTALL_SECONDS, check=False)
            output.seek(0)
            said = output.read().splitlines()
    except subprocess.TimeoutExpired:
        raise OperatorError(f"{programs.INSTALL} did not come to its end", str(unfinished),
                            exit_code=ExitCode.REFUSED) from None
    if done.returncode != 0:
        errors = [line for line in said if "ERROR" in line] or said
        raise OperatorError(f"{programs.INSTALL} failed with exit {done.returncode}",
                            "\n".join(errors[-OUTPUT_LINES:]), exit_code=ExitCode.REFUSED)
    unfinished.rename(folder)
    sync_folder(folder.parent)


def _make_socket_folder(socket: Path) -> None:
    """Make the folder of a server's socket; refuse one under /tmp that is somebody else's."""
    folder = socket.parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.geteuid():
        raise OperatorError("the server's socket can't be made", f"{folder} is another user's",
                            "choose a shorter data-directory", ExitCode.REFUSED)
