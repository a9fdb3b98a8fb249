"""The agent's route for recovery exports: a zip file that is packed while it is sent."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from aiohttp import web

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import exports
from indico_zodbrepl.host.certificates import Identity, Role
from indico_zodbrepl.host.remote import codec
from indico_zodbrepl.host.remote.messages import Call
from indico_zodbrepl.host.remote.refusals import refuse_other, refuse_protocol, refuse_stranger

MOST = 2
"""Exports that are sent at a time; to pack them takes a processor each."""
STALLED_SECONDS = 60.0
"""Time after which a receiver that takes nothing is given up."""
PACKED = "packed_export"


class ExportRoutes:
    """The routes below ``/exports``.

    Args:
        load: returns the cluster as its file says now; raises OperatorError.
        caller: returns the identity in a request's certificate; raises HTTPForbidden.
        log: takes one line for each export that is sent.
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
        self._threads = concurrent.futures.ThreadPoolExecutor(MOST, "export")
        self._sent = 0

    def add_to(self, app: web.Application) -> None:
        app.router.add_post("/exports/{name}", self._send)

    async def _send(self, request: web.Request) -> web.StreamResponse:
        caller = self._caller(request)
        if caller.role not in (Role.HOST, Role.OPERATOR):
            raise web.HTTPForbidden(text="the role of this certificate may not read data\n")
        if self._sent >= MOST:
            raise web.HTTPServiceUnavailable(text=f"{MOST} exports are sent already\n")
        self._sent += 1
        try:
            folder = await self._folder(request, caller)
            return await _send(request, exports.packed(folder), self._threads)
        finally:
            self._sent -= 1

    async def _folder(self, request: web.Request, caller: Identity) -> Path:
        """Return the folder of the export that is asked for.  Raises HTTPException."""
        name = request.match_info["name"]
        try:
            call = codec.decode(await request.read(), Call)
            cluster = await asyncio.to_thread(self._load)
            refuse_stranger(cluster, caller)
            refuse_protocol(cluster, call)
            refuse_other(cluster, call, PACKED)
        except msgspec.MsgspecError as error:
            raise web.HTTPBadRequest(text=f"{error}\n") from error
        except OperatorError as error:
            raise web.HTTPForbidden(text=f"{error.notice}: {error.detail}\n") from error
        found = await asyncio.to_thread(exports.find, cluster, name)
        if found is None:
            raise web.HTTPNotFound(text=f"host {cluster.here} has no export {name}\n")
        self._log(f"{call.actor}: recovery export {name}")
        return found.folder


async def _send(
    request: web.Request, parts: Iterator[bytes], threads: concurrent.futures.Executor
) -> web.StreamResponse:
    """Send what a thread yields.  A failure breaks the connection, so that it is noticed."""
    loop = asyncio.get_running_loop()
    response = web.StreamResponse(headers={"Content-Type": "application/zip"})
    await response.prepare(request)
    while (part := await loop.run_in_executor(threads, next, parts, None)) is not None:
        async with asyncio.timeout(STALLED_SECONDS):
            await response.write(part)
    await response.write_eof()
    return response
