"""PostgreSQL standbys that replay their log: a damaged one, and one that has not ended."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import ClusterUnderTest, running, wait_until
from operations import succeed
from test_sql_engines import commit, held_by, missing, roles, wait_until_healthy

from indico_zodbrepl.backends import native_of
from indico_zodbrepl.backends.postgresql import config, programs, sql
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import state
from indico_zodbrepl.host.guarded import server_of
from indico_zodbrepl.host.supervisor import Supervisor
from indico_zodbrepl.operations.facts import replication_of
from indico_zodbrepl.probing.wire import FailureKind, ProbeError

BACKEND = "relstorage-postgresql"
ANSWER_SECONDS = 60.0
pytestmark = pytest.mark.skipif(bool(missing(BACKEND)), reason=missing(BACKEND))


@pytest.fixture(scope="module")
def pair(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterUnderTest]:
    made = ClusterUnderTest(tmp_path_factory.mktemp("damaged"), home, backend=BACKEND)
    with running(made):
        yield made


def test_a_standby_that_can_not_recover_from_its_log_gets_a_copy_and_its_data_are_kept(
    pair: ClusterUnderTest,
) -> None:
    primary, standby = roles(pair)
    for number in range(5):
        commit(pair, primary, f"before {number}")
    wait_until(lambda: held_by(pair, standby) == held_by(pair, primary), f"{standby} has all")
    os.kill(server_of(pair.pid_of(f"node-{standby}")), signal.SIGKILL)
    succeed(pair, "node", "stop", standby)
    lose_log(pair, standby)
    said = succeed(pair, "rejoin", standby)
    assert "it gets a new copy: its recovery stands still" in said
    wait_until_healthy(pair)
    wait_until(lambda: held_by(pair, standby) == held_by(pair, primary), "both hold the same")
    folder = config.data_folder(pair.cluster.node(standby))
    assert list(folder.parent.glob(f"{folder.name}.lost-*"))


def test_a_standby_whose_log_nobody_has_is_seen_to_wait_in_vain(pair: ClusterUnderTest) -> None:
    primary, standby = roles(pair)
    cluster, node = pair.cluster, pair.cluster.node(standby)
    os.kill(server_of(pair.pid_of(f"node-{standby}")), signal.SIGKILL)
    succeed(pair, "node", "stop", standby)
    lose_log(pair, standby)
    soon, slot = time.monotonic() + 60, config.slot(node)
    switch = ("SELECT pg_logical_emit_message(false, '', '')", "SELECT pg_switch_wal()") * 5
    sql.command(
        *(cluster, cluster.node(primary), soon, f"SELECT pg_drop_replication_slot('{slot}')"),
        *("ALTER SYSTEM SET wal_keep_size = '1MB'", "SELECT pg_reload_conf()"),
        *(*switch, "CHECKPOINT", *switch, "CHECKPOINT", "ALTER SYSTEM RESET wal_keep_size"),
    )
    watch = native_of(cluster).recovery_watch(node)
    Supervisor(cluster).start(node.program)

    def waits_in_vain() -> bool:
        try:
            replication_of(cluster, node)
        except ProbeError as error:
            return error.kind is FailureKind.CLOSED and watch()
        return False

    wait_until(waits_in_vain, "its recovery waits in vain")
    assert "it gets a new copy" in succeed(pair, "rejoin", standby)
    wait_until_healthy(pair)


def tell(pair: ClusterUnderTest, node: str, *statements: str) -> str:
    """Execute statements; return the only value of the last one."""
    soon = time.monotonic() + ANSWER_SECONDS
    (*_, ((found,),)) = sql.command(pair.cluster, pair.cluster.node(node), soon, *statements)
    return str(found)


def test_a_restarted_standby_has_a_final_position_only_when_it_has_replayed_all_that_it_received(
    pair: ClusterUnderTest,
) -> None:
    """Else an election would take less for all that it has confirmed."""
    primary, standby = roles(pair)
    native, node = native_of(pair.cluster), pair.cluster.node(standby)
    delay = "recovery_min_apply_delay"
    tell(pair, standby, f"ALTER SYSTEM SET {delay} = '1h'", "SELECT pg_reload_conf()")
    commit(pair, primary, "received, and not replayed")
    end = int(tell(pair, primary, "SELECT pg_current_wal_flush_lsn() - '0/0'::pg_lsn"))
    received = "SELECT pg_last_wal_receive_lsn() - '0/0'::pg_lsn"
    wait_until(lambda: int(tell(pair, standby, received)) >= end, f"{standby} has received it")

    def answers() -> bool:
        try:
            return replication_of(pair.cluster, node) is not None
        except ProbeError:
            return False

    succeed(pair, "node", "stop", standby)
    # The primary is out of reach, so that nothing is received again.
    pair.stop(f"node-{primary}")
    Supervisor(pair.cluster).start(node.program)
    wait_until(answers, f"{standby} answers")
    with pytest.raises(OperatorError, match="did not leave its upstream in time"):
        native.detach(pair.cluster, node, time.monotonic() + 3)
    tell(pair, standby, f"ALTER SYSTEM RESET {delay}", "SELECT pg_reload_conf()")
    assert native.detach(pair.cluster, node, time.monotonic() + ANSWER_SECONDS) >= end
    present = state.current(pair.cluster, node)
    native.attach(pair.cluster, present, time.monotonic() + ANSWER_SECONDS)
    Supervisor(pair.cluster).start(pair.cluster.node(primary).program)
    wait_until_healthy(pair)


def lose_log(pair: ClusterUnderTest, node: str) -> None:
    """Overwrite what a standby's server has to replay before it may answer."""
    made = pair.cluster.node(node)
    folder = config.data_folder(made)
    found = programs.control_data(pair.cluster, made)
    assert found["Minimum recovery ending location"] != "0/0"
    segment, begin = found["Latest checkpoint's REDO location"].split("/")
    size = int(found["Bytes per WAL segment"])
    number = int(begin, 16) // size
    for path in (folder / "pg_wal").iterdir():
        if len(path.name) == 24 and int(path.name[8:16], 16) == int(segment, 16):
            there = int(path.name[16:], 16)
            if there >= number:
                with path.open("r+b") as log:
                    log.seek(int(begin, 16) % size if there == number else 0)
                    log.write(bytes(size - log.tell()))
