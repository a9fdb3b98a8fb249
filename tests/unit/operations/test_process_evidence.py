"""What the lock of a data file tells of a server when there is no supervisor to ask."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from planning import cluster_of, situation
from situations import PRIMARY_KILLED

from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.layout import Layout, data_fs
from indico_zodbrepl.host import fencing, supervisor
from indico_zodbrepl.host.interface import host_of
from indico_zodbrepl.operations import evidence, facts
from indico_zodbrepl.operations.evidence import Process, Sight

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"
HOLD = """
import fcntl, os, sys
lock = open(sys.argv[1], "w")
fcntl.flock(lock, fcntl.LOCK_EX)
lock.write(" %d\\n" % os.getpid())
lock.flush()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    loaded = load(EXAMPLE, tmp_path)
    for node in loaded.nodes:
        node.data_directory.mkdir(parents=True)
        data_fs(node).write_bytes(b"FS21")
    return loaded


@contextlib.contextmanager
def server(cluster: Cluster, working_in: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    """A process that has node a's data file as its server has."""
    node = cluster.node("a")
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, fencing.path_of(node)],
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=working_in or node.data_directory,
    ) as process:
        try:
            assert process.stdout is not None
            assert "held\n" == process.stdout.readline()
            yield process
        finally:
            process.kill()


def told(cluster: Cluster) -> tuple[Process, int | None]:
    return facts.by_lock(host_of(cluster), "a")


def test_a_server_that_runs_is_distinguished_from_a_frozen_one_and_one_that_was_killed(
    cluster: Cluster,
) -> None:
    with server(cluster) as process:
        assert (Process.RUNS, process.pid) == told(cluster)
        os.kill(process.pid, signal.SIGSTOP)
        deadline = time.monotonic() + 60
        while told(cluster)[0] is Process.RUNS and time.monotonic() < deadline:
            time.sleep(0.01)
        assert (Process.FROZEN, process.pid) == told(cluster)
        process.kill()
        process.wait(60)
        assert (Process.NONE, None) == told(cluster)


def test_where_no_lock_is_or_somebody_elses_process_has_it_nothing_is_reported(
    cluster: Cluster, tmp_path: Path
) -> None:
    assert (Process.UNKNOWN, None) == told(cluster)
    with server(cluster, working_in=tmp_path):
        assert (Process.UNKNOWN, None) == told(cluster)


def test_the_lock_counts_only_while_no_supervisor_is_there(cluster: Cluster) -> None:
    nodes = situation(cluster_of(), **PRIMARY_KILLED | {"programs": {}}).snapshot.nodes
    fencing.path_of(cluster.node("a")).touch()
    assert {"a": Process.NONE} == facts.look(cluster, nodes)[0]
    path = Layout(cluster).supervisor_socket
    path.parent.mkdir(exist_ok=True, parents=True)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(path))
        try:
            silent.listen()
            assert not supervisor.is_away(cluster)
            assert {} == facts.look(cluster, nodes)[0]
        finally:
            path.unlink()


def of_host(process: Process, holder: int | None) -> evidence.Report:
    found = situation(cluster_of(), **PRIMARY_KILLED | {"programs": {}})
    return evidence.reports_of(found.findings, found.snapshot, "a", process, holder)[1]


def test_a_free_lock_and_a_frozen_holder_are_evidence_and_a_running_one_is_none() -> None:
    free, frozen, runs = (
        of_host(Process.NONE, None),
        of_host(Process.FROZEN, 7),
        of_host(Process.RUNS, 7),
    )
    assert [Sight.DOWN, Sight.DOWN, Sight.INCONCLUSIVE] == [
        each.sight for each in (free, frozen, runs)
    ]
    assert "no process has its data file open" in free.text
    assert all("process 7 has its data file open" in each.text for each in (frozen, runs))
    assert Sight.INCONCLUSIVE is of_host(Process.UNKNOWN, None).sight
