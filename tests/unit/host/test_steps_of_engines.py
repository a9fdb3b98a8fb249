"""What the steps of one node do, and say that they would do, where the backend is not ZRS."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import fencing, lifecycle, ports, state, verbs
from indico_zodbrepl.host.interface import host_of, ignore
from indico_zodbrepl.host.supervisor import Supervisor

ROOT = Path(__file__).parents[3]
SERVER = """
import os, signal, time
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.write(1, b"serves\\n")
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def nothing_of_this_machine_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "listening", frozenset)
    monkeypatch.setattr(ports, "is_listening", lambda _: False)
    monkeypatch.setattr(Supervisor, "states", lambda _: {})
    monkeypatch.setattr(Installation, "check", lambda _: None)


def example(name: str, home: Path) -> Cluster:
    """The example of a backend, at ports where nobody listens: a demo may run at its own."""
    text = (ROOT / "etc" / f"cluster-{name}.conf").read_text()
    path = home / f"{name}.conf"
    path.write_text(re.sub(r"port 81(\d\d)$", r"port 7\1", text, flags=re.MULTILINE))
    return load(path, home)


def said(cluster: Cluster, verb: str, name: str, **arguments: object) -> str:
    found = host_of(cluster, Installation(ROOT)).dry_run(verb, name, **arguments)
    return "\n".join((*found.found, *found.does))


@pytest.mark.parametrize("name", ["neo", "zeo"])
def test_a_start_is_tried_without_epochs_where_there_are_none(tmp_path: Path, name: str) -> None:
    cluster = example(name, tmp_path)
    node = cluster.nodes[0]
    text = said(cluster, "start_node", node.name)
    assert "epoch" not in text
    assert "history" not in text
    assert f"node {node.name} is to be {node.role}" in text
    assert f"start node-{node.name}" in text


@pytest.mark.parametrize("name", ["relstorage-postgresql", "relstorage-mariadb"])
def test_a_promotion_of_an_engine_is_tried_as_it_is_done(tmp_path: Path, name: str) -> None:
    cluster = example(name, tmp_path)
    text = said(cluster, "promote", "b", epoch=2)
    assert text.index("raise the records") < text.index("fence every other node")
    assert text.index("fence every other node") < text.index("write ")
    assert "change its server in place" in text
    assert "followers at" not in text


@pytest.mark.parametrize("name", ["neo", "zeo", "relstorage-postgresql", "relstorage-mariadb"])
def test_a_fence_is_tried_with_the_ports_and_data_that_there_are(tmp_path: Path, name: str) -> None:
    cluster = example(name, tmp_path)
    node = cluster.nodes[0]
    text = said(cluster, "fence", node.name)
    assert f"prove that {node.storage_address} is closed" in text
    assert (not backend_of(cluster).fenced_by_folder) == ("Data.fs" in text)


@pytest.mark.parametrize("name", ["filestorage", "relstorage-sqlite"])
def test_a_node_without_a_program_is_neither_fenced_nor_started(tmp_path: Path, name: str) -> None:
    cluster = example(name, tmp_path)
    with pytest.raises(OperatorError, match="has no program here") as refused:
        verbs.fence(cluster, "a")
    assert ExitCode.REFUSED == refused.value.exit_code


@pytest.fixture
def server(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process with a child, both in node a's data directory, as a database server has them."""
    folder = example("relstorage-postgresql", tmp_path).node("a").data_directory
    folder.mkdir(parents=True)
    with subprocess.Popen(
        [sys.executable, "-c", SERVER],
        cwd=folder,
        text=True,
        start_new_session=True,
        stdout=subprocess.PIPE,
    ) as process:
        try:
            assert process.stdout is not None
            assert ["serves\n"] * 2 == [process.stdout.readline() for _ in range(2)]
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):  # the test has killed them both
                os.killpg(process.pid, signal.SIGKILL)


def test_a_fence_ends_a_server_without_a_data_file_and_its_children_frozen_or_not(
    tmp_path: Path, server: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = example("relstorage-postgresql", tmp_path)
    monkeypatch.setattr(fencing, "_stop_supervising", lambda *_: (True, ""))
    monkeypatch.setattr(fencing, "_supervised", lambda *_: server.pid)
    os.killpg(server.pid, signal.SIGSTOP)
    fenced = fencing.fence(cluster, cluster.node("a"))
    assert server.pid in fenced.killed
    assert 2 == len(fenced.killed)
    assert -signal.SIGKILL == server.wait(30.0)


@pytest.mark.parametrize("name", ["neo", "zeo", "relstorage-postgresql"])
def test_records_of_the_epoch_are_only_where_the_backend_is_guarded(
    tmp_path: Path, name: str
) -> None:
    cluster = example(name, tmp_path)
    states = {node.name: state.current(cluster, node) for node in cluster.nodes}
    lifecycle._found(cluster, states, ignore)
    assert backend_of(cluster).has_epochs == (cluster.var_directory / "epoch.json").exists()
