"""The connection between a comparison and the program that serves a data file on another host.

Both programs have a socket; the bytes cross the network in a websocket between the two agents'
hosts, which nobody here interprets.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import subprocess
import threading
from asyncio.trsock import TransportSocket
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp import web

from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.host import datafs, py27
from indico_zodbrepl.host.py27 import Program

HEARTBEAT_SECONDS = 6.0
"""Time after which a silent side is asked; it is given up half of it later."""
CONNECT_SECONDS = 3.0
CLOSE_SECONDS = 0.5
CLOSE_POLL_SECONDS = 0.002
READ = 1 << 16
Websocket = web.WebSocketResponse | aiohttp.ClientWebSocketResponse


async def move(websocket: Websocket, stream: socket.socket) -> int:
    """Move bytes between a websocket and a socket until one of them ends; close both.

    Returns the number of bytes.
    What arrives is never held up: a comparison has few questions under way, and an answer is short.
    """
    reader, writer = await asyncio.open_connection(sock=stream)
    moved = 0

    async def out() -> None:
        nonlocal moved
        while data := await reader.read(READ):
            moved += len(data)
            await websocket.send_bytes(data)

    async def back() -> None:
        nonlocal moved
        async for message in websocket:
            if message.type is aiohttp.WSMsgType.BINARY:
                moved += len(message.data)
                writer.write(message.data)

    tasks = [asyncio.create_task(out()), asyncio.create_task(back())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        writer.close()  # what has arrived is still written
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(OSError):  # the program may have gone first
            await writer.wait_closed()
        await websocket.close()
    return moved


def serve_file(installation: Installation, path: str, stream: socket.socket) -> None:
    """Run the program that answers questions about a data file until the stream is closed."""
    program = Program(datafs.PROGRAM, "a data file can't be served to another host")
    with (
        stream,
        py27.started(
            program,
            program.command(installation, "serve", path, "--socket", str(stream.fileno())),
            py27.environment_of(installation, {}),
            output=subprocess.DEVNULL,
            errors=None,
            inherited=(stream.fileno(),),
        ) as process,
    ):
        stream.close()
        process.wait()


class Dialogue:
    """A connection to the server of a data file; a context manager in which it is open.

    Attributes:
        stream: the socket for the comparison.
        problem: why it broke; empty while it has not.
        moved: bytes in both directions, when it has ended.

    Args:
        url: of the agent's route.
        headers: of the request.
        context: TLS.
    """

    def __init__(self, url: str, headers: dict[str, str], context: ssl.SSLContext) -> None:
        self._url, self._headers, self._context = url, headers, context
        self.stream, self._far = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="dialogue", daemon=True)
        self._settled = threading.Event()
        self.problem = ""
        self.moved = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self._settled.wait()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.stream.close()
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._move())
        except TimeoutError:
            self.problem = "no answer in time"
        except aiohttp.WSServerHandshakeError as error:
            self.problem = f"its agent refused the comparison: {error.status}"
        except (aiohttp.ClientError, OSError) as error:
            self.problem = str(error) or type(error).__name__
        finally:
            self._far.close()
            self._settled.set()

    async def _move(self) -> None:
        # The file is checked before the socket is used: a handshake may fail.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            async with asyncio.timeout(2 * CONNECT_SECONDS):
                websocket = await session.ws_connect(
                    self._url,
                    headers=self._headers,
                    ssl=self._context,
                    heartbeat=HEARTBEAT_SECONDS,
                    max_msg_size=0,
                )
            self._settled.set()
            connection = websocket.get_extra_info("socket")
            self.moved = await move(websocket, self._far)
            if websocket.close_code not in (None, aiohttp.WSCloseCode.OK):
                self.problem = f"the connection broke ({websocket.close_code})"
        await _closed(connection)


async def _closed(connection: TransportSocket) -> None:
    """Wait a moment for the end of TLS, which the session leaves to the loop."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CLOSE_SECONDS):
            while connection.fileno() != -1:
                await asyncio.sleep(CLOSE_POLL_SECONDS)
