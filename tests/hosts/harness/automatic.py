"""A cluster of three hosts that replaces a lost primary without a person."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from counted import exported_numbers
from etcdctl import etcdctl
from patience import wait_until
from three import HOME, Three, later

from indico_zodbrepl.demo.lab import Lab
from indico_zodbrepl.etcd.keys import ROOT

CLIENT_PORT, PEER_PORT = 8141, 8142
HOSTS = frozenset({"h1", "h2", "h3"})
QUICKLY = ("--dial-timeout=2s", "--command-timeout=2s")
"""Of ``etcdctl``, for members that may not answer."""


class Automatic(Three):
    """Three hosts with a node and an etcd member each, and ``automatic true``.

    Args:
        lease: seconds; the cluster file's ``lease``.
        synchronous: secondaries that acknowledge each commit.
        backend, more: of the cluster file; ``more`` are further lines.
        round_trip_ms: what the network adds to each round trip between two hosts.
        loss_percent: how many frames each host loses, in each direction.
    """

    def __init__(
        self,
        lab: Lab,
        *,
        lease: float = 3.0,
        synchronous: int = 0,
        backend: str = "zrs",
        more: str = "",
        round_trip_ms: float = 0.0,
        loss_percent: int = 0,
    ) -> None:
        self._lease = lease
        self._round_trip_ms = round_trip_ms
        self._loss_percent = loss_percent
        lines = (
            "automatic true",
            f"lease {lease:g}",
            f"synchronous {synchronous}",
            "<etcd>",
            f"  client-port {CLIENT_PORT}",
            f"  peer-port {PEER_PORT}",
            "</etcd>",
            more,
        )
        super().__init__(lab, "tls", backend=backend, section="\n".join(lines))
        self._impair()

    def _impair(self) -> None:
        """Delay and lose frames at both of their hosts: a round trip is delayed four times."""
        for host in self.lab:
            if self._round_trip_ms:
                self.lab.network.slow(host.name, delay_ms=self._round_trip_ms / 4)
            if self._loss_percent:
                self.lab.network.lossy(host.name, self._loss_percent)

    def up(self) -> None:
        """Start all programs of all hosts, and wait until the cluster is whole."""
        self.agents()
        self.zodbrepl("h1", "up", code=None)
        self.see_whole()

    def heal(self) -> None:
        """Undo all faults: every host, agent and program runs."""
        self.lab.network.heal()
        self._impair()
        for host in self.lab:
            if host.is_on:
                host.thaw()
            host.start()
        stopped = [name for name, agent in self._agents.items() if agent.poll() is not None]
        self.agents(stopped)
        for name in stopped:
            self.zodbrepl(name, "up", code=None)

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(self._nodes)

    def port_of(self, host: str) -> str:
        """Return the end of the address of the node on a host, as its clients name it."""
        return f":{8201 + 2 * list(self._nodes.values()).index(host)}"

    def epoch(self) -> int:
        """Return the cluster's epoch, which each take-over raises by one."""
        return int(self.status("h2")["epoch"])

    def journal(self, host: str) -> list[dict[str, Any]]:
        """Return the operations of all hosts, as ``journal --json`` of a host shows them."""
        found: list[dict[str, Any]] = json.loads(self.zodbrepl(host, "journal", "--json").stdout)
        return found

    def see_without_primary(self, host: str) -> None:
        """Wait until no node has taken writes for twice the lease, as a host sees it."""

        def is_missing() -> bool:
            return self.status(host)["primary"] is None

        assert wait_until(is_missing, later(), 0.2)
        time.sleep(2 * self._lease)
        assert is_missing()

    def members(self) -> dict[str, dict[str, Any]]:
        """Return the state of each host's etcd member that answers, as etcdctl shows it."""
        found = {}
        for host in self.lab:
            done = etcdctl(
                self.lab,
                host.name,
                CLIENT_PORT,
                *QUICKLY,
                "endpoint",
                "status",
                "-w",
                "json",
                check=False,
            )
            if done.returncode == 0:
                found[host.name] = json.loads(done.stdout)[0]["Status"]
        return found

    def recorded(self, key: str) -> dict[str, Any]:
        """Return a record of the cluster in etcd."""
        done = etcdctl(self.lab, "h3", CLIENT_PORT, "get", "--prefix", f"{ROOT}/")
        lines = done.stdout.splitlines()
        (found,) = [value for name, value in itertools.pairwise(lines) if name.endswith(f"/{key}")]
        record: dict[str, Any] = json.loads(found)
        return record

    def move_etcd_leader(self, host: str) -> None:
        """Let the etcd member of a host lead."""
        members = self.members()
        leader = self.etcd_leader()
        if leader != host:
            member = members[host]["header"]["member_id"]
            etcdctl(self.lab, leader, CLIENT_PORT, "move-leader", f"{member:x}")

    def etcd_leader(self) -> str:
        """Return the host whose etcd member leads; wait until there is one."""
        found: list[str] = []

        def is_known() -> bool:
            found[:] = [
                name
                for name, status in self.members().items()
                if status["leader"] == status["header"]["member_id"]
            ]
            return len(found) == 1

        assert wait_until(is_known, later(), 0.2), found
        return found[0]

    def program_pids(self, host: str, name: str) -> list[str]:
        """Return the process IDs, as the host sees them, of a supervised program and its children.

        Args:
            name: such as ``node-a``, ``automation-h1`` or ``etcd``.
        """
        done = self.lab[host].run(
            *(HOME / "bin/supervisorctl", "-c", self.lab.srv / "var/etc/supervisord.conf"),
            *("pid", name),
            check=False,
        )
        pid = done.stdout.strip()
        if not pid.isdigit() or pid == "0":
            return []
        children = self.lab[host].run("pgrep", "--parent", pid, check=False).stdout.split()
        return [pid, *children]

    def signals(self, host: str, name: str, signal: str) -> Callable[[], None]:
        """Return what sends a signal to a supervised program and its children."""
        pids = self.program_pids(host, name)
        assert pids, f"{name} does not run on {host}"

        def send() -> None:
            # A child may end with its parent before the signal reaches it.
            self.lab[host].run("kill", f"-{signal}", *pids, check=False)

        return send

    def exported(self) -> set[int]:
        """Return the numbers in recovery exports."""
        return exported_numbers(self)

    def listens(self, host: str, port: int) -> bool:
        return f":{port} " in self.lab[host].run("ss", "-Hltn").stdout

    def wait_for_member(self, host: str) -> None:
        """Wait until the etcd member of a host listens."""
        assert wait_until(partial(self.listens, host, CLIENT_PORT), later())
