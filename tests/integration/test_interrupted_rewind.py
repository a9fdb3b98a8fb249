"""A rewind of PostgreSQL's data that loses its connection is repeated, and never served."""

from __future__ import annotations

import dataclasses
import os
import signal
import stat
from collections.abc import Iterator
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

from indico_zodbrepl.backends.postgresql import data, programs, server
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
# changes anything, and while {late} does, before it writes pg_control, which comes last.
case "$*" in *--dry-run*) exec {real} "$@" ;; esac
if [ -e {late} ]; then
    for part in "$@"; do case "$part" in --target-pgdata=*) data=${{part#*=}} ;; esac; done
    {real} "$@" --dry-run || exit  # recovers the data
    cp "$data/global/pg_control" {late}
    {real} "$@" || exit
    cp {late} "$data/global/pg_control"
    rm "$data/backup_label"
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
        REWIND.format(real=real.path("pg_rewind"), early=folder / "early", late=folder / "late")
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


def test_data_whose_rewind_was_interrupted_are_not_served(pair: ClusterUnderTest) -> None:
    old, _new = with_a_dead_primary(pair)
    cluster, node = pair.cluster, pair.cluster.node(old)
    data.begin_rewind(node)
    claim = dataclasses.replace(state.current(cluster, node), role=Role.PRIMARY, upstream=None)
    with pytest.raises(OperatorError, match="its data are half rewound"):
        server.prepare(cluster, claim)
    succeed(pair, "rejoin", old)
    assert not data.is_half_rewound(node)


def with_a_dead_primary(pair: ClusterUnderTest) -> tuple[str, str]:
    """Kill the primary, so that its log has to be read again, and promote its follower."""
    old, new = roles(pair)
    commit(pair, old, "before")
    wait_until(lambda: old in held_by(pair, new), f"{new} has it")
    epoch = take_snapshot(pair.cluster).epoch or 0
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
