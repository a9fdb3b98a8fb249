"""Sessions with MariaDB's servers end in time, and cost no more than they must."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indico_zodbrepl.backends.mariadb import sql
from indico_zodbrepl.backends.mariadb.sql import session
from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.probing.wire import FailureKind, ProbeError

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster-relstorage-mariadb.conf"


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return load(EXAMPLE, tmp_path)


@pytest.fixture
def silent(cluster: Cluster) -> Iterator[tuple[Cluster, socket.socket]]:
    """A node whose address takes connections, as a frozen server's does."""
    sql.ensure(cluster, "indico")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        node = dataclasses.replace(cluster.node("a"), storage_port=listener.getsockname()[1])
        yield dataclasses.replace(cluster, nodes=(node,)), listener


def ask(cluster: Cluster, seconds: float) -> ProbeError:
    with (
        pytest.raises(ProbeError) as failure,
        session(cluster, cluster.node("a"), "indico", time.monotonic() + seconds) as server,
    ):
        server.rows("SELECT 1")
    return failure.value


def test_a_server_that_says_nothing_is_left_at_the_deadline(
    silent: tuple[Cluster, socket.socket],
) -> None:
    assert FailureKind.SILENT is ask(silent[0], 0.3).kind


def test_a_server_that_drips_is_left_at_the_deadline(silent: tuple[Cluster, socket.socket]) -> None:
    """Each byte of its greeting comes in time, the last one never."""
    over = threading.Event()

    def drip() -> None:
        peer, _ = silent[1].accept()
        with peer, contextlib.suppress(ConnectionError):  # it is left
            peer.sendall(struct.pack("<I", 10000))
            while not over.wait(0.05):
                peer.sendall(b"x")

    dripping = threading.Thread(target=drip)
    dripping.start()
    try:
        assert FailureKind.SILENT is ask(silent[0], 0.5).kind
    finally:
        over.set()
        dripping.join()


def test_nobody_there_is_reported_at_once(silent: tuple[Cluster, socket.socket]) -> None:
    silent[1].close()
    assert FailureKind.REFUSED is ask(silent[0], 60).kind


def test_a_server_that_resets_its_connection_at_once_is_reported(
    silent: tuple[Cluster, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one does that is killed after it has accepted the connection."""
    connect = socket.create_connection

    def until_reset(*args: Any) -> socket.socket:
        made = connect(*args)
        peer, _ = silent[1].accept()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()
        with contextlib.suppress(ConnectionError):
            made.recv(1)
        return made

    monkeypatch.setattr("socket.create_connection", until_reset)
    assert FailureKind.SILENT is not ask(silent[0], 60).kind


@pytest.fixture
def authorities_read(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """How often the machine's certificate authorities were read, which takes 20 ms or more."""
    read: list[object] = []
    context = ssl.create_default_context

    def reading(*args: Any, **named: Any) -> ssl.SSLContext:
        read.append(named)
        return context(*args, **named)

    monkeypatch.setattr("ssl.create_default_context", reading)
    return read


def test_a_login_on_this_machine_reads_no_certificate_authorities(
    silent: tuple[Cluster, socket.socket], authorities_read: list[object], tmp_path: Path
) -> None:
    ask(silent[0], 0.1)
    path = tmp_path / "server.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with (
            pytest.raises(ProbeError),
            sql.at_socket(path, time.monotonic() + 0.1),
        ):
            pass
    assert [] == authorities_read


def test_a_login_over_a_network_is_encrypted_if_the_server_can(
    silent: tuple[Cluster, socket.socket],
    authorities_read: list[object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sql, "is_loopback", lambda address: address != "127.0.0.1")
    ask(silent[0], 0.1)
    assert 1 == len(authorities_read)


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("127.0.0.1", True),
        ("127.2.0.3", True),
        ("::1", True),
        ("10.0.0.1", False),
        ("fe80::1", False),
    ],
)
def test_only_a_loopback_address_is_of_this_machine(address: str, local: bool) -> None:
    assert local == sql.is_loopback(address)


def test_without_a_password_nobody_is_asked(cluster: Cluster) -> None:
    failure = ask(cluster, 60)
    assert (FailureKind.MALFORMED, True) == (failure.kind, "no password" in failure.detail)
