"""The decisions of up and down that need no processes."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TypeVar

import pytest
import two_hosts

from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.hosts import ClusterHost
from indico_zodbrepl.cluster.layout import Layout, state_file
from indico_zodbrepl.cluster.lookup import node_named
from indico_zodbrepl.cluster.model import Node
from indico_zodbrepl.cluster.programs import Admin, IndicoInstance, Watch
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import (
    epochs,
    generated,
    lifecycle,
    readiness,
    run,
    stages,
    startable,
    state,
)
from indico_zodbrepl.host.epochs import EpochRecord
from indico_zodbrepl.host.interface import HostAwayError
from indico_zodbrepl.host.locking import exclusive
from indico_zodbrepl.host.supervisor import ProgramState

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"
Placed = TypeVar("Placed", Node, IndicoInstance, Admin, Watch)
POSTGRESQL = "relstorage-postgresql"
HOLD_LOCK = """
import sys
import time
from pathlib import Path
from indico_zodbrepl.host.locking import exclusive
from indico_zodbrepl.host.supervisor import ProgramState
with exclusive(Path(sys.argv[1]), 5, print):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return load(EXAMPLE, tmp_path)


@pytest.mark.parametrize(
    ("upstreams", "order"),
    [
        ({"a": None, "b": "a"}, ["a", "b"]),
        ({"a": "b", "b": None}, ["b", "a"]),
        ({"a": "b", "b": "a"}, ["a", "b"]),
    ],
)
def test_a_node_ends_before_those_that_follow_it(
    cluster: Cluster, upstreams: dict[str, str | None], order: list[str]
) -> None:
    assert order == [node.name for node in stages.drain_order(cluster.nodes, upstreams)]


def test_several_hosts_stop_in_the_order_of_one(cluster: Cluster) -> None:
    hosts = tuple(ClusterHost(name, "10.77.0.11", 8300) for name in ("one", "two", "three"))
    a, b = cluster.nodes
    c = dataclasses.replace(b, name="c", on="three")
    one, two = cluster.indico
    several = dataclasses.replace(
        cluster,
        hosts=hosts,
        nodes=(c, replace_on(b, "two"), replace_on(a, "one")),
        indico=(replace_on(one, "one"), replace_on(two, "two")),
        admin=replace_on(cluster.admin, "three"),
        watch=cluster.watch and replace_on(cluster.watch, "three"),
    )
    found = stages.stopping(several, {"a": None, "b": "a", "c": "b"})
    assert {"one", "two", "three"} == set(found[0])
    assert ["admin", "watch"] == found[0]["three"]
    assert [{"one": ["node-a"]}, {"two": ["node-b"]}, {"three": ["node-c"]}] == found[1:]


def replace_on(what: Placed, host: str) -> Placed:
    return dataclasses.replace(what, on=host)


def test_a_secondary_is_not_expected_on_its_replication_port(cluster: Cluster) -> None:
    states = {node.name: state.initial(cluster, node) for node in cluster.nodes}
    expected = [
        ("node-a", 8111),
        ("node-a", 8112),
        ("node-b", 8121),
        ("indico-one", 8101),
        ("indico-two", 8102),
        ("admin", 8100),
        ("watch", 8103),
    ]
    assert expected == [
        (stages.program_of(cluster, endpoint), endpoint.address.port)
        for endpoint in stages.needed(cluster, states)
    ]


def test_making_the_folders_twice_is_fine_and_closes_an_open_one(cluster: Cluster) -> None:
    generated.make_directories(cluster)
    private = [cluster.var_directory / name for name in ("secrets", "run", "log", "indico")]
    for folder in private:
        folder.chmod(0o755)
    generated.make_directories(cluster)
    assert [0o700] * 4 == [folder.stat().st_mode & 0o777 for folder in private]


def test_a_new_folder_of_uploads_is_private_and_an_existing_one_keeps_its_mode(
    cluster: Cluster,
) -> None:
    archive = cluster.var_directory.parent / "uploads" / "archive"
    elsewhere = dataclasses.replace(cluster, archive_directory=archive)
    generated.make_directories(elsewhere)
    assert 0o700 == archive.stat().st_mode & 0o777
    archive.chmod(0o750)
    generated.make_directories(elsewhere)
    assert 0o750 == archive.stat().st_mode & 0o777


def test_a_var_directory_that_can_not_be_made_is_refused_with_its_line(cluster: Cluster) -> None:
    cluster.var_directory.write_text("a file is in the way")
    with pytest.raises(OperatorError) as caught:
        generated.make_directories(cluster)
    assert ExitCode.REFUSED == caught.value.exit_code
    assert f"{cluster.var_directory} ({cluster.source}:6)" in caught.value.detail


def test_the_first_start_makes_data_folder_and_state(cluster: Cluster) -> None:
    node = cluster.node("b")
    prepared = run.prepare(cluster, node)
    assert state.initial(cluster, node) == prepared == state.current(cluster, node)
    assert state_file(node).exists()
    assert 0o700 == node.data_directory.stat().st_mode & 0o777


def test_a_data_folder_that_can_not_be_made_is_refused(cluster: Cluster) -> None:
    node = cluster.node("b")
    node.data_directory.parent.mkdir(parents=True)
    node.data_directory.write_text("a file is in the way")
    with pytest.raises(OperatorError) as caught:
        run.prepare(cluster, node)
    assert ExitCode.REFUSED == caught.value.exit_code
    assert f"{node.data_directory} ({cluster.source}:20)" in caught.value.detail


def test_an_unknown_node_is_refused(cluster: Cluster) -> None:
    with pytest.raises(OperatorError, match="no node 'z'"):
        node_named(cluster, "z")


def test_a_lock_held_by_another_process_is_waited_for_and_named(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    told: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_LOCK, lock],
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as holder:
        assert holder.stdout is not None
        assert "held\n" == holder.stdout.readline()
        with pytest.raises(OperatorError) as caught, exclusive(lock, 0.3, told.append):
            pytest.fail("the lock was held by two")
        holder.kill()
        with exclusive(lock, 20, told.append):
            assert str(os.getpid()) == lock.read_text()
    assert ExitCode.TIMED_OUT == caught.value.exit_code
    assert f"waiting: another 'up' or 'down' is running (process {holder.pid})" == told[0]


def test_what_several_programs_failed_of_is_reported_once_and_without_blank_hints() -> None:
    same = OperatorError("no password", "/p: No such file", exit_code=ExitCode.REFUSED)
    other = OperatorError("node-c did not start", "it is EXITED", "see its log")
    told = lifecycle._partly_up({"node-a": same, "node-b": same, "node-c": other})
    assert "see its log" == told.hint
    assert 1 == told.detail.count("No such file")
    assert "everything but node-a, node-b, node-c is up" in told.detail
    assert ExitCode.REFUSED is told.exit_code


class Restarted:
    """A supervisor whose program ends soon after each start, and is started again."""

    def __init__(self, starts: int) -> None:
        self.pid = 0
        self.starts = starts

    def states(self) -> dict[str, ProgramState]:
        self.pid = min(self.pid + 1, self.starts)
        return {"node-a": ProgramState("node-a", "RUNNING", self.pid, f"pid {self.pid}")}


@pytest.mark.parametrize("starts", [1, 3, 9])
def test_who_dies_soon_after_each_start_is_not_waited_for(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, starts: int
) -> None:
    supervisor = Restarted(starts)
    monkeypatch.setattr(readiness, "Supervisor", lambda _cluster: supervisor)
    monkeypatch.setattr(readiness, "POLL_SECONDS", 0.0)
    log = Layout(cluster).program_log("node-a")
    log.parent.mkdir(parents=True)
    log.write_text("FATAL: could not load server certificate\n")
    asked: list[int] = []

    def ready() -> str | None:
        asked.append(supervisor.pid)
        return None if len(asked) > 10 else "nothing listens"

    if starts <= readiness.STARTS:
        readiness.wait_until_ready(cluster, "node-a", ready, time.monotonic() + 60)
        return
    with pytest.raises(OperatorError, match="node-a did not start") as failed:
        readiness.wait_until_ready(cluster, "node-a", ready, time.monotonic() + 60)
    assert "could not load server certificate" in failed.value.detail


def test_nobody_waits_long_for_a_primary_that_did_not_start(cluster: Cluster) -> None:
    states = {node.name: state.initial(cluster, node) for node in cluster.nodes}
    failed = OperatorError("it did not start")
    leaderless = lifecycle._is_leaderless
    assert not leaderless(cluster, states, {})
    assert not leaderless(cluster, states, {"node-b": failed})
    assert leaderless(cluster, states, {"node-a": failed})
    assert leaderless(cluster, {"b": states["b"]}, {"node-a": failed})


def test_a_host_whose_only_node_can_not_be_started_starts_everything_else(tmp_path: Path) -> None:
    (tmp_path / "cluster.conf").write_text(two_hosts.CONF.format(folder=tmp_path))
    cluster = two_hosts.as_of(tmp_path, "one")
    (node,) = cluster.local.nodes
    node.data_directory.mkdir(parents=True)
    state_file(node).write_text("")
    states, failures = startable.states(cluster, run.prepare)
    assert states == {}
    assert "can't be used" in failures[node.program].notice


def test_a_cluster_none_of_whose_nodes_can_be_started_starts_nothing(cluster: Cluster) -> None:
    for node in cluster.nodes:
        node.data_directory.mkdir(parents=True)
        state_file(node).write_text("")
    with pytest.raises(OperatorError, match="the state file of node a can't be used"):
        startable.states(cluster, run.prepare)


@pytest.mark.parametrize(("primary", "asked", "away"), [("a", [], False), ("b", ["two"], True)])
def test_nobody_waits_long_for_a_primary_whose_host_is_away(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, primary: str, asked: list[str], *, away: bool
) -> None:
    text = two_hosts.CONF.format(folder=tmp_path).replace("backend zrs", f"backend {POSTGRESQL}")
    text = "".join(each for each in text.splitlines(True) if "replication-port" not in each)
    (tmp_path / "cluster.conf").write_text(text)
    hosts: list[str] = []

    class Others:
        def identity(self, host: str) -> None:
            hosts.append(host)
            raise HostAwayError(f"host {host} does not answer")

    record = EpochRecord("two-hosts", 2, primary, "2026-11-24T11:00:00Z", "promoted")
    monkeypatch.setattr(epochs, "newest", lambda _cluster: record)
    monkeypatch.setattr(lifecycle, "host_of", lambda _cluster: Others())
    assert lifecycle._primary_is_away(two_hosts.as_of(tmp_path, "one")) is away
    assert hosts == asked
