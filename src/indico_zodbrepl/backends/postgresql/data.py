"""A node's data: a new database, or a copy of another node's."""

from __future__ import annotations

import re
import shlex
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from indico_zodbrepl.backends.postgresql import config, programs, sql
from indico_zodbrepl.backends.postgresql.config import (
    OWN_SITE_CONF,
    REPLICATION_PASSFILE,
    SITE_CONF,
    STANDBY_SIGNAL,
)
from indico_zodbrepl.backends.postgresql.programs import NOBODY_ELSE, identity
from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.files import sync_folder, write_atomically
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.probing.waiting import wait_while

UPSTREAM_SECONDS = 120.0
ANSWER_SECONDS = 10.0
POLL_SECONDS = 0.2
# The settings that pg_rewind requires according to the manual.
_FOR_PG_REWIND = tuple(
    f"GRANT EXECUTE ON FUNCTION {function} TO {config.REPLICATION_USER};"
    for function in (
        "pg_ls_dir(text, boolean, boolean)",
        "pg_stat_file(text, boolean)",
        "pg_read_binary_file(text)",
        "pg_read_binary_file(text, bigint, bigint, boolean)",
    )
)
# Seconds without activity after which a copy has stalled, for example from a frozen server.
STALLED_SECONDS = 60.0
COPY_SECONDS = 24 * 3600.0
# A follower receives the current segment of the log from its beginning when it follows another
# server, twice after a take-over, before it confirms a commit. PostgreSQL's own size is 16 MB.
SEGMENT_MEGABYTES = 1


def exists(node: Node) -> bool:
    """Return True if a node has a database, complete or not."""
    return (config.data_folder(node) / "PG_VERSION").exists()


def follows(node: Node) -> bool:
    """Return True if a node's server would start as a standby."""
    return (config.data_folder(node) / STANDBY_SIGNAL).exists()


def begin_rewind(node: Node) -> None:
    """Record that a node's data are about to be rewound.  Raises OSError."""
    write_atomically(_rewind_mark(node), "")


def is_half_rewound(node: Node) -> bool:
    """Return True if a rewind has begun and not ended.

    Then the data are neither the node's former ones nor its upstream's, and only another rewind, or
    a copy, helps.  Everything that they had is elsewhere: that was found before.
    """
    return _rewind_mark(node).exists() and not follows(node)


def first_segment(node: Node) -> str | None:
    """Return the name of the segment of the log with which a recovery of rewound data begins.

    None if no recovery is needed.  Raises OSError.
    """
    try:
        label = (config.data_folder(node) / "backup_label").read_text("ascii")
    except FileNotFoundError:
        return None
    found = re.search(r"^START WAL LOCATION: .*\(file ([0-9A-F]{24})\)", label, re.MULTILINE)
    return found[1] if found else None


def end_rewind(node: Node) -> None:
    """Forget a rewind: the data are a standby's now, or were replaced.  Raises OSError."""
    _rewind_mark(node).unlink(missing_ok=True)


def _rewind_mark(node: Node) -> Path:
    # Beside the data, because a rewind removes what the other server does not have.
    return node.data_directory / "postgresql.rewinding"


def make_new(cluster: Cluster, node: Node) -> None:
    """Create an empty database with its users, for the first primary.

    It appears in its place when it is complete.  Raises OperatorError.
    """
    settings, who = config.settings_of(cluster), identity()
    found = programs.find(settings)
    users = {
        user: sql.ensure_password(cluster, user) for user in (*config.MANAGED_USERS, settings.user)
    }
    fresh = _empty_folder(node)
    who.take_over(fresh)
    programs.run(
        who,
        found,
        "initdb",
        fresh,
        "-D",
        "{data}",
        "-U",
        config.SUPERUSER,
        "--auth=reject",
        "--encoding=UTF8",
        "--locale=C",
        "--data-checksums",
        f"--wal-segsize={SEGMENT_MEGABYTES}",
    )
    quoted = {user: sql.literal(password) for user, password in users.items()}
    programs.single_user(
        who,
        found,
        fresh,
        config.MAINTENANCE_DATABASE,
        f"ALTER ROLE {config.SUPERUSER} PASSWORD {quoted[config.SUPERUSER]};",
        f"CREATE ROLE {config.REPLICATION_USER} REPLICATION LOGIN "
        f"PASSWORD {quoted[config.REPLICATION_USER]};",
        *_FOR_PG_REWIND,
        f"CREATE ROLE {settings.user} LOGIN PASSWORD {quoted[settings.user]};",
        f"GRANT pg_monitor TO {settings.user};",
        f"CREATE DATABASE {settings.database} OWNER {settings.user};",
    )
    _put_in_place(node, fresh)


def copy(cluster: Cluster, node: Node, upstream: Node, seconds: float = COPY_SECONDS) -> None:
    """Copy a running server's data to a node, ready to follow that server.

    Waits until that server answers.  The copy appears in its place when it is complete.

    Raises:
        OperatorError: exit 7, the upstream does not answer, or the copy stalls; exit 1.
    """
    found = programs.find(config.settings_of(cluster))
    wait_for(cluster, upstream)
    ensure_slot(cluster, upstream, node)
    fresh = _empty_folder(node)
    source = sql.conninfo(cluster, upstream, config.REPLICATION_USER, "replication")
    # This program does not refuse root, and must be able to read the password.
    programs.run(
        NOBODY_ELSE,
        found,
        "pg_basebackup",
        fresh,
        "-D",
        "{data}",
        "-d",
        source,
        "-X",
        "stream",
        "-c",
        "fast",
        "-S",
        config.slot(node),
        "--no-password",
        seconds=seconds,
        stalled=standstill(),
    )
    _let_follow(cluster, fresh)
    _put_in_place(node, fresh)


def let_follow(cluster: Cluster, node: Node) -> None:
    """Make a node's server start as a standby.  Raises OperatorError (exit 8), OSError."""
    _let_follow(cluster, config.data_folder(node))


def write_replication_passfile(cluster: Cluster, folder: Path) -> None:
    """Store the replication password where a server reads it.  Raises OSError."""
    user = config.REPLICATION_USER
    write_atomically(
        folder / REPLICATION_PASSFILE,
        sql.passfile_line(user, sql.ensure_password(cluster, user)),
        0o600,
    )
    identity().take_over(folder)


def take_site_conf(node: Node) -> None:
    """Make a node's server read the operator's own settings, if any.  Raises OSError.

    They are kept beside the data, because a copy of another node's data would replace them.
    """
    own = node.data_directory / OWN_SITE_CONF
    text = own.read_text("utf-8") if own.exists() else "# None.\n"
    write_atomically(config.data_folder(node) / SITE_CONF, text)


def wait_for(cluster: Cluster, node: Node, seconds: float = UPSTREAM_SECONDS) -> None:
    """Wait until a node's server accepts statements.  Raises OperatorError (exit 7)."""
    deadline = time.monotonic() + seconds

    def problem() -> OperatorError | None:
        try:
            sql.command(cluster, node, min(deadline, time.monotonic() + ANSWER_SECONDS), "SELECT 1")
        except OperatorError as error:
            return error
        return None

    last = wait_while(problem, deadline, POLL_SECONDS)
    if last is not None:
        raise OperatorError(
            f"node {node.name} did not answer in time",
            last.detail,
            exit_code=ExitCode.TIMED_OUT,
        ) from last


def ensure_slot(cluster: Cluster, upstream: Node, *nodes: Node) -> None:
    """Make a server keep the WAL that followers still need.  Raises OperatorError."""
    deadline = time.monotonic() + ANSWER_SECONDS
    sql.command(cluster, upstream, deadline, *slot_statements(*nodes))


def slot_statements(*nodes: Node) -> list[str]:
    """Return statements that make a server keep the WAL that followers still need."""
    names = [sql.literal(config.slot(node)) for node in nodes]
    # Another host may create the same slot at the same time.
    return [
        f"DO $$ BEGIN PERFORM pg_create_physical_replication_slot({name}, true) "
        f"WHERE NOT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = {name}); "
        "EXCEPTION WHEN duplicate_object THEN NULL; END $$"
        for name in names
    ]


def _empty_folder(node: Node) -> Path:
    """Create the folder for new data; remove what an interrupted attempt left in it."""
    fresh = node.data_directory / "postgresql.new"
    if fresh.exists():
        shutil.rmtree(fresh)
    fresh.mkdir(mode=0o700, parents=True)
    return fresh


def _put_in_place(node: Node, fresh: Path) -> None:
    identity().take_over(fresh)
    fresh.rename(config.data_folder(node))
    sync_folder(node.data_directory)
    end_rewind(node)


def _let_follow(cluster: Cluster, folder: Path) -> None:
    write_replication_passfile(cluster, folder)
    write_atomically(folder / STANDBY_SIGNAL, "", 0o600)
    identity().take_over(folder)


def standstill(seconds: float = STALLED_SECONDS) -> Callable[[int], bool]:
    """Return a function that reports whether a process does nothing.

    It takes the PID, and returns True once the process has neither read nor written nor begun to
    wait for that many seconds.  One that synchronises files works: each call waits for a moment.
    """
    seen, since = "", time.monotonic()

    def stands_still(pid: int) -> bool:
        nonlocal seen, since
        present = _activity(pid)
        if present != seen:
            seen, since = present, time.monotonic()
        return time.monotonic() - since > seconds

    return stands_still


def _activity(pid: int) -> str:
    """Return counters of a process that grow while it works; see proc(5).  Empty if it is gone."""
    folder = Path("/proc", str(pid))
    try:
        waits = re.findall(r"\nvoluntary_ctxt_switches:\s*(\d+)", (folder / "status").read_text())
        return f"{(folder / 'io').read_text()}{waits}"
    except (FileNotFoundError, ProcessLookupError):
        return ""


def on_its_host(node: Node) -> str:
    """Return where a command for a node's files is typed, if there are several hosts."""
    return f" on host {node.on}" if node.on else ""


def new_copy(cluster: Cluster, node: Node) -> str:
    """Return the command that copies the upstream's data to a stopped node, keeping its own."""
    commands, folder = Commands.here(cluster), config.data_folder(node)
    aside = folder.with_name(f"{folder.name}.lost")
    move = shlex.join(["mv", "-T", commands.path(folder), commands.path(aside)])
    return f"{move} && {commands.zodbrepl('node', 'start', node.name)}"
