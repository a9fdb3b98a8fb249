"""A fenced server is killed, also one that would end by itself when supervisor asks it to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import fencing, ports

EXAMPLES = Path(__file__).parents[3] / "etc"
LOCK = """
import fcntl, os
lock = open("Data.fs.lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
lock.write(f" {os.getpid()}\\n")
lock.flush()
"""
SERVER = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(open("drained", "w").close()))
print("serves", flush=True)
time.sleep(600)
"""


@pytest.fixture(params=["cluster.conf", "cluster-relstorage-mariadb.conf"])
def cluster(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Cluster:
    monkeypatch.setattr(ports, "is_listening", lambda _: False)
    return load(EXAMPLES / request.param, tmp_path)


@pytest.fixture
def server(cluster: Cluster) -> Iterator[subprocess.Popen[str]]:
    """A process that has node a's data and drains when it is asked to end."""
    folder = cluster.node("a").data_directory
    folder.mkdir(parents=True)
    program = SERVER if backend_of(cluster).fenced_by_folder else LOCK + SERVER
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "serves\n"
            yield process
        finally:
            process.kill()


def test_a_server_is_killed_before_it_can_act_on_supervisors_request(
    cluster: Cluster, server: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> tuple[bool, str]:
        """As supervisord does it, which answers some time after it has sent the signal."""
        os.kill(server.pid, signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            server.wait(1.0)
        return True, ""

    monkeypatch.setattr(fencing, "_stop_supervising", stop)
    monkeypatch.setattr(fencing, "_supervised", lambda *_: None)
    fenced = fencing.fence(cluster, cluster.node("a"))
    assert (server.pid,) == fenced.killed
    assert -signal.SIGKILL == server.wait(30.0)
    assert not (cluster.node("a").data_directory / "drained").exists()


def test_a_node_that_does_not_run_is_fenced_without_a_kill(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fencing, "_stop_supervising", lambda *_: (False, ""))
    monkeypatch.setattr(fencing, "_supervised", lambda *_: None)
    assert fencing.Fenced((), "", was_wanted=False) == fencing.fence(cluster, cluster.node("a"))


def test_a_port_of_a_killed_process_that_nobody_seems_to_have_is_looked_at_again(
    cluster: Cluster, server: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while the kernel takes the process's sockets away."""
    node = cluster.node("a")
    looks = iter([True, True, False])
    monkeypatch.setattr(fencing, "_stop_supervising", lambda *_: (True, ""))
    monkeypatch.setattr(fencing, "_supervised", lambda *_: None)
    monkeypatch.setattr(ports, "listening", lambda: frozenset({node.storage_address.port}))
    monkeypatch.setattr(ports, "owner_of", lambda _: None)
    monkeypatch.setattr(ports, "is_listening", lambda _: next(looks, False))
    assert (server.pid,) == fencing.fence(cluster, node).killed
    assert next(looks, None) is None


def test_a_port_that_somebody_else_has_is_reported_though_the_node_was_killed(
    cluster: Cluster, server: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    node = cluster.node("a")
    monkeypatch.setattr(fencing, "GONE_SECONDS", 0.2)
    monkeypatch.setattr(fencing, "_stop_supervising", lambda *_: (True, ""))
    monkeypatch.setattr(fencing, "_supervised", lambda *_: None)
    monkeypatch.setattr(ports, "listening", lambda: frozenset({node.storage_address.port}))
    monkeypatch.setattr(ports, "owner_of", lambda _: None)
    monkeypatch.setattr(ports, "is_listening", lambda _: True)
    with pytest.raises(OperatorError, match="is not fenced"):
        fencing.fence(cluster, node)
    assert -signal.SIGKILL == server.wait(30.0)
