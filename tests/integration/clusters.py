"""Real clusters for tests: free ports, a folder of their own, ended whatever happens."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import commands

from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.host import lifecycle, supervisor
from indico_zodbrepl.host.fencing import freeze
from indico_zodbrepl.monitor import take_snapshot

# Below the ports that the kernel gives to outgoing connections; other suites have others.
FIRST_PORT = int(os.environ.get("ZODBREPL_TEST_PORTS", "20000"))
PORTS = range(FIRST_PORT, FIRST_PORT + 1500)
CLI_SECONDS = 400
# Generous: the machine that runs the tests may be busy.
PATIENCE = 180.0
# Seconds between two attempts of what is asked until it is so.
SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 1.0

PAIR = {"a": ("primary", None), "b": ("secondary", "a")}
CHAIN = {"a": ("primary", None), "b": ("relay", "a"), "c": ("secondary", "b")}

A = TypeVar("A")
T = TypeVar("T")
Roles = dict[str, tuple[str, str | None]]


class ClusterUnderTest:
    """A cluster file in a folder of its own; ``close`` ends all that runs from it.

    Args:
        folder: an empty folder; the cluster file and var/ go there.
        home: the installation.
        nodes: role and upstream by name.
        indico: names of the Indico instances.
        backend: as in the cluster file.
        engine: lines of the section with the engine's settings.
        managed: whether the nodes' servers are its own.
    """

    def __init__(
        self,
        folder: Path,
        home: Path,
        nodes: Roles | None = None,
        indico: tuple[str, ...] = (),
        *,
        backend: str = "zrs",
        engine: tuple[str, ...] = (),
        managed: bool = True,
    ) -> None:
        self.managed = managed
        self.backend = backend
        self.engine = engine
        self.folder = folder
        self.home = home
        self.path = folder / "cluster.conf"
        self._loaded: tuple[str, Cluster] | None = None
        self.nodes: Roles = nodes or PAIR
        self.indico = indico
        self.scheduler: str | None = None
        self.ports = free_ports(2 * len(self.nodes) + len(indico) + 1)
        self.write()

    @property
    def cluster(self) -> Cluster:
        """The cluster as its file says now, which is read again when it has changed."""
        text = self.path.read_text()
        if self._loaded is None or self._loaded[0] != text:
            self._loaded = (text, load(self.path, self.home))
        return self._loaded[1]

    @property
    def installation(self) -> Installation:
        return Installation(self.home)

    def write(self) -> None:
        """Write the cluster file from ``nodes``, ``indico``, ``scheduler`` and ``ports``."""
        ports = iter(self.ports)
        lines = [
            "name test",
            f"backend {self.backend}",
            f"var-directory {self.folder}/var",
            *self.engine,
        ]
        for name, (role, upstream) in self.nodes.items():
            lines += [
                f"<node {name}>",
                "  host 127.0.0.1",
                f"  storage-port {next(ports)}",
                *([f"  replication-port {next(ports)}"] if self.backend == "zrs" else []),
                f"  data-directory {self.folder}/var/node/{name}",
                f"  role {role}",
                f"  managed {str(self.managed).lower()}",
                *([f"  upstream {upstream}"] if upstream else []),
                "</node>",
            ]
        for name in self.indico:
            lines += [f"<indico {name}>", f"  port {next(ports)}"]
            lines += [f"  scheduler {'yes' if name == self.scheduler else 'no'}", "</indico>"]
        lines += ["<admin>", f"  port {next(ports)}", "</admin>", ""]
        self.path.write_text("\n".join(lines))

    def cli(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run ``bin/zodbrepl -c cluster.conf ARGUMENTS``; output as text."""
        return commands.run(["-c", str(self.path), *arguments], self.home, seconds=CLI_SECONDS)

    def up(self) -> None:
        """``zodbrepl up``, which has to succeed."""
        self._must("up")

    def start(self) -> None:
        """Start the nodes and Indico, and wait until the followers are connected.

        The admin page, which costs as much as two nodes, does not run.
        """
        lifecycle.up_serving(self.cluster, self.installation)
        wait_until(
            lambda: all(node.connected is not False for node in take_snapshot(self.cluster).nodes),
            "the followers are connected",
        )

    def begin_indico(self) -> None:
        """Put an Indico into the database, with an administrator; the storage has to run."""
        admin = self.folder / "admin.json"
        admin.touch(0o600)
        admin.write_text(
            json.dumps(
                {
                    "login": "admin",
                    "password": "secret",
                    "email": "admin@example.org",
                    "first_name": "Ada",
                    "last_name": "Admin",
                }
            )
        )
        conf = Layout(self.cluster).indico_conf(self.cluster.indico[0])
        subprocess.run(
            [
                self.installation.python27,
                "-m",
                "indico_zodbrepl.dataplane.indico.firstrun",
                "--admin-file",
                admin,
            ],
            capture_output=True,
            text=True,
            check=True,
            timeout=CLI_SECONDS,
            env=self.installation.environment27(INDICO_CONF=str(conf)),
        )

    def down(self) -> None:
        """``zodbrepl down``, which has to succeed."""
        self._must("down")

    def stop(self, program: str) -> None:
        """End one program as ``supervisorctl stop`` does."""
        supervisor.Supervisor(self.cluster).stop(program)
        wait_until(
            lambda: supervisor.program_states(self.cluster)[program].state == "STOPPED",
            f"{program} ended",
        )

    def pid_of(self, program: str) -> int:
        """Process id of a supervised program that runs."""
        pid = supervisor.program_states(self.cluster, PATIENCE)[program].pid
        assert pid is not None, f"{program} does not run"
        return pid

    def signal(self, node: str, number: signal.Signals) -> None:
        """Send a signal to a node's server."""
        os.kill(self.pid_of(f"node-{node}"), number)

    def die(self, node: str) -> None:
        """Kill a node's server so that nothing starts it again.

        It gets no time to send what its followers lack.
        """
        pid = self.pid_of(f"node-{node}")
        freeze([pid])
        supervisor.Supervisor(self.cluster).stop(f"node-{node}")
        with contextlib.suppress(ProcessLookupError):  # it was about to end when it was frozen
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: self.program(node) == "STOPPED", f"node {node} is dead")

    def program(self, node: str) -> str:
        """Supervisor's word for the state of a node's program."""
        return supervisor.program_states(self.cluster, PATIENCE)[f"node-{node}"].state

    def supervisord_pid(self) -> int:
        return supervisor.Supervisor(self.cluster).pid()

    def processes(self) -> list[int]:
        """All processes that work inside the folder: supervisord and what it started."""
        return [
            pid
            for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
            if pid != os.getpid() and _works_in(pid, self.folder)
        ]

    def close(self) -> None:
        """Kill, by process id, all that runs from this folder, frozen or not.

        Also commands that the admin page began, which work elsewhere.
        """
        deadline = time.monotonic() + PATIENCE
        while pids := [*self.processes(), *_commands_about(self.path)]:
            if time.monotonic() > deadline:
                raise RuntimeError(f"processes {pids} can't be killed")
            for pid in sorted(pids):  # supervisord is the oldest and would restart the others
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)

    def _must(self, command: str) -> None:
        done = self.cli(command)
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"


def wait_until(condition: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Call ``condition`` until it is true; AssertionError naming ``what`` after ``seconds``."""
    deadline = time.monotonic() + seconds
    for met in repeatedly(condition):
        if met:
            return
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"


def settled(ask: Callable[[], A], seen: Callable[[A], T], expected: T) -> A:
    """Call ``ask`` until what is ``seen`` of it is as expected; what was asked last.

    For what a probe with a time limit says: on a busy machine it may miss an answer now and then.
    Raises an AssertionError that compares the two when it does not settle.
    """
    deadline = time.monotonic() + PATIENCE
    for found in repeatedly(ask):
        if seen(found) == expected or time.monotonic() >= deadline:
            break
    assert expected == seen(found)
    return found


def repeatedly(ask: Callable[[], A]) -> Iterator[A]:
    """Yield one answer after the other, without end.

    Questions that take long are asked less often, so that they leave the cores to what is tested.
    """
    while True:
        began = time.monotonic()
        answer = ask()
        took = time.monotonic() - began
        yield answer
        time.sleep(min(max(SHORTEST_PAUSE, 3 * took), LONGEST_PAUSE))


def settles_at(expected: T, ask: Callable[[], T]) -> None:
    """As ``settled``, for an answer that is compared as it is."""
    settled(ask, lambda found: found, expected)


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nothing listens on; no port is given twice."""
    return list(itertools.islice(filter(_is_free, _untried_ports), count))


_untried_ports = itertools.cycle(random.sample(PORTS, len(PORTS)))


def _is_free(port: int) -> bool:
    with contextlib.closing(socket.socket()) as candidate:
        try:
            candidate.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _commands_about(cluster_file: Path) -> Iterator[int]:
    """The processes that were given a cluster file."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if os.fsencode(cluster_file) in command:
                yield int(pid)


def _works_in(pid: int, folder: Path) -> bool:
    """Whether a live process has its working directory in a folder."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        directory = Path(os.readlink(f"/proc/{pid}/cwd"))
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return False
    return directory.is_relative_to(folder.resolve()) and stat.rpartition(")")[2].split()[0] != "Z"


MakeCluster = Callable[..., ClusterUnderTest]


@contextlib.contextmanager
def running(under_test: ClusterUnderTest) -> Iterator[ClusterUnderTest]:
    """The cluster, without its admin page; ended afterwards."""
    with contextlib.closing(under_test):
        under_test.start()
        yield under_test
