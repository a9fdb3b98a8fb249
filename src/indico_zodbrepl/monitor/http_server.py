"""The HTTP server of the admin page and of the monitor: waitress, with a deadline for requests.

waitress itself closes a connection only when nothing arrives on it, and accepts none when it has
too many.  Then a few clients that send slowly, or nothing, would keep all others out.
"""

from __future__ import annotations

import gc
import time
from typing import Any

import waitress
from waitress.channel import HTTPChannel
from waitress.server import TcpWSGIServer

RECEIVE_SECONDS = 10.0
"""Time for a whole request, headers and body, since the connection or the request's first byte."""
IDLE_SECONDS = 30
"""Time between two requests of a connection; also without progress of an answer."""
MOST_CONNECTIONS = 500
MOST_WAITING = 200
"""Connections without a whole request; a further one closes the one that has waited longest."""


class Connection(HTTPChannel):  # type: ignore[misc]  # it has no annotations
    """A connection that is closed if a request does not arrive in time, or others need its place.

    Attributes:
        since: Unix time when it began to wait for the present request; None between requests.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.since: float | None = self.creation_time
        waiting = [each for each in self._map.values() if _is_waiting(each)]
        if len(waiting) > MOST_WAITING:
            min(waiting, key=lambda each: each.since or each.last_activity).will_close = True

    def received(self, data: bytes) -> bool:
        before = self.request
        used: bool = super().received(data)
        if self.request is None:
            self.since = None
        elif self.since is None or (self.request is not before and self.requests):
            self.since = time.time()
        return used

    def readable(self) -> bool:
        if not self.requests and self.since and time.time() - self.since > RECEIVE_SECONDS:
            self.will_close = True
        return bool(super().readable())


def _is_waiting(served: Any) -> bool:
    """Return True for a connection without a request to answer or an answer to send."""
    return isinstance(served, Connection) and not (
        served.requests or served.total_outbufs_len or served.will_close
    )


def listen(application: Any, host: str, port: int, **options: Any) -> Any:
    """Return a listening server; its ``run`` serves.  Raises OSError if it cannot be bound.

    Call it when everything that lasts is loaded; see ``spare_collections``.

    Args:
        options: further options of waitress.
    """
    spare_collections()
    served: dict[int, Any] = {}
    server = waitress.create_server(
        application,
        map=served,
        host=host,
        port=port,
        ident=None,
        connection_limit=MOST_CONNECTIONS,
        channel_timeout=IDLE_SECONDS,
        cleanup_interval=1,
        asyncore_use_poll=True,
        **options,
    )
    for each in served.values():
        if isinstance(each, TcpWSGIServer):
            each.channel_class = Connection
    return server


def spare_collections() -> None:
    """Let the garbage collector pass over what exists now: modules, templates, the application.

    A full collection took 55 ms with the admin page loaded, in the middle of a request, and takes 8
    ms of what came later.
    """
    gc.collect()
    gc.freeze()
