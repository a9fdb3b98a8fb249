"""Members of etcd on loopback addresses: real servers, which a test stops, freezes and replaces."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import urllib3
from clusters import free_ports, wait_until

READY_SECONDS = 60.0
BINARY = shutil.which("etcd")


class EtcdMember:
    """One member; its data is below ``folder``."""

    def __init__(self, folder: Path, name: str, client_port: int, peer_port: int) -> None:
        self.folder = folder
        self.name = name
        self.url = f"http://127.0.0.1:{client_port}"
        self.peer_url = f"http://127.0.0.1:{peer_port}"
        self.process: subprocess.Popen[bytes] | None = None
        self.arguments: list[str] = []

    def start(self, *arguments: str) -> None:
        """Start it with the arguments of its last start, unless others are given."""
        self.arguments = list(arguments) or self.arguments
        assert BINARY is not None
        with (self.folder / "etcd.log").open("ab") as log:
            self.process = subprocess.Popen(
                [BINARY, *self.arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def signal(self, number: int) -> None:
        assert self.process is not None
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        """End it as a power failure would."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            self.process.wait()
            self.process = None

    def freeze(self) -> None:
        """Stop it; none of its threads answers any more when this returns."""
        self.signal(signal.SIGSTOP)
        wait_until(self._has_stopped, f"the stop of {self.name}", READY_SECONDS)

    def _has_stopped(self) -> bool:
        assert self.process is not None
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/stat")
        return all(each.read_text().rpartition(")")[2].split()[0] == "T" for each in threads)

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)

    def ask(self, path: str, **body: object) -> Any:
        """Return the answer to a request of the JSON gateway."""
        answer = urllib3.request("POST", f"{self.url}/v3/{path}", json=body, timeout=5)
        assert answer.status == 200, answer.data
        return answer.json()

    def is_ready(self) -> bool:
        """Return True if it serves, and knows a leader."""
        try:
            return "leader" in self.ask("maintenance/status")
        except (urllib3.exceptions.HTTPError, AssertionError):
            return False


class EtcdMembers:
    """An etcd cluster; ``m0`` is its first member."""

    def __init__(self, folder: Path, count: int = 3, *options: str) -> None:
        self.folder = folder
        self.options = options
        ports = free_ports(2 * count)
        self.all: list[EtcdMember] = []
        for number in range(count):
            home = folder / f"m{number}"
            home.mkdir(parents=True)
            own = ports[2 * number : 2 * number + 2]
            self.all.append(EtcdMember(home, f"m{number}", own[0], own[1]))

    @property
    def endpoints(self) -> tuple[str, ...]:
        return tuple(member.url for member in self.all)

    def start(self, state: str = "new") -> None:
        """Start all members and wait until they have a leader."""
        for member in self.all:
            member.start(*self.arguments(member, state))
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        wait_until(lambda: all(each.is_ready() for each in self.all), "etcd", READY_SECONDS)

    def arguments(self, member: EtcdMember, state: str) -> list[str]:
        initial = ",".join(f"{each.name}={each.peer_url}" for each in self.all)
        return [
            *("--name", member.name, "--data-dir", str(member.folder / "data")),
            *("--listen-client-urls", member.url, "--advertise-client-urls", member.url),
            *("--listen-peer-urls", member.peer_url),
            *("--initial-advertise-peer-urls", member.peer_url),
            *("--initial-cluster", initial, "--initial-cluster-token", "test"),
            *("--initial-cluster-state", state),
            *("--heartbeat-interval", "100", "--election-timeout", "500"),
            *("--logger", "zap", "--log-level", "warn"),
            *self.options,
        ]

    def leader(self) -> EtcdMember:
        """Return the member that leads."""
        for member in self.all:
            if member.process is not None:
                status = member.ask("maintenance/status")
                if status["leader"] == status["header"]["member_id"]:
                    return member
        raise AssertionError("no member leads")

    def followers(self) -> list[EtcdMember]:
        leader = self.leader()
        return [member for member in self.all if member is not leader]

    def close(self) -> None:
        for member in self.all:
            member.kill()


@contextlib.contextmanager
def etcd_members(folder: Path, count: int = 3, *options: str) -> Iterator[EtcdMembers]:
    """Yield a running cluster."""
    with contextlib.closing(EtcdMembers(folder, count, *options)) as members:
        members.start()
        yield members
