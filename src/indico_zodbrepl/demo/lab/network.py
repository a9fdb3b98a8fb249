"""The network of a lab: a switch, and faults that the hosts notice by silence or a lost carrier."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection, Sequence
from pathlib import Path

from indico_zodbrepl.demo.lab import faults
from indico_zodbrepl.demo.lab.faults import LINE, Drop, Speed
from indico_zodbrepl.demo.lab.namespaces import Mount, Namespaces, Program, environment, script
from indico_zodbrepl.demo.lab.requirements import SWITCH, switch_options
from indico_zodbrepl.errors import OperatorError

PREFIX = "10.77.0"
FIRST = 10  # the address of host N ends with FIRST + N
BRIDGE = "br0"
FAR_END = "-end"
FORWARDER = Path(__file__).with_name("line.py")


class Network:
    """A switch with one port for each host; it starts without faults.

    Faults add up until ``heal``, and outlast a restart of the host, as those of cables do.  A host
    is named by its name.

    Args:
        hosts: their names.
        lab: the lab's folder.
    """

    def __init__(self, hosts: Collection[str], lab: Path) -> None:
        self._hosts = tuple(hosts)
        self._drops: frozenset[Drop] = frozenset()
        self._down: set[str] = set()
        self._speeds: dict[str, Speed] = {}
        self._lines: dict[str, Program] = {}
        self._plugged: set[str] = set()
        self.namespaces = Namespaces(
            "the switch",
            switch_options(),
            log=lab / "switch.log",
            start=_start,
            # It changes nothing but tells whose switch a process belongs to.
            mounts=[Mount(str(lab), str(lab))],
        )
        try:
            self._ip(f"link add {BRIDGE} type bridge mcast_snooping 0", f"link set {BRIDGE} up")
        except BaseException:
            self.namespaces.close()
            raise

    @property
    def is_of_ordinary_user(self) -> bool:
        return switch_options() != SWITCH

    def address(self, host: str) -> str:
        """Return the IPv4 address of a host."""
        return f"{PREFIX}.{FIRST + 1 + self._hosts.index(host)}"

    def isolate(self, host: str) -> None:
        """Drop all frames from and to a host.

        First connections hang; some seconds later new ones fail with EHOSTUNREACH, as ARP does.
        """
        self._drop(faults.isolation(self._known(host)))

    def block(self, host: str, *ports: int) -> None:
        """Drop all frames of TCP connections between a host and others that use these ports."""
        self._drop(faults.block(self._known(host), ports))

    def cut(self, one: str, other: str) -> None:
        """Drop all frames between two hosts."""
        self._drop(faults.cut(self._known(one), self._known(other)))

    def one_way(self, sender: str, receiver: str) -> None:
        """Drop all frames from one host to another; those back still arrive."""
        self._drop({Drop(self._known(sender), self._known(receiver))})

    def lossy(self, host: str, percent: int) -> None:
        """Drop some of the frames from and to a host, at random."""
        self._drop(faults.loss(self._known(host), percent))

    def unplug(self, host: str) -> None:
        """Take a host's carrier away: its interface goes down, which it notices at once."""
        self._down.add(self._known(host))
        self._set_up(host)

    def slow(
        self, host: str, *, delay_ms: float = 0.0, megabits: float = 0.0, jitter_ms: float = 0.0
    ) -> None:
        """Put a slow line between a host and the switch, in place of an earlier one.

        Args:
            delay_ms: by which each frame is late, so that a round trip takes twice as long.
            megabits: per second, in each direction; 0 for no limit.
            jitter_ms: by which a frame may be later still, so that others overtake it.
        """
        self._speeds[self._known(host)] = Speed(delay_ms, megabits, jitter_ms)
        self._set_up(host)

    def heal(self) -> None:
        """Remove all faults."""
        changed = {*self._down, *self._speeds}
        self._down.clear()
        self._speeds.clear()
        self._load(frozenset())
        for host in sorted(changed):
            self._set_up(host)

    def start(self, command: Sequence[str], stdin: int, output: int) -> Program:
        """Start a host's namespaces within those of the switch."""
        return self.namespaces.popen(
            *command, stdin=stdin, stdout=output, stderr=subprocess.STDOUT, privileged=True
        )

    def connect(self, host: str, pid: int) -> None:
        """Give the network namespace of a process (its ID in the switch) an interface eth0.

        It has the same hardware address after each start of the host.
        """
        address = ":".join(f"{int(part):02x}" for part in self.address(host).split("."))
        self._ip(f"link add {host} type veth peer name eth0 address 02:00:{address} netns {pid}")
        self._plugged.add(host)
        self._set_up(host)

    def disconnect(self, host: str) -> None:
        """Remove the port of a host that is off."""
        self._plugged.discard(host)
        self._stop_line(host)
        if self._has(host):  # the kernel removes the other end of it some time after its host
            self.namespaces.run("ip", "link", "delete", host, privileged=True, check=False)

    def _known(self, host: str) -> str:
        if host not in self._hosts:
            raise ValueError(f"no host {host}; there are {' '.join(self._hosts)}")
        return host

    def _drop(self, drops: Collection[Drop]) -> None:
        self._load(self._drops | frozenset(drops))

    def _load(self, drops: frozenset[Drop]) -> None:
        self.namespaces.run("nft", "-f", "-", text=faults.ruleset(drops), privileged=True)
        self._drops = drops

    def _set_up(self, host: str) -> None:
        """Connect a host's port as its faults say."""
        if host not in self._plugged:
            return
        self._stop_line(host)
        if host in self._speeds:
            line = host + LINE
            self._ip(
                f"link set {host} nomaster",
                f"link add {line} type veth peer name {host}{FAR_END}",
                f"link set {line} up",
                f"link set {host}{FAR_END} up",
            )
            self._start_line(host, self._speeds[host])
            self._ip(f"link set {line} master {BRIDGE}")
        else:
            self._ip(f"link set {host} master {BRIDGE}")
        self._ip(f"link set {host} {'down' if host in self._down else 'up'}")

    def _start_line(self, host: str, speed: Speed) -> None:
        ends = (host, host + FAR_END)
        figures = (speed.delay_ms, speed.megabits, speed.jitter_ms)
        command = script(FORWARDER, *ends, *map(str, figures))
        reading, writing = os.pipe()
        with os.fdopen(reading) as output:
            try:
                line = self.namespaces.popen(*command, stdout=writing, privileged=True)
            finally:
                os.close(writing)
            if not output.readline():
                raise OperatorError(f"the slow line of {host} did not start")
        self._lines[host] = line

    def _stop_line(self, host: str) -> None:
        if line := self._lines.pop(host, None):
            line.kill()
            line.wait()
            self._ip(f"link delete {host}{LINE}")

    def _has(self, interface: str) -> bool:
        found = self.namespaces.run("ip", "link", "show", interface, check=False)
        return found.returncode == 0

    def _ip(self, *lines: str) -> None:
        self.namespaces.run("ip", "-batch", "-", text="\n".join(lines) + "\n", privileged=True)


def _start(command: Sequence[str], stdin: int, output: int) -> subprocess.Popen[bytes]:
    # Ctrl-C at the terminal is for the lab's own process alone.
    return subprocess.Popen(
        command,
        stdin=stdin,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env=environment(),
    )
