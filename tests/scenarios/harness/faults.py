"""What random rounds do to a cluster: each fault has what it does and what gives back.

A fault begins on a healthy cluster with writers and readers at work. Its choices come from a random
generator of the round, so that the same round does the same again.
"""

from __future__ import annotations

import os
import random
import signal
import time
from typing import ClassVar

from clusters import wait_until
from disks import SmallDisk
from hosts import Hosts
from world import World

from indico_zodbrepl.host import supervisor

UNREPLICATED = 10  # commits of each writer that only the primary has
NOTICED = 4.0  # seconds until what freezes or dies is noticed
GARBAGE = bytes(range(7, 250, 3))


class Fault:
    """One fault of one round.

    Args:
        world: its cluster is healthy, its writers and readers are at work.
        rng: for all choices.
        disk: the small disk of one node; None without root.

    Attributes:
        lossless: whether all that is acknowledged stays on a node whose data is untouched.
        failover_first: whether the primary does not come back before the operator acts.
        heals_late: whether ``heal`` comes after the operator has made writes possible again.
        told: the choices, for the output.
    """

    lossless: ClassVar[bool] = False
    failover_first: ClassVar[bool] = False
    heals_late: ClassVar[bool] = False

    def __init__(self, world: World, rng: random.Random, disk: SmallDisk | None) -> None:
        self.world = world
        self.rng = rng
        self.disk = disk
        self.primary = world.primary()
        self.others = [node for node in world.cluster.nodes if node != self.primary]
        self.told = ""

    @property
    def cluster(self) -> Hosts:
        return self.world.cluster

    def applies(self) -> bool:
        """Return True if this cluster can have this fault."""
        return True

    def do(self) -> None:
        raise NotImplementedError

    def heal(self) -> None:
        """Give back what no command of an operator can give back."""

    def command(self, *arguments: str) -> None:
        """Type a command that must work, as nothing is wrong."""
        done = self.cluster.cli(*arguments)
        assert done.returncode == 0, f"{' '.join(arguments)}: {done.returncode}\n{done.stdout}"


class KillPrimary(Fault):
    """supervisor starts it again."""

    def do(self) -> None:
        self.cluster.signal(self.primary, signal.SIGKILL)


class KillSecondary(Fault):
    lossless = True

    def do(self) -> None:
        self.told = self.rng.choice(self.others)
        self.cluster.signal(self.told, signal.SIGKILL)


class KillBoth(Fault):
    def do(self) -> None:
        self.told = self.rng.choice(self.others)
        for node in self.rng.sample([self.primary, self.told], 2):
            self.cluster.signal(node, signal.SIGKILL)


class StopPrimaryForGood(Fault):
    """Its data can be read."""

    failover_first = True

    def do(self) -> None:
        self.cluster.die(self.primary)


class FreezePrimary(Fault):
    """It goes on after the failover, unless that has killed it."""

    failover_first = True
    heals_late = True

    def do(self) -> None:
        self.cluster.freeze(self.primary)
        time.sleep(self.rng.uniform(NOTICED, 3 * NOTICED))

    def heal(self) -> None:
        self.cluster.thaw(self.primary)


class FreezeSecondary(Fault):
    lossless = True

    def do(self) -> None:
        self.told = self.rng.choice(self.others)
        self.cluster.freeze(self.told)
        time.sleep(self.rng.uniform(1, 3 * NOTICED))

    def heal(self) -> None:
        self.cluster.thaw(self.told)


class LosePrimaryDisk(Fault):
    """The folder is gone, and is given back after the failover or never."""

    failover_first = True
    heals_late = True

    def do(self) -> None:
        self.comes_back = self.rng.random() < 0.6
        self.told = "comes back" if self.comes_back else "lost for good"
        self.lose()

    def lose(self) -> None:
        self.cluster.lose_disk(self.primary)
        self.cluster.signal(self.primary, signal.SIGKILL)

    def heal(self) -> None:
        if self.comes_back:
            if self.cluster.program(self.primary) == "RUNNING":
                self.cluster.stop(f"node-{self.primary}")
            self.cluster.bring_back(self.primary)


class LosePrimaryDiskAlone(LosePrimaryDisk):
    """As before, with acknowledged commits that no secondary has: frozen, stopped or not linked.

    Sometimes after a switchover, so that cluster.conf names another primary, or after a pack.
    """

    def do(self) -> None:
        if self.rng.random() < 0.5:
            target = self.rng.choice(self.others)
            self.command("switchover", target)
            self.primary, self.others = (
                target,
                [node for node in self.cluster.nodes if node != target],
            )
        packed = self.rng.random() < 0.4
        if packed:
            self.command("pack", "--days", "0", "--reason", "before a fault")
        self.comes_back = self.rng.random() < 0.6
        how = self.rng.choice(["frozen", "stopped", "stalled"])
        self.told = (
            f"primary {self.primary}, secondaries {how}{', packed' if packed else ''}, "
            f"{'comes back' if self.comes_back else 'lost for good'}"
        )
        {"frozen": self._frozen, "stopped": self._stopped, "stalled": self._stalled}[how]()

    def _frozen(self) -> None:
        for node in self.others:
            self.cluster.freeze(node)
        self._write_alone()
        self.lose()
        for node in self.others:
            self.cluster.thaw(node)

    def _stopped(self) -> None:
        for node in self.others:
            self.cluster.stop(f"node-{node}")
        self._write_alone()
        self.lose()

    def _stalled(self) -> None:
        stall_links(self)
        self._write_alone()
        self.lose()
        self.cluster.cut_links()

    def _write_alone(self) -> None:
        self.world.wait_for_writers(time.monotonic(), UNREPLICATED)


class StallAndKill(Fault):
    """Replication stalls, then the primary dies; its data can be read."""

    failover_first = True

    def do(self) -> None:
        stall_links(self)
        self.world.wait_for_writers(time.monotonic(), UNREPLICATED)
        self.cluster.die(self.primary)
        self.cluster.cut_links()


class DamageFile(Fault):
    """A data file whose server is down loses its end, or has something else there."""

    lossless = True

    def damage(self, node: str) -> None:
        how = self.rng.choice(["transactions", "byte", "garbage"])
        self.world.pause_writers()
        self.world.wait_until_caught_up(60)
        self.cluster.die(node)
        path = self.cluster.data_fs(node)
        if how == "garbage":
            with path.open("ab") as file:
                file.write(GARBAGE)
        else:
            count = self.rng.randint(1, 10) if how == "transactions" else 0
            os.truncate(path, end_without(path, count) - (count == 0))
            how = f"{count} {how}" if count else how
        starts = self.rng.random() < 0.5
        self.told = f"{node}, {how}, {'its host starts it' if starts else 'it stays stopped'}"
        if starts:
            supervisor.Supervisor(self.cluster.cluster).start(f"node-{node}")
        self.world.go_on_writing()


class DamagePrimaryFile(DamageFile):
    def do(self) -> None:
        self.damage(self.primary)


class DamageSecondaryFile(DamageFile):
    def do(self) -> None:
        self.damage(self.rng.choice(self.others))


class PackAndKill(Fault):
    """The primary is killed in the middle of a pack."""

    def do(self) -> None:
        command = self.cluster.command("pack", "--days", "0", "--reason", "a fault in the middle")
        delay = self.rng.uniform(0.2, 1.5)
        self.told = f"after {delay:.1f} s"
        time.sleep(delay)
        self.cluster.signal(self.primary, signal.SIGKILL)
        command.communicate()


class Switchover(Fault):
    """No fault: it has to work, and to lose nothing."""

    lossless = True

    def do(self) -> None:
        self.told = f"to {(target := self.rng.choice(self.others))}"
        self.command("switchover", target)


class RestartNodes(Fault):
    """No fault: it has to work, and to lose nothing."""

    lossless = True

    def do(self) -> None:
        nodes = self.rng.sample([self.primary, *self.others], 3)
        self.told = " ".join(nodes)
        for node in nodes:
            self.command("restart", node)


class GarbleState(Fault):
    """A node's state file is not readable, and its server dies."""

    lossless = True

    def do(self) -> None:
        node = self.rng.choice([self.primary, *self.others])
        garbage = self.rng.choice([b"", b'{"format": 1, "clu', b"\0" * 80])
        self.told = f"{node}, {garbage[:8]!r}"
        (self.cluster.cluster.node(node).data_directory / "state.json").write_bytes(garbage)
        self.cluster.signal(node, signal.SIGKILL)


class FillDisk(Fault):
    """The disk of a secondary is full for a while."""

    lossless = True

    def applies(self) -> bool:
        return self.disk is not None and self.disk.node in self.others

    def do(self) -> None:
        assert self.disk
        self.told = self.disk.node
        self.disk.fill()
        self.world.wait_for_writers(time.monotonic(), 10 * UNREPLICATED)
        time.sleep(NOTICED)

    def heal(self) -> None:
        assert self.disk
        self.disk.free()


class KillSupervisor(Fault):
    """Everything that it started goes on, or dies with it."""

    def do(self) -> None:
        everything = self.rng.random() < 0.5
        self.told = "and all that it started" if everything else "alone"
        if everything:
            self.cluster.kill_everything()
        else:
            os.kill(self.cluster.supervisord_pid(), signal.SIGKILL)
            wait_until(lambda: supervisor.is_away(self.cluster.cluster), "supervisord is gone")


FAULTS: tuple[type[Fault], ...] = (
    KillPrimary,
    KillSecondary,
    KillBoth,
    StopPrimaryForGood,
    FreezePrimary,
    FreezeSecondary,
    LosePrimaryDisk,
    LosePrimaryDiskAlone,
    StallAndKill,
    DamagePrimaryFile,
    DamageSecondaryFile,
    PackAndKill,
    Switchover,
    RestartNodes,
    GarbleState,
    FillDisk,
    KillSupervisor,
)


def stall_links(fault: Fault) -> None:
    """Let no byte more reach those that follow the primary, while connections stay open."""
    cluster = fault.cluster
    followers = [node for node in fault.others if cluster.state(node)["upstream"] == fault.primary]
    links = [cluster.follow_over_link(node, fault.primary) for node in followers]
    fault.world.wait_for_writers(time.monotonic(), 3)
    wait_until(
        lambda: all(map(fault.world.is_connected, followers)), f"{followers} follow by their links"
    )
    for link in links:
        link.stall()


def end_without(path: os.PathLike[str], count: int) -> int:
    """Where a data file would end without its last transactions.

    Each transaction ends with its length, which does not count these eight bytes.
    """
    with open(path, "rb") as file:
        end = file.seek(0, os.SEEK_END)
        for _ in range(count):
            file.seek(end - 8)
            end -= int.from_bytes(file.read(8), "big") + 8
    return end
