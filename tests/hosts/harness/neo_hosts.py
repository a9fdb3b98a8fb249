"""A cluster of NEO on three hosts in a lab: a master and an admin node on each, two storages."""

from __future__ import annotations

from typing import Any

from counted import PYTHON27
from patience import wait_until
from three import Three, later

from indico_zodbrepl.demo.lab import Lab

MASTERS = {"m1": "h1", "m2": "h2", "m3": "h3"}
STORAGES = {"s1": "h1", "s2": "h2"}
ADMINS = {"w1": "h1", "w2": "h2", "w3": "h3"}
HUNG_AFTER = 6
# Runs on Python 2.7 as a client of the cluster: the numbers that it holds.
READER = """
import os, sys, ZODB, ZODB.config
db = ZODB.DB(ZODB.config.storageFromURL(sys.argv[1]))
os.write(1, ' '.join(map(str, db.open().root().get('numbers', {}))))
os._exit(0)
"""


class NeoHosts(Three):
    """Three hosts; h1 and h2 hold a copy of the data each, h3 has a vote only."""

    def __init__(self, lab: Lab, encryption: str = "tls", *, section: str = "") -> None:
        super().__init__(lab, encryption, section=section)

    def _text(self) -> str:
        lines = [
            "name three",
            "backend neo",
            f"encryption {self.encryption}",
            f"var-directory {self.lab.srv}/var",
            self._section,
            *("<neo>", "replicas 1", "partitions 4", f"hung-after {HUNG_AFTER}", "</neo>"),
        ]
        for host in self.lab:
            lines += [f"<host {host.name}>", f"  address {host.address}", "</host>"]
        ports = {"master": 8141, "storage": 8142, "admin": 8143}
        for role, nodes in (("master", MASTERS), ("storage", STORAGES), ("admin", ADMINS)):
            for node, name in nodes.items():
                lines += [
                    f"<node {node}>",
                    f"host {name}",
                    f"storage-port {ports[role]}",
                    f"data-directory {self.lab.srv}/{node}",
                    f"role {role}",
                    "</node>",
                ]
        lines += ["<admin>", "host h3", "port 8131", "</admin>", ""]
        return "\n".join(lines)

    def host_of(self, node: str) -> str:
        return (MASTERS | STORAGES | ADMINS)[node]

    def facts(self, status: dict[str, Any], node: str) -> dict[str, str]:
        """Return the facts of a node in a status."""
        found = next(each for each in status["nodes"] if each["name"] == node)
        return {each["label"]: each["value"] for each in found["facts"]}

    def numbers(self, host: str) -> set[int]:
        """Return the numbers in the database, as a client on a host reads them."""
        done = self.lab[host].run(PYTHON27, "-c", READER, self.lab.srv / "var/etc/zodb.conf")
        return set(map(int, done.stdout.split()))

    def healthy(self, host: str) -> dict[str, Any]:
        """Wait until a host sees a healthy cluster; return that status."""
        found: list[dict[str, Any]] = []

        def is_healthy() -> bool:
            found[:] = [self.status(host)]
            return bool(found[0]["state"] == "healthy")

        assert wait_until(is_healthy, later()), self.zodbrepl(host, "status", code=None).stdout
        return found[0]

    def warned(self, host: str, text: str) -> None:
        """Wait until the status on a host has a warning with a text."""

        def is_warned() -> bool:
            return any(text in " ".join(each.values()) for each in self.warnings(host))

        assert wait_until(is_warned, later()), self.zodbrepl(host, "status", code=None).stdout

    def warnings(self, host: str) -> list[dict[str, str]]:
        """Return the warnings of the status on a host, as texts by kind."""
        found = self.status(host)["warnings"]
        return [{key: str(value) for key, value in each.items()} for each in found]

    def let_lead(self, hosts: tuple[str, ...]) -> str:
        """Restart leading masters until one of these hosts has the leader; return its name.

        The restart is typed on another host.
        """
        leader = self.primary("h3")
        while self.host_of(leader) not in hosts:
            self.zodbrepl("h1", "restart", leader, "--reason", "another master shall lead")
            leader = self.primary("h3")
        return leader
