"""A cluster whose nodes can be lost as hosts are, and whose links can fail."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from pathlib import Path

from clusters import CLI_SECONDS, ClusterUnderTest, Roles, free_ports, wait_until
from link import Link

from indico_zodbrepl.cluster import NodeState, Role
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.node import epochs, state, supervisor

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

    def __init__(self, folder: Path, home: Path, nodes: Roles, indico: tuple[str, ...] = ()
                 ) -> None:
        super().__init__(folder, home, nodes, indico)
        self._links: list[Link] = []

    def link(self, follower: str, upstream: str) -> Link:
        """Have a node follow its upstream over a link that can fail; call it before ``up``.

        A change of upstream by a command goes past the link.
        """
        target = self.cluster.node(upstream).replication_port
        [port] = free_ports(1)
        self._links.append(Link(port, target))
        copy = self.folder / f"cluster-on-{follower}.conf"
        copy.write_text(self.path.read_text().replace(
            f"replication-port {target}\n", f"replication-port {port}\n"))
        real = Installation(self.home)
        self.home = self._installation_with(ZODBREPL.format(
            follower=follower, zodbrepl=shlex.quote(str(real.zodbrepl)),
            copy=shlex.quote(str(copy))))
        return self._links[-1]

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
            [self.installation.zodbrepl, "-c", self.path, *arguments], text=True,
            env={**os.environ, "ZODBREPL_HOME": str(self.home)}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def cli(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = self.command(*arguments)
        try:
            output, _ = command.communicate(timeout=CLI_SECONDS)
        except subprocess.TimeoutExpired:
            command.kill()
            command.communicate()
            raise
        return subprocess.CompletedProcess(arguments, command.returncode, output, "")

    def signal(self, node: str, number: signal.Signals) -> None:
        """Send a signal to a node's server."""
        os.kill(self.pid_of(f"node-{node}"), number)

    def die(self, node: str) -> None:
        """Kill a node's server so that nothing starts it again.

        It gets no time to send what its followers lack.
        """
        pid = self.pid_of(f"node-{node}")
        os.kill(pid, signal.SIGSTOP)
        supervisor.Supervisor(self.cluster).stop(f"node-{node}")
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: self.program(node) == "STOPPED", f"node {node} is dead")

    def lose_disk(self, node: str) -> None:
        """Put a node's data directory out of reach."""
        self.cluster.node(node).data_directory.rename(self.out_of_reach(node))

    def bring_back(self, node: str) -> None:
        """Its disk is there again and its server is started, without any operator's doing."""
        folder = self.cluster.node(node).data_directory
        if folder.exists():  # made while the disk was not there, and hidden now
            folder.rename(folder.with_name(f"{node}-below-the-disk"))
        self.out_of_reach(node).rename(folder)
        supervisor.Supervisor(self.cluster).start(f"node-{node}")

    def out_of_reach(self, node: str) -> Path:
        """Where the data of a node is while its host is lost."""
        return self.folder / f"lost-{node}"

    def kill_everything(self) -> None:
        """As a power cut does, but for what the kernel has not written to disk yet."""
        for pid in sorted(self.processes()):  # supervisord is the oldest
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not self.processes(), "all processes have ended")

    def has_begun(self, action: str) -> bool:
        """Whether an operation's file tells of a step of that kind that has begun."""
        found = [json.loads(path.read_text()) for path in
                 sorted((self.layout.var / "operations").glob("*.json"))]
        return any(step["action"] == action and record["progress"] != "pending"
                   for operation in found[-1:]
                   for step, record in zip(operation["plan"]["steps"], operation["steps"],
                                           strict=True))

    def merge_silently(self, old: str, new: str, writer: str) -> None:
        """Leave data and state as stock zc.zrs does when an old primary follows the new one."""
        subprocess.run(
            [self.installation.python27, PROGRAMS / "merge.py", self.data_fs(old),
             self.data_fs(new), writer], check=True, timeout=120)
        cluster = self.cluster
        for node, role, upstream in ((old, Role.SECONDARY, new), (new, Role.PRIMARY, None)):
            state.write(cluster.node(node), NodeState(cluster.name, node, role, upstream, 2))
        for record in epochs.paths(cluster).values():
            record.unlink(missing_ok=True)

    def last_in_file(self, node: str) -> str:
        """Id of the last transaction in a node's data file."""
        done = subprocess.run(
            [self.installation.python27, "-m", "indico_zodbrepl.dataplane.datafs", "last",
             self.data_fs(node)], check=True, capture_output=True, text=True, timeout=120)
        last: str = json.loads(done.stdout)["tid"]
        return last

    def program(self, node: str) -> str:
        """Supervisor's word for the state of a node's program."""
        return supervisor.program_states(self.cluster)[f"node-{node}"].state

    def state(self, node: str) -> dict[str, object]:
        """A node's state file."""
        found: dict[str, object] = json.loads(
            (self.cluster.node(node).data_directory / "state.json").read_text())
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
