"""Private PostgreSQL servers, a primary and a hot standby: what is particular to them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import programs27
import pytest
from clusters import PATIENCE, ClusterUnderTest, wait_until

from indico_zodbrepl.backends import backend_of, native_of, relstorage
from indico_zodbrepl.backends.postgresql import config, data, founding, programs, server, sql
from indico_zodbrepl.backends.postgresql import status as answers
from indico_zodbrepl.cluster import NodeState, Role
from indico_zodbrepl.cluster.files import write_all
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.settings import PostgreSQLSettings
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import promise, state, supervisor
from indico_zodbrepl.monitor.collect import take_snapshot
from indico_zodbrepl.monitor.node_status import NodeStatus
from indico_zodbrepl.monitor.snapshot import Snapshot, State
from indico_zodbrepl.probing.answers import AckState, Fact, Hold
from indico_zodbrepl.probing.wire import ProbeError

try:
    programs.find(PostgreSQLSettings())
except OperatorError:
    pytest.skip("Debian's package postgresql is not installed", allow_module_level=True)

# Of each look at the cluster; a busy machine may be slow.
LOOK_SECONDS = 10.0

# One commit to a storage; ends with an error when it fails.
COMMIT = """
import sys, transaction, ZODB, ZODB.config
db = ZODB.DB(ZODB.config.storageFromURL(sys.argv[1]))
db.open().root()[sys.argv[2]] = sys.argv[2]
transaction.commit()
db.close()
"""

# Reads with one connection; then, told to by a line, reads again until it gets something else.
REREAD = """
import sys, time, transaction, ZODB, ZODB.config
db = ZODB.DB(ZODB.config.storageFromURL(sys.argv[1]))
connection = db.open()
first = connection.root().get('seen')
sys.stdout.write('%s\\n' % first)
sys.stdout.flush()
sys.stdin.readline()
for attempt in range(int(sys.argv[2])):
    time.sleep(0.2)
    try:
        transaction.begin()
        found = connection.root().get('seen')
        if found != first:
            break
    except Exception as error:
        transaction.abort()
        found = type(error).__name__
sys.stdout.write('%s\\n' % found)
sys.stdout.flush()
"""

SEE = """
import sys, transaction, ZODB, ZODB.config
db = ZODB.DB(ZODB.config.storageFromURL(sys.argv[1]))
db.open().root()['seen'] = sys.argv[2]
transaction.commit()
db.close()
"""

# What an Indico whose storage this is would say of it, after its first look.
HEALTH = """
import sys, time, ZODB, ZODB.config
from indico_zodbrepl.dataplane.client.status import storage_status
db = ZODB.DB(ZODB.config.storageFromURL(sys.argv[1]))
health = storage_status(db)
while health['connected'] and not health['server']:
    time.sleep(0.1)
    health = storage_status(db)
print('%(connected)s %(server)s %(read_only)s' % health)
db.close()
"""

# Changes many objects in one transaction; each takes a lock of the server's.
MANY = """
import sys, transaction, ZODB, ZODB.config
from persistent.list import PersistentList
from persistent.mapping import PersistentMapping
db = ZODB.DB(ZODB.config.storageFromURL(sys.argv[1]))
many = db.open().root()['many'] = PersistentList(
    PersistentMapping() for _ in range(int(sys.argv[2])))
transaction.commit()
for each in many:
    each['changed'] = True
transaction.commit()
db.close()
"""

OPEN = """
import sys, ZODB, ZODB.config
ZODB.DB(ZODB.config.storageFromURL(sys.argv[1])).close()
"""

WAITING = "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted"


class PostgreSQLUnderTest(ClusterUnderTest):
    """A primary a and a standby b, without Indico."""

    synchronous = False
    more = ""

    def write(self) -> None:
        a, b, admin = self.ports[:3]
        self.path.write_text(f"""\
name test
backend relstorage-postgresql
var-directory {self.folder}/var
synchronous {int(self.synchronous)}
{self.more}
<node a>
  host 127.0.0.1
  storage-port {a}
  data-directory {self.folder}/var/node/a
  role primary
</node>
<node b>
  host 127.0.0.1
  storage-port {b}
  data-directory {self.folder}/var/node/b
  role secondary
  upstream a
</node>
<admin>
  port {admin}
</admin>
""")

    def look(self) -> Snapshot:
        return take_snapshot(self.cluster, LOOK_SECONDS)

    def node(self, name: str) -> NodeStatus:
        return next(node for node in self.look().nodes if node.name == name)

    def is_healthy(self) -> bool:
        return self.look().state is State.HEALTHY

    def sql(self, node: str, statement: str, database: str = "postgres") -> list[sql.Row]:
        return sql.command(
            self.cluster,
            self.cluster.node(node),
            time.monotonic() + PATIENCE,
            statement,
            database=database,
        )[0]

    def python27(self, program: str, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.installation.python27, "-c", program, *arguments],
            cwd=self.folder,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.installation.environment27(),
        )

    def pid_of_or_none(self, program: str) -> int | None:
        return supervisor.program_states(self.cluster, PATIENCE)[program].pid

    def servers_conf(self, *order: str, **more: str) -> Path:
        """A copy of the clients' configuration that takes the servers in another order."""
        layout = Layout(self.cluster)
        servers = self.folder / f"servers-{'-'.join(order)}.txt"
        servers.write_text(
            "".join(f"{self.cluster.node(each).storage_address}\n" for each in order)
        )
        text = layout.zodb_conf.read_text().replace(
            str(relstorage.servers_file(self.cluster)), str(servers)
        )
        for old, new in more.items():
            assert old in text
            text = text.replace(old, new)
        path = self.folder / f"zodb-{'-'.join(order)}-{len(more)}.conf"
        path.write_text(text)
        return path

    def commit(self, key: str, conf: Path | None = None) -> subprocess.CompletedProcess[str]:
        conf = conf or Layout(self.cluster).zodb_conf
        return programs27.run(
            self.installation.python27,
            COMMIT,
            conf,
            key,
            seconds=PATIENCE,
            environ=self.installation.environment27(),
            folder=self.folder,
        )


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Iterator[PostgreSQLUnderTest]:
    with contextlib.closing(PostgreSQLUnderTest(tmp_path_factory.mktemp("pair"), home)) as made:
        made.start()
        yield made


@pytest.fixture(autouse=True)
def healthy(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test of the pair finds it healthy and leaves it so."""
    yield
    if "pair" in request.fixturenames:
        pair = request.getfixturevalue("pair")
        if not pair.is_healthy():
            pair.start()
        wait_until(pair.is_healthy, "the cluster is healthy again")


def test_nobody_gets_in_without_a_password(pair: PostgreSQLUnderTest) -> None:
    a = pair.cluster.node("a")
    target = f"host=127.0.0.1 port={a.storage_port} dbname=indico user=indico"
    with pytest.raises(ProbeError, match="no password"):
        sql.query(f"{target} passfile=/nowhere", time.monotonic() + PATIENCE, "SELECT 1")


def test_a_follower_of_a_new_primary_receives_one_megabyte_of_the_log_again_at_most(
    pair: PostgreSQLUnderTest,
) -> None:
    for node in ("a", "b"):
        assert [["1MB"]] == [list(row) for row in pair.sql(node, "SHOW wal_segment_size")]


@pytest.mark.exhaustive
def test_a_transaction_may_change_very_many_objects(pair: PostgreSQLUnderTest) -> None:
    with pair.python27(MANY, str(Layout(pair.cluster).zodb_conf), "40000") as changing:
        _, errors = changing.communicate(timeout=4 * PATIENCE)
    assert 0 == changing.returncode, errors[:2000]
    wait_until(pair.is_healthy, "the standby has it")


def test_bytes_that_take_long_to_count_are_left_out_and_no_error_in_the_servers_log(
    pair: PostgreSQLUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def size(name: str) -> int:
        where = answers.own_conninfo(pair.cluster, pair.cluster.node(name))
        with sql.session(where, time.monotonic() + PATIENCE) as run:
            return answers.size_of(run) or 0

    log = Layout(pair.cluster).log / "node-a.log"
    before = log.read_text().count("ERROR")
    assert 8192 < min(size("a"), size("b"))
    slow = answers._SIZE.replace("FROM pg_class", "FROM pg_class, pg_sleep(5)")
    monkeypatch.setattr(answers, "_SIZE", slow)
    assert size("a") == 0
    assert before == log.read_text().count("ERROR")


def test_a_lock_file_that_names_a_strangers_process_keeps_no_server_from_starting(
    pair: PostgreSQLUnderTest,
) -> None:
    assert 0 == pair.cli("node", "stop", "b").returncode
    folder = config.data_folder(pair.cluster.node("b"))
    (folder / server.POSTMASTER_PID).write_text(f"{os.getpid()}\n{folder}\n")
    done = pair.cli("node", "start", "b")
    assert 0 == done.returncode, done.stdout + done.stderr


def test_a_standby_that_is_stopped_is_an_alert(pair: PostgreSQLUnderTest) -> None:
    assert 0 == pair.cli("node", "stop", "b").returncode
    snapshot = pair.look()
    assert State.DEGRADED is snapshot.state
    assert {"secondary b is stopped", "primary a has no follower"} <= {
        alert.text for alert in snapshot.warnings
    }
    assert 0 == pair.cli("node", "start", "b").returncode


def test_without_its_synchronous_standby_commits_wait_until_synchronous_is_switched_off(
    pair: PostgreSQLUnderTest,
) -> None:
    pair.synchronous = True
    pair.write()
    pair.start()
    assert 0 == pair.commit("synchronous").returncode
    assert {"quorum"} == {
        row[0] for row in pair.sql("a", "SELECT sync_state FROM pg_stat_replication")
    }
    assert 0 == pair.cli("node", "stop", "b").returncode
    writer = pair.python27(COMMIT, str(Layout(pair.cluster).zodb_conf), "waiting")
    try:
        wait_until(
            lambda: Fact("commits that wait for a secondary", "1") in pair.node("a").facts,
            "the commit waits",
        )
        assert (State.DOWN, Hold.FOLLOWERS) == (pair.look().state, pair.node("a").held)
        assert writer.poll() is None
        pair.synchronous = False
        pair.write()
        founding.settle_links(pair.cluster, pair.cluster.node("a"))  # as `up` does
        assert 0 == writer.wait(PATIENCE)
    finally:
        writer.kill()
        writer.communicate()
        pair.synchronous = False
        pair.write()
        pair.start()


@pytest.mark.parametrize("alone", ["refuse", "degrade"])
def test_without_its_standby_a_primary_refuses_commits_or_goes_on_alone_and_says_so(
    pair: PostgreSQLUnderTest, alone: str
) -> None:
    pair.synchronous = True
    pair.more = f"synchronous-timeout 1\nsynchronous-alone {alone}\n"
    pair.write()
    assert 0 == pair.cli("restart", "a").returncode  # its guard and keeper come with the start
    try:
        wait_until(lambda: acknowledged(pair) is AckState.SYNCHRONOUS, "b confirms commits")
        assert 0 == pair.commit("acknowledged").returncode
        assert 0 == pair.cli("node", "stop", "b").returncode
        in_flight = pair.commit("in flight")  # it waits, as long as it may
        expected = AckState.REFUSING if alone == "refuse" else AckState.ALONE
        wait_until(lambda: acknowledged(pair) is expected, f"it is {expected}")
        record = json.loads((pair.folder / "var/node/a/synchronous.json").read_text())
        assert record["state"] == expected
        if alone == "refuse":
            assert (Hold.SYNCHRONOUS, False) == (pair.node("a").held, pair.node("a").read_only)
            assert 1 == in_flight.returncode, in_flight.stderr
            wait_until(lambda: REFUSED in pair.commit("without").stderr, "commits are refused")
        else:
            assert 0 == in_flight.returncode, in_flight.stderr
            assert 0 == pair.commit("without").returncode
        assert 0 == pair.cli("node", "start", "b").returncode
        wait_until(lambda: acknowledged(pair) is AckState.SYNCHRONOUS, "b confirms again")
        assert 0 == pair.commit("again").returncode
    finally:
        pair.synchronous, pair.more = False, ""
        pair.write()
        pair.cli("restart", "a")
        pair.start()


def test_a_primary_that_went_on_alone_promises_more_only_when_its_server_keeps_it(
    pair: PostgreSQLUnderTest,
) -> None:
    pair.synchronous = True
    pair.more = "synchronous-timeout 1\nsynchronous-alone degrade\n"
    pair.write()
    assert 0 == pair.cli("restart", "a").returncode
    a = pair.cluster.node("a")
    obstacle = config.data_folder(a) / config.COMMITS_CONF
    try:
        wait_until(lambda: acknowledged(pair) is AckState.SYNCHRONOUS, "b confirms commits")
        assert 0 == pair.cli("node", "stop", "b").returncode
        wait_until(lambda: acknowledged(pair) is AckState.ALONE, "it goes on alone")
        obstacle.rename(obstacle.with_suffix(".old"))
        (obstacle / "in the way").mkdir(parents=True)
        assert 0 == pair.cli("node", "start", "b").returncode
        wait_until(lambda: fails_to_apply(pair), "the companion tries to let commits wait")
        found = promise.read(a)
        assert found is not None
        assert (AckState.ALONE, AckState.ALONE) == (acknowledged(pair), found.state)
        (obstacle / "in the way").rmdir()
        obstacle.rmdir()
        wait_until(lambda: acknowledged(pair) is AckState.SYNCHRONOUS, "b confirms again")
        found = promise.read(a)
        assert found is not None
        assert AckState.SYNCHRONOUS == found.state
    finally:
        if obstacle.is_dir():
            shutil.rmtree(obstacle)
        pair.synchronous, pair.more = False, ""
        pair.write()
        pair.cli("restart", "a")
        pair.start()


def fails_to_apply(pair: PostgreSQLUnderTest) -> bool:
    log = Layout(pair.cluster).program_log("node-a")
    return "can't change what its commits wait for" in log.read_text()


REFUSED = "nothing was written: fewer than 1 secondaries confirm commits (fsync)"


def acknowledged(pair: PostgreSQLUnderTest) -> AckState | None:
    a = pair.cluster.node("a")
    found = backend_of(pair.cluster).ask(pair.cluster, a, time.monotonic() + PATIENCE).replication
    assert found is not None
    return found.acknowledging.state if found.acknowledging else None


def test_a_detached_standby_has_a_final_position_until_it_is_attached(
    pair: PostgreSQLUnderTest,
) -> None:
    assert 0 == pair.commit("before").returncode
    native, b = native_of(pair.cluster), pair.cluster.node("b")
    position = native.detach(pair.cluster, b, time.monotonic() + PATIENCE)
    try:
        assert 0 == pair.commit("meanwhile").returncode
        assert position == native.detach(pair.cluster, b, time.monotonic() + PATIENCE)
        assert pair.sql("b", "SELECT count(*) FROM pg_stat_wal_receiver") == [("0",)]
    finally:
        native.attach(pair.cluster, state.current(pair.cluster, b), time.monotonic() + PATIENCE)
    wait_until(lambda: pair.node("b").lag_transactions == 0, "b has caught up")
    assert position < native.detach(pair.cluster, b, time.monotonic() + PATIENCE)
    native.attach(pair.cluster, state.current(pair.cluster, b), time.monotonic() + PATIENCE)
    with pytest.raises(OperatorError, match="node a is no standby"):
        native.detach(pair.cluster, pair.cluster.node("a"), time.monotonic() + PATIENCE)


def test_clients_with_the_standby_first_in_their_list_fail_every_commit(
    pair: PostgreSQLUnderTest,
) -> None:
    done = pair.commit("wrong order", pair.servers_conf("b", "a"))
    assert (1, True) == (done.returncode, "read" in done.stderr), done.stderr
    assert 0 == pair.commit("right order", pair.servers_conf("a", "b")).returncode


def test_an_indico_that_has_only_the_standby_left_is_connected_and_read_only(
    pair: PostgreSQLUnderTest,
) -> None:
    client = pair.python27(HEALTH, str(pair.servers_conf("b")))
    said, errors = client.communicate(timeout=PATIENCE)
    assert f"True {pair.cluster.node('b').storage_address} True\n" == said, errors


@pytest.mark.parametrize(("reverts", "seen"), [("true", "before"), ("false", None)])
def test_a_client_that_has_seen_more_than_its_server_goes_on_only_when_told_to(
    pair: PostgreSQLUnderTest, reverts: str, seen: str | None
) -> None:
    conf = pair.servers_conf("a", "b", revert_when_stale=f"revert_when_stale {reverts} #")
    conf.write_text(conf.read_text().replace(" # true", ""))
    pair.python27(SEE, str(conf), "before").communicate()
    wait_until(lambda: pair.node("b").lag_transactions == 0, "b has caught up")
    pair.sql("b", "SELECT pg_wal_replay_pause()")
    try:
        wait_until(
            lambda: pair.sql("b", "SELECT pg_get_wal_replay_pause_state()") == [("paused",)],
            "b replays nothing",
        )
        pair.python27(SEE, str(conf), "after").communicate()
        reader = pair.python27(REREAD, str(conf), "15")
        assert reader.stdout is not None
        assert "after\n" == reader.stdout.readline()
        (pair.folder / "servers-a-b.txt").write_text(f"{pair.cluster.node('b').storage_address}\n")
        output, _ = reader.communicate("go on\n", PATIENCE)
        assert output.strip() == (seen or "StaleConnectionError")
    finally:
        pair.sql("b", "SELECT pg_wal_replay_resume()")


def test_servers_of_somebody_elses_are_founded_and_watched_without_being_run(
    pair: PostgreSQLUnderTest, tmp_path: Path, home: Path
) -> None:
    """The same servers, in a cluster of their own that does not manage them."""
    pair.sql("a", "CREATE ROLE visitor LOGIN PASSWORD 'chosen by hand' IN ROLE indico")
    pair.sql("a", "CREATE DATABASE visitor OWNER visitor")
    for name in ("a", "b"):
        hba = config.data_folder(pair.cluster.node(name)) / "pg_hba.conf"
        hba.write_text(hba.read_text() + "host visitor visitor all scram-sha-256\n")
        pair.sql(name, "SELECT pg_reload_conf()")
    (tmp_path / "password").write_text("chosen by hand\n")
    (tmp_path / "password").chmod(0o600)
    visitor = PostgreSQLUnderTest(tmp_path, home)
    visitor.ports = [*pair.ports[:2], visitor.ports[0]]
    visitor.write()
    text = visitor.path.read_text().replace("  role ", "  managed false\n  role ")
    visitor.path.write_text(
        text.replace(
            "synchronous 0\n",
            f"""\
<postgresql>
  database visitor
  user visitor
  password-file {tmp_path}/password
</postgresql>
""",
        )
    )
    with contextlib.closing(visitor):
        visitor.start()
        assert 0 == visitor.commit("by hand").returncode
        wait_until(lambda: visitor.node("b").lag_transactions == 0, "b has it")
        snapshot = visitor.look()
        assert (State.HEALTHY, "a") == (snapshot.state, snapshot.primary)
        assert ["primary", "secondary"] == [node.actual_role for node in snapshot.nodes]
        assert not (tmp_path / "var" / "node").exists()
        visitor.down()
    assert pair.is_healthy()


def test_of_several_processes_that_make_the_tables_at_once_some_fail(
    pair: PostgreSQLUnderTest,
) -> None:
    """Why one process makes them, and clients have `create-schema false`."""
    pair.sql("a", "CREATE DATABASE empty")
    superuser = config.passfile(pair.cluster, config.SUPERUSER)
    text = relstorage.schema_conf(pair.cluster).read_text()
    conf = pair.folder / "empty.conf"
    own = config.passfile(pair.cluster, "indico")
    conf.write_text(
        text.replace(
            "dbname='indico' user='indico'", f"dbname='empty' user='{config.SUPERUSER}'"
        ).replace(str(own), str(superuser))
    )
    with sql.session(
        sql.conninfo(pair.cluster, pair.cluster.node("a"), config.SUPERUSER, "empty"),
        time.monotonic() + PATIENCE,
    ) as run:
        # None can make a table before all have seen that there is none.
        run("BEGIN")
        run("LOCK TABLE pg_catalog.pg_class IN SHARE MODE")
        opened = [pair.python27(OPEN, str(conf)) for _ in range(4)]
        wait_until(lambda: run(WAITING) == [("4",)], "each waits to make its first table")
        run("COMMIT")
    codes = [process.wait(PATIENCE) for process in opened]
    for process in opened:
        process.communicate()
    assert any(codes)
    assert (
        0
        == subprocess.run(
            [pair.installation.python27, "-c", OPEN, conf], check=False, timeout=PATIENCE
        ).returncode
    )
    pair.sql("a", "DROP DATABASE empty WITH (FORCE)")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to be somebody else")
def test_where_no_namespace_can_be_made_the_packages_own_user_runs_the_servers(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "namespace", lambda: programs.Identity(("/bin/false",)))
    programs.identity.cache_clear()
    tmp_path.chmod(0o700)  # that user can't reach the data by its path
    under_test = PostgreSQLUnderTest(tmp_path, home)
    cluster = under_test.cluster
    (tmp_path / "var" / "secrets").mkdir(parents=True)
    with contextlib.closing(under_test), contextlib.ExitStack() as running:
        try:
            for name, role, upstream in (("a", Role.PRIMARY, None), ("b", Role.SECONDARY, "a")):
                running.enter_context(
                    serving(under_test, NodeState(cluster.name, name, role, upstream, 1))
                )
            assert "postgres" == config.data_folder(cluster.node("b")).owner()
            wait_until(
                lambda: (
                    under_test.sql("a", "SELECT state FROM pg_stat_replication") == [("streaming",)]
                ),
                "b streams",
            )
        finally:
            programs.identity.cache_clear()


@contextlib.contextmanager
def serving(under_test: PostgreSQLUnderTest, state: NodeState) -> Iterator[None]:
    """What `node run` does of the backend, without supervisor."""
    cluster, backend = under_test.cluster, backend_of(under_test.cluster)
    node = cluster.node(state.node)
    node.data_directory.mkdir(mode=0o700, parents=True)
    list(backend.prepare(cluster, under_test.installation, state))
    write_all(backend.node_files(cluster, state))
    with (
        (under_test.folder / f"{node.name}.log").open("wb") as log,
        subprocess.Popen(
            backend.server_command(cluster, under_test.installation, state),
            stdout=log,
            stderr=log,
            cwd=node.data_directory,
        ) as server,
    ):
        try:
            data.wait_for(cluster, node, PATIENCE)
            yield
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(PATIENCE)
