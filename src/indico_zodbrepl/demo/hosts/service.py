"""The service of a host: ``zodbrepl run``, started and heard as by a service manager."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.demo.lab.host import Host
from indico_zodbrepl.demo.lab.namespaces import Program
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.probing.waiting import wait_until

CLUSTER_FILE = "cluster.conf"
"""In the var directory of each host."""
NOTIFY = "notify.sock"
READY, STATUS = "READY=1", "STATUS="
READY_SECONDS = 300.0
STOP_SECONDS = 150.0
POLL_SECONDS = 0.1
MESSAGE_BYTES = 4096

Say = Callable[[str], None]


def environ(installation: Installation) -> dict[str, str]:
    """Return the variables with which commands on a host find the cluster."""
    home = installation.home
    return {"ZODBREPL_HOME": str(home), "ZODBREPL_CLUSTER": str(home / "var" / CLUSTER_FILE)}


class Service:
    """The programs of one host.

    Attributes:
        status: what it reported last, such as "cluster hosts is up".

    Args:
        host: it is on.
    """

    def __init__(self, host: Host, installation: Installation) -> None:
        self.host = host
        self.status = ""
        self._is_ready = False
        self._log = host.folder / "log" / "run.log"
        self._log.parent.mkdir(mode=0o700, exist_ok=True)
        self._heard = 0
        self._notified = _listening(host.folder)
        with self._log.open("wb") as output:
            self._program: Program = host.popen(
                installation.zodbrepl,
                "run",
                stdout=output,
                stderr=subprocess.STDOUT,
                environ={
                    **environ(installation),
                    "NOTIFY_SOCKET": str(installation.home / "var" / NOTIFY),
                },
                folder=installation.home,
            )

    @property
    def has_started(self) -> bool:
        """Return True if it has reported that it is up, or has exited."""
        return self._is_ready or self._program.poll() is not None

    @property
    def is_up(self) -> bool:
        """Return True if everything has started."""
        return self._is_ready and "partly" not in self.status

    def hear(self, say: Say) -> None:
        """Take what it has reported, and call ``say`` with each new line of its log."""
        with self._log.open("rb") as log:
            log.seek(self._heard)
            content = log.read()
        lines, end, _ = content.rpartition(b"\n")
        self._heard += len(lines + end)
        for line in lines.decode("utf-8", "replace").splitlines():
            say(line)
        try:
            while True:
                words = self._notified.recv(MESSAGE_BYTES).decode("utf-8", "replace").split("\n")
                self._is_ready |= READY in words
                for word in words:
                    if word.startswith(STATUS):
                        self.status = word.removeprefix(STATUS)
        except BlockingIOError:
            return

    def stop(self) -> None:
        """Ask it to stop everything; no error if its host is off."""
        if self.host.is_on:
            self._program.send_signal(signal.SIGTERM)

    def wait(self, deadline: float) -> bool:
        """Return True if it has exited by then."""
        return wait_until(lambda: self._program.poll() is not None, deadline, POLL_SECONDS)

    def close(self) -> None:
        """Forget it."""
        self._notified.close()


def _listening(folder: Path) -> socket.socket:
    """Return the socket that a service reports to; see systemd's sd_notify(3)."""
    (folder / NOTIFY).unlink(missing_ok=True)
    found = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    # The folder's path may be too long for an address.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        found.bind(f"/proc/self/fd/{descriptor}/{NOTIFY}")
    finally:
        os.close(descriptor)
    return found


def await_start(services: Mapping[str, Service], say: Callable[[str, str], None]) -> None:
    """Wait until services have started, or failed to.

    Args:
        services: by host.
        say: called with a host and a line of its service.

    Raises OperatorError: exit 7, one takes too long.
    """

    def have_started() -> bool:
        for name, service in services.items():
            service.hear(lambda line, name=name: say(name, line))  # type: ignore[misc]
        return all(service.has_started for service in services.values())

    if wait_until(have_started, time.monotonic() + READY_SECONDS, POLL_SECONDS):
        have_started()  # the last lines
        return
    late = [name for name, service in services.items() if not service.has_started]
    raise OperatorError(
        f"the programs of {', '.join(late)} did not start in {READY_SECONDS:g} s",
        exit_code=ExitCode.TIMED_OUT,
    )


def stop_all(services: Iterable[Service]) -> list[str]:
    """Stop services at once; return the hosts whose services did not stop in time."""
    found = list(services)
    for service in found:
        service.stop()
    deadline = time.monotonic() + STOP_SECONDS
    return [each.host.name for each in found if not each.wait(deadline)]
