"""Three hosts that elect their leader: a cluster of etcd, an agent and the automation on each."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import Any

from etcdctl import etcdctl
from patience import wait_until
from three import Three, later

from indico_zodbrepl.demo.lab import Lab
from indico_zodbrepl.etcd.keys import ROOT

CLIENT_PORT, PEER_PORT = 2379, 2380
LEASE = 2


class Elected(Three):
    """Three hosts whose leader is elected."""

    def __init__(self, lab: Lab, *, more: str = "") -> None:
        section = "\n".join(
            [
                "automatic true",
                f"lease {LEASE}",
                more,
                "<etcd>",
                f"client-port {CLIENT_PORT}",
                f"peer-port {PEER_PORT}",
                "</etcd>",
            ]
        )
        super().__init__(lab, section=section)

    def start(self) -> None:
        """Start everything, and wait until the leader takes commits."""
        self.agents()
        self.zodbrepl("h1", "up")

    def restart_with(self, more: str) -> None:
        """Stop everything, and start it with more lines in the cluster file."""
        self.zodbrepl("h1", "down")
        for host in self.lab:
            path = host.folder / "cluster.conf"
            path.write_text(path.read_text().replace("automatic true", f"automatic true\n{more}"))
        self.zodbrepl("h1", "up")

    def log(self, host: str) -> str:
        """Return what the automation of a host has written."""
        path = self.lab[host].folder / f"var/log/automation-{host}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def logs(self) -> str:
        """Return the logs of all hosts, for failures."""
        return "\n".join(f"--- {host.name}\n{self.log(host.name)[-3000:]}" for host in self.lab)

    def leader(self, host: str) -> dict[str, Any]:
        """Return the leader key, as the etcd of a host has it."""
        key = f"{ROOT}/three/leader"
        done = etcdctl(self.lab, host, CLIENT_PORT, "get", key, "--print-value-only", check=False)
        found: dict[str, Any] = json.loads(done.stdout) if done.stdout.strip() else {}
        return found

    def see_leader(self, host: str, other_than: str = "") -> dict[str, Any]:
        """Wait until a node leads; return the key."""
        found: list[dict[str, Any]] = []

        def leads() -> bool:
            found[:] = [self.leader(host)]
            key = found[0]
            return bool(key) and not key["released"] and key["node"] != other_than

        assert wait_until(leads, later()), self.logs()
        return found[0]

    def has_completed(self, host: str, epoch: int) -> bool:
        """Return True if the journal of a host has the automatic failover into an epoch."""
        path = self.lab[host].folder / "var/journal.jsonl"
        lines = map(json.loads, path.read_text().splitlines() if path.exists() else [])
        return any(
            line["plan"]["operation"] == "failover"
            and line["plan"]["epoch"] == epoch
            and line["actor"] == "automation"
            and line["outcome"] == "done"
            for line in lines
        )

    def restore(self) -> None:
        """Undo what a test did: every host runs, and every node follows the leader."""
        self.lab.network.heal()
        killed = [host.name for host in self.lab if not host.is_on]
        for host in self.lab:
            host.start()
            host.thaw()
        self.agents(killed)
        for name in killed:
            self.zodbrepl(name, "up", "--this-host", code=None)
        assert wait_until(self.is_whole, later()), (
            self.zodbrepl("h2", "status", code=None).stdout + self.logs()
        )

    def is_whole(self) -> bool:
        """Return True if the leader has a lease and all other nodes follow in its epoch."""
        key, status = self.leader("h2"), self.status("h2")
        return bool(key) and all(
            node["epoch"] == key["epoch"]
            and (node["connected"] or (node["name"] == key["node"] and node["held"] is None))
            for node in status["nodes"]
        )

    def pid_of(self, node: str) -> str:
        """Return the process of a node's server, as its host counts."""
        path = self.lab[self.host_of(node)].folder / node / "Data.fs.lock"
        return path.read_text().split()[0]

    def pid_of_automation(self, host: str) -> str:
        path = self.lab[host].folder / "var/run/automation.lock"
        assert wait_until(partial(_has_text, path), later()), path
        return path.read_text().strip()


def _has_text(path: Any) -> bool:
    return path.exists() and bool(path.read_text().strip())


def moment() -> float:
    return time.monotonic()
