"""The hosts of a cluster file as a lab: their files, their start, their addresses outside."""

from __future__ import annotations

import errno
import os
import select
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType

from indico_zodbrepl.cluster import Cluster, ClusterHost
from indico_zodbrepl.cluster.files import write_atomically
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.demo.lab import Lab
from indico_zodbrepl.demo.lab.host import Host
from indico_zodbrepl.demo.lab.namespaces import Program
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import authority, certificates
from indico_zodbrepl.host.certificates import Role
from indico_zodbrepl.probing.waiting import wait_until

Say = Callable[[str], None]

SHOWN_OUTSIDE = ("indico", "admin", "watch")
"""The kinds of programs that a browser of this machine reaches."""
AGENT_SECONDS = 60.0
POLL_SECONDS = 0.1
LISTENS = b" listens on "
KEPT_LINES = 20
CLUSTER_FILE = "cluster.conf"
"""In the var directory of each host."""


def environ(installation: Installation) -> dict[str, str]:
    """Return the variables with which commands on a host find the cluster."""
    home = installation.home
    return {"ZODBREPL_HOME": str(home), "ZODBREPL_CLUSTER": str(home / "var" / CLUSTER_FILE)}


class Machines:
    """The hosts of a cluster; a context manager that ends with all of them.

    Each host sees its own data as ``var`` of the installation, with the cluster file in it, and
    everything else of this machine as it is.  Programs that people open in a browser have the
    addresses of the cluster file outside as well: a host's inner address is a loopback address, and
    this machine passes connections on.

    Attributes:
        lab: the hosts and the network between them.

    Args:
        cluster: as this machine reads its file.
        folder: an existing one for the data of the hosts.

    Raises OperatorError: exit 2, the hosts of the cluster file are not those of a lab; exit 5, an
    address is taken outside; otherwise as ``Lab``.
    """

    def __init__(self, cluster: Cluster, installation: Installation, folder: Path) -> None:
        self._cluster = cluster
        self._installation = installation
        self._agents: dict[str, Program] = {}
        self.lab = Lab(folder, len(cluster.hosts), srv=installation.home / "var")
        try:
            self._check()
            self._forward()
        except BaseException:
            self.lab.close()
            raise

    def __enter__(self) -> Machines:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.lab.close()

    def host(self, name: str) -> Host:
        """Return a host.  Raises OperatorError (exit 2) for an unknown name."""
        names = [host.name for host in self.lab]
        if name not in names:
            raise OperatorError(
                f"there is no host {name}",
                f"the hosts are {', '.join(names)}",
                exit_code=ExitCode.BAD_CONFIG,
            )
        return self.lab[name]

    def folder(self, name: str | None) -> Path:
        """Return the data of a host as it is seen outside: its var directory."""
        return self.host(name or "").folder

    def place(self) -> None:
        """Give each host the cluster file and its certificate; keep certificates that are there.

        Raises OperatorError as ``authority`` and ``certificates``.
        """
        text = self._cluster.source.read_text("utf-8")
        first = self.folder(self._cluster.hosts[0].name) / "tls"
        if not certificates.authority_key_file(first).exists():
            authority.create(first, self._cluster.name)
        trusted = certificates.authorities_file(first).read_text("ascii")
        for host in self._cluster.hosts:
            folder = self.folder(host.name)
            write_atomically(folder / CLUSTER_FILE, text, 0o600)
            certificates.install_authorities(folder / "tls", trusted)
            if not certificates.own_file(folder / "tls").exists():
                issued = authority.issue(first, host.name, Role.HOST, host.address)
                certificates.install(folder / "tls", issued)

    def serve(self, names: Iterable[str]) -> None:
        """Start the agents of hosts, as their service does, and wait until they listen.

        Raises OperatorError: exit 7, one did not start.
        """
        logs: dict[str, Path] = {}
        for name in names:
            log = logs[name] = self.folder(name) / "log" / "agent.log"
            log.parent.mkdir(mode=0o700, exist_ok=True)
            with log.open("wb") as output:
                self._agents[name] = self.popen(name, ["agent"], output.fileno())
        deadline = time.monotonic() + AGENT_SECONDS
        for name, log in logs.items():
            agent = self._agents[name]
            wait_until(partial(_has_begun, agent, log), deadline, POLL_SECONDS)
            if not _listens(log):
                raise OperatorError(
                    f"the agent of host {name} did not start",
                    log.read_text("utf-8", "replace").strip()[-2000:],
                    exit_code=ExitCode.TIMED_OUT,
                )

    def zodbrepl(self, name: str, arguments: Sequence[str], say: Say) -> int:
        """Run a command of bin/zodbrepl on a host; return its exit code.

        Args:
            say: called with each line of its outputs.
        """
        return self._attend(name, partial(self.popen, name, arguments), say)

    def inside(self, name: str, arguments: Sequence[str], say: Say) -> None:
        """Run ``inside.py`` on a host.  Raises OperatorError with its last lines if it fails."""
        lines: list[str] = []

        def heard(line: str) -> None:
            lines.append(line)
            say(line)

        command = [self._python, "-m", "indico_zodbrepl.demo.hosts.inside", *arguments]
        code = self._attend(name, partial(self._popen, name, command), heard)
        if code:
            raise OperatorError(
                f"the demo could not be filled on host {name}",
                "\n".join(lines[-KEPT_LINES:]),
            )

    def popen(self, name: str, arguments: Sequence[str], output: int) -> Program:
        """Start a command of bin/zodbrepl on a host; ``output`` gets both its outputs."""
        return self._popen(name, [str(self._installation.zodbrepl), *arguments], output)

    def enter(self, name: str) -> list[str]:
        """Return the command that runs a command on a host, which is to be appended.

        Raises OperatorError: exit 2, no such host; exit 6, it is off.
        """
        # Its namespaces have other folders; a relative path would be one of this machine.
        there = ["sh", "-c", 'cd "$0" && exec "$@"', str(self._installation.home)]
        return [*self.host(name).enter(), *there]

    def _popen(self, name: str, command: Sequence[str], output: int) -> Program:
        return self.host(name).popen(
            *command,
            stdout=output,
            stderr=subprocess.STDOUT,
            environ=environ(self._installation),
            folder=self._installation.home,
        )

    def _attend(self, name: str, start: Callable[[int], Program], say: Say) -> int:
        """Start a program with the end of a pipe; return its exit code when it has exited.

        Programs that it leaves running may keep the pipe.
        """
        reading, writing = os.pipe()
        with os.fdopen(reading, "rb", buffering=0) as heard:
            try:
                program = start(writing)
            finally:
                os.close(writing)
            try:
                _relay(program, heard.fileno(), say)
                return program.wait()
            except BaseException:
                if self.lab[name].is_on:
                    program.kill()
                raise

    @property
    def _python(self) -> str:
        return str(self._installation.home / "bin" / "control-python")

    def _check(self) -> None:
        found = {host.name: host.address for host in self._cluster.hosts}
        expected = {host.name: host.address for host in self.lab}
        if found != expected:
            wanted = ", ".join(f"{name} {address}" for name, address in expected.items())
            raise OperatorError(
                "the hosts of the cluster file are not those of the demo",
                f"{self._cluster.source}: the demo of {len(found)} hosts has {wanted}",
                exit_code=ExitCode.BAD_CONFIG,
            )
        if not self._cluster.encrypted:
            raise OperatorError(
                "the demo of several hosts needs encrypted connections",
                f"{self._cluster.where(None, key='encryption')}: encryption none",
                "remove that line",
                ExitCode.BAD_CONFIG,
            )

    def _forward(self) -> None:
        hosts: Mapping[str, ClusterHost] = {
            host.inner_address: host for host in self._cluster.hosts
        }
        for endpoint in self._cluster.endpoints():
            if endpoint.kind not in SHOWN_OUTSIDE:
                continue
            address = endpoint.address
            try:
                self.lab[hosts[address.host].name].forward(
                    address.port,
                    address.host,
                    local_port=address.port,
                    local_address=address.host,
                )
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                where = self._cluster.where(endpoint.kind, endpoint.name, endpoint.key)
                raise OperatorError(
                    f"port {address.port} of {address.host} is taken on this machine",
                    f"{where}: a browser is to reach {endpoint} there",
                    "stop the other demo; or copy the file, change the port, and run: "
                    "bin/zodbrepl -c COPY demo-hosts",
                    ExitCode.PORT_TAKEN,
                ) from error


def secrets_of(folder: Path, name: str) -> Path:
    """Return a secret of a host, as it is seen outside.

    Args:
        folder: its var directory.
    """
    return folder / "secrets" / name


def _listens(log: Path) -> bool:
    return LISTENS in log.read_bytes()


def _has_begun(agent: Program, log: Path) -> bool:
    return _listens(log) or agent.poll() is not None


def _relay(program: Program, output: int, say: Say) -> None:
    """Call ``say`` with each line until the program has exited."""
    received = b""
    ended = False
    while not ended:
        ended = program.poll() is not None
        while select.select([output], [], [], 0 if ended else POLL_SECONDS)[0]:
            chunk = os.read(output, 1 << 16)
            if not chunk:
                ended = True
                break
            *lines, received = (received + chunk).split(b"\n")
            for line in lines:
                say(line.decode("utf-8", "replace"))
    if received:
        say(received.decode("utf-8", "replace"))
