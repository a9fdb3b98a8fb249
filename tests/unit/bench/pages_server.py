"""A small HTTP server whose answers can be slow, wrong or missing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

STALLING = "/stall"
SILENT = "/silent"
CLOSING = "/close"
MISSING = "/missing"
BELOW = "/indico"
"""What is before those paths, or is not."""
HEALTH = "/zodbrepl/health"
CALLS = "/services/json-rpc"
REFUSED = "locked"
"""A conference whose description can't be changed."""
CALL_SECONDS = 0.25
"""How much longer it has been in calls of its storage each time its health is asked for."""
STALL_SECONDS = 1.0
WAIT_SECONDS = 30.0


class PagesServer:
    """A context; it answers in one thread, so that one stalled request stalls all others.

    Attributes:
        asked: the paths that were asked for, in order, but for its health.
        cookies: that came with them; empty without one.
        calls: what was sent to be changed: the token, and the call.
        has_health: whether its health is more than a page.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.cookies: list[str] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.base = ""
        self.has_health = True
        self._looks = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(WAIT_SECONDS)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        with contextlib.closing(self._loop):
            self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        tasks: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(self._answer(reader, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        self.base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        await self._ended.wait()
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            path = head.split()[1]
            body = "ok"
            if path == HEALTH and self.has_health:
                self._looks += 1
                body = json.dumps({"calls": {"count": 1, "seconds": self._looks * CALL_SECONDS}})
            else:
                self.asked.append(path)
                self.cookies.append(_header(head, "Cookie"))
            path = path.removeprefix(BELOW)
            if path == STALLING:
                time.sleep(STALL_SECONDS)  # nobody is answered meanwhile
            elif path == SILENT:
                await asyncio.sleep(WAIT_SECONDS)
            elif path == CLOSING:
                return
            elif path == CALLS:
                body = self._called(
                    _header(head, "X-CSRF-Token"),
                    json.loads(await reader.readexactly(int(_header(head, "Content-Length")))),
                )
            status = "404 Not Found" if path == MISSING else "200 OK"
            writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
            await writer.drain()

    def _called(self, token: str, call: dict[str, Any]) -> str:
        self.calls.append((token, call))
        refused = call["params"]["conference"] == REFUSED
        return json.dumps({"error": {"code": "ERR-1"} if refused else None, "result": None})


def _header(head: str, name: str) -> str:
    found = re.search(f"^{name}: (.*?)\r$", head, re.MULTILINE | re.IGNORECASE)
    return found.group(1) if found else ""


@contextlib.contextmanager
def two_servers() -> Iterator[tuple[PagesServer, PagesServer]]:
    """Two of them, ended together."""
    with PagesServer() as one, PagesServer() as other:
        yield one, other
