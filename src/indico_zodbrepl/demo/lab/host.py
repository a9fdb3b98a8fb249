"""A host of a lab: its namespaces, its folder, its power."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import indico_zodbrepl
from indico_zodbrepl.demo.lab.namespaces import (
    RUN_SECONDS,
    Mount,
    Namespaces,
    Program,
    Stream,
    script,
)
from indico_zodbrepl.demo.lab.network import Network
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.probing.waiting import wait_until

NAMESPACES = ("--net", "--mount", "--pid", "--uts", "--ipc")
EMPTY = {"/tmp": "mode=1777", "/run": "mode=755", "/dev/shm": "mode=1777"}  # noqa: S108
"""The folders that are empty when a host starts, and the options of their file systems."""
NEEDED = (
    Path(sys.prefix),
    Path(sys.base_prefix),
    Path(indico_zodbrepl.__file__).resolve().parents[2],
)
FORWARDER = Path(__file__).with_name("forward.py")
LOCALHOST = "127.0.0.1"
STOPPED = frozenset("TtZX")
STOP_SECONDS = 20.0


def mounts(
    lab: Path, data: Path, hosts: Path, shown: Sequence[Path], srv: Path
) -> tuple[Mount, ...]:
    """Return the mounts of a host, in their order.

    Args:
        lab: the lab's folder, which is empty in a host but for ``srv`` if that is in it.
        data: what it sees at ``srv``.
        hosts: what it sees as /etc/hosts.
        shown: folders that it sees as they are, also in one of EMPTY.
    """
    hidden = [path for path in dict.fromkeys(shown) if any(map(path.is_relative_to, EMPTY))]
    return (
        *(Mount(target, options=options) for target, options in EMPTY.items()),
        *(Mount(str(path), str(path)) for path in hidden),
        Mount(str(lab), options="mode=755"),
        Mount(str(srv), str(data)),
        Mount("/etc/hosts", str(hosts)),
    )


class Host:
    """A host; it is off until ``start``.

    Attributes:
        name: its hostname, which the other hosts know.
        address: its IPv4 address.
        folder: its data, as seen from outside; all hosts see theirs as the lab's ``srv``.

    Args:
        shown: folders that it sees as they are.
        srv: where it sees its data.
    """

    def __init__(
        self,
        name: str,
        lab: Path,
        network: Network,
        etc_hosts: Path,
        shown: Sequence[Path] = (),
        *,
        srv: Path,
    ) -> None:
        self.name = name
        self.address = network.address(name)
        self.folder = lab / name
        self._log = lab / f"{name}.log"
        self._network = network
        self._mounts = mounts(lab, self.folder, etc_hosts, (*NEEDED, *shown), srv)
        self._namespaces: Namespaces | None = None
        self._forwards: dict[tuple[str, int], tuple[str, int]] = {}

    @property
    def is_on(self) -> bool:
        return self._namespaces is not None and self._namespaces.exists

    @property
    def namespaces(self) -> Namespaces:
        """Its processes.  Raises OperatorError (exit 6) if it is off."""
        if self._namespaces is None:
            raise OperatorError(f"host {self.name} is off", exit_code=ExitCode.NOT_RUNNING)
        return self._namespaces

    def enter(self) -> list[str]:
        """Return the command that opens a shell in it, for a person at a terminal."""
        options = ["--net", "--mount", "--pid", "--uts", "--ipc"]
        user = ["--user", "--preserve-credentials"] if self._network.is_of_ordinary_user else []
        return ["nsenter", "--target", str(self.namespaces.init), *user, *options]

    def start(self) -> None:
        """Switch it on: nothing runs, /tmp, /run and /dev/shm are empty, its data is there.

        No effect if it is on.
        """
        if self.is_on:
            return
        self.kill()  # what is left if its first process was killed by somebody else
        self.folder.mkdir(exist_ok=True)
        programs: list[Program] = []

        def start(command: Sequence[str], stdin: int, log: int) -> Program:
            programs.append(self._network.start(command, stdin, log))
            return programs[0]

        self._namespaces = Namespaces(
            f"host {self.name}",
            NAMESPACES,
            log=self._log,
            start=start,
            hostname=self.name,
            mounts=self._mounts,
        )
        self._network.connect(self.name, programs[0].pid)
        self._namespaces.run(
            *("ip", "-batch", "-"),
            text=f"link set lo up\naddress add {self.address}/24 dev eth0\nlink set eth0 up\n",
            privileged=True,
        )
        for outside, inside in self._forwards.items():
            self._forward(outside, inside)

    def kill(self) -> None:
        """Cut its power: all its processes are gone when this returns.  No error if it is off.

        What they have written to files is kept, as the kernel goes on: a machine would lose what
        was not synchronised.
        """
        if self._namespaces is not None:
            self.forget()
            self._network.disconnect(self.name)

    def forget(self) -> None:
        """Cut its power when its switch is gone already."""
        if self._namespaces is not None:
            self._namespaces.close()
            self._namespaces = None

    def restart(self) -> None:
        """Cut its power, and switch it on again."""
        self.kill()
        self.start()

    def freeze(self) -> None:
        """Stop all its processes; its kernel still accepts connections and acknowledges data.

        What is started in it meanwhile is not stopped.
        """
        namespaces = self.namespaces
        namespaces.signal_all(signal.SIGSTOP)

        def have_stopped() -> bool:
            return STOPPED.issuperset(namespaces.states().values())

        if not wait_until(have_stopped, time.monotonic() + STOP_SECONDS):
            raise OperatorError(
                f"the processes of host {self.name} do not stop",
                str(namespaces.states()),
                exit_code=ExitCode.TIMED_OUT,
            )

    def thaw(self) -> None:
        """Let all its processes continue."""
        self.namespaces.signal_all(signal.SIGCONT)

    def popen(
        self,
        *command: str | Path,
        stdin: Stream = subprocess.DEVNULL,
        stdout: Stream = subprocess.DEVNULL,
        stderr: Stream = subprocess.DEVNULL,
        environ: Mapping[str, str] | None = None,
        folder: Path | str = "/",
    ) -> Program:
        """Start a program that dies with the host; see ``Namespaces.popen``."""
        return self.namespaces.popen(
            *command, stdin=stdin, stdout=stdout, stderr=stderr, environ=environ, folder=folder
        )

    def run(
        self,
        *command: str | Path,
        text: str = "",
        timeout: float = RUN_SECONDS,
        check: bool = True,
        environ: Mapping[str, str] | None = None,
        folder: Path | str = "/",
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its exit; see ``Namespaces.run``."""
        return self.namespaces.run(
            *command, text=text, timeout=timeout, check=check, environ=environ, folder=folder
        )

    def forward(
        self, port: int, address: str = "", *, local_port: int = 0, local_address: str = LOCALHOST
    ) -> int:
        """Pass connections to a port of this machine on to an address that the host reaches.

        It goes on past faults of the network, as a console does; it hangs while the host is
        frozen, is refused while it is off, and is there again after a restart.

        Args:
            port: where it is to arrive.
            address: empty for the host's own.
            local_port: 0 for any that is free.
            local_address: a loopback address of this machine.

        Returns:
            The port outside.

        Raises OSError: it can't listen there.
        """
        inside = address or self.address, port
        found = self._forward((local_address, local_port), inside)
        self._forwards[local_address, found] = inside
        return found

    def _forward(self, outside: tuple[str, int], inside: tuple[str, int]) -> int:
        address, port = inside
        with socket.create_server(outside) as listener:
            self.namespaces.popen(*script(FORWARDER, address, str(port)), stdin=listener)
            found: int = listener.getsockname()[1]
            return found
