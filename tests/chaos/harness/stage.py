"""Where a run takes place: three hosts with disks that can fail, services, clients."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from authors import Authors, section
from automatic import Automatic
from clocks import HostClock
from faulty_disk import Disk
from neo_hosts import MASTERS, STORAGES, NeoHosts
from sabotage import changed_files
from schedule import FIRST, PRIMARY, SECOND
from services import Services
from sessions import Clients
from traffic import now

from indico_zodbrepl.demo.lab import Lab

HOSTS = ("h1", "h2", "h3")


class Stage:
    """A cluster under faults; ``close`` ends it.

    Attributes:
        disks: by host.
        clocks: the wall clocks by host; ``put`` sets one so many seconds ahead, but not for etcd.
        off: the hosts that are switched off, and those that are frozen, on purpose: nothing is
            started there.

    Args:
        folder: an empty one.
        synchronous: how many secondaries acknowledge each commit.
        seconds: how long clients may work.
        sabotage: the name of a defect that all hosts have.
    """

    def __init__(
        self,
        folder: Path,
        *,
        backend: str,
        synchronous: int,
        seconds: float,
        seed: int,
        sabotage: str = "",
    ) -> None:
        self.folder = folder
        self.off: set[str] = set()
        with contextlib.ExitStack() as opened:
            hosts, clients, logs = (folder / name for name in ("lab", "clients", "logs"))
            for each in (hosts, clients, logs):
                each.mkdir()
            self.disks: dict[str, Disk] = {}
            for host in HOSTS:
                (hosts / host).mkdir()
                self.disks[host] = opened.enter_context(contextlib.closing(Disk(hosts / host)))
            self._changed: Mapping[Path, Path] = {}
            folders = {host: clients / f"clock-{host}" for host in HOSTS}
            self.clocks = {host: HostClock(each, each) for host, each in folders.items()}
            self.lab = opened.enter_context(Lab(hosts, len(HOSTS), (clients,)))
            archive = clients / "archive" if backend == "neo" else None
            if archive is not None:
                archive.mkdir()
            instances = section(HOSTS, archive)
            self.cluster: Automatic | NeoHosts = (
                NeoHosts(self.lab, section=instances)
                if backend == "neo"
                else Automatic(self.lab, synchronous=synchronous, backend=backend, more=instances)
            )
            self.services = Services(self.cluster, logs)
            for host in HOSTS:
                self._mount(host)
            for host in HOSTS:
                self.services.see(host, "agent")
            self.cluster.zodbrepl("h1", "up")
            for host in HOSTS:
                self.services.see(host)
            self.authors = Authors(self.cluster, HOSTS)
            self.authors.prepare("h1")
            self.cluster.see_whole()
            self.clients = Clients(self.cluster, clients, seconds, now(), seed)
            opened.callback(self.clients.stop)
            self.clients.prepare()
            self.authors.start()
            opened.callback(self.authors.close)
            if sabotage:
                self._spoil(changed_files(sabotage, clients))
            self._opened = opened.pop_all()

    def _spoil(self, changed: Mapping[Path, Path]) -> None:
        """Give all hosts changed source files, and start them anew."""
        self._changed = changed
        for host in HOSTS:
            self.switch_off(host)
        for host in HOSTS:
            self.switch_on(host)
            self.services.see(host)
        self.cluster.see_whole()

    def close(self) -> None:
        """End everything."""
        self._opened.close()

    def see(self) -> None:
        """Start what has to run and does not."""
        for host in HOSTS:
            if host not in self.off:
                self.services.see(host)
                self.clients.see(host)

    def switch_off(self, host: str) -> None:
        """Cut the power of a host; what it has written is kept."""
        self.off.add(host)
        self.lab[host].kill()
        self.services.forget(host)

    def _mount(self, host: str) -> None:
        """Give a host its own clock, and keep what a running system needs in memory, as /run is.

        A socket with two names would be two on the disk, as its inodes are not those of the folder.
        """
        run = self.lab.srv / "var/run"
        self.lab[host].run("mkdir", "-p", "-m", "700", run)
        for command in (
            ("mount", "-t", "tmpfs", "-o", "mode=700", "tmpfs", str(run)),
            *(("mount", "--bind", str(to), str(at)) for at, to in self._changed.items()),
        ):
            self.lab[host].namespaces.run(*command, privileged=True)
        self.clocks[host].mount(self.lab, host)

    def switch_on(self, host: str) -> None:
        self.lab[host].start()
        self._mount(host)
        self.off.discard(host)

    def thaw(self, host: str) -> None:
        """Let a frozen host continue; no effect if it was switched off meanwhile."""
        if self.lab[host].is_on:
            self.lab[host].thaw()
            self.off.discard(host)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that have data; and one of NEO's host that has none."""
        if isinstance(self.cluster, NeoHosts):
            return (*STORAGES, max(MASTERS))
        return self.cluster.nodes

    def node_on(self, host: str) -> str:
        """Return the node of a host."""
        return next(each for each in self.nodes if self.cluster.host_of(each) == host)

    def roles(self) -> dict[str, str]:
        """Return the hosts by role, as the newest of their files about the leader has it.

        Of NEO, the first host counts as the primary's: all of them elect a leader.
        """
        node = max(self._leaders(), default=(0, self.nodes[0]))[1]
        primary = self.cluster.host_of(node)
        first, second = sorted(set(HOSTS) - {primary})
        return {PRIMARY: primary, FIRST: first, SECOND: second}

    def views(self) -> dict[str, str]:
        """Return all objects as each node has them, as JSON; the cluster has to be whole."""
        if not isinstance(self.cluster, NeoHosts):
            return {node: self.clients.shown(node) for node in self.nodes}
        found = {}
        for node, host in STORAGES.items():
            (other,) = set(STORAGES.values()) - {host}
            self.switch_off(other)
            found[node] = self.clients.shown()
            self.switch_on(other)
            for each in HOSTS:
                self.services.see(each)
            self.cluster.see_whole()
        return found

    def _leaders(self) -> Iterator[tuple[int, str]]:
        for host in HOSTS:
            # Beside the disk, which may hang.
            path = self.disks[host].content / "var/leader.json"
            with contextlib.suppress(FileNotFoundError, ValueError):
                found = json.loads(path.read_text())
                yield found["epoch"], found["node"]
