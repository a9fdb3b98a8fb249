"""The page served at a free port, as the program `zodbrepl admin` serves it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from indico_zodbrepl.admin import app
from indico_zodbrepl.cluster.programs import Admin


@contextlib.contextmanager
def served(page: Any, admin: Admin) -> Iterator[str]:
    """The page at a free port, by waitress; its address."""
    server = app.listen(page, admin)
    with running(server):
        yield f"http://127.0.0.1:{server.effective_port}/"


@contextlib.contextmanager
def running(server: Any) -> Iterator[None]:
    """Let a server of waitress run in a thread, and close it."""
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            server.asyncore.loop(timeout=0.1, map=server._map, count=1, use_poll=True)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        server.task_dispatcher.shutdown()
        for channel in list(server.active_channels.values()):
            channel.handle_close()
        server.close()
