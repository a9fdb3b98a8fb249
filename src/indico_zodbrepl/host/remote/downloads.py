"""The agent's routes for downloads: recovery exports, packed while they are sent, and logs."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Iterator

import msgspec
from aiohttp import web

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import exports
from indico_zodbrepl.host.certificates import Identity, Role
from indico_zodbrepl.host.local_logs import LocalLogs
from indico_zodbrepl.host.remote import codec
from indico_zodbrepl.host.remote.messages import Call
from indico_zodbrepl.host.remote.refusals import refuse_other, refuse_protocol, refuse_stranger

MOST = 2
"""Downloads at a time; to pack an export and to mask a log take a processor each."""
STALLED_SECONDS = 60.0
"""Time after which a receiver that takes nothing is given up."""
ZIP, TEXT = "application/zip", "text/plain"
Make = Callable[[Cluster, str], Iterator[bytes] | None]
"""Returns what is downloaded by its name; None if there is none."""


class Downloads:
    """The routes below ``/exports`` and ``/logs``.

    Args:
        load: returns the cluster as its file says now; raises OperatorError.
        caller: returns the identity in a request's certificate; raises HTTPForbidden.
        log: takes one line for each download.
    """

    def __init__(
        self,
        load: Callable[[], Cluster],
        caller: Callable[[web.Request], Identity],
        log: Callable[[str], None],
    ) -> None:
        self._load = load
        self._caller = caller
        self._log = log
        self._threads = concurrent.futures.ThreadPoolExecutor(MOST, "download")
        self._sent = 0

    def add_to(self, app: web.Application) -> None:
        app.router.add_post("/exports/{name}", self._export)
        app.router.add_post("/logs/{name}", self._whole_log)

    async def _export(self, request: web.Request) -> web.StreamResponse:
        return await self._send(request, "packed_export", _packed, ZIP)

    async def _whole_log(self, request: web.Request) -> web.StreamResponse:
        return await self._send(request, "logs.part", _lines, TEXT)

    async def _send(
        self, request: web.Request, method: str, make: Make, kind: str
    ) -> web.StreamResponse:
        """Send a download to those who may make the call ``method``."""
        caller = self._caller(request)
        if caller.role not in (Role.HOST, Role.OPERATOR):
            raise web.HTTPForbidden(text="the role of this certificate may not read data\n")
        if self._sent >= MOST:
            raise web.HTTPServiceUnavailable(text=f"{MOST} downloads are sent already\n")
        self._sent += 1
        try:
            parts = await self._parts(request, caller, method, make)
            return await _send(request, parts, kind, self._threads)
        finally:
            self._sent -= 1

    async def _parts(
        self, request: web.Request, caller: Identity, method: str, make: Make
    ) -> Iterator[bytes]:
        """Return what is asked for.  Raises HTTPException."""
        name = request.match_info["name"]
        try:
            call = codec.decode(await request.read(), Call)
            cluster = await asyncio.to_thread(self._load)
            refuse_stranger(cluster, caller)
            refuse_protocol(cluster, call)
            refuse_other(cluster, call, method)
            found = await asyncio.to_thread(make, cluster, name)
        except msgspec.MsgspecError as error:
            raise web.HTTPBadRequest(text=f"{error}\n") from error
        except OperatorError as error:
            raise web.HTTPForbidden(text=f"{error.notice}: {error.detail}\n") from error
        if found is None:
            raise web.HTTPNotFound(text=f"host {cluster.here} has no {request.path}\n")
        self._log(f"{call.actor}: download of {request.path}")
        return found


def _packed(cluster: Cluster, name: str) -> Iterator[bytes] | None:
    found = exports.find(cluster, name)
    return None if found is None else exports.packed(found.folder)


def _lines(cluster: Cluster, program: str) -> Iterator[bytes] | None:
    logs, here = LocalLogs(cluster), cluster.here or ""
    return logs.whole(here, program) if program in logs.programs(here) else None


async def _send(
    request: web.Request,
    parts: Iterator[bytes],
    kind: str,
    threads: concurrent.futures.Executor,
) -> web.StreamResponse:
    """Send what a thread yields.  A failure breaks the connection, so that it is noticed."""
    loop = asyncio.get_running_loop()
    response = web.StreamResponse(headers={"Content-Type": kind})
    await response.prepare(request)
    while (part := await loop.run_in_executor(threads, next, parts, None)) is not None:
        async with asyncio.timeout(STALLED_SECONDS):
            await response.write(part)
    await response.write_eof()
    return response
