"""A rewind of PostgreSQL's data that loses its connection is repeated, and never served."""

from __future__ import annotations

import dataclasses
import os
import signal
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from clusters import ClusterUnderTest, running, wait_until
from operations import succeed
from test_sql_engines import (
    commit,
    held_by,
    missing,
    roles,
    wait_until_healthy,
)

from indico_zodbrepl.backends.postgresql import config, data, programs, server, sql
from indico_zodbrepl.cluster import Role
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.settings import PostgreSQLSettings
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import state
from indico_zodbrepl.host.guarded import server_of
from indico_zodbrepl.monitor import take_snapshot

BACKEND = "relstorage-postgresql"
pytestmark = pytest.mark.skipif(bool(missing(BACKEND)), reason=missing(BACKEND))

REWIND = """\
#!/bin/sh
# As pg_rewind; but while the file {early} exists, each rewind loses its connection before it
# changes anything, and while {late} does, before it writes pg_control, which comes last.  While
# {gone} exists, it removes the log from which the data recover: pg_rewind keeps log from the record
# of a checkpoint on, and a recovery begins where the checkpoint began.
case "$*" in *--dry-run*) exec {real} "$@" ;; esac
if [ -e {late} ]; then
    for part in "$@"; do case "$part" in --target-pgdata=*) data=${{part#*=}} ;; esac; done
    {real} "$@" --dry-run || exit  # recovers the data
    cp "$data/global/pg_control" {late}
    {real} "$@" || exit
    cp {late} "$data/global/pg_control"
    rm "$data/backup_label"
elif [ -e {gone} ]; then
    for part in "$@"; do case "$part" in --target-pgdata=*) data=${{part#*=}} ;; esac; done
    {real} "$@" || exit
    rm "$data/pg_wal/$(sed -n 's/^START WAL LOCATION: .*file \\(.*\\))/\\1/p' "$data/backup_label")"
    exit
elif [ ! -e {early} ]; then
    exec {real} "$@"
fi
echo "pg_rewind: error: could not fetch file list: server closed the connection unexpectedly"
exit 1
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rewind")


@pytest.fixture(scope="module")
def pair(folder: Path, home: Path) -> Iterator[ClusterUnderTest]:
    real = programs.find(PostgreSQLSettings())
    own = folder / "programs"
    own.mkdir()
    for each in real.folder.iterdir():
        (own / each.name).symlink_to(each)
    rewind = own / "pg_rewind"
    rewind.unlink()
    rewind.write_text(
        REWIND.format(
            real=real.path("pg_rewind"),
            **{name: folder / name for name in ("early", "late", "gone")},
        )
    )
    rewind.chmod(stat.S_IRWXU)
    engine = ("<postgresql>", f"  bin-directory {own}", "</postgresql>")
    with running(ClusterUnderTest(folder, home, backend=BACKEND, engine=engine)) as made:
        yield made


def test_a_rewind_that_lost_its_connection_is_repeated(
    pair: ClusterUnderTest, folder: Path
) -> None:
    old, new = with_a_dead_primary(pair)
    (folder / "early").touch()
    stopped = pair.cli("rejoin", old)
    assert stopped.returncode not in (ExitCode.OK, ExitCode.REFUSED), stopped.stdout
    assert "the connection was lost" in stopped.stderr
    (folder / "early").unlink()
    succeed(pair, "resume")
    has_joined(pair, old, new)


def test_a_rewind_that_can_not_be_repeated_is_replaced_by_a_copy(
    pair: ClusterUnderTest, folder: Path
) -> None:
    old, new = with_a_dead_primary(pair)
    (folder / "late").touch()
    first = pair.cli("rejoin", old)
    (folder / "late").unlink()
    said = first.stdout
    if first.returncode:  # it saw the first attempt fail, and not the second one
        assert "the connection was lost" in first.stderr
        said += succeed(pair, "resume")
    assert "it gets a new copy" in said
    assert tried(pair, old)
    has_joined(pair, old, new)


def test_a_node_whose_log_the_new_primary_has_removed_gets_a_copy(
    pair: ClusterUnderTest, folder: Path
) -> None:
    old, new = roles(pair)
    slot = config.slot(pair.cluster.node(old))
    order(pair, new, "ALTER SYSTEM SET wal_keep_size = '1MB'", "SELECT pg_reload_conf()")
    order(pair, old, "CHECKPOINT")
    for _ in range(5):  # its last checkpoint is more than 1 MiB before
        order(pair, old, "SELECT pg_logical_emit_message(false, '', '')", "SELECT pg_switch_wal()")
    with_a_dead_primary(pair, log_of_its_own)
    order(pair, new, f"SELECT pg_drop_replication_slot('{slot}')", "CHECKPOINT")
    (folder / "gone").touch()
    said = succeed(pair, "rejoin", old)
    (folder / "gone").unlink()
    order(pair, new, "ALTER SYSTEM RESET wal_keep_size", "SELECT pg_reload_conf()")
    assert "it gets a new copy" in said
    assert "has removed the log" in said
    has_joined(pair, old, new)


def test_data_whose_rewind_was_interrupted_are_not_served(pair: ClusterUnderTest) -> None:
    old, _new = with_a_dead_primary(pair)
    cluster, node = pair.cluster, pair.cluster.node(old)
    data.begin_rewind(node)
    claim = dataclasses.replace(state.current(cluster, node), role=Role.PRIMARY, upstream=None)
    with pytest.raises(OperatorError, match="its data are half rewound"):
        server.prepare(cluster, claim)
    succeed(pair, "rejoin", old)
    assert not data.is_half_rewound(node)


def order(pair: ClusterUnderTest, node: str, *statements: str) -> None:
    """Execute statements on a node's server."""
    sql.command(pair.cluster, pair.cluster.node(node), time.monotonic() + 30, *statements)


def log_of_its_own(pair: ClusterUnderTest, primary: str) -> None:
    """Let a primary write log, but no transaction, that its follower does not receive."""
    node, soon = pair.cluster.node(primary), time.monotonic() + 30
    ((sender,),) = sql.command(pair.cluster, node, soon, "SELECT pid FROM pg_stat_replication")[0]
    os.kill(int(sender or 0), signal.SIGSTOP)
    order(pair, primary, "SELECT pg_logical_emit_message(false, '', '')", "SELECT pg_switch_wal()")


def with_a_dead_primary(
    pair: ClusterUnderTest, last: Callable[[ClusterUnderTest, str], None] = lambda *_: None
) -> tuple[str, str]:
    """Kill the primary, so that its log has to be read again, and promote its follower.

    Args:
        last: what the primary does before.
    """
    old, new = roles(pair)
    commit(pair, old, "before")
    wait_until(lambda: old in held_by(pair, new), f"{new} has it")
    epoch = take_snapshot(pair.cluster).epoch or 0
    last(pair, old)
    os.kill(server_of(pair.pid_of(f"node-{old}")), signal.SIGSTOP)  # it can't end in order
    succeed(pair, "node", "fence", old)
    succeed(pair, "node", "promote", new, "--epoch", str(epoch + 1), "--reason", "a test")
    commit(pair, new, "after")
    return old, new


def tried(pair: ClusterUnderTest, node: str) -> int:
    """How many rewinds of a node have lost their connection."""
    log = Layout(pair.cluster).program_log(f"node-{node}").read_text()
    return log.count(f"node {node} was not rewound to the history of")


def has_joined(pair: ClusterUnderTest, old: str, new: str) -> None:
    wait_until_healthy(pair)
    assert not data.is_half_rewound(pair.cluster.node(old))
    wait_until(lambda: held_by(pair, old) == held_by(pair, new), "both hold the same")
