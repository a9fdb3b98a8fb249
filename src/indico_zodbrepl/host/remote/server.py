"""The agent of a host: serves the host interface to the other hosts of the cluster.

Blocking methods run in threads; the loop only moves bytes.  A call that was begun is finished, also
if its caller goes away: every method is idempotent, and half a step is worse than a whole one.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import functools
import ssl
import time
import traceback
from collections.abc import Callable
from typing import Any

import msgspec
from aiohttp import web

from indico_zodbrepl import __version__
from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.etcd.problems import EtcdAwayError
from indico_zodbrepl.host import certificates, operation_lock, renewal
from indico_zodbrepl.host.interface import Host
from indico_zodbrepl.host.operations_interface import Holder
from indico_zodbrepl.host.remote import codec, etcd_lock, holds, messages
from indico_zodbrepl.host.remote.actions import Action, Actions
from indico_zodbrepl.host.remote.administration import HostAdministration
from indico_zodbrepl.host.remote.client import AWAY
from indico_zodbrepl.host.remote.codec import ADMINISTRATION, Signature
from indico_zodbrepl.host.remote.data_routes import DataRoutes
from indico_zodbrepl.host.remote.holds import Steps
from indico_zodbrepl.host.remote.messages import Call, Identity
from indico_zodbrepl.host.remote.refusals import refuse_other, refuse_protocol, refuse_stranger
from indico_zodbrepl.host.remote.roles import ONE_AT_A_TIME, may_call, only_reads
from indico_zodbrepl.probing import times, typed_json

THREADS = 32
READER_THREADS = 32
"""Threads for calls that only read, so that long steps never keep a probe waiting."""
IDENTITY_THREADS = 4
HOLD = "hold"
MOST_CALLS = 200
"""Calls at the same time, those that wait for a thread included."""
BODY_SECONDS = 10.0
"""For the body of a request."""
BUSY_SECONDS = 120.0
"""For which a call waits while another one changes the same node."""


@dataclasses.dataclass(frozen=True)
class Served:
    """What an agent serves; each is asked anew for each call.

    Attributes:
        load: returns the cluster as its file says now; raises OperatorError.
        last: returns the cluster as the last valid file said.
        host: makes the host's own interface, ``LocalHost``.
        administration: makes the host's administration.
        held: returns the certificates in use.
    """

    load: Callable[[], Cluster]
    last: Callable[[], Cluster]
    host: Callable[[Cluster], Host]
    administration: Callable[[Cluster], HostAdministration]
    held: Callable[[], renewal.Held]


@dataclasses.dataclass(frozen=True)
class _Asked:
    """A call with the certificate of its caller."""

    method: str
    signature: Signature
    call: Call
    caller: certificates.Identity

    @property
    def reads(self) -> bool:
        return only_reads(self.method)

    @property
    def about(self) -> str:
        """Return the node, host or program that it is about; empty if it names none."""
        for name in ("name", "new", "wanted", "program", "keeper", "host"):
            raw = bytes(self.call.arguments.get(name, msgspec.Raw()))
            if raw:
                found = typed_json.decode(raw, object)
                return str(found.get("node", "")) if isinstance(found, dict) else str(found)
        return ""


class Agent:
    """The calls of one host.

    Args:
        actions: the log of calls that change something.
        data: the routes for data of the host's nodes.
    """

    def __init__(self, served: Served, actions: Actions, data: DataRoutes) -> None:
        self._served = served
        self._actions = actions
        self._data = data
        self._signatures = codec.signatures()
        self._steps = Steps()
        self._workers = concurrent.futures.ThreadPoolExecutor(THREADS, "call")
        self._readers = concurrent.futures.ThreadPoolExecutor(READER_THREADS, "read")
        self._identities = concurrent.futures.ThreadPoolExecutor(IDENTITY_THREADS, "identity")
        self._running = 0
        self._nodes: dict[str, asyncio.Lock] = {}
        self._tasks: set[asyncio.Task[bytes]] = set()

    def application(self, *middlewares: Any) -> web.Application:
        """Return the web application."""
        app = web.Application(client_max_size=messages.LONGEST_CALL, middlewares=middlewares)
        app.router.add_get("/", self._identity)
        app.router.add_post("/call/{method}", self._call)
        app.router.add_post("/hold", self._hold)
        self._data.add_to(app)
        return app

    async def _identity(self, request: web.Request) -> web.Response:
        caller = caller_of(request)
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(self._identities, self._own, caller)
        except OperatorError as error:
            raise web.HTTPForbidden(text=f"{error.notice}; {error.hint}\n") from error
        return web.Response(body=msgspec.json.encode(found), content_type="application/json")

    def _own(self, caller: certificates.Identity) -> Identity:
        """Return what this host reports of itself, also if its cluster file is invalid."""
        try:
            cluster, problem = self._served.load(), ""
        except OperatorError as error:
            cluster, problem = self._served.last(), f"{error.notice}: {error.detail}"
        refuse_stranger(cluster, caller)
        held = self._served.held()
        return msgspec.structs.replace(
            messages.identity_of(cluster),
            problem=problem,
            certificate_until=held.until.timestamp(),
            certificate=held.own,
            issuer=held.issuer,
            authorities=held.authorities,
            away=AWAY.all_of(),
        )

    async def _call(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        caller = caller_of(request)
        signature = self._signatures.get(method)
        if signature is None:
            text = f"release {__version__} has no call {method}: install the same on all hosts\n"
            raise web.HTTPNotFound(text=text)
        _check_role(caller, method)
        if self._running >= MOST_CALLS:
            raise web.HTTPServiceUnavailable(text=f"{self._running} calls run already\n")
        self._running += 1
        try:
            call = await _body(request)
            response = await _begun(request)
            await self._answer(response, _Asked(method, signature, call, caller))
            await response.write_eof()
        finally:
            self._running -= 1
        return response

    async def _hold(self, request: web.Request) -> web.StreamResponse:
        """Hold the lock of operations for a command on another host, while its request lives."""
        caller = caller_of(request)
        _check_role(caller, HOLD)
        call = await _body(request)
        try:
            cluster = await asyncio.to_thread(self._served.load)
            refuse_stranger(cluster, caller)
            refuse_protocol(cluster, call)
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

    async def _answer(self, response: web.StreamResponse, asked: _Asked) -> None:
        loop = asyncio.get_running_loop()
        lines: asyncio.Queue[bytes] = asyncio.Queue()

        def report(value: object) -> None:
            text = messages.line(progress=msgspec.Raw(codec.encode(value)))
            loop.call_soon_threadsafe(lines.put_nowait, text)

        begun = asyncio.Event()
        running = loop.create_task(self._run(asked, report, begun))
        self._tasks.add(running)
        running.add_done_callback(self._tasks.discard)
        try:
            await _tell(response, running, lines)
        finally:
            # A call that was begun is finished, whether or not its caller is still there.
            if not begun.is_set():
                running.cancel()

    async def _run(
        self, asked: _Asked, report: Callable[[object], None], begun: asyncio.Event
    ) -> bytes:
        """Run a call in a thread, after those about the same node; return its last line."""
        loop = asyncio.get_running_loop()
        pool = self._readers if asked.reads else self._workers
        work = functools.partial(self._work, asked, report)
        if asked.method not in ONE_AT_A_TIME or not asked.about:
            begun.set()
            return await loop.run_in_executor(pool, work)
        lock = self._nodes.setdefault(asked.about, asyncio.Lock())
        try:
            await asyncio.wait_for(lock.acquire(), BUSY_SECONDS)
        except TimeoutError:
            return messages.line(error=codec.error_of(_busy(asked)))
        try:
            begun.set()
            return await loop.run_in_executor(pool, work)
        finally:
            lock.release()

    def _work(self, asked: _Asked, report: Callable[[object], None]) -> bytes:
        """Run a call; return the last line of its answer."""
        began = time.monotonic()
        try:
            with contextlib.nullcontext() if asked.reads else self._steps.counted(asked.call.lock):
                result = self._perform(asked, report)
            last = messages.line(result=msgspec.Raw(codec.encode(result)))
            outcome = "done"
        except OperatorError as error:
            last, outcome = messages.line(error=codec.error_of(error)), error.notice
        except Exception as error:  # noqa: BLE001 - the caller has to learn of it, and the log
            traceback.print_exc()
            failed = OperatorError(
                f"the agent failed in {asked.method}", f"{type(error).__name__}: {error}"
            )
            last, outcome = messages.line(error=codec.error_of(failed)), failed.detail
        if not asked.reads:
            self._actions.note(
                Action(
                    times.now(),
                    asked.call.actor,
                    f"{asked.caller.role} {asked.caller.name}",
                    asked.method,
                    asked.about,
                    outcome,
                    round(time.monotonic() - began, 3),
                )
            )
        return last

    def _perform(self, asked: _Asked, report: Callable[[object], None]) -> object:
        method, call = asked.method, asked.call
        administers = method.startswith(ADMINISTRATION)
        cluster = self._served.last() if administers else self._served.load()
        refuse_stranger(cluster, asked.caller)
        refuse_protocol(cluster, call)
        refuse_other(cluster, call, method)
        arguments = _arguments(asked)
        if asked.signature.callback:
            arguments[asked.signature.callback] = report
        if call.lock and not asked.reads:
            self._refuse_lockless(cluster, asked)
        target: Any
        if administers:
            target, method = self._served.administration(cluster), method[len(ADMINISTRATION) :]
        else:
            target, method = codec.part_of(self._served.host(cluster), method)
        return getattr(target, method)(**arguments)

    def _refuse_lockless(self, cluster: Cluster, asked: _Asked) -> None:
        """Raise LockLostError if the caller's operation does not hold the lock any more."""
        key = asked.call.lock
        if not cluster.automatic:
            self._steps.refuse_ended(key)
            operation_lock.refuse_other(cluster, key)
            return
        try:
            etcd_lock.refuse_ended(cluster, key)
        except EtcdAwayError:
            if asked.method in ONE_AT_A_TIME:  # the others keep a node from taking writes
                raise


async def _tell(
    response: web.StreamResponse, running: asyncio.Task[bytes], lines: asyncio.Queue[bytes]
) -> None:
    """Send the lines of a call, one each second at least, and its last line when it has ended."""
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
        elif running in done:
            break
        else:
            await response.write(messages.line(alive=True))
    while not lines.empty():
        await response.write(lines.get_nowait())
    await response.write(running.result())


def _arguments(asked: _Asked) -> dict[str, Any]:
    """Return the arguments of a call without the callback.  Raises OperatorError."""
    signature, arguments = asked.signature, {}
    for name, raw in asked.call.arguments.items():
        if name not in signature.arguments and not signature.more:
            raise OperatorError(f"{asked.method} has no argument {name}")
        kind = signature.arguments.get(name, Any)
        try:
            arguments[name] = codec.decode(bytes(raw), kind)
        except msgspec.MsgspecError as error:
            raise OperatorError(
                f"the argument {name} of {asked.method} can't be read", str(error)
            ) from error
    return arguments


def _busy(asked: _Asked) -> OperatorError:
    return OperatorError(
        f"another call changes node {asked.about}",
        f"{asked.method} has waited {BUSY_SECONDS:g} s for it",
        "see which: bin/zodbrepl status; retry when it has ended",
        ExitCode.TIMED_OUT,
    )


def _check_role(caller: certificates.Identity, method: str) -> None:
    if not may_call(caller.role, method):
        text = f"the role {caller.role} of this certificate may not call {method}\n"
        raise web.HTTPForbidden(text=text)


async def _begun(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
    await response.prepare(request)
    return response


async def _body(request: web.Request) -> Call:
    """Return the call in a request."""
    try:
        content = await asyncio.wait_for(request.read(), BODY_SECONDS)
        return codec.decode(content, Call)  # type: ignore[no-any-return]
    except TimeoutError as error:
        raise web.HTTPRequestTimeout(text="the request was not complete in time\n") from error
    except msgspec.MsgspecError as error:
        raise web.HTTPBadRequest(text=f"{error}\n") from error


def caller_of(request: web.Request) -> certificates.Identity:
    """Return the caller's certificate, which TLS has verified."""
    peer: ssl.SSLObject | None = None
    if request.transport is not None:
        peer = request.transport.get_extra_info("ssl_object")
    der = peer.getpeercert(binary_form=True) if peer is not None else None
    if der is None:
        raise web.HTTPForbidden(text="a certificate is required\n")
    try:
        return certificates.identity_of(der)
    except OperatorError as error:
        raise web.HTTPForbidden(text=f"{error.notice}\n") from error
