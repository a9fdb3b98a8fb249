"""Requests to the control socket of a process of this host, each with one deadline."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator

from indico_zodbrepl.cluster import Node
from indico_zodbrepl.cluster.layout import control_socket
from indico_zodbrepl.probing.wire import remaining

LONGEST_ANSWER = 1 << 20
"""Bytes."""


class FolderError(OSError):
    """The node's data directory can't be opened."""


def ask(node: Node, request: bytes, deadline: float) -> bytes:
    """Send a line, and return the line of the answer.

    Args:
        deadline: a moment of ``time.monotonic``.

    Raises OSError: FolderError; TimeoutError at the deadline; ConnectionAbortedError if the answer
    is not whole.
    """
    with connected(node, deadline) as peer:
        peer.sendall(request)
        answer = bytearray()
        while not answer.endswith(b"\n"):
            peer.settimeout(remaining(deadline))
            chunk = peer.recv(65536)
            if not chunk or len(answer) > LONGEST_ANSWER:
                raise ConnectionAbortedError(0, "it ended the connection without an answer")
            answer += chunk
        return bytes(answer)


@contextlib.contextmanager
def connected(node: Node, deadline: float) -> Iterator[socket.socket]:
    """Connect to the control socket of a node; see ``ask``."""
    try:
        # The path may be too long for a socket.
        folder = os.open(node.data_directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise FolderError(error.errno, error.strerror) from error
    try:
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(remaining(deadline))
            peer.connect(f"/proc/self/fd/{folder}/{control_socket(node).name}")
            yield peer
    finally:
        os.close(folder)
