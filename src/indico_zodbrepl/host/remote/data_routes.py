"""The agent's routes for the data of its nodes: streams of files, and served data files."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
from aiohttp import web

from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import data_fs
from indico_zodbrepl.cluster.lookup import node_named
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.backup_folder import is_of_backup
from indico_zodbrepl.host.certificates import Identity, Role
from indico_zodbrepl.host.node_files import ReplacedError, is_sent
from indico_zodbrepl.host.remote import dialogues, streams
from indico_zodbrepl.host.remote.refusals import refuse_stranger
from indico_zodbrepl.host.remote.streams import BackupRequest, StreamRequest
from indico_zodbrepl.probing import typed_json

MOST = 8
"""Streams, and served files, at a time."""
CLUSTER, ACTOR = "X-Cluster", "X-Actor"
"""Headers of a request for a served file."""
Log = Callable[[str], None]
Wanted = TypeVar("Wanted", bound=StreamRequest)


class DataRoutes:
    """The routes below ``/data/NODE``, and ``/backups/stream``.

    Args:
        load: returns the cluster as its file says now; raises OperatorError.
        installation: for the program that serves a data file.
        caller: returns the identity in a request's certificate; raises HTTPForbidden.
        log: takes one line for each stream and each served file.
    """

    def __init__(
        self,
        load: Callable[[], Cluster],
        installation: Installation,
        caller: Callable[[web.Request], Identity],
        log: Log,
    ) -> None:
        self._load = load
        self._installation = installation
        self._caller = caller
        self._log = log
        self._readers = concurrent.futures.ThreadPoolExecutor(MOST, "stream")
        self._served = concurrent.futures.ThreadPoolExecutor(MOST, "served")
        self._streams = self._dialogues = 0

    def add_to(self, app: web.Application) -> None:
        app.router.add_post("/data/{node}/stream", self._stream)
        app.router.add_get("/data/{node}/served", self._serve)
        app.router.add_post("/backups/stream", self._backup)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        caller = self._authorised(request)
        wanted = await _wanted(request, StreamRequest)
        node = await self._node(request, caller, wanted.cluster)
        self._log(
            f"{wanted.actor}: stream of node {node.name}: {len(wanted.ranges)} parts of "
            f"files, the first of {wanted.ranges[0].name if wanted.ranges else 'none'}"
        )
        return await self._send(request, node.data_directory, wanted, is_sent)

    async def _backup(self, request: web.Request) -> web.StreamResponse:
        caller = self._authorised(request)
        wanted = await _wanted(request, BackupRequest)
        await self._cluster(caller, wanted.cluster)
        folder = Path(wanted.folder)
        self._log(f"{wanted.actor}: stream of backups in {folder}")
        return await self._send(request, folder, wanted, is_of_backup)

    async def _send(
        self,
        request: web.Request,
        folder: Path,
        wanted: StreamRequest,
        allowed: Callable[[str], bool],
    ) -> web.StreamResponse:
        if self._streams >= MOST:
            raise web.HTTPServiceUnavailable(text=f"{MOST} streams are sent already\n")
        self._streams += 1
        try:
            return await streams.send(request, folder, wanted.ranges, self._readers, allowed)
        except ReplacedError as error:
            raise web.HTTPConflict(text=f"{error.detail}\n") from error
        except OperatorError as error:
            raise web.HTTPForbidden(text=f"{error.notice}: {error.detail}\n") from error
        except OSError as error:
            raise web.HTTPInternalServerError(text=f"{error}\n") from error
        finally:
            self._streams -= 1

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        caller = self._authorised(request)
        node = await self._node(request, caller, request.headers.get(CLUSTER, ""))
        if self._dialogues >= MOST:
            raise web.HTTPServiceUnavailable(text=f"{MOST} data files are served already\n")
        websocket = web.WebSocketResponse(
            heartbeat=dialogues.HEARTBEAT_SECONDS, compress=False, max_msg_size=0
        )
        await websocket.prepare(request)
        self._dialogues += 1
        actor = request.headers.get(ACTOR, "")
        self._log(f"{actor}: the data file of node {node.name} is compared")
        ours, theirs = socket.socketpair()
        program = asyncio.get_running_loop().run_in_executor(
            self._served, dialogues.serve_file, self._installation, str(data_fs(node)), theirs
        )
        try:
            try:
                await dialogues.move(websocket, ours)
            finally:
                ours.close()
                # The program ends with its connection.
                with contextlib.suppress(OperatorError):
                    await asyncio.shield(program)
        finally:
            self._dialogues -= 1
        return websocket

    def _authorised(self, request: web.Request) -> Identity:
        caller = self._caller(request)
        if caller.role not in (Role.HOST, Role.OPERATOR):
            raise web.HTTPForbidden(text="the role of this certificate may not read data\n")
        return caller

    async def _node(self, request: web.Request, caller: Identity, cluster_name: str) -> Node:
        """Return the node of a request.  Raises HTTPException."""
        cluster = await self._cluster(caller, cluster_name)
        try:
            node = node_named(cluster, request.match_info["node"])
        except OperatorError as error:
            raise web.HTTPForbidden(text=f"{error.notice}: {error.detail}\n") from error
        if not cluster.is_here(node):
            raise web.HTTPNotFound(text=f"node {node.name} is not on host {cluster.here}\n")
        return node

    async def _cluster(self, caller: Identity, name: str) -> Cluster:
        """Return the cluster, to which the caller belongs.  Raises HTTPException."""
        loop = asyncio.get_running_loop()
        try:
            cluster = await loop.run_in_executor(None, self._load)
            refuse_stranger(cluster, caller)
        except OperatorError as error:
            raise web.HTTPForbidden(text=f"{error.notice}: {error.detail}\n") from error
        if cluster.name != name:
            raise web.HTTPConflict(
                text=f"host {cluster.here} belongs to cluster {cluster.name}, not to {name}\n"
            )
        return cluster


async def _wanted(request: web.Request, kind: type[Wanted]) -> Wanted:
    """Return what a request for a stream asks for.  Raises HTTPException."""
    try:
        return typed_json.decode(await request.read(), kind)
    except msgspec.MsgspecError as error:
        raise web.HTTPBadRequest(text=f"{error}\n") from error
