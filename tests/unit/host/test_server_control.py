"""What the control client makes of a server's answers, or of none."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from indico_zodbrepl.cluster import Address, Cluster, Node, load
from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.host.server_control import (
    Lease,
    NoServerError,
    ServerControl,
    ServerRefusedError,
    ServerSilentError,
)

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"
STATUS = {
    "ok": True,
    "role": "primary",
    "epoch": 4,
    "known_epoch": 5,
    "last_tid": "00000000000000ff",
    "held": "operator",
    "held_for": 2.5,
    "upstream": None,
    "connected": None,
    "followers": ["127.0.0.1:9"],
}

Serve = Callable[[bytes | None], list[bytes]]


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """A cluster whose data directories have longer paths than a socket can have."""
    path = tmp_path / "cluster.conf"
    path.write_text(EXAMPLE.read_text())
    return load(path, tmp_path / ("x" * 100))


@pytest.fixture
def node(cluster: Cluster) -> Node:
    node = cluster.node("a")
    node.data_directory.mkdir(parents=True)
    return node


@pytest.fixture
def control(cluster: Cluster, node: Node) -> ServerControl:
    return ServerControl(cluster, node)


@pytest.fixture
def serve(node: Node) -> Iterator[Serve]:
    """Answers one request with these bytes, or never when None; returns the requests."""
    listener = socket.socket(socket.AF_UNIX)
    peers: list[socket.socket] = []
    requests: list[bytes] = []
    threads: list[threading.Thread] = []

    def start(answer: bytes | None) -> list[bytes]:
        folder = os.open(node.data_directory, os.O_RDONLY)
        listener.bind(f"/proc/self/fd/{folder}/control.sock")
        os.close(folder)
        listener.listen()

        def run() -> None:
            peer, _ = listener.accept()
            peers.append(peer)
            requests.append(peer.makefile("rb").readline())
            if answer is not None:
                peer.sendall(answer)
                peer.shutdown(socket.SHUT_RDWR)

        threads.append(threading.Thread(target=run))
        threads[0].start()
        return requests

    yield start
    for thread in threads:
        thread.join(10)
    for each in [listener, *peers]:
        each.close()


FROM_THE_FILE = {"count": 0, "level": "fsync", "timeout": 10.0, "alone": "refuse"}


def line(**values: object) -> bytes:
    return json.dumps({**STATUS, **values}).encode() + b"\n"


def test_a_request_is_one_line_and_its_answer_is_typed(
    control: ServerControl, serve: Serve
) -> None:
    requests = serve(line())
    status = control.promote(4, Address("127.0.0.1", 8112))

    assert json.loads(requests[0]) == {
        "do": "promote",
        "epoch": 4,
        "replicate_to": "127.0.0.1:8112",
        "synchronous": FROM_THE_FILE,
    }
    assert (status.role, status.last_tid) == ("primary", 255)
    assert (status.epoch, status.known_epoch) == (4, 5)
    assert (status.held, status.held_for, status.followers) == ("operator", 2.5, ("127.0.0.1:9",))


def test_without_a_server_the_error_says_how_to_start_it(
    cluster: Cluster, control: ServerControl
) -> None:
    with pytest.raises(NoServerError) as raised:
        control.status()
    assert raised.value.exit_code is ExitCode.NOT_RUNNING
    assert raised.value.hint == f"bin/zodbrepl -c {cluster.source} node start a"


def test_the_socket_of_a_killed_server_counts_as_no_server(
    control: ServerControl, node: Node, tmp_path: Path
) -> None:
    leftover = socket.socket(socket.AF_UNIX)
    leftover.bind(str(tmp_path / "s"))
    leftover.close()
    (tmp_path / "s").rename(node.data_directory / "control.sock")
    with pytest.raises(NoServerError):
        control.status()


def test_a_refused_pause_is_reported_in_words(control: ServerControl, serve: Serve) -> None:
    serve(line(ok=False, error="it is a secondary", detail=""))
    with pytest.raises(ServerRefusedError) as raised:
        control.pause_writes(20.0)
    assert raised.value.notice == "node a refused to pause writes for 20 s: it is a secondary"


def test_a_refusal_carries_the_servers_reason(control: ServerControl, serve: Serve) -> None:
    serve(line(ok=False, error="epoch 2 is over", detail="this server knows of epoch 3"))
    with pytest.raises(ServerRefusedError) as raised:
        control.set_epoch(2)
    assert raised.value.exit_code is ExitCode.REFUSED
    assert raised.value.notice == "node a refused to enter epoch 2: epoch 2 is over"
    assert raised.value.detail == "this server knows of epoch 3"


def test_a_server_that_never_answers_is_left_at_the_deadline(
    cluster: Cluster, control: ServerControl, serve: Serve
) -> None:
    serve(None)
    with pytest.raises(ServerSilentError) as raised:
        control.status(seconds=0.2)
    assert raised.value.exit_code is ExitCode.TIMED_OUT
    assert raised.value.hint == f"bin/zodbrepl -c {cluster.source} status"


@pytest.mark.parametrize(
    "answer", [b"", b"what?\n", b"[]\n", b'{"ok": true}\n', line(last_tid="x")]
)
def test_an_answer_that_is_none_leaves_the_outcome_open(
    control: ServerControl, serve: Serve, answer: bytes
) -> None:
    serve(answer)
    with pytest.raises(ServerSilentError):
        control.resume_writes()


def test_a_server_of_an_earlier_release_has_no_lease_in_its_answer(
    control: ServerControl, serve: Serve
) -> None:
    serve(line())
    status = control.status()
    assert (status.lease, status.detached_for, status.synchronous) == (None, None, None)
    assert not status.fails_to_write


def test_the_lease_and_the_acknowledged_commits_are_typed(
    control: ServerControl, serve: Serve
) -> None:
    synchronous = {
        "state": "synchronous",
        "count": 1,
        "level": "fsync",
        "timeout": 10,
        "alone": "refuse",
        "acknowledged": "00000000000000ff",
        "in_doubt": 0,
        "confirming": {"b": "00000000000000ff", "c": None},
        "since": 2.5,
    }
    failure = {"error": "No space left on device", "count": 3}
    serve(
        line(lease={"left": -0.5}, detached_for=3.5, synchronous=synchronous, write_failure=failure)
    )
    status = control.status()
    assert status.lease == Lease(-0.5)
    assert (status.detached_for, status.fails_to_write) == (3.5, True)
    assert status.synchronous is not None
    assert (status.synchronous.state, status.synchronous.timeout) == ("synchronous", 10.0)
    assert status.synchronous.acknowledged == 0xFF
    assert set(status.synchronous.confirming) == {"b", "c"}


@pytest.mark.parametrize(
    ("order", "request_"),
    [
        (lambda it: it.lease(4, 12.5), {"do": "lease", "epoch": 4, "until": 12.5}),
        (lambda it: it.detach(4, 30.0), {"do": "detach", "epoch": 4, "seconds": 30.0}),
        (lambda it: it.synchronous(count=0), {"do": "synchronous", "count": 0}),
        (lambda it: it.alone(), {"do": "alone"}),
        (
            lambda it: it.promote(4, Address("127.0.0.1", 8112), 12.5),
            {
                "do": "promote",
                "epoch": 4,
                "replicate_to": "127.0.0.1:8112",
                "synchronous": FROM_THE_FILE,
                "until": 12.5,
            },
        ),
    ],
)
def test_orders_are_sent_as_the_server_reads_them(
    control: ServerControl,
    serve: Serve,
    order: Callable[[ServerControl], object],
    request_: dict[str, object],
) -> None:
    requests = serve(line())
    order(control)
    assert json.loads(requests[0]) == request_


def test_a_refused_lease_is_reported_in_words(control: ServerControl, serve: Serve) -> None:
    serve(line(ok=False, error="not a primary", detail=""))
    with pytest.raises(ServerRefusedError) as raised:
        control.lease(4, 12.5)
    assert raised.value.notice == "node a refused to extend the lease in epoch 4: not a primary"


def test_with_automation_no_level_is_below_that_of_the_cluster_file(
    cluster: Cluster, node: Node
) -> None:
    """By the file a secondary that starts again knows if it may lack what it had confirmed."""
    ServerControl(cluster, node).check_change(None, "write")
    automatic = ServerControl(dataclasses.replace(cluster, automatic=True), node)
    automatic.check_change(1, "fsync")
    with pytest.raises(ServerRefusedError, match="the level write"):
        automatic.check_change(None, "write")
