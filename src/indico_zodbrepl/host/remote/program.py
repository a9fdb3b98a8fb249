"""``zodbrepl agent``: serve this host until a signal ends it, and start it in the background."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path

from aiohttp import web

from indico_zodbrepl.cluster import Cluster, ClusterHost, load
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import certificates, tls
from indico_zodbrepl.host.daemon import environment
from indico_zodbrepl.host.interface import HostAwayError
from indico_zodbrepl.host.local import LocalHost
from indico_zodbrepl.host.locking import note_pid, take
from indico_zodbrepl.host.remote.client import AgentClient
from indico_zodbrepl.host.remote.duties import Duties
from indico_zodbrepl.host.remote.server import Agent
from indico_zodbrepl.probing.waiting import wait_until

READY_SECONDS = 20.0
RELOAD_SECONDS = 5.0


class ClusterFile:
    """The cluster as its file says now; read again when the file has changed.

    Any thread may call ``load``.  A file that became invalid raises, and the last valid one is
    kept for nobody: a command that works with another idea of the cluster than its caller's could
    change the wrong node.
    """

    def __init__(self, path: Path, home: Path) -> None:
        self._path = path
        self._home = home
        self._lock = threading.Lock()
        self._known: tuple[tuple[int, int], Cluster] | None = None

    def load(self) -> Cluster:
        """Return the cluster.  Raises OperatorError as ``cluster.load``."""
        with self._lock:
            try:
                status = self._path.stat()
            except OSError:
                return load(self._path, self._home)  # which says what is wrong
            stamp = status.st_mtime_ns, status.st_ino
            if self._known is None or self._known[0] != stamp:
                self._known = stamp, load(self._path, self._home)
            return self._known[1]


def own_host(cluster: Cluster) -> ClusterHost:
    """Return the host section of this machine.  Raises OperatorError (exit 2, 8)."""
    if not cluster.hosts:
        raise OperatorError(
            f"cluster {cluster.name} has no hosts",
            f"{cluster.source} has no <host> section: all its programs run on this host",
            exit_code=ExitCode.BAD_CONFIG,
        )
    if cluster.here is None:
        addresses = ", ".join(f"{host.name} {host.address}" for host in cluster.hosts)
        raise OperatorError(
            f"this machine is no host of cluster {cluster.name}",
            f"no interface of this machine has the address of a <host>: {addresses}",
            exit_code=ExitCode.REFUSED,
        )
    return cluster.host(cluster.here)


def serve(path: Path, installation: Installation) -> None:
    """Serve this host in the foreground until SIGTERM or SIGINT.

    Args:
        path: the cluster file.

    Raises OperatorError: exit 2 or 8, this is no host of the cluster, or another agent runs, or
    the certificates can't be used; exit 5, the port is taken.
    """
    file = ClusterFile(path, installation.home)
    cluster = file.load()
    host = own_host(cluster)
    layout = Layout(cluster)
    layout.run.mkdir(mode=0o700, parents=True, exist_ok=True)
    context = tls.server_context(layout.tls)
    with open(layout.agent_lock, "a+", encoding="ascii") as lock:
        if not take(lock.fileno()):
            raise OperatorError(
                f"an agent of host {host.name} runs already",
                f"{layout.agent_lock} is held",
                exit_code=ExitCode.REFUSED,
            )
        note_pid(lock.fileno())
        agent = Agent(file.load, lambda each: LocalHost(each, installation), log)
        duties = Duties(file.load, installation, log)
        asyncio.run(_serve(agent, duties, host, layout, context))


async def _serve(
    agent: Agent, duties: Duties, host: ClusterHost, layout: Layout, context: ssl.SSLContext
) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    runner = web.AppRunner(
        agent.application(), access_log=None, handle_signals=False, handler_cancellation=True
    )
    await runner.setup()
    site = web.TCPSite(runner, host.address, host.agent_port, ssl_context=context)
    try:
        await site.start()
    except OSError as error:
        raise OperatorError(
            f"the agent of host {host.name} can't listen",
            f"{host.agent_address}: {error.strerror}",
            "end the program that has the port, or change agent-port on every host",
            ExitCode.PORT_TAKEN,
        ) from error
    log(f"agent of host {host.name} listens on {host.agent_address}")
    duties.start()
    try:
        await _attend(ended, layout, context)
    finally:
        duties.stop()
        await runner.cleanup()
    log("agent stopped")


async def _attend(ended: asyncio.Event, layout: Layout, context: ssl.SSLContext) -> None:
    """Wait for the end; use renewed certificates for new connections meanwhile."""
    made = _changed(layout.tls)
    while not ended.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), RELOAD_SECONDS)
        now = _changed(layout.tls)
        if now == made:
            continue
        try:
            tls.reload(context, layout.tls)
        except OperatorError as error:
            log(f"the renewed certificates can't be used: {error.notice}: {error.detail}")
        else:
            log("certificates were read again")
        made = now


def _changed(folder: Path) -> tuple[int, ...]:
    files = (certificates.authorities_file(folder), certificates.own_file(folder))
    return tuple(each.stat().st_mtime_ns if each.exists() else 0 for each in files)


def ensure(cluster: Cluster, installation: Installation) -> bool:
    """Start this host's agent in the background unless it runs; return True if it was started.

    Raises OperatorError: exit 7, it does not answer; otherwise as ``serve``.
    """
    host, layout = own_host(cluster), Layout(cluster)
    client = AgentClient(cluster, host)
    if _answers(client):
        return False
    layout.log.mkdir(mode=0o700, parents=True, exist_ok=True)
    command = [str(installation.zodbrepl), "-c", str(cluster.source), "agent"]
    with open(layout.program_log("agent"), "ab") as output:
        process = subprocess.Popen(
            command,
            cwd=layout.var,
            env=environment(installation),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = time.monotonic() + READY_SECONDS
    wait_until(lambda: _answers(client) or process.poll() is not None, deadline)
    if _answers(client):
        return True
    raise OperatorError(
        f"the agent of host {host.name} did not start",
        _tail(layout.program_log("agent")),
        f"see {layout.program_log('agent')}; is supervised by: "
        f"{Commands.here(cluster).zodbrepl('install-service')}",
        ExitCode.TIMED_OUT,
    )


def stop(cluster: Cluster) -> bool:
    """Stop this host's agent; return False if none runs."""
    path = Layout(cluster).agent_lock
    try:
        lock = open(path, "r+", encoding="ascii")  # noqa: SIM115 - closed by the block below
    except FileNotFoundError:
        return False
    with lock:
        if take(lock.fileno()):
            return False
        pid = int(lock.read().strip() or 0)
        if not pid:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        return bool(wait_until(lambda: take(lock.fileno()), time.monotonic() + READY_SECONDS))


def _answers(client: AgentClient) -> bool:
    try:
        client.identity()
    except HostAwayError:
        return False
    return True


def _tail(path: Path) -> str:
    lines = path.read_text("utf-8", "replace").splitlines()
    return "\n".join(lines[-5:])


def log(text: str) -> None:
    """Write a line to the agent's log, with the time in UTC."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    print(f"{stamp} {text}", flush=True, file=sys.stdout)
