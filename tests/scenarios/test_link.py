"""A link passes on, holds back and loses bytes as it is told."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest
from clusters import free_ports
from link import Link

SECONDS = 30.0
A_WHILE = 0.3


class Ends:
    """A link and a connection over it: ``near`` asked for it, ``far`` was asked."""

    def __init__(self, opened: contextlib.ExitStack) -> None:
        [self.port, target] = free_ports(2)
        self._listener = opened.enter_context(socket.create_server(("127.0.0.1", target)))
        self._listener.settimeout(SECONDS)
        self._opened = opened
        self.link = opened.enter_context(contextlib.closing(Link(self.port, target)))
        self.connect()

    def connect(self) -> None:
        self.near = self._opened.enter_context(
            socket.create_connection(("127.0.0.1", self.port), SECONDS)
        )
        self.far = self._opened.enter_context(self._listener.accept()[0])
        self.far.settimeout(SECONDS)


@pytest.fixture
def ends() -> Iterator[Ends]:
    with contextlib.ExitStack() as opened:
        yield Ends(opened)


def test_it_passes_bytes_on_in_both_directions(ends: Ends) -> None:
    ends.near.sendall(b"there")
    assert b"there" == ends.far.recv(100)
    ends.far.sendall(b"back")
    assert b"back" == ends.near.recv(100)


def test_one_direction_goes_on_when_the_other_is_closed(ends: Ends) -> None:
    ends.far.shutdown(socket.SHUT_WR)
    assert b"" == ends.near.recv(100)
    ends.near.sendall(b"still there")
    assert b"still there" == ends.far.recv(100)


def test_a_stalled_link_holds_back_what_is_sent_until_it_is_resumed(ends: Ends) -> None:
    ends.link.stall()
    ends.near.sendall(b"late")
    ends.far.settimeout(A_WHILE)
    with pytest.raises(TimeoutError):
        ends.far.recv(100)
    ends.far.settimeout(SECONDS)
    ends.link.resume()
    assert b"late" == ends.far.recv(100)


def test_what_a_stalled_link_held_back_is_lost_when_it_is_cut(ends: Ends) -> None:
    ends.link.stall()
    ends.near.sendall(b"lost")
    time.sleep(A_WHILE)
    ends.link.cut()
    received = b""
    with contextlib.suppress(ConnectionResetError):
        received = ends.far.recv(100)
    assert b"" == received


def test_a_link_takes_connections_again_once_it_is_mended(ends: Ends) -> None:
    ends.link.cut()
    with (
        socket.create_connection(("127.0.0.1", ends.port), SECONDS) as refused,
        contextlib.suppress(ConnectionResetError),
    ):
        assert b"" == refused.recv(100)
    ends.link.mend()
    ends.connect()
    ends.near.sendall(b"again")
    assert b"again" == ends.far.recv(100)
