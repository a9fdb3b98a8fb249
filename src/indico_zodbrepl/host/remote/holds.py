"""The locks that an agent holds for commands on other hosts.

A command holds the lock as long as its request lives.  The end of the process ends the request at
once, and the death of its host after some seconds of silence (``SILENT_SECONDS``).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections import Counter
from collections.abc import Coroutine, Iterator

import msgspec
from aiohttp import web

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import operation_lock
from indico_zodbrepl.host.operations_interface import Holder, LockHeldError, LockLostError
from indico_zodbrepl.host.remote import codec, messages
from indico_zodbrepl.host.remote.codec import WireError

ALIVE_SECONDS = 1.0
"""Seconds between the lines of a request that holds the lock."""
SILENT_SECONDS = messages.SILENT_SECONDS + 1.0
"""Seconds for which a line may be unacknowledged; the holder, who must know first, gives up after
fewer.
"""


class HoldLine(msgspec.Struct, omit_defaults=True):
    """A line of the answer to a request for the lock; one of its fields is set.

    Attributes:
        held: True in the first line, and in one each second.
        busy: who has the lock.
        error: why it can't be taken.
    """

    held: bool = False
    busy: Holder | None = None
    error: WireError | None = None


class Steps:
    """The calls of operations that an agent executes now, by the key of the lock.  Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()
        self._ended: set[str] = set()

    @contextlib.contextmanager
    def allowed(self, key: str) -> Iterator[None]:
        """Allow the calls of an operation while this host's lock is held for it, not afterwards."""
        with self._lock:
            self._ended.discard(key)
        try:
            yield
        finally:
            with self._lock:
                self._ended.add(key)

    def refuse_ended(self, key: str) -> None:
        """Raise LockLostError if this host's lock was held for an operation, and is no longer.

        A command that was frozen would go on where another one may have taken over and ended.
        """
        with self._lock:
            if key in self._ended:
                raise LockLostError(
                    "the command has lost the lock of operations",
                    "its host did not answer for some seconds, so that others could begin",
                    exit_code=ExitCode.REFUSED,
                )

    @contextlib.contextmanager
    def counted(self, key: str) -> Iterator[None]:
        """Count a call while it runs."""
        with self._lock:
            self._running[key] += 1
        try:
            yield
        finally:
            with self._lock:
                self._running[key] -= 1
                self._running += Counter()  # without those at zero

    def of_others(self, key: str) -> bool:
        """Return True if a call of another operation runs: its command died, and it goes on."""
        with self._lock:
            return bool(set(self._running) - {key, ""})


async def hold(
    response: web.StreamResponse, request: web.Request, cluster: Cluster, who: Holder, steps: Steps
) -> None:
    """Hold this host's lock until the request ends, or say why not."""
    with contextlib.ExitStack() as held:
        try:
            await _whole(asyncio.to_thread(_take, held, cluster, who, steps))
        except LockHeldError as error:
            await response.write(_line(busy=error.holder))
            return
        except OperatorError as error:
            await response.write(_line(error=codec.error_of(error)))
            return
        held.enter_context(steps.allowed(who.key))
        _end_when_silent(request)
        while True:
            await response.write(_line(held=True))
            await asyncio.sleep(ALIVE_SECONDS)


async def _whole(work: Coroutine[None, None, None]) -> None:
    """Wait for a thread, also when the request has ended: what it takes has to be released."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


def _take(held: contextlib.ExitStack, cluster: Cluster, who: Holder, steps: Steps) -> None:
    held.enter_context(operation_lock.held(cluster, who))
    if steps.of_others(who.key):
        # A step of a command that died is still being taken here.
        raise LockHeldError(Holder(0, cluster.here or ""))


def _end_when_silent(request: web.Request) -> None:
    """Let the kernel end the connection if the other host acknowledges nothing."""
    if request.transport is None:
        raise ConnectionResetError
    found: socket.socket = request.transport.get_extra_info("socket")
    milliseconds = int(SILENT_SECONDS * 1000)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)


def _line(**fields: object) -> bytes:
    return msgspec.json.encode(HoldLine(**fields)) + b"\n"  # type: ignore[arg-type]
