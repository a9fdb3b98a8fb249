"""The socket of an agent: its certificates can change while it listens.

A connection without a request is closed after a while, so that idle ones do not pile up.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import cast

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from indico_zodbrepl.cluster.places import Address

HANDSHAKE_SECONDS = 5.0
"""For the certificates of both sides."""
FIRST_REQUEST_SECONDS = 10.0
"""From the beginning of a connection to its first request."""
MOST_CONNECTIONS = 500
"""Established at the same time; more are closed at once."""
SILENT_MILLISECONDS = 10_000
"""Time after which a peer that confirms nothing is away (tcp(7), TCP_USER_TIMEOUT)."""
KEEP_ALIVE = (
    (socket.TCP_KEEPIDLE, 4),
    (socket.TCP_KEEPINTVL, 2),
    (socket.TCP_KEEPCNT, 3),
    (socket.TCP_USER_TIMEOUT, SILENT_MILLISECONDS),
)


class Listener:
    """Accepts connections for an application that has ``middleware``."""

    def __init__(self) -> None:
        self._runner: web.AppRunner | None = None
        self._server: asyncio.Server | None = None
        self._socket: socket.socket | None = None
        self._idle: set[RequestHandler] = set()

    @web.middleware
    async def middleware(
        self, request: web.Request, handler: Callable[[web.Request], object]
    ) -> web.StreamResponse:
        """Note that a connection has had a request."""
        self._idle.discard(request.protocol)
        return await handler(request)  # type: ignore[misc, no-any-return]  # aiohttp's own type

    async def open(self, runner: web.AppRunner, address: Address, context: ssl.SSLContext) -> None:
        """Listen at an address for a runner that was set up.  Raises OSError."""
        self._runner = runner
        self._socket = socket.create_server(
            (address.host, address.port), reuse_port=False, backlog=1024
        )
        self._socket.setblocking(False)
        for option, value in KEEP_ALIVE:  # connections inherit them
            self._socket.setsockopt(socket.IPPROTO_TCP, option, value)
        await self.renew(context)

    async def renew(self, context: ssl.SSLContext) -> None:
        """Use other certificates for new connections; those that exist go on."""
        if self._socket is None:
            raise ValueError("it does not listen")
        former = self._server
        # Both listen at the same socket for a moment: no connection is refused meanwhile.
        self._server = await asyncio.get_running_loop().create_server(
            self._connected,
            sock=self._socket.dup(),
            ssl=context,
            ssl_handshake_timeout=HANDSHAKE_SECONDS,
            ssl_shutdown_timeout=HANDSHAKE_SECONDS,
            backlog=1024,
        )
        if former is not None:
            former.close()

    def close(self) -> None:
        """Accept no more connections."""
        if self._server is not None:
            self._server.close()
        if self._socket is not None:
            self._socket.close()

    def _connected(self) -> asyncio.Protocol:
        server = self._runner.server if self._runner else None
        if server is None or len(server.connections) >= MOST_CONNECTIONS:
            return _Refused()
        handler = server()
        self._idle.add(handler)
        loop = asyncio.get_running_loop()
        loop.call_later(FIRST_REQUEST_SECONDS, self._close_idle, handler)
        return handler

    def _close_idle(self, handler: RequestHandler) -> None:
        if handler in self._idle:
            self._idle.discard(handler)
            handler.force_close()


class _Refused(asyncio.Protocol):
    """Closes its connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).abort()
