"""Two hosts on this machine: node a here, node b behind a real agent with mutual TLS."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from aiohttp import web

from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.installation import Installation, home_from_environment
from indico_zodbrepl.cluster.layout import Layout, data_fs
from indico_zodbrepl.host import authority, certificates, tls
from indico_zodbrepl.host.certificates import Role
from indico_zodbrepl.host.local import LocalHost
from indico_zodbrepl.host.remote.actions import open_in
from indico_zodbrepl.host.remote.data_routes import DataRoutes
from indico_zodbrepl.host.remote.server import Agent, Served, caller_of

CONF = """\
name two-hosts
backend zrs
var-directory {folder}/var

<host one>
  address 10.77.0.11
</host>
<host two>
  address 10.77.0.12
</host>
<node a>
  host one
  storage-port 8111
  replication-port 8112
  data-directory {folder}/a
  role secondary
  upstream b
</node>
<node b>
  host two
  storage-port 8111
  replication-port 8112
  data-directory {folder}/b
  role primary
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
GROW = Path(__file__).parents[2] / "scenarios" / "python27" / "grow.py"
ADDRESSES = {"one": "127.0.0.1", "two": "127.0.0.2"}
ADDRESS = ADDRESSES["two"]


@functools.cache
def loop() -> asyncio.AbstractEventLoop:
    """Return the loop of all agents, which runs on: connections leave the end of TLS to it."""
    made = asyncio.new_event_loop()
    threading.Thread(target=made.run_forever, daemon=True).start()
    return made


class TwoHosts:
    """The cluster as host one sees it, and the agent of host two.

    Attributes:
        cluster: as of host one.
        said: the lines of the agent's log.

    Args:
        port: of an agent that is started later, by ``serve``; 0 to start one in this process.
    """

    def __init__(self, folder: Path, port: int = 0) -> None:
        (folder / "cluster.conf").write_text(CONF.format(folder=folder))
        self.installation = Installation(home_from_environment())
        self.said: list[str] = []
        there = as_of(folder, "two")
        self._certify(as_of(folder, "one"), there)
        self._runner: web.AppRunner | None = None
        if not port:
            starting = started(there, self.installation, self.said.append)
            self._runner = asyncio.run_coroutine_threadsafe(starting, loop()).result()
            port = self._runner.addresses[0][1]
        self.cluster = as_of(folder, "one", port)
        for node in self.cluster.nodes:
            node.data_directory.mkdir()

    def _certify(self, here: Cluster, there: Cluster) -> None:
        one, two = Layout(here).tls, Layout(there).tls
        authority.create(one, here.name)
        certificates.install_authorities(two, certificates.authorities_file(one).read_text())
        certificates.install(one, authority.issue(one, "one", Role.HOST, ADDRESSES["one"]))
        certificates.install(one, authority.issue(one, "shop", Role.MONITOR))
        certificates.install(two, authority.issue(one, "two", Role.HOST, ADDRESS))

    def stop(self) -> None:
        """Stop the agent."""
        if self._runner is not None:
            asyncio.run_coroutine_threadsafe(self._runner.cleanup(), loop()).result()
            self._runner = None

    def grow(self, node: str, what: str, number: int) -> str:
        """Append to a node's data file, see grow.py; return its last transaction."""
        return grow(data_fs(self.cluster.node(node)), what, number)

    def run27(self, program: str, node: str, *arguments: object) -> str:
        """Run a text by Python 2.7 with the path of a node's data file."""
        return python27("-c", program, data_fs(self.cluster.node(node)), *arguments)


def as_of(folder: Path, here: str, port: int = 1) -> Cluster:
    """Return the cluster as one of its hosts sees it; the agents have one port."""
    var = folder / ("var" if here == "one" else here)
    loaded = load(folder / "cluster.conf", folder)
    hosts = tuple(
        dataclasses.replace(host, address=ADDRESSES[host.name], agent_port=port)
        for host in loaded.hosts
    )
    return dataclasses.replace(loaded, here=here, var_directory=var, hosts=hosts)


def serve(folder: Path, port: int) -> None:
    """Run the agent of host two until the process is killed."""

    async def run() -> None:
        await started(as_of(folder, "two"), Installation(home_from_environment()), print, port)
        await asyncio.Event().wait()

    asyncio.run(run())


async def started(
    cluster: Cluster, installation: Installation, log: Callable[[str], None], port: int = 0
) -> web.AppRunner:
    """Start the agent of a cluster's host on a port of ADDRESS, by default a free one."""
    served = Served(
        lambda: cluster,
        lambda: cluster,
        lambda each: LocalHost(each, installation),
        lambda _cluster: None,  # type: ignore[arg-type, return-value]  # not asked here
        lambda: None,  # type: ignore[arg-type, return-value]
    )
    data = DataRoutes(lambda: cluster, installation, caller_of, log)
    actions = open_in(Layout(cluster).actions)
    application = Agent(served, actions, data).application()

    async def close(_application: web.Application) -> None:
        actions.close()

    application.on_cleanup.append(close)
    runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    context = tls.server_context(Layout(cluster).tls)
    await web.TCPSite(runner, ADDRESS, port, ssl_context=context).start()
    return runner


def grow(path: Path, what: str, number: int) -> str:
    """Append to a data file, see grow.py; return its last transaction."""
    return python27(GROW, what, path, number)


def python27(*arguments: object) -> str:
    """Run Python 2.7; return what it prints."""
    done = subprocess.run(
        [Installation(home_from_environment()).python27, *map(str, arguments)],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


@contextlib.contextmanager
def two_hosts(folder: Path) -> Iterator[TwoHosts]:
    hosts = TwoHosts(folder)
    try:
        yield hosts
    finally:
        hosts.stop()
