"""The agent of a host: serves the host interface to the other hosts of the cluster.

Blocking methods run in threads; the loop only moves bytes.  A call that was begun is finished, also
if its caller goes away: every method is idempotent, and half a step is worse than a whole one.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import ssl
import time
import traceback
from collections.abc import Callable
from typing import Any

import msgspec
from aiohttp import web

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import certificates, operation_lock
from indico_zodbrepl.host.certificates import Role
from indico_zodbrepl.host.interface import Host
from indico_zodbrepl.host.operations_interface import Holder
from indico_zodbrepl.host.remote import codec, holds, messages
from indico_zodbrepl.host.remote.codec import BACKUPS, Signature
from indico_zodbrepl.host.remote.holds import Steps
from indico_zodbrepl.host.remote.messages import Call, Identity
from indico_zodbrepl.host.remote.roles import READS, may_call

THREADS = 32
READER_THREADS = 32
"""Threads for calls that only read, so that long steps never keep a probe waiting."""
HOLD = "hold"
Log = Callable[[str], None]


class Agent:
    """The calls of one host.

    Args:
        load: returns the cluster as its file says now; raises OperatorError.
        host: makes the host's own interface, ``LocalHost``.
        log: takes one line for each call that changes something.
    """

    def __init__(
        self,
        load: Callable[[], Cluster],
        host: Callable[[Cluster], Host],
        log: Log,
    ) -> None:
        self._load = load
        self._host = host
        self._log = log
        self._signatures = codec.signatures()
        self._steps = Steps()
        self._workers = concurrent.futures.ThreadPoolExecutor(THREADS, "call")
        self._readers = concurrent.futures.ThreadPoolExecutor(READER_THREADS, "read")

    def application(self) -> web.Application:
        """Return the web application."""
        app = web.Application(client_max_size=messages.LONGEST_CALL)
        app.router.add_get("/", self._identity)
        app.router.add_post("/call/{method}", self._call)
        app.router.add_post("/hold", self._hold)
        return app

    async def _identity(self, request: web.Request) -> web.Response:
        _role(request)
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._readers, self._own)
        return web.Response(body=msgspec.json.encode(found), content_type="application/json")

    def _own(self) -> Identity:
        return messages.identity_of(self._load())

    async def _call(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        signature = self._signatures.get(method)
        if signature is None:
            raise web.HTTPNotFound(text="no such call\n")
        call = await _read(request, method)
        response = await _begun(request)
        await self._answer(response, method, signature, call)
        await response.write_eof()
        return response

    async def _hold(self, request: web.Request) -> web.StreamResponse:
        """Hold the lock of operations for a command on another host, while its request lives."""
        call = await _read(request, HOLD)
        try:
            cluster = await asyncio.to_thread(self._load)
            refuse_other(cluster, call, HOLD)
            who = codec.decode(bytes(call.arguments["who"]), Holder)
        except OperatorError as error:
            raise web.HTTPConflict(text=f"{error.notice}: {error.detail}\n") from error
        except (KeyError, msgspec.MsgspecError) as error:
            raise web.HTTPBadRequest(text=f"{error}\n") from error
        response = await _begun(request)
        with contextlib.suppress(ConnectionError):  # that is how the holder ends it
            await holds.hold(response, request, cluster, who, self._steps)
            await response.write_eof()
        return response

    async def _answer(
        self, response: web.StreamResponse, method: str, signature: Signature, call: Call
    ) -> None:
        loop = asyncio.get_running_loop()
        lines: asyncio.Queue[bytes] = asyncio.Queue()

        def report(value: object) -> None:
            text = messages.line(progress=msgspec.Raw(codec.encode(value)))
            loop.call_soon_threadsafe(lines.put_nowait, text)

        pool = self._readers if method in READS else self._workers
        run = self._run if method in READS else self._step
        running = loop.run_in_executor(
            pool, functools.partial(run, method, signature, call, report)
        )
        # A caller that goes away cancels this task, and not the thread.
        while True:
            waiting = asyncio.ensure_future(lines.get())
            try:
                done, _ = await asyncio.wait(
                    {waiting, running},
                    timeout=messages.ALIVE_SECONDS,
                    return_when=asyncio.FIRST_COMPLETED,
                )
            finally:
                if not waiting.done():
                    waiting.cancel()
            if waiting in done:
                await response.write(waiting.result())
                continue
            if running in done:
                break
            await response.write(messages.line(alive=True))
        while not lines.empty():
            await response.write(lines.get_nowait())
        await response.write(running.result())

    def _step(
        self, method: str, signature: Signature, call: Call, report: Callable[[object], None]
    ) -> bytes:
        with self._steps.counted(call.lock):
            return self._run(method, signature, call, report)

    def _run(
        self, method: str, signature: Signature, call: Call, report: Callable[[object], None]
    ) -> bytes:
        """Run a call; return the last line of its answer."""
        began = time.monotonic()
        try:
            result = self._perform(method, signature, call, report)
            last = messages.line(result=msgspec.Raw(codec.encode(result)))
            outcome = "done"
        except OperatorError as error:
            last, outcome = messages.line(error=codec.error_of(error)), error.notice
        except Exception as error:  # noqa: BLE001 - the caller has to learn of it, and the log
            traceback.print_exc()
            failed = OperatorError(
                f"the agent failed in {method}", f"{type(error).__name__}: {error}"
            )
            last, outcome = messages.line(error=codec.error_of(failed)), failed.detail
        if method not in READS:
            self._log(f"{call.actor}: {method}: {outcome} ({time.monotonic() - began:.2f} s)")
        return last

    def _perform(
        self, method: str, signature: Signature, call: Call, report: Callable[[object], None]
    ) -> object:
        cluster = self._load()
        refuse_other(cluster, call, method)
        arguments: dict[str, Any] = {}
        for name, raw in call.arguments.items():
            if name in signature.arguments:
                arguments[name] = codec.decode(bytes(raw), signature.arguments[name])
            elif signature.more:
                arguments[name] = codec.decode(bytes(raw), Any)
            else:
                raise OperatorError(f"{method} has no argument {name}")
        if signature.callback:
            arguments[signature.callback] = report
        if call.lock and method not in READS:
            operation_lock.refuse_other(cluster, call.lock)
        host: Any = self._host(cluster)
        if method.startswith(BACKUPS):
            host, method = host.backups(), method.removeprefix(BACKUPS)
        return getattr(host, method)(**arguments)


def refuse_other(cluster: Cluster, call: Call, method: str) -> None:
    """Raise OperatorError (exit 8) for a call that is meant for another cluster or another file.

    What only reads is answered whatever the caller's cluster file says.
    """
    if call.cluster != cluster.name:
        raise OperatorError(
            f"host {cluster.here} belongs to cluster {cluster.name}, not to {call.cluster}",
            exit_code=ExitCode.REFUSED,
        )
    if method not in READS and call.config != messages.digest_of(cluster):
        raise OperatorError(
            f"the cluster file of host {cluster.here} is another one",
            f"{cluster.source} there differs from the file of the host that sends the command",
            "compare them; then give all hosts the right one: zodbrepl hosts push",
            ExitCode.REFUSED,
        )


async def _read(request: web.Request, method: str) -> Call:
    """Return the body of a request, if the caller may make it.  Raises web.HTTPException."""
    if not may_call(_role(request), method):
        raise web.HTTPForbidden(text=f"the role of this certificate may not call {method}\n")
    try:
        return codec.decode(await request.read(), Call)  # type: ignore[no-any-return]
    except msgspec.MsgspecError as error:
        raise web.HTTPBadRequest(text=f"{error}\n") from error


async def _begun(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
    await response.prepare(request)
    return response


def _role(request: web.Request) -> Role:
    """Return the role of the caller's certificate, which TLS has verified."""
    peer: ssl.SSLObject | None = None
    if request.transport is not None:
        peer = request.transport.get_extra_info("ssl_object")
    der = peer.getpeercert(binary_form=True) if peer is not None else None
    if der is None:
        raise web.HTTPForbidden(text="a certificate is required\n")
    try:
        return certificates.identity_of(der).role
    except OperatorError as error:
        raise web.HTTPForbidden(text=f"{error.notice}\n") from error
