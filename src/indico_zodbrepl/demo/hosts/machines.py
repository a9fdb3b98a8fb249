"""The hosts of a cluster file as a lab: their files, their start, their addresses outside."""

from __future__ import annotations

import errno
import os
import select
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType

from indico_zodbrepl.cluster import Cluster, ClusterHost
from indico_zodbrepl.cluster.files import write_atomically
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.demo.hosts.service import (
    CLUSTER_FILE,
    Service,
    await_start,
    environ,
    stop_all,
)
from indico_zodbrepl.demo.lab import Lab
from indico_zodbrepl.demo.lab.host import Host
from indico_zodbrepl.demo.lab.namespaces import Program
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import certificates
from indico_zodbrepl.probing.race import all_at_once

Say = Callable[[str], None]

SHOWN_OUTSIDE = ("indico", "admin", "watch")
"""The kinds of programs that a browser of this machine reaches."""
POLL_SECONDS = 0.1
KEPT_LINES = 20
BUNDLE = "bundle"


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
        self._services: dict[str, Service] = {}
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

    def join(self, say: Say) -> None:
        """Make the hosts one cluster, as on real machines; no effect if they are.

        Raises OperatorError: a command failed.
        """
        first, *others = [host.name for host in self._cluster.hosts]
        text = self._cluster.source.read_text("utf-8")
        write_atomically(self.folder(first) / CLUSTER_FILE, text, 0o600)
        self._done(first, ["hosts", "init"], say)
        joining = []
        for name in others:
            if certificates.own_file(self.folder(name) / "tls").exists():
                write_atomically(self.folder(name) / CLUSTER_FILE, text, 0o600)
                continue
            bundle = self.folder(first) / BUNDLE
            bundle.unlink(missing_ok=True)
            self._done(first, ["hosts", "add", name, "--to-file", f"var/{BUNDLE}"], say)
            bundle.rename(self.folder(name) / BUNDLE)
            joining.append(partial(self._done, name, ["hosts", "join", f"var/{BUNDLE}"], say))
        all_at_once(joining)

    def boot(self, names: Iterable[str], say: Callable[[str, str], None]) -> bool:
        """Start the services of hosts; return False if a program did not start.

        Args:
            say: called with a host and a line of its service.

        Raises OperatorError: exit 7, one takes too long.
        """
        started = {}
        for name in names:
            self._forget(name)
            started[name] = self._services[name] = Service(self.lab[name], self._installation)
        await_start(started, say)
        return all(service.is_up for service in started.values())

    def shut_down(self) -> list[str]:
        """Stop the services of all hosts that are on; return the hosts that took too long."""
        late = stop_all(self._services.values())
        for name in list(self._services):
            self._forget(name)
        return late

    def _forget(self, name: str) -> None:
        service = self._services.pop(name, None)
        if service is not None:
            service.close()

    def _done(self, name: str, arguments: Sequence[str], say: Say) -> None:
        lines: list[str] = []
        if self.zodbrepl(name, arguments, lines.append):
            raise OperatorError(
                f"`bin/zodbrepl {' '.join(arguments)}` failed on host {name}",
                "\n".join(lines[-KEPT_LINES:]),
            )
        say(f"host {name}: bin/zodbrepl {' '.join(arguments)}")

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
