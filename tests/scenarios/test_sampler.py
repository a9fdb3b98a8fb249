"""The sampler sees two primaries when there are two, and only then."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

from clusters import ClusterUnderTest, wait_until
from sampler import Sampler, Writable, overlaps

A = Writable("a", 1, 1, 10.0, 20.0)


def test_times_that_touch_do_not_overlap() -> None:
    assert [] == overlaps([A, Writable("b", 2, 2, 20.0, 30.0)])


def test_times_that_have_a_moment_in_common_overlap() -> None:
    other = Writable("b", 2, 2, 19.9, 30.0)
    assert [(A, other)] == overlaps([A, other])


def test_a_node_does_not_overlap_with_itself() -> None:
    assert [] == overlaps([A, Writable("a", 2, 2, 15.0, 30.0)])


def test_a_single_answer_is_no_time_during_which_a_node_was_writable() -> None:
    assert [] == overlaps([A, Writable("b", 2, 2, 15.1, 15.0)])


def test_two_servers_that_say_they_are_primaries_are_found(tmp_path: Path, home: Path) -> None:
    cluster = ClusterUnderTest(tmp_path, home).cluster
    with contextlib.ExitStack() as opened:
        for node, role in (("a", "primary"), ("b", "secondary")):
            opened.enter_context(answers_ruok(cluster.node(node).storage_address.port, node, role))
        with Sampler(cluster) as one_primary:
            wait_until(lambda: one_primary.primaries() == ["a"], "a is seen")
    assert [] == one_primary.double_primaries()
    with contextlib.ExitStack() as opened:
        for node in "ab":
            opened.enter_context(
                answers_ruok(cluster.node(node).storage_address.port, node, "primary")
            )
        with Sampler(cluster) as two_primaries:
            wait_until(lambda: bool(two_primaries.double_primaries()), "both are seen")


@contextlib.contextmanager
def answers_ruok(port: int, node: str, role: str) -> Iterator[None]:
    """A server that says of itself that it has a role."""
    answer = json.dumps(
        {
            "1": {
                "last-transaction": "1",
                "connections": 0,
                "zodbrepl": {
                    "cluster": "test",
                    "node": node,
                    "role": role,
                    "epoch": 1,
                    "upstream": None,
                    "connected": None,
                    "followers": [],
                    "pid": ord(node),
                    "size": 0,
                    "read_only": role != "primary",
                    "min_followers": 0,
                    "held": None,
                    "refused": [],
                },
            }
        }
    )
    listener = socket.create_server(("127.0.0.1", port))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(100)
                    for text in (b"Z5", answer.encode()):
                        connection.sendall(len(text).to_bytes(4, "big") + text)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
