"""up and down, with a real supervisord and real storage servers."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import os
import shutil
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from clusters import (
    CHAIN,
    PATIENCE,
    ClusterUnderTest,
    MakeCluster,
    free_ports,
    settles_at,
    wait_until,
)

from indico_zodbrepl.cluster.layout import Layout, state_file
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import lifecycle, ports, programs, readiness, state, supervisor
from indico_zodbrepl.host.locking import exclusive

WRITE_AND_READ = """
import sys, time, transaction, ZODB.config
writer = ZODB.DB(ZODB.config.storageFromURL(sys.argv[1]))
connection = writer.open()
connection.root()['answer'] = 42
transaction.commit()
tid = writer.storage.lastTransaction()
connection.close()
writer.close()
reader = ZODB.config.storageFromURL(sys.argv[2])
deadline = time.time() + 150
while reader.lastTransaction() < tid and time.time() < deadline:
    time.sleep(0.1)
db = ZODB.DB(reader)
print('%s read_only=%s' % (db.open().root()['answer'], reader.isReadOnly()))
"""
AS_NOBODY = (
    "setpriv",
    "--reuid",
    "65534",
    "--regid",
    "65534",
    "--clear-groups",
    "--inh-caps=-all,+dac_read_search",
    "--bounding-set=-all,+dac_read_search",
    "--ambient-caps=-all,+dac_read_search",
)


VARIABLE = "SECRET_OF_THE_CALLER"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Iterator[ClusterUnderTest]:
    """As in the other modules; its ``up`` had a secret in the environment."""
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.closing(ClusterUnderTest(tmp_path_factory.mktemp("shared"), home)) as made,
    ):
        patch.setenv(VARIABLE, "x")
        made.up()
        yield made


@dataclasses.dataclass(frozen=True)
class Serving:
    """A cluster with Indico, which the tests change in order, and what its ``up`` said."""

    under_test: ClusterUnderTest
    up: subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("serving")
    with contextlib.closing(ClusterUnderTest(folder, home, indico=("one", "two"))) as made:
        yield Serving(made, made.cli("up"))


def is_listening(cluster: ClusterUnderTest, *which: str) -> list[bool]:
    """Whether a connection to each address is accepted, e.g. of "a storage-port"."""
    addresses = {
        f"{endpoint.name} {endpoint.key}": endpoint.address
        for endpoint in cluster.cluster.endpoints()
    }
    found = []
    for name in which:
        with contextlib.closing(socket.socket()) as client:
            found.append(client.connect_ex((addresses[name].host, addresses[name].port)) == 0)
    return found


def test_up_starts_all_and_down_ends_all_and_both_may_be_repeated(
    cluster: ClusterUnderTest,
) -> None:
    up = cluster.cli("up")
    assert (0, "") == (up.returncode, up.stderr)
    *_, page, hint = map(str.rstrip, up.stdout.splitlines())
    assert f"admin page  {cluster.cluster.admin.base_url}" == page
    assert "Add one: " in hint
    assert hint.endswith("admin user add NAME --level operator")
    assert [True, True, True] == is_listening(
        cluster, "a storage-port", "a replication-port", "b storage-port"
    )
    assert {"RUNNING"} == {
        program.state for program in supervisor.program_states(cluster.cluster, PATIENCE).values()
    }
    pids = {name: cluster.pid_of(name) for name in cluster.cluster.program_names()}
    again = cluster.cli("up")
    assert (0, True) == (again.returncode, "everything is running" in again.stdout)
    assert pids == {name: cluster.pid_of(name) for name in pids}
    assert 0 == cluster.cli("down").returncode
    assert [] == cluster.processes()
    assert all(ports.is_free(endpoint.address) for endpoint in cluster.cluster.endpoints())
    again = cluster.cli("down")
    assert (0, "nothing is running\n") == (again.returncode, again.stdout)


def test_up_starts_only_what_is_missing(shared: ClusterUnderTest) -> None:
    kept = shared.pid_of("node-a")
    shared.stop("node-b")
    assert ["node-b"] == lifecycle.up(shared.cluster, shared.installation)
    assert kept == shared.pid_of("node-a")
    assert [True] == is_listening(shared, "b storage-port")


def test_two_ups_at_once_start_everything_once(cluster: ClusterUnderTest) -> None:
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        done = list(pool.map(cluster.cli, ["up"] * 3))
    assert [0, 0, 0] == [up.returncode for up in done], [up.stderr for up in done]
    assert 1 == sum("supervisord is up" in up.stdout for up in done)
    assert 1 == sum("node-a is up" in up.stdout for up in done)


def test_a_chain_over_a_relay_comes_up_and_ends_in_drain_order(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(nodes=CHAIN)
    cluster.start()
    assert [True, True, False] == is_listening(
        cluster, "a replication-port", "b replication-port", "c replication-port"
    )
    assert ["node-a", "node-b", "node-c"] == lifecycle.down(cluster.cluster, cluster.installation)


def test_a_taken_port_is_named_before_anything_starts(cluster: ClusterUnderTest) -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", cluster.ports[2]))):
        up = cluster.cli("up")
    assert ExitCode.PORT_TAKEN == up.returncode
    line = cluster.cluster.where("node", "b", "storage-port")
    assert (
        f"127.0.0.1:{cluster.ports[2]} (storage-port of node b, {line}) is taken by process "
        f"{os.getpid()}: "
    ) in up.stderr
    assert [] == cluster.processes()


def test_a_port_taken_on_all_addresses_is_noticed(cluster: ClusterUnderTest) -> None:
    with contextlib.closing(socket.create_server(("", cluster.ports[0]))):
        assert ExitCode.PORT_TAKEN == cluster.cli("up").returncode


def test_a_frozen_supervisord_is_reported_and_one_that_is_slow_to_answer_is_waited_for(
    cluster: ClusterUnderTest,
) -> None:
    """It is slow on a busy machine; status has not that much time."""
    cluster.start()
    pid = cluster.supervisord_pid()
    os.kill(pid, signal.SIGSTOP)
    states = supervisor.program_states(cluster.cluster)
    assert {"UNREACHABLE"} == {program.state for program in states.values()}
    down = cluster.cli("down")
    assert (ExitCode.TIMED_OUT, True) == (down.returncode, f"kill -CONT {pid}" in down.stderr)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        try:
            slow = pool.submit(cluster.cli, "down")
            time.sleep(2 * supervisor.ANSWER_SECONDS)
        finally:
            os.kill(pid, signal.SIGCONT)
        assert 0 == slow.result().returncode, slow.result().stderr
    assert [] == cluster.processes()


def test_a_server_that_dies_when_it_is_to_be_stopped_is_not_started_again(
    cluster: ClusterUnderTest,
) -> None:
    """Supervisor learns of its death with the commands' first question, or before it."""
    cluster.start()
    wait_until(lambda: cluster.program("a") == "RUNNING", "it has been up for a while")
    supervised, server = cluster.supervisord_pid(), cluster.pid_of("node-a")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        os.kill(supervised, signal.SIGSTOP)
        try:
            os.kill(server, signal.SIGKILL)
            late = time.monotonic() + PATIENCE
            ended = pool.submit(programs.end, cluster.cluster, ["node-a"], late)
            time.sleep(0.5)  # it has asked
        finally:
            os.kill(supervised, signal.SIGCONT)
        assert ["node-a"] == ended.result()
    for _ in range(30):
        assert "STOPPED" == cluster.program("a")
        time.sleep(0.1)


def test_with_damaged_state_files_down_ends_everything_and_up_starts_the_rest(
    cluster: ClusterUnderTest,
) -> None:
    """The order of ending is then the one of cluster.conf: the primary before its followers."""
    cluster.up()
    files = [state_file(cluster.cluster.node(name)) for name in ("a", "b")]
    text = files[1].read_text()
    for file in files:
        file.write_text("{")
    assert ["admin", "node-a", "node-b"] == lifecycle.down(cluster.cluster, cluster.installation)
    assert [] == cluster.processes()
    files[1].write_text(text)
    up = cluster.cli("up")
    assert ExitCode.REFUSED == up.returncode
    assert "the state file of node a can't be used" in up.stderr
    assert "everything but node-a is up" in up.stderr
    assert [False, True] == is_listening(cluster, "a storage-port", "b storage-port")


def test_a_refusal_under_supervisor_is_final_and_shown(shared: ClusterUnderTest) -> None:
    """The state file is damaged between the checks of ``up`` and a later start."""
    shared.stop("node-b")
    file = state_file(shared.cluster.node("b"))
    text = file.read_text()
    file.write_text("{")
    try:
        supervisor.Supervisor(shared.cluster).start("node-b")
        wait_until(lambda: shared.program("b") == "EXITED", "node-b has refused")
        time.sleep(3)
        assert "EXITED" == shared.program("b")
    finally:
        file.write_text(text)
    log = Layout(shared.cluster).program_log("node-b").read_text()
    assert 1 == log.count("NOTICE: the state file of node b can't be used")
    assert ["node-b"] == lifecycle.up(shared.cluster, shared.installation)


def test_a_program_that_dies_is_reported_with_its_log(cluster: ClusterUnderTest) -> None:
    node = cluster.cluster.node("a")
    node.data_directory.mkdir(parents=True)
    (node.data_directory / "Data.fs").write_bytes(b"this is no database, it only looks like one")
    with pytest.raises(OperatorError) as caught:
        lifecycle.up(cluster.cluster, cluster.installation)
    assert "node-a did not start" == caught.value.notice
    assert "Data.fs" in caught.value.detail
    assert str(Layout(cluster.cluster).program_log("node-a")) in caught.value.hint


def test_a_node_resumes_the_role_of_its_state_file(cluster: ClusterUnderTest) -> None:
    cluster.start()
    cluster.down()
    for name, role, upstream in (("a", "secondary", "b"), ("b", "primary", None)):
        node = cluster.cluster.node(name)
        text = state_file(node).read_text()
        old = state.current(cluster.cluster, node)
        text = text.replace(f'"{old.role}"', f'"{role}"').replace('"epoch": 1', '"epoch": 2')
        text = (
            text.replace('"upstream": null', f'"upstream": "{upstream}"')
            if upstream
            else (text.replace('"upstream": "a"', '"upstream": null'))
        )
        state_file(node).write_text(text)
    cluster.up()
    assert [False, True] == is_listening(cluster, "a replication-port", "b replication-port")
    assert ["admin", "node-b", "node-a"] == lifecycle.down(cluster.cluster, cluster.installation)


def test_indico_instances_answer_when_up_returns(serving: Serving) -> None:
    assert (0, "") == (serving.up.returncode, serving.up.stderr)
    for instance in serving.under_test.cluster.indico:
        settles_at(None, partial(readiness.indico_answers, instance))
    assert [instance.base_url for instance in serving.under_test.cluster.indico] == [
        line.split()[1] for line in serving.up.stdout.splitlines() if line.startswith("Indico ")
    ]


def test_a_program_new_in_the_cluster_file_is_started(serving: Serving) -> None:
    cluster = serving.under_test
    kept = cluster.pid_of("node-a")
    cluster.nodes = {**cluster.nodes, "c": ("secondary", "a")}
    cluster.ports[4:4] = free_ports(2)
    cluster.write()
    assert ["node-c"] == lifecycle.up(cluster.cluster, cluster.installation)
    assert kept == cluster.pid_of("node-a")


def test_an_instance_whose_port_changed_is_started_again(serving: Serving) -> None:
    cluster = serving.under_test
    kept = cluster.pid_of("node-a")
    cluster.ports[cluster.ports.index(cluster.cluster.indico[0].port)] = free_ports(1)[0]
    cluster.write()
    assert ["indico-one"] == lifecycle.up(cluster.cluster, cluster.installation)
    settles_at(None, lambda: readiness.indico_answers(cluster.cluster.indico[0]))
    assert kept == cluster.pid_of("node-a")


def test_down_ends_indico_too(serving: Serving) -> None:
    serving.under_test.down()
    assert [] == serving.under_test.processes()


def test_a_node_that_runs_on_another_port_than_the_file_says_is_reported(
    shared: ClusterUnderTest,
) -> None:
    """It is not restarted unasked: clients and followers hang on it."""
    kept, port = shared.pid_of("node-a"), shared.ports[0]
    shared.ports[0] = free_ports(1)[0]
    shared.write()
    try:
        up = shared.cli("up")
        assert ExitCode.TIMED_OUT == up.returncode
        assert (
            f"nothing listens on 127.0.0.1:{shared.ports[0]} (storage-port of node a)" in up.stderr
        )
        assert (
            f"after a change of cluster.conf: bin/zodbrepl -c {shared.path} down, then up"
            in up.stderr
        )
    finally:
        shared.ports[0] = port
        shared.write()
    assert [] == lifecycle.up(shared.cluster, shared.installation)
    assert kept == shared.pid_of("node-a")


def test_files_are_for_their_owner_where_they_hold_data(shared: ClusterUnderTest) -> None:
    layout = Layout(shared.cluster)
    modes = {
        path: stat.S_IMODE(path.stat().st_mode)
        for path in (
            layout.secrets,
            layout.run,
            layout.log,
            layout.indico,
            shared.cluster.node("a").data_directory,
        )
    }
    assert {0o700} == set(modes.values())
    assert 0o700 == stat.S_IMODE(layout.supervisor_socket.stat().st_mode)


def test_supervisord_gets_nothing_of_the_callers_environment(shared: ClusterUnderTest) -> None:
    for program in ("node-a", "admin"):
        environment = Path(f"/proc/{shared.pid_of(program)}/environ").read_bytes()
        assert VARIABLE.encode() not in environment
    with exclusive(Layout(shared.cluster).lock, 5, pytest.fail):
        pass  # none of them holds the lock that ``up`` had


def test_what_is_written_through_zodb_conf_is_read_from_the_secondary(
    shared: ClusterUnderTest,
) -> None:
    layout = Layout(shared.cluster)
    done = subprocess.run(
        [
            shared.installation.python27,
            "-c",
            WRITE_AND_READ,
            layout.zodb_conf,
            layout.node_zodb_conf(shared.cluster.node("b")),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert "42 read_only=True" == done.stdout.strip(), done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests run as an ordinary user already")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv (util-linux)")
def test_an_ordinary_user_can_run_it(cluster: ClusterUnderTest) -> None:
    """It may read everything here, as the installation may be in root's home, but not write."""
    os.chown(cluster.folder, 65534, 65534)
    command = [*AS_NOBODY, str(cluster.installation.zodbrepl), "-c", str(cluster.path)]
    for action in ("up", "down"):
        done = subprocess.run(
            [*command, action], capture_output=True, text=True, check=False, timeout=240, cwd="/"
        )
        assert (0, "") == (done.returncode, done.stderr)
    assert {65534} == {
        path.lstat().st_uid for path in cluster.folder.rglob("*") if path != cluster.path
    }


def test_a_var_directory_too_deep_for_a_socket_works(
    make_cluster: MakeCluster, tmp_path: Path
) -> None:
    cluster = make_cluster(folder=tmp_path / ("deep" * 12) / ("deep" * 12))
    socket_path = Layout(cluster.cluster).supervisor_socket
    assert not socket_path.is_relative_to(cluster.folder)
    try:
        cluster.start()
        assert 0o700 == stat.S_IMODE(socket_path.parent.stat().st_mode)
        cluster.down()
    finally:
        with contextlib.suppress(FileNotFoundError):
            socket_path.parent.rmdir()
