"""A TCP link that can be cut and stalled: a proxy between a secondary and its upstream."""

from __future__ import annotations

import contextlib
import socket
import threading

CHUNK = 16384


class Link:
    """Passes connections on to a port of this machine.

    Starts whole. Its methods may be called from any thread.

    Args:
        port: where it listens.
        target: where it passes connections on.
    """

    def __init__(self, port: int, target: int) -> None:
        self._target = target
        self._flows = threading.Event()
        self._flows.set()
        self._whole = True
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def stall(self) -> None:
        """Hold back all bytes, those under way too; connections stay open."""
        self._flows.clear()

    def resume(self) -> None:
        self._flows.set()

    def cut(self) -> None:
        """Break all connections, lose what was held back, and take no new ones."""
        with self._lock:
            self._whole = False
            for each in self._sockets:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
        self._flows.set()

    def mend(self) -> None:
        """Take connections again."""
        with self._lock:
            self._whole = True

    def close(self) -> None:
        self.cut()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                near, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        with near:
            far = self._connect(near)
            if far is None:
                return
            with far:
                back = threading.Thread(target=self._pass_on, args=(far, near), daemon=True)
                back.start()
                self._pass_on(near, far)
                back.join()
                with self._lock:
                    self._sockets -= {near, far}

    def _connect(self, near: socket.socket) -> socket.socket | None:
        """The other half of a connection; None when there is none."""
        with self._lock, contextlib.suppress(OSError):
            if self._whole:
                far = socket.create_connection(("127.0.0.1", self._target))
                self._sockets |= {near, far}
                return far
        return None

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        """One direction, until its sender closes it; the other one may go on."""
        with contextlib.suppress(OSError):
            while chunk := source.recv(CHUNK):
                self._flows.wait()
                target.sendall(chunk)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)
