"""A cluster of three hosts in a lab: a node on each, and an agent."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from patience import wait_until

import indico_zodbrepl
from indico_zodbrepl.cluster import load
from indico_zodbrepl.demo.lab import Lab
from indico_zodbrepl.demo.lab.namespaces import Program
from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.host import authority, certificates, secrets
from indico_zodbrepl.host.certificates import Role

HOME = Path(os.environ.get("ZODBREPL_HOME") or Path(indico_zodbrepl.__file__).resolve().parents[2])
PATIENCE = 90.0
WHOLE_SECONDS = 300.0
NODES = {"a": "h1", "b": "h2", "c": "h3"}
"""The hosts of the nodes; the first node is the primary."""
Answer = subprocess.CompletedProcess[str]


class Three:
    """Three hosts with nodes; ``agents`` starts what serves them.

    The agents' calls are encrypted in any case.

    Args:
        encryption: of all other connections between the hosts: none or tls.
        nodes: their hosts; the first is the primary.
        backend: of the cluster file.
        section: further lines of the cluster file, as the backend's section.
    """

    def __init__(
        self,
        lab: Lab,
        encryption: str = "none",
        nodes: Mapping[str, str] = NODES,
        *,
        backend: str = "zrs",
        section: str = "",
    ) -> None:
        self.lab = lab
        self.encryption = encryption
        self.backend = backend
        self._section = section
        self._nodes = nodes
        self.path = lab.srv / "cluster.conf"
        text = self._text()
        tls = "var/tls"
        first = lab["h1"].folder / tls
        authority.create(first, "three")
        for host in lab:
            folder = host.folder / tls
            host.folder.joinpath("cluster.conf").write_text(text)
            trusted = certificates.authorities_file(first).read_text()
            certificates.install_authorities(folder, trusted)
            certificates.install(folder, authority.issue(first, host.name, Role.HOST, host.address))
        self._share_secrets()
        self._agents: dict[str, Program] = {}

    def _text(self) -> str:
        lines = [
            "name three",
            f"backend {self.backend}",
            f"encryption {self.encryption}",
            f"var-directory {self.lab.srv}/var",
            self._section,
        ]
        for host in self.lab:
            lines += [f"<host {host.name}>", f"  address {host.address}", "</host>"]
        first = next(iter(self._nodes))
        for number, (node, name) in enumerate(self._nodes.items()):
            role = ["role primary"] if node == first else ["role secondary", f"upstream {first}"]
            lines += [
                f"<node {node}>",
                f"host {name}",
                f"storage-port {8201 + 2 * number}",
                *([f"replication-port {8202 + 2 * number}"] if self.backend == "zrs" else []),
                f"data-directory {self.lab.srv}/{node}",
                *role,
                "</node>",
            ]
        lines += ["<admin>", "host h3", "port 8131", "</admin>", ""]
        return "\n".join(lines)

    def _share_secrets(self) -> None:
        """Give all hosts the same secrets, as bundles do."""
        made: dict[str, str] = {}
        for host in self.lab:
            cluster = load(host.folder / "cluster.conf", HOME)
            cluster = dataclasses.replace(cluster, var_directory=host.folder / "var")
            if not made:
                secrets.make_shared(cluster)
                made = secrets.shared(cluster)
            secrets.install_shared(cluster, made)

    def agents(self, chosen: Sequence[str] = ("h1", "h2", "h3")) -> None:
        """Start the agents of hosts, and wait until they answer."""
        for name in chosen:
            with self._log(name).open("wb") as log:
                self._agents[name] = self.popen(name, "agent", output=log.fileno())
        for name in chosen:
            assert wait_until(partial(self._listens, name), later()), self._log(name).read_text()

    def host_of(self, node: str) -> str:
        return self._nodes[node]

    def status(self, host: str) -> dict[str, Any]:
        """Return the status as a host sees it."""
        found: dict[str, Any] = json.loads(
            self.zodbrepl(host, "status", "--json", code=None).stdout
        )
        return found

    def see_whole(self) -> None:
        """Wait until the cluster is healthy and no operation is open."""
        assert self.is_whole_soon(), self.zodbrepl("h2", "status", code=None).stdout

    def is_whole_soon(self) -> bool:
        """Wait for a healthy cluster without open operations; return False without one."""
        return wait_until(self.is_whole, time.monotonic() + WHOLE_SECONDS, 2.0)

    def is_whole(self) -> bool:
        done = self.zodbrepl("h2", "status", "--json", code=None)
        return done.returncode == ExitCode.OK and not json.loads(done.stdout)["operations"]

    def primary(self, host: str) -> str:
        """Return the one node that takes writes, as a host sees it; wait until there is one."""
        found: list[str] = []

        def is_known() -> bool:
            found[:] = [self.status(host)["primary"] or ""]
            return bool(found[0])

        assert wait_until(is_known, later()), self.zodbrepl(host, "status", code=None).stdout
        return found[0]

    def lead(self, node: str) -> None:
        """Have a node be the primary: by a switchover if another one is."""
        if self.primary("h3") != node:
            self.zodbrepl("h3", "switchover", node, "--reason", "a test needs it")

    def kill_agent(self, name: str) -> None:
        self._agents[name].kill()
        self._agents[name].wait()

    def repair(self) -> None:
        """Undo what a test did: all hosts, agents and nodes run, and no operation is open."""
        self.lab.network.heal()
        for host in self.lab:
            host.start()
        self.agents([name for name, agent in self._agents.items() if agent.poll() is not None])
        self.zodbrepl("h1", "resume", "--abandon", "--reason", "the test has ended", code=None)
        self.zodbrepl("h1", "up")

    def _log(self, name: str) -> Path:
        return self.lab[name].folder / "agent.log"

    def _listens(self, name: str) -> bool:
        return b" listens on " in self._log(name).read_bytes()

    def popen(self, host: str, *arguments: str, output: int = subprocess.DEVNULL) -> Program:
        """Start a command on a host."""
        command = self._command(*arguments)
        return self.lab[host].popen(*command, stdout=output, stderr=subprocess.STDOUT)

    def zodbrepl(self, host: str, *arguments: str, code: int | None = 0) -> Answer:
        """Run a command on a host; it has to end with that exit code."""
        command = self._command(*arguments)
        answer = self.lab[host].run(*command, check=False)
        said = f"{host}: {arguments}: {answer.returncode}\n{answer.stdout}{answer.stderr}"
        assert code in (None, answer.returncode), said
        return answer

    def _command(self, *arguments: str) -> list[str]:
        return [str(HOME / "bin/zodbrepl"), "-c", str(self.path), *arguments]

    def operation(self, host: str) -> dict[str, Any]:
        """Return the newest file of an operation on a host; nothing if there is none."""
        paths = sorted((self.lab[host].folder / "var/operations").glob("*.json"))
        found: dict[str, Any] = json.loads(paths[-1].read_text()) if paths else {}
        return found

    def outcomes(self, host: str) -> dict[str, str]:
        """Return the outcome of each operation by the journal of a host."""
        path = self.lab[host].folder / "var/journal.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        found: dict[str, tuple[int, str]] = {}
        for line in map(json.loads, lines):
            found[line["id"]] = max(
                found.get(line["id"], (0, "")), (line["version"], line["outcome"])
            )
        return {name: outcome for name, (_version, outcome) in found.items()}


def later() -> float:
    return time.monotonic() + PATIENCE
