"""The stream of parts of a node's files: how an agent sends it, and how a copy receives it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import http.client
import ssl
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
from aiohttp import web

from indico_zodbrepl.cluster import ClusterHost
from indico_zodbrepl.host.node_files import (
    AHEAD,
    BLOCK,
    DIGEST_BYTES,
    LENGTH,
    MISSING,
    Range,
    found,
    is_sent,
    sent,
    sent_bytes,
)
from indico_zodbrepl.host.remote.messages import SILENT_SECONDS

SLICE = 1 << 17
"""Bytes for one write: asyncio's TLS takes twice the time for larger ones."""
BUFFERED = 1 << 18
"""Bytes that wait in asyncio for the receiver."""
STALLED_SECONDS = 60.0
"""Time after which a receiver that has not taken a block is given up."""
CONNECT_SECONDS = 1.0
REFUSED_BYTES = 1000


class StreamRequest(msgspec.Struct):
    """The ranges that are wanted, and for which cluster."""

    cluster: str
    actor: str
    ranges: list[Range]


class BackupRequest(StreamRequest):
    """The ranges of files in a folder of backups."""

    folder: str


class CutError(Exception):
    """A stream did not begin, or broke; the text says why."""


class RefusedError(Exception):
    """The agent refused a stream: its status and reason."""


async def send(
    request: web.Request,
    folder: Path,
    ranges: Sequence[Range],
    threads: concurrent.futures.Executor,
    allowed: Callable[[str], bool] = is_sent,
) -> web.StreamResponse:
    """Send parts of the files of a folder; one block is read ahead.

    Args:
        allowed: as of ``node_files.found``.

    Raises as ``node_files.found``; later failures break the connection.
    """
    loop = asyncio.get_running_loop()
    known = await loop.run_in_executor(threads, found, folder, ranges, allowed)
    parts = sent(folder, known)
    response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
    # Without it aiohttp copies all data once more, for the lengths of chunks.
    response.content_length = sent_bytes(known)
    await response.prepare(request)
    if request.transport is not None:
        request.transport.set_write_buffer_limits(BUFFERED)
    first = await loop.run_in_executor(threads, next, parts, None)
    while first is not None:
        following = loop.run_in_executor(threads, next, parts, None)
        try:
            for each in first:
                await _write(response, each)
        except BaseException:
            # The thread has to leave the generator before it can be closed.
            await asyncio.wait([following])
            parts.close()
            raise
        first = await following
    await response.write_eof()
    return response


async def _write(response: web.StreamResponse, part: bytes) -> None:
    view = memoryview(part)
    async with asyncio.timeout(STALLED_SECONDS):
        for at in range(0, len(view), SLICE):
            await response.write(view[at : at + SLICE])


class Receiver:
    """The content of ranges, as ``receiving.Stream``, but with CutError."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response
        self._left = 0
        self._digests = memoryview(b"")

    def length(self) -> int | None:
        (length,) = LENGTH.unpack(self._read(LENGTH.size))
        self._left = 0 if length == MISSING else length
        return None if length == MISSING else int(length)

    def block(self, into: memoryview) -> bytes:
        if not self._digests:
            blocks = min(AHEAD, -(-self._left // BLOCK))
            self._digests = memoryview(self._read(blocks * DIGEST_BYTES))
        self._fill(into)
        self._left -= len(into)
        digest, self._digests = self._digests[:DIGEST_BYTES], self._digests[DIGEST_BYTES:]
        return bytes(digest)

    def _read(self, length: int) -> bytes:
        content = bytearray(length)
        self._fill(memoryview(content))
        return bytes(content)

    def _fill(self, view: memoryview) -> None:
        while view:
            try:
                count = self._response.readinto(view)
            except (OSError, http.client.HTTPException) as error:
                raise CutError(f"the stream broke: {error or type(error).__name__}") from error
            if not count:
                raise CutError("the stream ended too early")
            view = view[count:]


@contextlib.contextmanager
def received(
    host: ClusterHost, context: ssl.SSLContext, path: str, request: StreamRequest
) -> Iterator[Receiver]:
    """Ask an agent for parts of files, on a connection of its own.

    Raises CutError, RefusedError.
    """
    address = host.agent_address
    connection = http.client.HTTPSConnection(
        address.host, address.port, timeout=CONNECT_SECONDS, context=context
    )
    with contextlib.closing(connection):
        try:
            connection.connect()
            connection.sock.settimeout(SILENT_SECONDS)
            connection.request("POST", path, msgspec.json.encode(request))
            response = connection.getresponse()
            text = "" if response.status == 200 else _text(response)
        except (OSError, http.client.HTTPException) as error:
            raise CutError(str(error) or type(error).__name__) from error
        if response.status != 200:
            raise RefusedError(f"{response.status}: {text}")
        yield Receiver(response)


def _text(response: http.client.HTTPResponse) -> str:
    return response.read(REFUSED_BYTES).decode("utf-8", "replace").strip()
