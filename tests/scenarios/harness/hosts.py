"""A cluster whose nodes can be lost as hosts are, and whose links can fail."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import commands
from clusters import CLI_SECONDS, ClusterUnderTest, Roles, free_ports, wait_until
from link import Link

from indico_zodbrepl.cluster import NodeState, Role
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.places import Address
from indico_zodbrepl.host import epochs, state, supervisor
from indico_zodbrepl.host.fencing import freeze
from indico_zodbrepl.host.server_control import ServerControl

PROGRAMS = Path(__file__).parent.parent / "python27"
# The number of a record that ``merge.py`` leaves on the old primary alone.
PRIVATE = 10**6 + 1

# Each host has a copy of the cluster file; on that of a follower behind a link that can fail, its
# upstream is to be reached at the link's port.
ZODBREPL = """\
#!/bin/sh
case "$*" in
    *" node run {follower}") shift 2; exec {zodbrepl} -c {copy} "$@" ;;
esac
exec {zodbrepl} "$@"
"""


class Hosts(ClusterUnderTest):
    """A cluster of a scenario."""

    def __init__(
        self, folder: Path, home: Path, nodes: Roles, indico: tuple[str, ...] = (), **backend: Any
    ) -> None:
        super().__init__(folder, home, nodes, indico, **backend)
        self._links: list[Link] = []
        self.returned: list[tuple[str, float]] = []
        """The nodes whose lost disks came back, and when."""

    def link(self, follower: str, upstream: str) -> Link:
        """Have a node follow its upstream over a link that can fail; call it before ``up``.

        A change of upstream by a command goes past the link.
        """
        target = self.cluster.node(upstream).replication_address.port
        [port] = free_ports(1)
        self._links.append(Link(port, target))
        copy = self.folder / f"cluster-on-{follower}.conf"
        copy.write_text(
            self.path.read_text().replace(
                f"replication-port {target}\n", f"replication-port {port}\n"
            )
        )
        real = Installation(self.home)
        self.home = self._installation_with(
            ZODBREPL.format(
                follower=follower,
                zodbrepl=shlex.quote(str(real.zodbrepl)),
                copy=shlex.quote(str(copy)),
            )
        )
        return self._links[-1]

    def follow_over_link(self, follower: str, upstream: str) -> Link:
        """Have a running follower reconnect over a link that can fail.

        Its next start, or the next command that changes its upstream, goes past the link.
        """
        [port] = free_ports(1)
        above = self.cluster.node(upstream).replication_address
        self._links.append(Link(port, above.port))
        epoch = int(str(self.state(follower)["epoch"]))
        control = ServerControl(self.cluster, self.cluster.node(follower))
        control.follow(epoch, Address("127.0.0.1", port))
        return self._links[-1]

    def cut_links(self) -> None:
        """Break all connections over links; what they held back is lost."""
        for link in self._links:
            link.cut()

    def _installation_with(self, zodbrepl: str) -> Path:
        """An installation that is the real one but for ``bin/zodbrepl``; its folder."""
        home = self.folder / "home"
        (home / "bin").mkdir(parents=True)
        for folder, entries in (("", self.home.iterdir()), ("bin", (self.home / "bin").iterdir())):
            for entry in entries:
                if entry.name not in ("bin", "zodbrepl"):
                    (home / folder / entry.name).symlink_to(entry)
        program = home / "bin/zodbrepl"
        program.write_text(zodbrepl)
        program.chmod(0o755)
        return home

    def command(self, *arguments: str) -> subprocess.Popen[str]:
        """Start ``bin/zodbrepl -c cluster.conf ARGUMENTS``; both outputs as one text."""
        return subprocess.Popen(
            [self.installation.zodbrepl, "-c", self.path, *arguments],
            text=True,
            env={**os.environ, "ZODBREPL_HOME": str(self.home)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def cli(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end; both outputs as one text."""
        done = commands.run(["-c", str(self.path), *arguments], self.home, seconds=CLI_SECONDS)
        return subprocess.CompletedProcess(arguments, done.returncode, done.stdout + done.stderr)

    def processes_of(self, node: str) -> list[int]:
        """All processes that work in a node's data directory."""
        folder = self.cluster.node(node).data_directory.resolve()
        found = []
        for pid in self.processes():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                if Path(os.readlink(f"/proc/{pid}/cwd")).is_relative_to(folder):
                    found.append(pid)
        return found

    def freeze(self, node: str) -> None:
        """Stop all processes of a node's server, the one that may start others first."""
        freeze([self.pid_of(f"node-{node}"), *self.processes_of(node)])

    def thaw(self, node: str) -> None:
        """Let all processes of a node's server go on; nothing happens if they are gone."""
        for pid in self.processes_of(node):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def stall_senders(self, node: str) -> None:
        """Have a PostgreSQL server send its standbys nothing, while it goes on working."""
        senders = [
            pid
            for pid in self.processes_of(node)
            if b"walsender" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        assert senders, f"nobody follows {node}"
        for pid in senders:
            os.kill(pid, signal.SIGSTOP)

    def lose_disk(self, node: str) -> None:
        """Put a node's data directory out of reach."""
        self.cluster.node(node).data_directory.rename(self.out_of_reach(node))

    def bring_back(self, node: str) -> None:
        """Its disk is there again and its server is started, without any operator's doing."""
        folder = self.cluster.node(node).data_directory
        if folder.exists():  # made while the disk was not there, and hidden now
            folder.rename(folder.with_name(f"{node}-below-the-disk-{len(self.returned)}"))
        self.out_of_reach(node).rename(folder)
        self.returned.append((node, time.monotonic()))
        supervisor.Supervisor(self.cluster).start(f"node-{node}")

    def out_of_reach(self, node: str) -> Path:
        """Where the data of a node is while its host is lost."""
        return self.cluster.node(node).data_directory.with_name(f"lost-{node}")

    def kill_everything(self) -> None:
        """As a power cut does, but for what the kernel has not written to disk yet."""
        for pid in sorted(self.processes()):  # supervisord is the oldest
            with contextlib.suppress(ProcessLookupError):  # some end with who started them
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not self.processes(), "all processes have ended")

    def has_begun(self, action: str) -> bool:
        """Whether an operation's file tells of a step of that kind that has begun."""
        found = [
            json.loads(path.read_text())
            for path in sorted((self.layout.var / "operations").glob("*.json"))
        ]
        return any(
            step["action"] == action and record["progress"] != "pending"
            for operation in found[-1:]
            for step, record in zip(operation["plan"]["steps"], operation["steps"], strict=True)
        )

    def merge_silently(self, old: str, new: str, writer: str) -> None:
        """Leave data and state as stock zc.zrs does when an old primary follows the new one."""
        subprocess.run(
            [
                self.installation.python27,
                PROGRAMS / "merge.py",
                self.data_fs(old),
                self.data_fs(new),
                writer,
            ],
            check=True,
            timeout=120,
        )
        cluster = self.cluster
        for node, role, upstream in ((old, Role.SECONDARY, new), (new, Role.PRIMARY, None)):
            state.write(cluster.node(node), NodeState(cluster.name, node, role, upstream, 2))
        for record in epochs.paths(cluster).values():
            record.unlink(missing_ok=True)

    def last_in_file(self, node: str) -> str:
        """Id of the last transaction in a node's data file."""
        done = subprocess.run(
            [
                self.installation.python27,
                "-m",
                "indico_zodbrepl.dataplane.datafs",
                "last",
                self.data_fs(node),
            ],
            check=True,
            capture_output=True,
            text=True,
            timeout=120,
        )
        last: str = json.loads(done.stdout)["tid"]
        return last

    def state(self, node: str) -> dict[str, object]:
        """A node's state file."""
        found: dict[str, object] = json.loads(
            (self.cluster.node(node).data_directory / "state.json").read_text()
        )
        return found

    def data_fs(self, node: str) -> Path:
        return self.cluster.node(node).data_directory / "Data.fs"

    @property
    def layout(self) -> Layout:
        return Layout(self.cluster)

    def close(self) -> None:
        super().close()
        for link in self._links:
            link.close()
