"""An agent in this process with real connections and certificates; tests control its host."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from aiohttp import web

from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.hosts import ClusterHost
from indico_zodbrepl.cluster.installation import Installation, home_from_environment
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.host import authority, certificates
from indico_zodbrepl.host.certificates import Role
from indico_zodbrepl.host.fencing import Fenced
from indico_zodbrepl.host.local_logs import LocalLogs
from indico_zodbrepl.host.remote import client
from indico_zodbrepl.host.remote.actions import open_in
from indico_zodbrepl.host.remote.administration import Administration
from indico_zodbrepl.host.remote.client import AgentClient
from indico_zodbrepl.host.remote.credentials import Credentials
from indico_zodbrepl.host.remote.data_routes import DataRoutes
from indico_zodbrepl.host.remote.downloads import Downloads
from indico_zodbrepl.host.remote.listener import Listener
from indico_zodbrepl.host.remote.server import Agent, Served, caller_of

PATIENCE = 60.0
ADDRESSES = {"one": "127.77.0.11", "two": "127.77.0.12"}
TEXT = """\
name three
backend zrs
var-directory {folder}/{name}/var
encryption none
<host one>
  address 10.77.0.11
  agent-port {port}
</host>
<host two>
  address 10.77.0.12
  agent-port {port}
</host>
<node a>
  host one
  storage-port 8111
  replication-port 8112
  data-directory {folder}/{name}/a
  role primary
</node>
<node b>
  host two
  storage-port 8111
  replication-port 8112
  data-directory {folder}/{name}/b
  role secondary
  upstream a
</node>
<indico i1>
  host one
  port 8121
</indico>
<admin>
  host one
  port 8131
</admin>
"""


class ControlledHost:
    """Calls that a test lets go on; they note that they began and ended."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.began: list[str] = []
        self.ended: list[str] = []
        self.go_on = threading.Event()

    def start_node(self, name: str, *, progress: Callable[[str], None]) -> bool:
        return self._wait(f"start {name}", progress)

    def fence(self, name: str) -> Fenced:
        self.began.append(f"fence {name}")
        return Fenced(killed=(), remark="", was_wanted=False)

    def promote(self, name: str, *, epoch: int, progress: Callable[[str], None]) -> Any:
        self._wait(f"promote {name} {epoch}", progress)
        raise RuntimeError("promotions fail here")

    def logs(self) -> LocalLogs:
        return LocalLogs(self.cluster)

    def has_data(self, name: str) -> bool:
        return name == "a"

    def free_bytes(self, name: str) -> int:
        self._wait(f"free {name}", lambda _text: None)
        return 1

    def _wait(self, what: str, progress: Callable[[str], None]) -> bool:
        self.began.append(what)
        progress(f"{what} goes on")
        assert self.go_on.wait(PATIENCE)
        self.ended.append(what)
        return True


@dataclasses.dataclass
class RunningAgent:
    """The agent of host one, and the cluster as both hosts know it."""

    cluster: Cluster
    caller: Cluster
    host: ControlledHost
    problem: list[Exception]
    runner: web.AppRunner
    log: list[str]
    renew: Callable[[], None]

    def client(self, caller: Cluster | None = None) -> AgentClient:
        """Return a client of the agent, as host two."""
        used = caller or self.caller
        return AgentClient(used, used.host("one"))

    def connections(self) -> int:
        assert self.runner.server
        return len(self.runner.server.connections)


def cluster_of(folder: Path, name: str, port: int) -> Cluster:
    """Return the cluster as a host knows it, with addresses of this machine."""
    (folder / name).mkdir(exist_ok=True)
    path = folder / name / "cluster.conf"
    path.write_text(TEXT.format(folder=folder, name=name, port=port))
    cluster = load(path, Path("/opt/zodbrepl"))
    hosts = tuple(ClusterHost(each, address, port) for each, address in ADDRESSES.items())
    return dataclasses.replace(cluster, hosts=hosts, here=name)


def make_certificates(one: Cluster, two: Cluster) -> None:
    """Make the authority on host one, and a certificate for each host."""
    first, second = Layout(one).tls, Layout(two).tls
    authority.create(first, one.name)
    certificates.install(first, authority.issue(first, "one", Role.HOST, ADDRESSES["one"]))
    give(first, second, "two", Role.HOST, ADDRESSES["two"])


def give(
    first: Path, folder: Path, name: str, role: Role = Role.HOST, address: str | None = None
) -> None:
    """Put a certificate of the first host's authority into a folder."""
    text = certificates.authorities_file(first).read_text()
    certificates.install_authorities(folder, text)
    certificates.install(folder, authority.issue(first, name, role, address))


def forget_connections() -> None:
    """Close what clients in this process have kept."""
    for _, pool in client._pools.values():
        pool.clear()
    client._pools.clear()
    client.AWAY.forget()


@contextlib.contextmanager
def running(folder: Path, port: int) -> Iterator[RunningAgent]:
    """Run the agent of host one in a thread."""
    one, two = cluster_of(folder, "one", port), cluster_of(folder, "two", port)
    # The digests of the files have to be the same, though their folders differ.
    two.source.write_bytes(one.source.read_bytes())
    make_certificates(one, two)
    host, problem, log = ControlledHost(one), list[Exception](), list[str]()
    ready, ended = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []
    runners: list[web.AppRunner] = []
    renewals: list[Credentials] = []
    actions = open_in(Layout(one).actions)

    def loaded() -> Cluster:
        if problem:
            raise problem[0]
        return one

    def renew() -> None:
        asyncio.run_coroutine_threadsafe(renewals[0].renew(), loops[0]).result(PATIENCE)

    async def serve() -> None:
        loops.append(asyncio.get_running_loop())
        listener = Listener()
        credentials = Credentials(lambda: one, listener, log.append)
        renewals.append(credentials)
        served = Served(
            loaded,
            lambda: one,
            lambda _cluster: host,  # type: ignore[arg-type, return-value]
            lambda cluster: Administration(cluster, None, renew, ended.set),  # type: ignore[arg-type]
            lambda: credentials.held,
        )
        data = DataRoutes(
            loaded,
            Installation(home_from_environment()),
            caller_of,
            log.append,
        )
        app = Agent(served, actions, data).application(listener.middleware)
        Downloads(loaded, caller_of, log.append).add_to(app)
        runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0
        )
        await runner.setup()
        runners.append(runner)
        await listener.open(runner, one.host("one").agent_address, credentials.context)
        ready.set()
        await ended.wait()
        listener.close()
        assert runner.server
        left = [each.transport for each in runner.server.connections]
        await runner.cleanup()
        for transport in left:
            if transport is not None:
                transport.abort()
        await asyncio.sleep(0.1)  # what is being closed

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(PATIENCE)
        yield RunningAgent(one, two, host, problem, runners[0], log, renew)
    finally:
        host.go_on.set()
        forget_connections()
        loops[0].call_soon_threadsafe(ended.set)
        thread.join(PATIENCE)
        actions.close()
