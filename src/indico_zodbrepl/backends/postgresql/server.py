"""Start a PostgreSQL server: its preparation, and a server for this program alone."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from psycopg.conninfo import make_conninfo

from indico_zodbrepl.backends.interfaces import Alone
from indico_zodbrepl.backends.native_replication import StandstillError, serving
from indico_zodbrepl.backends.postgresql import config, data, programs, rewinding, sql
from indico_zodbrepl.backends.postgresql.programs import identity
from indico_zodbrepl.cluster import Cluster, Node, NodeState, Role
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.files import may_pass, sync_folder, write_atomically
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.probing.process_state import children_of, state_of
from indico_zodbrepl.probing.waiting import wait_while

# Settings that override the node's configuration.
_SETTINGS = (
    "listen_addresses=",
    "default_transaction_read_only=on",
    "autovacuum=off",
    "synchronous_standby_names=",
    "primary_conninfo=",
    "primary_slot_name=",
    "archive_mode=off",
    # A standby may lie beyond the point where the upstream's timeline began.
    "recovery_target_timeline=current",
)


POSTMASTER_PID = "postmaster.pid"
GONE_SECONDS = 15.0
POLL_SECONDS = 0.05
STILL_SECONDS = 30.0
STILL_BYTES = 4 << 20
"""Bytes that a recovery reads in that time if it is going on; one that waits reads 1 MiB."""


@contextlib.contextmanager
def opened(cluster: Cluster, node: Node, upstream: Node, deadline: float) -> Iterator[Alone]:
    """Open a stopped node's data; see ``NativeReplication.open_alone``.

    Raises:
        OperatorError: exit 7, it does not answer in time, or the upstream does not; exit 8, its
            data are unusable, or another process has them open.
    """
    clear(node)
    if data.is_half_rewound(node):
        yield Alone(None, contained=True)
        return
    logs = rewinding.compared(cluster, node, upstream)
    if logs.contained:
        yield Alone(None, contained=True)
        return
    # A new copy then takes the place of a rewind.
    gone = "it has removed the log that a rewind needs" if logs.lacks_log else ""
    with contextlib.ExitStack() as stack:
        try:
            conf = stack.enter_context(_serving(cluster, node, deadline))
        except StandstillError:
            if not data.follows(node):
                raise
            # Nobody has read from it since it was a standby that had recovered.
            why = "its recovery stands still, because its log is incomplete or damaged"
            found = Alone(None, contained=False, needs_copy=why)
        else:
            found = Alone(conf, contained=False, needs_copy=gone)
        yield found


@contextlib.contextmanager
def _serving(cluster: Cluster, node: Node, deadline: float) -> Iterator[str]:
    """Run a server that is reachable only by its socket; yield a ZODB configuration."""
    who, folder = identity(), config.data_folder(node)
    own, port = config.settings_of(cluster), str(node.storage_port)
    with tempfile.TemporaryDirectory(prefix="zodbrepl-") as name:  # of mode 0700
        place = Path(name)
        (place / "hba").write_text(f"local all {config.SUPERUSER} trust\n")
        who.take_over(place)
        settings = (*_SETTINGS, f"unix_socket_directories={place}", f"hba_file={place}/hba")
        command = who.tied().command(
            programs.of_data(cluster, folder),
            "postgres",
            folder,
            "-D",
            "{data}",
            *(part for each in settings for part in ("-c", each)),
        )
        conninfo = make_conninfo(
            host=str(place),
            port=port,
            user=config.SUPERUSER,
            dbname=own.database,
            application_name="zodbrepl",
        )

        def answers(until: float) -> None:
            sql.query(conninfo, until, "SELECT 1")

        with serving(
            node,
            command,
            folder,
            answers,
            deadline,
            environment=programs.environment(),
            end=signal.SIGINT,
            stands_still=recovery_stands_still(),
        ):
            yield config.node_conf(
                cluster,
                f"dbname='{own.database}' user='{config.SUPERUSER}' host='{place}' port='{port}'",
            )


def recovery_stands_still(seconds: float = STILL_SECONDS) -> Callable[[int], bool]:
    """Return a function that says of a server if its recovery waits for log that nobody sends.

    A standby that may not answer yet waits for ever if its own log ends too early.  Its startup
    process then shows the same segment all the time, and reads the same pages again and again.
    """
    title, read, since = "", 0, time.monotonic()

    def stands_still(server: int) -> bool:
        nonlocal title, read, since
        shown, total = _recovery(server)
        if shown != title or total - read > STILL_BYTES or not shown:
            title, read, since = shown, total, time.monotonic()
        return time.monotonic() - since > seconds

    return stands_still


def _recovery(server: int) -> tuple[str, int]:
    """Return the title of a server's startup process, and the bytes that it has read.

    The title is empty if there is none.
    """
    for pid in children_of(server):
        try:
            shown = Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace").strip("\0 ")
            if " startup " in shown:
                read = Path(f"/proc/{pid}/io").read_text().partition("rchar: ")[2]
                return shown, int(read.split()[0])
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return "", 0


def pid(node: Node) -> int:
    """Return the PID of a node's server by its lock file; 0 without one."""
    try:
        return int((config.data_folder(node) / POSTMASTER_PID).read_text("ascii").split("\n")[0])
    except (FileNotFoundError, ValueError):  # it writes the file now
        return 0


def processes(node: Node) -> list[int]:
    """Return the live processes of a node's server: all that work in its data folder."""
    return [
        pid
        for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
        if pid != os.getpid() and _works_in(pid, config.data_folder(node))
    ]


def clear(node: Node) -> None:
    """Wait until a killed server's processes have exited, and remove its lock file.

    The lock file names a process by its PID, which another process may have by now, for example
    after a restart of the machine; the server would mistake that process for another server.

    Raises:
        OperatorError: exit 8, processes of the server do not exit.
    """
    deadline = time.monotonic() + GONE_SECONDS
    left = wait_while(lambda: processes(node), deadline, POLL_SECONDS)
    if left:
        pids = " ".join(map(str, sorted(left)))
        raise OperatorError(
            f"a server of node {node.name} is there already",
            f"processes {pids} work in {config.data_folder(node)}",
            f"if nobody needs it: kill {pids}; one that is frozen: kill -9 {pids}",
            ExitCode.REFUSED,
        )
    (config.data_folder(node) / POSTMASTER_PID).unlink(missing_ok=True)


def _works_in(pid: int, folder: Path) -> bool:
    try:
        directory = os.readlink(f"/proc/{pid}/cwd")
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return False
    return Path(directory) == folder.resolve() and bool(state_of(pid))


def prepare(cluster: Cluster, state: NodeState) -> list[str]:
    """Prepare a node's data for its role; the start-up check has passed; see ``IBackend.prepare``.

    A primary without data gets a new database, a standby a copy of its upstream's.  A standby that
    becomes the primary ends its recovery in a new timeline.  A former primary follows only if it
    has nothing that its upstream lacks.

    Raises:
        OperatorError: exit 8, it has divergent transactions; others as ``data`` and
            ``replication``.
    """
    node = cluster.node(state.node)
    clear(node)
    try:
        remarks = _prepare(cluster, node, state)
        data.take_site_conf(node)
        for name in (config.DETACHED_CONF, config.COMMITS_CONF):
            write_atomically(config.data_folder(node) / name, "")
    except OSError as error:
        raise OperatorError(
            f"the data of node {node.name} can't be used",
            f"{error.filename or node.data_directory}: {error.strerror}",
            exit_code=ExitCode.FAILED if may_pass(error) else ExitCode.REFUSED,
        ) from error
    return remarks


def _prepare(cluster: Cluster, node: Node, state: NodeState) -> list[str]:
    if state.role is Role.PRIMARY:
        if not data.exists(node):
            data.make_new(cluster, node)
            return ["a new database was made"]
        _refuse_half_rewound(cluster, node)
        return _end_recovery(node)
    upstream = cluster.node(state.upstream or "")
    if not data.exists(node):
        data.copy(cluster, node, upstream)
        return [f"the database of node {upstream.name} was copied"]
    if data.follows(node):
        data.end_rewind(node)
        return []
    return rewinding.rejoin(cluster, node, upstream)


def _refuse_half_rewound(cluster: Cluster, node: Node) -> None:
    if data.is_half_rewound(node):
        raise OperatorError(
            f"node {node.name} can't be the primary: its data are half rewound",
            "a rewind to the history of another node was interrupted",
            f"{Commands.here(cluster).zodbrepl('rejoin', node.name)} while another node is the "
            "primary",
            ExitCode.REFUSED,
        )


def _end_recovery(node: Node) -> list[str]:
    """Make a stopped standby start as the primary, in a new timeline."""
    if not data.follows(node):
        return []
    folder = config.data_folder(node)
    (folder / config.STANDBY_SIGNAL).rename(folder / config.RECOVERY_SIGNAL)
    sync_folder(folder)
    return ["what was a standby becomes the primary"]
