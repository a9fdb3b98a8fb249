"""Start a MariaDB server: its data folder, its programs, and a server for this program alone."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from indico_zodbrepl.backends.interfaces import Alone
from indico_zodbrepl.backends.mariadb import config, received, sql
from indico_zodbrepl.backends.mariadb.comparing import lacks, log_of
from indico_zodbrepl.backends.mariadb.sql import at_socket
from indico_zodbrepl.backends.native_replication import ENDS_WITH_US, serving
from indico_zodbrepl.backends.one_copy import require_data_of_before
from indico_zodbrepl.cluster import Cluster, Node, NodeState
from indico_zodbrepl.cluster.files import may_pass, sync_folder, write_atomically
from indico_zodbrepl.cluster.settings import MariaDBSettings
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.probing.wire import ProbeError

INSTALL_SECONDS = 300
OUTPUT_LINES = 20

_SITE_CNF = """\
# Options of this node's MariaDB server, read after the generated ones. It is yours.
[mariadbd]
"""


ANSWER_SECONDS = 5.0
# These options override those of the node.  The log stays on: after a kill, only the log may show
# that some transactions are committed.
_OPTIONS = (
    "--skip-networking",
    "--skip-slave-start",
    "--read-only=ON",
    "--init-file=",
    "--event-scheduler=OFF",
    "--rpl-semi-sync-master-enabled=OFF",
    "--rpl-semi-sync-slave-enabled=OFF",
    "--init-rpl-role=MASTER",
)

SERVER = "mariadbd"
INSTALL = "mariadb-install-db"
DUMP = "mariadb-dump"
CLIENT = "mariadb"
NEEDED = (SERVER, INSTALL, DUMP, CLIENT)

PACKAGE = "mariadb-server"

# Debian installs the server in folders that are not in the PATH of ordinary users.
SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin")


def prepare(cluster: Cluster, state: NodeState) -> Iterable[str]:
    """Create what a node's server needs to start in a state: data, passwords, statements.

    Yields remarks.  Raises OperatorError (exit 8; exit 4 without the programs).
    """
    node = cluster.node(state.node)
    if state.upstream is None:
        require_data_of_before(cluster, node, has_data=is_filled(node))
    secret = {
        user: sql.ensure(cluster, user)
        for user in (config.settings_of(cluster).user, *config.GENERATED_USERS)
    }
    folder = config.data_folder(node)
    try:
        _make_socket_folder(config.server_socket(node))
        config.temporary_folder(node).mkdir(mode=0o700, exist_ok=True)
        if not folder.exists():
            _install(cluster, node)
            yield f"node {node.name} has new data in {folder}"
        received.record(node, state.epoch)
        if not config.site_cnf(node).exists():
            write_atomically(config.site_cnf(node), _SITE_CNF)
        if state.upstream is None:
            remember_primary(node)
        write_atomically(
            config.init_sql_file(cluster, node),
            config.init_sql(
                cluster,
                state,
                secret,
                filled=is_filled(node),
                locked=state.upstream is not None and config.led_mark(node).exists(),
            ),
            0o600,
        )
    except OSError as error:
        raise OperatorError(
            f"the data of node {node.name} can't be made ready",
            f"{error.filename or node.data_directory}: {error.strerror}",
            exit_code=ExitCode.FAILED if may_pass(error) else ExitCode.REFUSED,
        ) from error


def is_filled(node: Node) -> bool:
    """Return True if a node's copy of the database was complete at some time."""
    try:
        return config.filled_mark(node).exists()
    except OSError:
        return False


def mark_filled(cluster: Cluster, node: Node) -> None:
    """Record that a node's copy of the database is complete.  Raises OSError, OperatorError."""
    write_atomically(config.filled_mark(node), "")
    require_data_of_before(cluster, node, has_data=True)


def remember_primary(node: Node) -> None:
    """Record that a node may hold data that no other node has.  Raises OSError."""
    write_atomically(config.led_mark(node), "")


def forget_primary(node: Node) -> None:
    """Record that a former primary has joined another node.  Raises OSError."""
    config.led_mark(node).unlink(missing_ok=True)


def _install(cluster: Cluster, node: Node) -> None:
    """Create the folder under another name first, so that it appears only when complete."""
    folder = config.data_folder(node)
    unfinished = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(unfinished, ignore_errors=True)
    found = find(config.settings_of(cluster))
    user = config.administrator()
    command = [
        *ENDS_WITH_US,
        found.path(INSTALL),
        "--no-defaults",
        f"--datadir={unfinished}",
        f"--tmpdir={config.temporary_folder(node)}",
        "--auth-root-authentication-method=socket",
        f"--auth-root-socket-user={user}",
        "--skip-test-db",
        "--skip-name-resolve",
        f"--user={user}",
    ]
    try:
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=INSTALL_SECONDS,
                check=False,
            )
            output.seek(0)
            said = output.read().splitlines()
    except subprocess.TimeoutExpired:
        raise OperatorError(
            f"{INSTALL} did not come to its end",
            str(unfinished),
            exit_code=ExitCode.REFUSED,
        ) from None
    if done.returncode != 0:
        errors = [line for line in said if "ERROR" in line] or said
        raise OperatorError(
            f"{INSTALL} failed with exit {done.returncode}",
            "\n".join(errors[-OUTPUT_LINES:]),
            exit_code=ExitCode.REFUSED,
        )
    unfinished.rename(folder)
    sync_folder(folder.parent)


def _make_socket_folder(socket: Path) -> None:
    """Create the folder of a server's socket; refuse another user's folder under /tmp."""
    folder = socket.parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.geteuid():
        raise OperatorError(
            "the server's socket can't be made",
            f"{folder} is another user's",
            "choose a shorter data-directory",
            ExitCode.REFUSED,
        )


@contextlib.contextmanager
def opened(cluster: Cluster, node: Node, upstream: Node, deadline: float) -> Iterator[Alone]:
    """Open a stopped node's data; see ``NativeReplication.open_alone``.

    Raises:
        OperatorError: exit 7, it does not answer in time, or the upstream does not; exit 8, its
            data are unusable, or another process has them open.
    """
    with tempfile.TemporaryDirectory(prefix="zodbrepl-") as name:  # of mode 0700
        path = Path(name) / "socket"
        with _serving(cluster, node, path, deadline):
            logged = _last_logged(path)
            lacking = lacks(logged, log_of(cluster, upstream))
            yield Alone(
                config.alone_conf(cluster, path),
                contained=not lacking,
                needs_copy=lacking
                and f"its log has {lacking}, which that of node {upstream.name} lacks",
            )


def _serving(
    cluster: Cluster, node: Node, socket: Path, deadline: float
) -> AbstractContextManager[None]:
    options = config.my_cnf_file(node)
    base = (
        (f"--defaults-file={options}",)
        if options.exists()
        else ("--no-defaults", f"--datadir={config.data_folder(node)}", "--log-bin=binlog")
    )
    as_root = (f"--user={config.administrator()}",) if os.geteuid() == 0 else ()
    command = (
        *ENDS_WITH_US,
        find(config.settings_of(cluster)).path(SERVER),
        *base,
        *_OPTIONS,
        f"--socket={socket}",
        *as_root,
    )

    def answers(until: float) -> None:
        with at_socket(socket, until) as server:
            server.rows("SELECT 1")

    return serving(node, command, node.data_directory, answers, deadline, tells="[ERROR]")


def _last_logged(socket: Path) -> str:
    try:
        with at_socket(socket, time.monotonic() + ANSWER_SECONDS) as server:
            return str(server.row("SELECT @@GLOBAL.gtid_binlog_pos AS gtid")["gtid"])
    except (ProbeError, OSError) as error:
        raise OperatorError(
            "what an ended server logged last can't be read",
            str(error),
            exit_code=ExitCode.TIMED_OUT,
        ) from error


@dataclasses.dataclass(frozen=True)
class Programs:
    """The programs by name; all of ``NEEDED`` exist."""

    paths: Mapping[str, Path]

    def path(self, name: str) -> str:
        return str(self.paths[name])


def find(settings: MariaDBSettings) -> Programs:
    """Return the programs in ``bin-directory``, on PATH, or in the system's folders.

    Raises:
        OperatorError: exit 4, some are missing.
    """
    folders = search_path(settings)
    found = {name: shutil.which(name, path=os.pathsep.join(folders)) for name in NEEDED}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        raise OperatorError(
            f"MariaDB's programs are not installed: no {', '.join(missing)}",
            f"looked in {', '.join(folders)}",
            f"apt-get install {PACKAGE}; or name their folder: bin-directory in <mariadb>",
            ExitCode.NOT_INSTALLED,
        )
    return Programs({name: Path(path) for name, path in found.items() if path})


def search_path(settings: MariaDBSettings) -> list[str]:
    """Return the folders in which to search for programs."""
    if settings.bin_directory is not None:
        return [str(settings.bin_directory)]
    return [*os.environ.get("PATH", os.defpath).split(os.pathsep), *SYSTEM_FOLDERS]
