"""Probes against real sockets whose owners misbehave."""

import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from situations import TID

from indico_zodbrepl.cluster.places import Address
from indico_zodbrepl.probing.answers import (
    Acknowledging,
    AckState,
    HistoryAnswer,
    Hold,
    IndicoAnswer,
    RefusedFollower,
    ServerAnswer,
)
from indico_zodbrepl.probing.probes import probe_history, probe_indico, probe_missing, probe_server
from indico_zodbrepl.probing.wire import MAX_ANSWER, FailureKind, ProbeError

Behave = Callable[[socket.socket, threading.Event], None]
Probe = Callable[[Address, float], ServerAnswer | IndicoAnswer]

PATIENCE = 0.5
GENEROUS = 60.0
"""Seconds within which even a busy machine has answered."""


def framed(*payloads: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(payload)) + payload for payload in payloads)


@contextlib.contextmanager
def listening(behave: Behave) -> Iterator[Address]:
    """A server on a free port that hands its one connection to ``behave``."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                connection, _peer = server.accept()
                with connection:
                    behave(connection, over)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield Address(*server.getsockname())
        finally:
            over.set()
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            thread.join(GENEROUS)
            assert not thread.is_alive()


def saying(data: bytes) -> Behave:
    def behave(connection: socket.socket, over: threading.Event) -> None:
        connection.recv(1024)
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        over.wait(GENEROUS)

    return behave


def silent(_connection: socket.socket, over: threading.Event) -> None:
    over.wait(GENEROUS)


def dripping(connection: socket.socket, over: threading.Event) -> None:
    """Every byte arrives well before the deadline, the answer never does."""
    for byte in framed(b"Z5", b" " * 1000):
        if over.wait(0.05):
            return
        connection.sendall(bytes([byte]))


def hanging_up(connection: socket.socket, _over: threading.Event) -> None:
    connection.recv(1)


def resetting(connection: socket.socket, _over: threading.Event) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def failure_of(probe: Probe, behave: Behave, patience: float = GENEROUS) -> ProbeError:
    with listening(behave) as address, pytest.raises(ProbeError) as caught:
        probe(address, time.monotonic() + patience)
    return caught.value


BOTH = pytest.mark.parametrize("probe", [probe_server, probe_indico])


@BOTH
@pytest.mark.parametrize("behave", [silent, dripping])
def test_a_peer_that_does_not_finish_its_answer_is_silent(probe: Probe, behave: Behave) -> None:
    assert FailureKind.SILENT == failure_of(probe, behave, PATIENCE).kind


@BOTH
@pytest.mark.parametrize("behave", [hanging_up, resetting])
def test_a_peer_that_hangs_up_has_closed(probe: Probe, behave: Behave) -> None:
    assert FailureKind.CLOSED == failure_of(probe, behave).kind


@BOTH
def test_a_port_where_nothing_listens_refuses(probe: Probe) -> None:
    with socket.socket() as bound_only:
        bound_only.bind(("127.0.0.1", 0))
        with pytest.raises(ProbeError) as caught:
            probe(Address(*bound_only.getsockname()), time.monotonic() + GENEROUS)
    assert FailureKind.REFUSED == caught.value.kind


def test_a_name_that_does_not_resolve_is_unreachable() -> None:
    with pytest.raises(ProbeError) as caught:
        probe_server(Address("no-such-host.invalid", 1), time.monotonic() + GENEROUS)
    assert FailureKind.UNREACHABLE == caught.value.kind


def test_a_probe_whose_time_is_over_asks_nobody() -> None:
    with listening(silent) as address, pytest.raises(ProbeError) as caught:
        probe_server(address, time.monotonic())
    assert FailureKind.SILENT == caught.value.kind


@BOTH
def test_an_endless_answer_is_cut_off(probe: Probe) -> None:
    data = framed(b"Z5") + struct.pack(">I", (1 << 32) - 1) + b"x" * 100
    if probe is probe_indico:
        data = b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * (MAX_ANSWER + 1)
    assert FailureKind.TOO_LONG == failure_of(probe, saying(data)).kind


@pytest.mark.parametrize(
    "data",
    [
        framed(b"\x00\x01", b"{}"),
        framed(b"Z5", b"\xff\xfe garbage"),
        framed(b"Z5", b"[" * 100_000),
        framed(b"Z5", b"1" * 10_000),
        framed(b"Z5", b"[]"),
        framed(b"Z5", b"{}"),
        framed(b"Z5", b'{"1": 3}'),
        framed(b"Z5", b'{"1": {}}'),
        framed(b"Z5", b'{"1": {"last-transaction": "nonsense", "connections": 0}}'),
        framed(b"Z5", b'{"1": {"last-transaction": "00", "connections": 1e400}}'),
        framed(b"Z5", b'{"1": {"last-transaction": "00", "connections": 0, "zodbrepl": 1}}'),
        framed(
            b"Z5",
            b'{"1": {"last-transaction": "00", "connections": 0, "zodbrepl": {"role": "king"}}}',
        ),
    ],
)
def test_an_answer_that_is_no_status_is_malformed(data: bytes) -> None:
    assert FailureKind.MALFORMED == failure_of(probe_server, saying(data)).kind


def test_a_web_server_on_the_port_is_no_zeo_server() -> None:
    failure = failure_of(probe_server, saying(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
    assert FailureKind.TOO_LONG == failure.kind
    assert "not a ZEO server?" in failure.detail


@pytest.mark.parametrize(
    "data",
    [
        b"garbage\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\nno json",
        b"HTTP/1.0 404 Not Found\r\n\r\n{}",
        b"HTTP/1.0 200 OK\r\nContent-Length: 1000\r\n\r\n{}",
        b'HTTP/1.0 200 OK\r\n\r\n{"instance": 3}',
        b"HTTP/1.0 abc OK\r\n\r\n{}",
    ],
)
def test_an_answer_that_is_no_health_is_malformed(data: bytes) -> None:
    assert FailureKind.MALFORMED == failure_of(probe_indico, saying(data)).kind


def test_the_status_of_a_server_is_read() -> None:
    status = {
        "1": {
            "last-transaction": "040d243a1e64b6aa",
            "connections": 3,
            "zodbrepl": {
                "cluster": "demo",
                "node": "b",
                "role": "relay",
                "epoch": 4,
                "upstream": "127.0.0.1:8112",
                "connected": True,
                "followers": ["127.0.0.1:40112"],
                "pid": 17,
                "size": 4096,
                "read_only": True,
            },
        }
    }
    with listening(saying(framed(b"Z5", json.dumps(status).encode()))) as address:
        answer = probe_server(address, time.monotonic() + GENEROUS)
    assert (TID, 3) == (answer.last_tid, answer.clients)
    assert answer.replication is not None
    assert ("demo", "b", "relay", 4) == (
        answer.replication.cluster,
        answer.replication.node,
        answer.replication.role,
        answer.replication.epoch,
    )
    assert (("127.0.0.1:40112",), True) == (
        answer.replication.followers,
        answer.replication.connected,
    )


def server_that_says(**replication: object) -> ServerAnswer:
    """What is read of a primary's answer with further fields."""
    status = {
        "1": {
            "last-transaction": "040d243a1e64b6aa",
            "connections": 3,
            "zodbrepl": {
                "cluster": "demo",
                "node": "a",
                "role": "primary",
                "epoch": 4,
                "upstream": None,
                "connected": None,
                "followers": [],
                "pid": 17,
                "size": 4096,
                "read_only": False,
                **replication,
            },
        }
    }
    with listening(saying(framed(b"Z5", json.dumps(status).encode()))) as address:
        return probe_server(address, time.monotonic() + GENEROUS)


def test_paused_writes_and_refused_followers_are_read() -> None:
    refused = [
        {"peer": "10.0.0.2:4711", "tid": "040d243a1e64b6aa", "at": 1795172767.1},
        {"peer": "10.0.0.3:4711", "tid": "0x040d243a1e64b6aa", "at": "then"},
    ]
    said = server_that_says(held="followers", min_followers=2, refused=refused).replication
    assert said is not None
    assert (Hold.FOLLOWERS, 2) == (said.held, said.min_followers)
    assert (
        RefusedFollower("10.0.0.2:4711", TID, "2026-11-20 11:06:07 UTC"),
        RefusedFollower("10.0.0.3:4711", TID, "then"),
    ) == said.refused


def test_a_server_that_says_nothing_of_them_holds_and_refuses_nothing() -> None:
    said = server_that_says().replication
    assert said is not None
    assert (None, 0, ()) == (said.held, said.min_followers, said.refused)


def test_acknowledged_commits_and_the_lease_are_read() -> None:
    synchronous = {
        "state": "refusing",
        "count": 1,
        "level": "write",
        "timeout": 10.0,
        "alone": "refuse",
        "acknowledged": "040d243a1e64b6aa",
        "in_doubt": 2,
        "confirming": {"b": "040d243a1e64b6aa", "c": None},
        "since": 1.5,
    }
    said = server_that_says(
        held="synchronous", synchronous=synchronous, lease={"left": -0.5}
    ).replication
    assert said is not None
    confirmed = {"b": "0x040d243a1e64b6aa", "c": "0x0000000000000000"}
    assert said.acknowledging == Acknowledging(
        AckState.REFUSING, 1, "write", 10.0, "refuse", TID, 2, confirmed, 1.5
    )
    assert (Hold.SYNCHRONOUS, -0.5) == (said.held, said.lease_left)


def test_a_server_of_an_earlier_release_acknowledges_nothing_and_needs_no_lease() -> None:
    said = server_that_says().replication
    assert said is not None
    assert (None, None) == (said.acknowledging, said.lease_left)


@pytest.mark.parametrize(
    "wrong",
    [
        {"synchronous": {"state": "perhaps"}},
        {"lease": {"left": "long"}},
        {"held": "perhaps"},
        {"held": True},
        {"refused": {}},
        {"refused": [3]},
        {"refused": [{"peer": "x", "tid": "no"}]},
        {"min_followers": -1},
    ],
)
def test_nonsense_about_them_is_malformed(wrong: dict[str, object]) -> None:
    with pytest.raises(ProbeError) as caught:
        server_that_says(**wrong)
    assert FailureKind.MALFORMED == caught.value.kind


def test_characters_that_steer_a_terminal_are_replaced() -> None:
    status = {
        "1": {
            "last-transaction": "00",
            "connections": 0,
            "zodbrepl": {
                "cluster": "\x1b[2Jdemo" + "x" * 1000,
                "node": "b",
                "role": "primary",
                "epoch": 1,
                "upstream": None,
                "connected": None,
                "followers": ["\x07"],
                "pid": 1,
                "size": 0,
                "read_only": False,
            },
        }
    }
    with listening(saying(framed(b"Z5", json.dumps(status).encode()))) as address:
        answer = probe_server(address, time.monotonic() + GENEROUS)
    assert answer.replication is not None
    assert answer.replication.cluster.startswith("?[2Jdemo")
    assert 200 == len(answer.replication.cluster)
    assert ("?",) == answer.replication.followers


def test_the_count_of_missing_transactions_is_asked_by_tid() -> None:
    asked: list[bytes] = []

    def behave(connection: socket.socket, _over: threading.Event) -> None:
        asked.append(connection.recv(1024))
        connection.sendall(framed(b"Z5", b'{"1": {"transactions": 12, "exact": false}}'))

    with listening(behave) as address:
        answer = probe_missing(address, TID, time.monotonic() + GENEROUS)
    assert [framed(b"since040d243a1e64b6aa")] == asked
    assert (12, False, None) == (answer.transactions, answer.exact, answer.first)


def test_the_first_missing_transaction_is_reported_too() -> None:
    said = framed(b"Z5", b'{"1": {"transactions": 1, "exact": true, "first": "040d243a1e64b6aa"}}')
    with listening(saying(said)) as address:
        answer = probe_missing(address, 1, time.monotonic() + GENEROUS)
    assert TID == answer.first


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b'{"known": true, "digest": "ab12"}', HistoryAnswer(True, "ab12")),
        (b'{"known": false, "digest": null}', HistoryAnswer(False, None)),
        (b'{"known": null}', HistoryAnswer(None, None)),
    ],
)
def test_whether_a_server_holds_a_transaction_is_asked_by_tid(
    said: bytes, expected: HistoryAnswer
) -> None:
    asked: list[bytes] = []

    def behave(connection: socket.socket, _over: threading.Event) -> None:
        asked.append(connection.recv(1024))
        connection.sendall(framed(b"Z5", b'{"1": ' + said + b"}"))

    with listening(behave) as address:
        answer = probe_history(address, TID, time.monotonic() + GENEROUS)
    assert [framed(b"history040d243a1e64b6aa")] == asked
    assert expected == answer


@pytest.mark.parametrize("status", [b"200 OK", b"503 Service Unavailable"])
def test_the_health_of_an_instance_is_read_whether_it_is_well_or_not(status: bytes) -> None:
    body = json.dumps(
        {
            "instance": "one",
            "pid": 5,
            "server": None,
            "connected": False,
            "read_only": False,
            "last_tid": None,
            "storage": "x",
            "cache": {},
            "built": True,
        }
    ).encode()
    with listening(
        saying(
            b"HTTP/1.1 "
            + status
            + b"\r\nContent-Length: "
            + str(len(body)).encode()
            + b"\r\n\r\n"
            + body
        )
    ) as address:
        answer = probe_indico(address, time.monotonic() + GENEROUS)
    assert ("one", False, None) == (answer.instance, answer.connected, answer.server)
