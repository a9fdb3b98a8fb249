"""The contract of the SQL engines, PostgreSQL and MariaDB, on private servers.

The tests share a pair of each engine and leave it healthy; either node may be its primary. Tests of
one engine alone are in test_postgresql and test_mariadb.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import programs27
import pytest
from clusters import PATIENCE, ClusterUnderTest, running, settled, wait_until
from operations import last_entry, senders, succeed, what_a_plan_could_change
from seeing_client import Client
from storage_writer import Writer

from indico_zodbrepl.backends import backend_of, native_of
from indico_zodbrepl.backends.mariadb import config as mariadb_config
from indico_zodbrepl.backends.mariadb import server as mariadb_server
from indico_zodbrepl.backends.mariadb import sql as mariadb_sql
from indico_zodbrepl.backends.mariadb.sql import administration
from indico_zodbrepl.backends.postgresql import programs as postgresql_programs
from indico_zodbrepl.backends.postgresql import server as postgresql_server
from indico_zodbrepl.backends.postgresql import sql
from indico_zodbrepl.cluster.layout import Layout, lineage_file
from indico_zodbrepl.cluster.settings import MariaDBSettings, PostgreSQLSettings
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import supervisor
from indico_zodbrepl.host.fencing import freeze
from indico_zodbrepl.host.guarded import server_of
from indico_zodbrepl.monitor import Snapshot, State, take_snapshot
from indico_zodbrepl.operations import executor, planning
from indico_zodbrepl.operations.model import Plan
from indico_zodbrepl.operations.planning import Request
from indico_zodbrepl.probing.wire import FailureKind, ProbeError

ANSWER_SECONDS = 60.0
ENGINES = ["relstorage-postgresql", "relstorage-mariadb"]

# One commit, with who and why, to the object that a name in the root leads to, and to its blob.
COMMIT = """
import sys, transaction, ZODB, ZODB.config
from persistent.mapping import PersistentMapping
from ZODB.blob import Blob
db = ZODB.DB(ZODB.config.storageFromURL(sys.argv[1]))
found = db.open().root().setdefault(sys.argv[2], PersistentMapping(file=Blob()))
found['is'] = sys.argv[3]
with found['file'].open('w') as opened:
    opened.write(sys.argv[3])
transaction.get().user = u'anne'
transaction.get().note(u'%s is %s' % tuple(sys.argv[2:4]))
transaction.commit()
db.close()
"""
ROOT = """
import json, sys, ZODB, ZODB.config
db = ZODB.DB(ZODB.config.storageFromURL(sys.argv[1]))
root = db.open().root()
found = {key: value for key, value in root.items() if key != 'numbers'}
assert all(value['is'] == value['file'].open().read() for value in found.values()), found
print(json.dumps({key: value['is'] for key, value in found.items()}))
db.close()
"""

# Says where a commit was made, as clients of `make chaos` do; the second argument is their folder.
COMMITTED_AT = """
import sys, transaction, ZODB, ZODB.config
sys.path.insert(0, sys.argv[2])
from client import CommittedAt
committed_at = CommittedAt()
db = ZODB.DB(ZODB.config.storageFromURL(sys.argv[1]))
db.open().root()._p_changed = True
transaction.commit()
print(committed_at.server)
db.close()
"""
# More than `wal_keep_size`, and too little for a checkpoint.
MUCH_LOG = (
    "SELECT count(pg_logical_emit_message(false, 'much', repeat('x', 1000000))) "
    "FROM generate_series(1, 330)"
)
CHAOS_CLIENT = Path(__file__).parents[1] / "chaos/python27"


def missing(backend: str) -> str:
    """Why the tests of a backend can't run; empty when they can."""
    try:
        if backend == "relstorage-postgresql":
            postgresql_programs.find(PostgreSQLSettings())
        else:
            mariadb_server.find(MariaDBSettings())
    except OperatorError as error:
        return f"{error.notice}; {error.hint}"
    return ""


@pytest.fixture(scope="module", params=ENGINES)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, home: Path
) -> Iterator[ClusterUnderTest]:
    if missing(request.param):
        pytest.skip(missing(request.param))
    with running(
        ClusterUnderTest(tmp_path_factory.mktemp("engine"), home, backend=request.param)
    ) as under_test:
        commit(under_test, "first", "1")
        yield under_test


# What the engines have in common is tested on one of them; the other one repeats it.
REPEATED = [ENGINES[0], pytest.param(ENGINES[1], marks=pytest.mark.exhaustive)]
in_common = pytest.mark.parametrize("pair", REPEATED, indirect=True)


def commit(pair: ClusterUnderTest, key: str, value: str) -> None:
    done = run27(pair, COMMIT, Layout(pair.cluster).zodb_conf, key, value)
    assert 0 == done.returncode, done.stderr


def held_by(pair: ClusterUnderTest, node: str) -> dict[str, str]:
    conf = Layout(pair.cluster).node_zodb_conf(pair.cluster.node(node))
    done = run27(pair, ROOT, conf)
    assert 0 == done.returncode, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


def run27(
    pair: ClusterUnderTest, program: str, *arguments: object
) -> subprocess.CompletedProcess[str]:
    return programs27.run(
        pair.installation.python27,
        program,
        *arguments,
        seconds=PATIENCE,
        environ=pair.installation.environment27(),
    )


def wait_until_healthy(pair: ClusterUnderTest) -> None:
    healthy(pair)


def healthy(pair: ClusterUnderTest) -> Snapshot:
    """Wait until all is well, and return what was seen then."""
    return settled(lambda: take_snapshot(pair.cluster), lambda found: found.state, State.HEALTHY)


def roles(pair: ClusterUnderTest) -> tuple[str, str]:
    """The primary and its follower, once all is well."""
    primary = healthy(pair).primary or ""
    return primary, next(name for name in pair.nodes if name != primary)


def commit_on_the_primary_alone(pair: ClusterUnderTest, old: str, new: str) -> None:
    """The follower is cut off, and gets nothing of two more commits."""
    if pair.backend == "relstorage-mariadb":
        with administration(pair.cluster.node(new), time.monotonic() + ANSWER_SECONDS) as server:
            server.rows("STOP SLAVE IO_THREAD")
    else:
        succeed(pair, "node", "stop", new)
    commit_what_is_lost(pair, old)


def commit_what_is_lost(pair: ClusterUnderTest, old: str) -> None:
    commit(pair, "first", f"lost on {old}")
    commit(pair, f"lost on {old}", "2")


def fail_over_with_a_loss(
    pair: ClusterUnderTest, old: str, new: str, before_it_dies: Callable[[], None] = lambda: None
) -> None:
    """The primary dies with commits that nobody else has; the follower takes over by hand."""
    commit_on_the_primary_alone(pair, old, new)
    epoch = take_snapshot(pair.cluster).epoch or 0
    before_it_dies()
    succeed(pair, "node", "fence", old)
    succeed(pair, "node", "promote", new, "--epoch", str(epoch + 1), "--reason", "a test")
    commit(pair, f"kept on {new}", "3")


def opened_alone(pair: ClusterUnderTest) -> list[int]:
    """The servers that only their sockets, in folders of their own, lead to."""
    found = []
    for pid in pair.processes():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if (
                f"{tempfile.gettempdir()}/zodbrepl-".encode()
                in Path(f"/proc/{pid}/cmdline").read_bytes()
            ):
                found.append(pid)
    return found


def kill_while_the_data_are_open(pair: ClusterUnderTest, *arguments: str) -> None:
    """Kill the control plane; the server that it has started ends with it."""
    with subprocess.Popen(
        [pair.installation.zodbrepl, "-c", pair.path, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as command:
        try:
            wait_until(
                lambda: bool(opened_alone(pair)) or command.poll() is not None, "the data are open"
            )
        finally:
            command.kill()
    assert -signal.SIGKILL == command.returncode
    wait_until(lambda: not opened_alone(pair), "the data are closed")


def servers_of(pair: ClusterUnderTest, node: str) -> list[int]:
    """Return the processes of a node's server."""
    return postgresql_server.processes(pair.cluster.node(node)) or [pair.pid_of(f"node-{node}")]


@contextlib.contextmanager
def frozen(pids: list[int]) -> Iterator[None]:
    """Freeze processes meanwhile."""
    freeze(pids)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def secrets_of(pair: ClusterUnderTest) -> list[str]:
    """Return the passwords of the engine's users."""
    cluster = pair.cluster
    if pair.backend == "relstorage-mariadb":
        users = (mariadb_config.settings_of(cluster).user, *mariadb_config.GENERATED_USERS)
        return [mariadb_sql.ensure(cluster, user) for user in users]
    files = Layout(cluster).secrets.glob("postgresql-*.pgpass")
    return [path.read_text().rpartition(":")[2].strip() for path in files]


def test_up_brings_up_a_primary_and_a_follower_without_lag(pair: ClusterUnderTest) -> None:
    found = settled(
        lambda: take_snapshot(pair.cluster),
        lambda found: found.state is State.HEALTHY and found.node("b").lag_transactions == 0,
        True,
    )
    a, b = found.nodes
    assert ("a", "primary", ("b",), 1, False) == (
        found.primary,
        a.actual_role,
        a.followers,
        a.epoch,
        a.read_only,
    )
    assert ("secondary", "a", True, 1, True) == (
        b.actual_role,
        b.upstream,
        b.connected,
        b.epoch,
        b.read_only,
    )
    assert 0.0 == b.lag_seconds
    assert a.last_tid == b.last_tid != 0
    assert (a.size or 0) > 0


def test_passwords_are_in_no_file_that_others_can_read(pair: ClusterUnderTest) -> None:
    secrets = [secret.encode() for secret in secrets_of(pair)]
    assert 3 <= len(secrets) == len(set(secrets))
    holding = []
    for path in pair.folder.rglob("*"):
        # The server removes files of temporary tables at any moment.
        with contextlib.suppress(FileNotFoundError):
            if path.is_file() and any(word in path.read_bytes() for word in secrets):
                holding.append(path)
    assert holding
    assert [] == [
        path
        for path in holding
        if all(
            stat.S_IMODE(each.stat().st_mode) & 0o077
            for each in (path, *path.parents)
            if each.is_relative_to(pair.folder / "var")
        )
    ]


def test_a_killed_primary_comes_back_with_all_it_acknowledged(pair: ClusterUnderTest) -> None:
    primary, _ = roles(pair)
    program = f"node-{primary}"
    killed = pair.pid_of(program)
    with Writer(pair) as writer:
        os.kill(killed, signal.SIGKILL)
        wait_until(
            lambda: supervisor.program_states(pair.cluster)[program].pid not in (None, killed),
            "supervisor starts the primary again",
        )
        writer.goes_on()
    wait_until_healthy(pair)
    writer.is_on(*pair.nodes)


@in_common
def test_a_client_of_the_random_faults_names_the_server_of_its_commit(
    pair: ClusterUnderTest,
) -> None:
    done = run27(pair, COMMITTED_AT, Layout(pair.cluster).zodb_conf, CHAOS_CLIENT)
    assert 0 == done.returncode, done.stderr
    primary = pair.cluster.node(take_snapshot(pair.cluster).primary or "")
    assert f"{primary.host}:{primary.storage_port}" == done.stdout.split()[-1]


def test_a_frozen_primary_delays_no_probe_and_no_status(pair: ClusterUnderTest) -> None:
    primary, follower = roles(pair)
    node = pair.cluster.node(primary)
    with frozen(servers_of(pair, primary)):
        with pytest.raises(ProbeError) as caught:
            backend_of(pair.cluster).ask(pair.cluster, node, time.monotonic() + 0.5)
        assert FailureKind.SILENT is caught.value.kind
        found = settled(
            lambda: take_snapshot(pair.cluster), lambda each: each.node(follower).reachable, True
        )
        assert "no answer in time" == found.node(primary).problem
        done = pair.cli("status")
        assert (2, True) == (
            done.returncode,
            f"primary {primary} does not answer" in done.stdout,
        )
    wait_until_healthy(pair)


def test_a_switchover_loses_nothing(pair: ClusterUnderTest) -> None:
    old, new = roles(pair)
    epoch = healthy(pair).epoch or 0
    with Writer(pair) as writer:
        writer.goes_on()
        settled(  # under load a probe may not learn the lag in time, and a switchover is refused
            lambda: take_snapshot(pair.cluster),
            lambda found: found.node(new).lag_seconds is not None,
            True,
        )
        succeed(pair, "switchover", new)
        writer.goes_on()
    wait_until_healthy(pair)
    writer.is_on(*pair.nodes)
    found = healthy(pair)
    assert (new, epoch + 1, (old,)) == (found.primary, found.epoch, found.node(new).followers)


@in_common
def test_what_only_an_old_primary_has_is_exported_and_listed_and_it_joins(
    pair: ClusterUnderTest,
) -> None:
    old, new = roles(pair)
    with Client(pair, "first") as frozen, Client(pair, "first") as idle:

        def both_see() -> None:
            assert f"lost on {old}" == frozen.sees() == idle.sees()
            frozen.freeze()

        fail_over_with_a_loss(pair, old, new, both_see)
        frozen.thaw()
        assert held_by(pair, new)["first"] == frozen.sees() == idle.sees()
    before = what_a_plan_could_change(pair)
    planned = succeed(pair, "rejoin", old, "--dry-run")
    assert f"Export the transactions that only {old} has" in planned
    assert before == what_a_plan_could_change(pair)
    kill_while_the_data_are_open(pair, "rejoin", old, "--reason", "it is back")
    said = succeed(pair, "resume")
    assert [] == opened_alone(pair)
    assert "Lost from the cluster: 2 transactions." in said
    figures = last_entry(pair).figures
    assert 2 == figures["lost_transactions"]
    tail = Path(str(figures["exported_to"]))
    listed = json.loads((tail / "tail.json").read_text())
    assert [("anne", f"first is lost on {old}"), ("anne", f"lost on {old} is 2")] == [
        (each["user"], each["description"]) for each in listed["transactions"]
    ]
    assert {"persistent.mapping.PersistentMapping", "ZODB.blob.Blob"} == {
        each["class"] for each in listed["transactions"][1]["objects"]
    }
    assert ["2", f"lost on {old}"] == sorted(
        path.read_text() for path in (tail / "blobs").rglob("*.blob")
    )
    wait_until_healthy(pair)
    wait_until(lambda: held_by(pair, old) == held_by(pair, new), "both hold the same")
    assert f"lost on {old}" not in held_by(pair, new)
    folder = native_of(pair.cluster).data_folder(pair.cluster.node(old))
    assert [tail.name.removeprefix(old)] == [
        path.name.partition(".lost")[2] for path in folder.parent.glob(f"{folder.name}.lost*")
    ]
    assert "ok" == json.loads(lineage_file(pair.cluster.node(old)).read_text())["condition"]

    shown = succeed(pair, "recover", str(tail))
    assert "2 divergent transactions after" in shown
    assert f"lost on {old}" in shown
    made = succeed(pair, "recover", str(tail), "--all")
    assert "written in transaction" in made
    assert f"lost on {old}" == held_by(pair, new)["first"]


def test_a_failover_exports_what_only_the_old_primary_has_and_rejoin_does_not_again(
    pair: ClusterUnderTest,
) -> None:
    old, new = roles(pair)
    servers = servers_of(pair, old)
    if pair.backend == "relstorage-postgresql":
        freeze(senders(servers))
        commit_what_is_lost(pair, old)
    else:
        commit_on_the_primary_alone(pair, old, new)
    freeze(servers)
    before = {*Layout(pair.cluster).lost_tails.glob("*")}
    kill_while_the_data_are_open(pair, "failover", new, "--reason", "a test")
    commit(pair, f"kept on {new}", "4")
    said = succeed(pair, "resume")
    assert [] == opened_alone(pair)
    figures = last_entry(pair).figures
    assert "Lost from the cluster: 2 transactions." in said
    assert (2, [old]) == (figures["lost_transactions"], figures["diverged"])
    (tail,) = {*Layout(pair.cluster).lost_tails.glob("*")} - before
    assert str(tail) == figures["exported_to"]
    refused = pair.cli("node", "start", old)
    assert ExitCode.REFUSED == refused.returncode, refused.stdout + refused.stderr
    assert "rejoin" in refused.stderr
    assert f"the same was exported before, to {tail}" in succeed(pair, "rejoin", old)
    assert str(tail) == last_entry(pair).figures["exported_to"]
    assert {tail} == {*Layout(pair.cluster).lost_tails.glob("*")} - before
    wait_until_healthy(pair)
    wait_until(lambda: held_by(pair, old) == held_by(pair, new), "both hold the same")


@pytest.mark.parametrize("pair", ENGINES[:1], indirect=True)
def test_a_postgresql_node_that_has_removed_log_which_a_rewind_needs_gets_a_new_copy(
    pair: ClusterUnderTest,
) -> None:
    old, new = roles(pair)

    def tell(statement: str) -> None:
        sql.command(pair.cluster, pair.cluster.node(old), time.monotonic() + PATIENCE, statement)

    tell("CHECKPOINT")  # the last one that both have
    tell(MUCH_LOG)
    wait_until_healthy(pair)
    servers = servers_of(pair, old)
    freeze(senders(servers))
    commit_what_is_lost(pair, old)
    tell("CHECKPOINT")  # removes log
    freeze(servers)
    succeed(pair, "failover", new, "--reason", "a test")
    said = succeed(pair, "rejoin", old)
    assert "it gets a new copy: it has removed the log that a rewind needs" in said
    assert 2 == last_entry(pair).figures["lost_transactions"]
    wait_until_healthy(pair)
    wait_until(lambda: held_by(pair, old) == held_by(pair, new), "both hold the same")


@in_common
def test_one_that_has_nothing_of_its_own_joins_and_nothing_is_said_to_be_lost(
    pair: ClusterUnderTest,
) -> None:
    old, new = roles(pair)
    commit(pair, "first", "common")
    wait_until(lambda: held_by(pair, new)["first"] == "common", f"{new} has it")
    epoch = take_snapshot(pair.cluster).epoch or 0
    tails = {*Layout(pair.cluster).lost_tails.glob("*")}
    os.kill(server_of(pair.pid_of(f"node-{old}")), signal.SIGSTOP)  # it can't end in order
    succeed(pair, "node", "fence", old)
    succeed(pair, "node", "promote", new, "--epoch", str(epoch + 1), "--reason", "a test")
    said = succeed(pair, "rejoin", old)
    assert "Lost from the cluster" not in said
    if pair.backend == "relstorage-postgresql":
        assert (
            "has every transaction of it"
            in Layout(pair.cluster).program_log(f"node-{old}").read_text()
        )
    assert tails == {*Layout(pair.cluster).lost_tails.glob("*")}
    wait_until_healthy(pair)
    assert ExitCode.OK == pair.cli("rejoin", old).returncode


@in_common
def test_a_follower_runs_again_after_a_rejoin_that_could_not_ask_the_primary(
    pair: ClusterUnderTest,
) -> None:
    primary, name = roles(pair)
    node = pair.cluster.node(name)
    native_of(pair.cluster).detach(pair.cluster, node, time.monotonic() + ANSWER_SECONDS)
    plan = planning.prepare(pair.cluster, pair.installation, Request("rejoin", name, "a test"))
    assert isinstance(plan, Plan)
    assert ["stop", "fence"] == [step.action for step in plan.steps[:2]]
    succeed(pair, "node", "fence", primary)
    with pytest.raises(OperatorError, match="everything is as before"):
        executor.execute(pair.cluster, pair.installation, plan)
    wait_until(
        lambda: supervisor.program_states(pair.cluster)[node.program].state == "RUNNING",
        f"{name} runs again",
    )
    succeed(pair, "node", "start", primary)
    wait_until_healthy(pair)


@in_common
def test_data_that_can_not_be_opened_needs_a_clone_and_is_left_as_it_is(
    pair: ClusterUnderTest,
) -> None:
    old, new = roles(pair)
    commit(pair, "first", "before the damage")
    wait_until(lambda: held_by(pair, new)["first"] == "before the damage", f"{new} has it")
    epoch = take_snapshot(pair.cluster).epoch or 0
    succeed(pair, "node", "fence", old)
    succeed(pair, "node", "promote", new, "--epoch", str(epoch + 1), "--reason", "a test")
    folder = native_of(pair.cluster).data_folder(pair.cluster.node(old))
    vital = folder / ("ibdata1" if pair.backend == "relstorage-mariadb" else "global/pg_control")
    kept = vital.read_bytes()
    vital.write_bytes(b"damaged" * 2000)
    refused = pair.cli("rejoin", old)
    assert ExitCode.REFUSED == refused.returncode, refused.stdout + refused.stderr
    assert "needs-seeding" in refused.stderr
    assert folder.is_dir()
    assert ExitCode.REFUSED == pair.cli("node", "start", old).returncode
    vital.write_bytes(kept)
    succeed(pair, "rejoin", old)
    wait_until_healthy(pair)


@in_common
def test_what_another_history_has_under_the_same_id_quarantines_a_node(
    pair: ClusterUnderTest,
) -> None:
    """The database's last common transaction says something else there than here."""
    old, new = roles(pair)
    commit(pair, "first", "common again")
    wait_until(lambda: held_by(pair, new)["first"] == "common again", f"{new} has it")
    epoch = take_snapshot(pair.cluster).epoch or 0
    # A frozen one can't end in order; one that has ended so needs no comparison in PostgreSQL.
    os.kill(server_of(pair.pid_of(f"node-{old}")), signal.SIGSTOP)
    succeed(pair, "node", "fence", old)
    succeed(pair, "node", "promote", new, "--epoch", str(epoch + 1), "--reason", "a test")
    alter_descriptions(pair, new)
    refused = pair.cli("rejoin", old)
    assert ExitCode.REFUSED == refused.returncode, refused.stdout + refused.stderr
    assert "quarantined" in refused.stderr
    folder = native_of(pair.cluster).data_folder(pair.cluster.node(old))
    shutil.rmtree(folder)
    succeed(pair, "rejoin", old)
    wait_until_healthy(pair)


def alter_descriptions(pair: ClusterUnderTest, node: str) -> None:
    """What no client of RelStorage does."""
    if pair.backend == "relstorage-mariadb":
        with administration(pair.cluster.node(node), time.monotonic() + ANSWER_SECONDS) as server:
            server.rows("UPDATE indico.transaction SET description = 'altered'")
    else:
        sql.command(
            pair.cluster,
            pair.cluster.node(node),
            time.monotonic() + ANSWER_SECONDS,
            "UPDATE transaction SET description = 'altered'",
            database="indico",
        )
