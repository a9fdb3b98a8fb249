"""``zodbrepl agent``: serve this host until a signal ends it, and start it in the background."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from aiohttp import web

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.lookup import own_host
from indico_zodbrepl.cluster.reloading import ClusterFile
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.daemon import environment
from indico_zodbrepl.host.foreground import notify
from indico_zodbrepl.host.interface import HostAwayError
from indico_zodbrepl.host.local import LocalHost
from indico_zodbrepl.host.locking import note_pid, take
from indico_zodbrepl.host.remote.actions import Actions, open_in
from indico_zodbrepl.host.remote.administration import Administration
from indico_zodbrepl.host.remote.client import AgentClient
from indico_zodbrepl.host.remote.credentials import Credentials
from indico_zodbrepl.host.remote.data_routes import DataRoutes
from indico_zodbrepl.host.remote.downloads import Downloads
from indico_zodbrepl.host.remote.duties import Duties
from indico_zodbrepl.host.remote.leader_announcer import LeaderAnnouncer
from indico_zodbrepl.host.remote.listener import Listener
from indico_zodbrepl.host.remote.server import Agent, Served, caller_of
from indico_zodbrepl.probing import times
from indico_zodbrepl.probing.waiting import wait_until

READY_SECONDS = 20.0
STOP_SECONDS = 0.5
RELOAD_SECONDS = 5.0
"""Between two looks at the certificates."""
SHUTDOWN_SECONDS = 5.0
"""For the answers of running calls; the calls themselves are finished."""


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
    with contextlib.ExitStack() as held:
        lock = held.enter_context(open(layout.agent_lock, "a+", encoding="ascii"))
        if not take(lock.fileno()):
            raise OperatorError(
                f"an agent of host {host.name} runs already",
                f"{layout.agent_lock} is held",
                exit_code=ExitCode.REFUSED,
            )
        note_pid(lock.fileno())
        os.chdir(layout.var)  # by which it is recognised as a program of this cluster
        actions = open_in(layout.actions)
        held.callback(actions.close)
        asyncio.run(_serve(file, installation, actions))


async def _serve(file: ClusterFile, installation: Installation, actions: Actions) -> None:
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    host, listener = own_host(file.last()), Listener()
    credentials = Credentials(file.last, listener, log)

    def renew() -> None:
        """Use the present certificates; called in the thread of a call."""
        done = asyncio.run_coroutine_threadsafe(credentials.renew(), loop)
        done.result(READY_SECONDS)

    def stop() -> None:
        """Stop after the answer to a call; called in its thread."""
        loop.call_soon_threadsafe(loop.call_later, STOP_SECONDS, ended.set)

    agent = Agent(
        Served(
            file.load,
            file.last,
            lambda cluster: LocalHost(cluster, installation),
            lambda cluster: Administration(cluster, installation, renew, stop),
            lambda: credentials.held,
        ),
        actions,
        DataRoutes(file.load, installation, caller_of, log),
    )
    duties = Duties(file.load, installation, log)
    announcer = LeaderAnnouncer(file.load, log)
    app = agent.application(listener.middleware)
    Downloads(file.load, caller_of, log).add_to(app)
    runner = web.AppRunner(
        app,
        access_log=None,
        handle_signals=False,
        handler_cancellation=True,
        shutdown_timeout=SHUTDOWN_SECONDS,
    )
    await runner.setup()
    try:
        await listener.open(runner, host.agent_address, credentials.context)
    except OSError as error:
        raise OperatorError(
            f"the agent of host {host.name} can't listen",
            f"{host.agent_address}: {error.strerror}",
            "end the program that has the port, or change agent-port on every host",
            ExitCode.PORT_TAKEN,
        ) from error
    log(f"agent of host {host.name} listens on {host.agent_address}")
    notify(f"READY=1\nSTATUS=listens on {host.agent_address}")
    duties.start()
    announcer.start()
    try:
        while not ended.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), RELOAD_SECONDS)
            await credentials.renew_if_changed()
    finally:
        notify("STOPPING=1")
        listener.close()
        await loop.run_in_executor(None, announcer.stop)
        await loop.run_in_executor(None, duties.stop)
        await runner.cleanup()
    log("agent stopped")


def launch(cluster: Cluster, installation: Installation) -> subprocess.Popen[bytes]:
    """Start this host's agent in the background; it may end at once if it can't run."""
    layout = Layout(cluster)
    layout.log.mkdir(mode=0o700, parents=True, exist_ok=True)
    command = [str(installation.zodbrepl), "-c", str(cluster.source), "agent"]
    with open(layout.program_log("agent"), "ab") as output:
        return subprocess.Popen(
            command,
            cwd=layout.var,
            env=environment(installation),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def ensure(cluster: Cluster, installation: Installation) -> bool:
    """Start this host's agent in the background unless it runs; return True if it was started.

    Raises OperatorError: exit 7, it does not answer; otherwise as ``serve``.
    """
    if answers(cluster):
        return False
    wait_for(cluster, launch(cluster, installation))
    return True


def wait_for(cluster: Cluster, process: subprocess.Popen[bytes]) -> None:
    """Wait until an agent that was launched answers.  Raises OperatorError (exit 7)."""
    deadline = time.monotonic() + READY_SECONDS
    wait_until(lambda: answers(cluster) or process.poll() is not None, deadline)
    if not answers(cluster):
        raise not_started(cluster)


def not_started(cluster: Cluster) -> OperatorError:
    """Return the error about an agent that does not answer or has ended."""
    log_file = Layout(cluster).program_log("agent")
    return OperatorError(
        f"the agent of host {cluster.here} did not start",
        _tail(log_file),
        f"see {log_file}; as a service it is started again: "
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


def answers(cluster: Cluster) -> bool:
    """Return True if this host's agent answers.  Raises OperatorError if it refuses."""
    try:
        AgentClient(cluster, own_host(cluster)).identity()
    except HostAwayError:
        return False
    return True


def _tail(path: Path) -> str:
    lines = path.read_text("utf-8", "replace").splitlines()
    return "\n".join(lines[-5:])


def log(text: str) -> None:
    """Write a line to the agent's log, with the time in UTC."""
    print(f"{times.now()} {text}", flush=True, file=sys.stdout)
