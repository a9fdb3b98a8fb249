"""A pair of MariaDB servers, private ones, under one cluster that all tests of this module share.

Each test leaves the cluster with a primary and a follower that has joined it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import ClusterUnderTest, running, settles_at, wait_until
from disks import SIZE, fill, small_disk_or_skip
from operations import last_entry, succeed
from storage_writer import Writer, numbers_on

from indico_zodbrepl.backends import native_of
from indico_zodbrepl.backends.mariadb import config
from indico_zodbrepl.backends.mariadb import server as programs
from indico_zodbrepl.backends.mariadb.sql import Row, administration
from indico_zodbrepl.cluster.settings import MariaDBSettings
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import promise, state
from indico_zodbrepl.host.guarded import server_of
from indico_zodbrepl.monitor import Snapshot, State, take_snapshot
from indico_zodbrepl.monitor.node_status import NodeStatus
from indico_zodbrepl.probing.answers import AckState
from indico_zodbrepl.probing.comparison import Membership
from indico_zodbrepl.probing.waiting import wait_until as happens

ANSWER_SECONDS = 60.0
PASSWORD_USERS = ("indico", *config.GENERATED_USERS)
SEMI_SYNC = ("synchronous 1", "synchronous-alone degrade", "synchronous-timeout 1")


def missing_programs() -> str:
    """Why these tests can't run; empty when they can."""
    try:
        programs.find(MariaDBSettings())
    except OperatorError as error:
        return f"{error.notice}; package {programs.PACKAGE} brings them"
    return ""


pytestmark = pytest.mark.skipif(bool(missing_programs()), reason=missing_programs())


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Iterator[ClusterUnderTest]:
    """a, the primary, and b, semi-synchronous, without Indico."""
    folder = tmp_path_factory.mktemp("mariadb")
    with running(
        ClusterUnderTest(folder, home, backend="relstorage-mariadb", engine=SEMI_SYNC)
    ) as under_test:
        wait_until_healthy(under_test)
        yield under_test


def look(pair: ClusterUnderTest) -> Snapshot:
    return take_snapshot(pair.cluster)


def wait_until_healthy(pair: ClusterUnderTest) -> None:
    settles_at(State.HEALTHY, lambda: look(pair).state)


def primary_of(pair: ClusterUnderTest) -> str:
    """The primary, once a look has found it."""
    wait_until(lambda: look(pair).primary is not None, "there is a primary")
    return look(pair).primary or ""


def follower_of(pair: ClusterUnderTest) -> str:
    primary = primary_of(pair)
    return next(name for name in pair.nodes if name != primary)


def facts(status: NodeStatus) -> dict[str, str]:
    return {fact.label: fact.value for fact in status.facts}


def tell(pair: ClusterUnderTest, node: str, *statements: str) -> list[Row]:
    """Execute statements as a server's administrator; the rows of the last one."""
    with administration(pair.cluster.node(node), time.monotonic() + ANSWER_SECONDS) as server:
        return [server.rows(statement) for statement in statements][-1]


def transactions_on(pair: ClusterUnderTest, node: str) -> int:
    (found,) = tell(pair, node, "SELECT COUNT(*) AS count FROM indico.transaction")
    return int(found["count"])


def texts(pair: ClusterUnderTest) -> list[str]:
    return [alert.text for alert in look(pair).warnings]


def fail_over(pair: ClusterUnderTest, old: str, new: str) -> None:
    """Freeze the primary and promote its follower, as soon as that answers in time."""
    os.kill(server_of(pair.pid_of(f"node-{old}")), signal.SIGSTOP)
    late = f"DETAIL: {new}: does not answer"
    answers = []

    def is_told() -> bool:
        answers.append(pair.cli("failover", new, "--reason", "a test"))
        return late not in answers[-1].stderr

    wait_until(is_told, f"node {new} answers in time")
    assert 0 == answers[-1].returncode, f"{answers[-1].stdout}{answers[-1].stderr}"


def test_status_shows_both_threads_of_a_follower(pair: ClusterUnderTest) -> None:
    wait_until(
        lambda: look(pair).node("b").membership is Membership.HELD,
        "b's last transaction is known to be a's",
    )
    done = pair.cli("status", "--json")
    assert 0 == done.returncode, done.stdout + done.stderr
    (shown,) = [node for node in json.loads(done.stdout)["nodes"] if node["name"] == "b"]
    values = {fact["label"]: fact["value"] for fact in shown["facts"]}
    assert values["IO thread"].startswith("Yes")
    assert values["SQL thread"].startswith("Yes")
    assert values["GTID applied"] == values["GTID received"]
    assert "ON" == values["semi-synchronous"]


def test_commits_wait_for_no_follower_while_the_data_of_a_new_primary_are_created(
    tmp_path: Path, home: Path
) -> None:
    engine = ("synchronous 1", "synchronous-timeout 1")
    new = ClusterUnderTest(tmp_path, home, backend="relstorage-mariadb", engine=engine)
    with running(new):
        wait_until_healthy(new)
        new.stop("node-b")
        # As an interrupted creation leaves it.
        config.filled_mark(new.cluster.node("a")).unlink()
        tell(new, "a", "SET GLOBAL rpl_semi_sync_master_enabled = OFF")
        if waits_soon(new, "a", 3.0):
            # By a round of the commit keeper that had found the mark; the next one does not.
            tell(new, "a", "SET GLOBAL rpl_semi_sync_master_enabled = OFF")
            assert not waits_soon(new, "a", 3.0)
        succeed(new, "up")
        wait_until_healthy(new)
        assert waits_soon(new, "a", ANSWER_SECONDS)
        with Writer(new) as writer:
            writer.goes_on()
        writer.is_on("b")


def waits_soon(pair: ClusterUnderTest, node: str, seconds: float) -> bool:
    """Return True once the commits of a server wait for followers; False if they don't in time."""

    def waits() -> bool:
        (found,) = tell(pair, node, "SELECT @@GLOBAL.rpl_semi_sync_master_enabled AS waits")
        return bool(found["waits"])

    return happens(waits, time.monotonic() + seconds)


def test_up_once_more_changes_nothing(pair: ClusterUnderTest) -> None:
    before = tell(pair, "a", "SELECT @@GLOBAL.gtid_binlog_pos AS gtid")
    pair.start()
    assert before == tell(pair, "a", "SELECT @@GLOBAL.gtid_binlog_pos AS gtid")


def test_a_database_with_history_is_not_opened_as_one_without(pair: ClusterUnderTest) -> None:
    pair.engine = (*SEMI_SYNC, "<mariadb>", "  keep-history false", "</mariadb>")
    pair.write()
    try:
        refused = pair.cli("up")
        assert ExitCode.REFUSED == refused.returncode, refused.stdout + refused.stderr
        assert "HINT: keep-history true" in refused.stderr
    finally:
        pair.engine = SEMI_SYNC
        pair.write()
    pair.start()


def test_nobody_gets_in_without_a_password(pair: ClusterUnderTest) -> None:
    """Whoever has none is known to the operating system, and comes by the socket."""
    users = tell(pair, "a", "SELECT User AS user, Host AS host FROM mysql.user")
    without = [row for row in users if row["user"] not in PASSWORD_USERS]
    assert {"mariadb.sys", "root", config.administrator()} == {row["user"] for row in without}
    assert {"localhost"} == {row["host"] for row in without}


def test_a_follower_refuses_writes_of_clients(pair: ClusterUnderTest) -> None:
    assert [{"off": 1}] == tell(pair, "b", "SELECT @@GLOBAL.read_only AS off")
    granted = tell(
        pair,
        "b",
        "SELECT privilege_type AS name FROM information_schema."
        "user_privileges WHERE grantee LIKE '''indico''@%'",
    )
    assert ["PROCESS"] == [row["name"] for row in granted], (
        "another privilege on everything could include that to write anyway"
    )


def test_clients_that_read_from_a_follower_leave_no_transaction_there(
    pair: ClusterUnderTest,
) -> None:
    """A temporary table in its log would be one that its primary lacks."""
    with Writer(pair) as writer:
        pass
    writer.is_on("b")
    assert numbers_on(pair, "b")
    (a,), (b,) = (
        tell(pair, node, "SELECT @@GLOBAL.gtid_binlog_state AS gtid") for node in ("a", "b")
    )
    assert a == b


def test_a_thread_that_stands_still_is_an_alert_though_the_other_one_runs(
    pair: ClusterUnderTest,
) -> None:
    tell(pair, "b", "STOP SLAVE SQL_THREAD")
    text = "node b applies no transactions, and it goes on receiving"
    wait_until(lambda: text in texts(pair), text)
    found = look(pair)
    assert facts(found.node("b"))["IO thread"].startswith("Yes")
    assert found.node("b").connected is False
    assert found.state is not State.HEALTHY
    tell(pair, "b", "START SLAVE SQL_THREAD")
    wait_until_healthy(pair)


def test_a_detached_replica_has_a_final_position_until_it_is_attached(
    pair: ClusterUnderTest,
) -> None:
    primary, name = primary_of(pair), follower_of(pair)
    native, replica = native_of(pair.cluster), pair.cluster.node(name)
    present = state.current(pair.cluster, replica)
    position = native.detach(pair.cluster, replica, time.monotonic() + ANSWER_SECONDS)
    with Writer(pair) as writer:
        pass
    assert position == native.detach(pair.cluster, replica, time.monotonic() + ANSWER_SECONDS)
    native.attach(pair.cluster, present, time.monotonic() + ANSWER_SECONDS)
    wait_until(lambda: look(pair).state is State.HEALTHY, "it has caught up")
    writer.is_on(name)
    assert position < native.detach(pair.cluster, replica, time.monotonic() + ANSWER_SECONDS)
    native.attach(pair.cluster, present, time.monotonic() + ANSWER_SECONDS)
    wait_until_healthy(pair)
    with pytest.raises(OperatorError, match="is no replica"):
        native.detach(pair.cluster, pair.cluster.node(primary), time.monotonic() + ANSWER_SECONDS)


def test_commits_that_no_longer_wait_for_a_follower_are_an_alert(pair: ClusterUnderTest) -> None:
    pair.stop("node-b")
    with Writer(pair) as writer:
        text = "commits on node a wait for no follower"
        wait_until(lambda: text in texts(pair), text)
    succeed(pair, "node", "start", "b")
    wait_until_healthy(pair)
    writer.is_on("b")


def test_commits_made_alone_are_followed_by_acknowledged_ones_once_a_follower_has_them_all(
    pair: ClusterUnderTest,
) -> None:
    """The server counts whoever is connected as one that confirms, also one that is frozen."""
    primary, name = pair.cluster.node(primary_of(pair)), follower_of(pair)

    def state() -> AckState | None:
        found = promise.read(primary)
        return None if found is None else AckState(found.state)

    os.kill(server_of(pair.pid_of(f"node-{name}")), signal.SIGSTOP)
    with Writer(pair) as writer:
        wait_until(lambda: state() is AckState.ALONE, "it goes on alone")
        writer.goes_on()
    assert not happens(lambda: state() is AckState.SYNCHRONOUS, time.monotonic() + 4, 0.1)
    os.kill(server_of(pair.pid_of(f"node-{name}")), signal.SIGCONT)
    wait_until(lambda: state() is AckState.SYNCHRONOUS, "the follower has everything")
    writer.is_on(name)
    wait_until_healthy(pair)


def test_what_a_follower_has_received_is_applied_before_it_is_promoted(
    pair: ClusterUnderTest,
) -> None:
    old, new = primary_of(pair), follower_of(pair)
    tell(pair, new, "STOP SLAVE SQL_THREAD")
    with Writer(pair) as writer:
        pass
    fail_over(pair, old, new)
    writer.is_on(new)
    succeed(pair, "rejoin", old)
    wait_until_healthy(pair)


def test_a_killed_primary_that_is_just_started_drops_nothing_that_it_acknowledged(
    pair: ClusterUnderTest,
) -> None:
    """Its log alone has its last transactions; it may not follow before they are exported."""
    old, new = primary_of(pair), follower_of(pair)
    tell(pair, new, "STOP SLAVE IO_THREAD")
    epoch, before = look(pair).epoch or 0, transactions_on(pair, old)
    with Writer(pair) as writer:
        succeed(pair, "node", "fence", old)
    commits = len(writer.acknowledged) + 1  # the first one made room for the numbers
    succeed(pair, "node", "promote", new, "--epoch", str(epoch + 1), "--reason", "a test")
    succeed(
        pair,
        "node",
        "assign",
        old,
        "--role",
        "secondary",
        "--upstream",
        new,
        "--epoch",
        str(epoch + 1),
    )
    refused = pair.cli("node", "start", old)
    assert ExitCode.REFUSED == refused.returncode, refused.stdout + refused.stderr
    assert "can't follow from what it has" in refused.stderr
    assert [] == tell(pair, old, "SHOW ALL SLAVES STATUS")
    left = transactions_on(pair, old) - before
    assert left >= commits
    succeed(pair, "rejoin", old)
    assert left == last_entry(pair).figures["lost_transactions"]
    wait_until_healthy(pair)


@pytest.mark.exhaustive
def test_a_follower_goes_on_waiting_when_its_full_disk_has_room_until_its_server_is_killed(
    tmp_path: Path, home: Path
) -> None:
    pair = ClusterUnderTest(tmp_path, home, backend="relstorage-mariadb")
    node = pair.cluster.node("b")

    def waits() -> bool:
        return native_of(pair.cluster).waits_for_room(node, time.monotonic() + 2.0)

    with contextlib.closing(small_disk_or_skip("b", node.data_directory, SIZE)), running(pair):
        wait_until_healthy(pair)
        assert not waits()
        with Writer(pair) as writer:
            ballast = fill(node.data_directory)
            wait_until(waits, "the follower waits")
            ballast.unlink()
            assert waits()
            os.kill(server_of(pair.pid_of("node-b")), signal.SIGKILL)
            writer.goes_on()
        wait_until_healthy(pair)
        assert not waits()


@pytest.mark.exhaustive
def test_servers_that_run_already_are_used_and_watched(
    pair: ClusterUnderTest, tmp_path: Path
) -> None:
    """Another cluster's view of the same servers, as those of a database administrator."""
    primary, follower = primary_of(pair), follower_of(pair)
    tell(
        pair,
        primary,
        "CREATE DATABASE theirs",
        "CREATE USER theirs@'%' IDENTIFIED BY 'secret'",
        "GRANT ALL ON theirs.* TO theirs@'%'",
    )
    password = tmp_path / "password"
    password.write_text("secret\n")
    password.chmod(0o600)
    ports = [pair.cluster.node(name).storage_address.port for name in (primary, follower)]
    foreign = ClusterUnderTest(
        tmp_path,
        pair.home,
        backend="relstorage-mariadb",
        managed=False,
        engine=(
            "<mariadb>",
            "  database theirs",
            "  user theirs",
            f"  password-file {password}",
            "</mariadb>",
        ),
    )
    foreign.ports[:2] = ports
    foreign.write()
    with running(foreign):
        notice = "node b does not tell everything"
        wait_until(lambda: notice in texts(foreign), notice)
        tell(pair, primary, "GRANT SLAVE MONITOR, PROCESS ON *.* TO theirs@'%'")
        wait_until(lambda: not texts(foreign), "there is nothing left to tell")
        found = look(foreign)
        assert ("a", "a", True) == (
            found.primary,
            found.node("b").upstream,
            found.node("b").connected,
        )
        with Writer(foreign) as writer:
            pass
        writer.is_on("b")
        refused = foreign.cli("node", "stop", "a")
        assert ExitCode.REFUSED == refused.returncode, refused.stdout + refused.stderr
