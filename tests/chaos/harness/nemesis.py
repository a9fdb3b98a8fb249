"""The faults of a run, and what ends each of them."""

from __future__ import annotations

import dataclasses
import random
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from automatic import Automatic
from damage import lose_member, tear_data, tear_state
from operators import REASON, Operators
from schedule import NOBODY, Sort, Step
from services import PROGRAMS
from stage import HOSTS, Stage

Undo = Callable[[], object]
MOMENT = (1.0, 1.0)
A_WHILE = (2.0, 15.0)
FROZEN = (5.0, 40.0)
"""Some frozen commands lose their lock."""


def _nothing() -> None:
    pass


class Nemesis:
    """Strikes, and ends faults.

    Attributes:
        notes: what was damaged, in the order of the damage.
    """

    def __init__(self, stage: Stage, operators: Operators) -> None:
        self.notes: list[str] = []
        self._stage = stage
        self._operators = operators
        self._network: dict[int, Callable[[], object]] = {}
        self._count = 0

    def strike(self, step: Step) -> Undo:
        """Begin a fault; return what ends it."""
        host = self._stage.roles().get(step.target, "")
        chance = random.Random(step.chance)  # noqa: S311  # repeatable on purpose
        return FAULTS[step.fault].strike(self, host, chance)

    # Programs

    def _signal(self, host: str, program: str, signal: str) -> None:
        if host not in self._stage.off:
            self._stage.lab[host].run("pkill", f"-{signal}", "-f", PROGRAMS[program], check=False)

    def kill(self, program: str, host: str, _chance: random.Random) -> Undo:
        self._signal(host, program, "KILL")
        return _nothing

    def freeze(self, program: str, host: str, _chance: random.Random) -> Undo:
        self._signal(host, program, "STOP")
        return partial(self._signal, host, program, "CONT")

    # Hosts

    def kill_host(self, host: str, _chance: random.Random) -> Undo:
        self._stage.switch_off(host)
        return partial(self._stage.switch_on, host)

    def freeze_host(self, host: str, _chance: random.Random) -> Undo:
        if host in self._stage.off:
            return _nothing
        self._stage.off.add(host)
        self._stage.lab[host].freeze()
        return partial(self._stage.thaw, host)

    def power_loss(self, host: str, _chance: random.Random) -> Undo:
        """Cut the power; what was not synchronised is gone."""
        self._stage.switch_off(host)
        self._stage.disks[host].lose()
        return partial(self._stage.switch_on, host)

    def _damage(self, host: str, damage: Callable[[Path, Path], str]) -> Undo:
        """Damage files of a host while it is off."""
        self._stage.switch_off(host)
        folder = self._stage.disks[host].content
        self.notes.append(f"{host}: {damage(folder / self._stage.node_on(host), folder / 'var')}")
        return partial(self._stage.switch_on, host)

    def tear_data(self, host: str, chance: random.Random) -> Undo:
        return self._tear(host, lambda node, _var: tear_data(node, chance))

    def tear_state(self, host: str, chance: random.Random) -> Undo:
        return self._tear(host, lambda node, var: tear_state(node, var, chance))

    def _tear(self, host: str, damage: Callable[[Path, Path], str]) -> Undo:
        """Damage files; without effect while not all nodes follow.

        What a commit left on a node and the one that confirmed it must not be damaged on both.
        """
        if not self._is_whole():
            self.notes.append(f"{host}: nothing, as not all nodes followed")
            return _nothing
        return self._damage(host, damage)

    def _is_whole(self) -> bool:
        return not self._stage.off and self._stage.cluster.is_whole()

    def lose_member(self, host: str, _chance: random.Random) -> Undo:
        """Remove the data of a member of etcd; an operator replaces it afterwards.

        Without effect while not all members serve: a second one would leave no majority.
        """
        if not self._has_all_members():
            return _nothing
        start = self._damage(host, lambda _node, var: lose_member(var))

        def undo() -> None:
            start()
            self._operators.type(host, "etcd", "replace", *REASON)

        return undo

    def _has_all_members(self) -> bool:
        cluster = self._stage.cluster
        if self._stage.off or not isinstance(cluster, Automatic):
            return False
        return len(cluster.members()) == len(HOSTS)

    def lose_quorum(self, _host: str, chance: random.Random) -> Undo:
        """Let two of the three members of etcd stand still."""
        hosts = chance.sample(HOSTS, 2)
        for host in hosts:
            self._signal(host, "etcd", "STOP")

        def undo() -> None:
            for host in hosts:
                self._signal(host, "etcd", "CONT")

        return undo

    # Clocks

    def jump(self, host: str, chance: random.Random) -> Undo:
        self._stage.clocks[host].put(chance.choice((-60, 60)))
        return partial(self._stage.clocks[host].put, 0)

    def drift(self, host: str, chance: random.Random) -> Undo:
        """Let a clock run at twice its speed, or stand still; it is set right at the end."""
        ended, sign = threading.Event(), chance.choice((-1, 1))

        def run() -> None:
            seconds = 0
            while not ended.wait(1.0):
                seconds += sign
                self._stage.clocks[host].put(seconds)
            self._stage.clocks[host].put(0)

        thread = threading.Thread(target=run)
        thread.start()

        def undo() -> None:
            ended.set()
            thread.join()

        return undo

    # Operators

    def order(
        self, work: Callable[[Operators, random.Random], object], chance: random.Random
    ) -> Undo:
        work(self._operators, chance)
        return _nothing

    def kill_command(self, _host: str, chance: random.Random) -> Undo:
        """Kill or freeze a command that moves the role; an operator types ``resume`` then.

        A frozen one goes on later, when its lock may have passed to another one.
        """
        program = self._operators.switch_over(chance)

        def undo() -> None:
            if program is None:
                return
            if chance.random() < 0.5:
                program.kill()
            else:
                self._operators.freeze(program, chance.uniform(*FROZEN))
            self._operators.type(chance.choice(HOSTS), "resume")

        return undo

    # The network

    def _cut(self, fault: Callable[[], object]) -> Undo:
        """Add a fault of the network; its end leaves the others as they are."""
        self._count += 1
        number = self._count
        self._network[number] = fault
        fault()

        def undo() -> None:
            del self._network[number]
            self._stage.lab.network.heal()
            for each in self._network.values():
                each()

        return undo

    def isolate(self, host: str, _chance: random.Random) -> Undo:
        return self._cut(partial(self._stage.lab.network.isolate, host))

    def bridge(self, host: str, _chance: random.Random) -> Undo:
        """Let a host alone reach both others."""
        one, other = sorted(set(HOSTS) - {host})
        return self._cut(partial(self._stage.lab.network.cut, one, other))

    def one_way(self, host: str, chance: random.Random) -> Undo:
        other = chance.choice(sorted(set(HOSTS) - {host}))
        pair = chance.sample([host, other], 2)
        return self._cut(partial(self._stage.lab.network.one_way, *pair))

    def lose_frames(self, host: str, chance: random.Random) -> Undo:
        return self._cut(partial(self._stage.lab.network.lossy, host, chance.choice((5, 20, 50))))

    def delay(self, host: str, chance: random.Random) -> Undo:
        milliseconds = chance.choice((5.0, 50.0, 200.0))
        return self._cut(partial(self._stage.lab.network.slow, host, delay_ms=milliseconds))

    def narrow(self, host: str, _chance: random.Random) -> Undo:
        return self._cut(partial(self._stage.lab.network.slow, host, megabits=1.0))

    def reorder(self, host: str, _chance: random.Random) -> Undo:
        slow = partial(self._stage.lab.network.slow, host, delay_ms=1.0, jitter_ms=20.0)
        return self._cut(slow)

    # Disks

    def fill(self, host: str, _chance: random.Random) -> Undo:
        self._stage.disks[host].fill()
        return self._stage.disks[host].repair

    def slow_down(self, host: str, chance: random.Random) -> Undo:
        self._stage.disks[host].slow_down(chance.choice((0.05, 0.3, 2.0)))
        return self._stage.disks[host].repair

    def fail_syncs(self, host: str, _chance: random.Random) -> Undo:
        self._stage.disks[host].fail()
        return self._stage.disks[host].repair


@dataclasses.dataclass(frozen=True)
class Fault:
    sort: Sort
    strike: Callable[[Nemesis, str, random.Random], Undo]


def _of_programs(
    name: str, method: Callable[..., Undo], seconds: tuple[float, float]
) -> list[Fault]:
    def of(program: str) -> Callable[[Nemesis, str, random.Random], Undo]:
        return lambda nemesis, host, chance: method(nemesis, program, host, chance)

    return [Fault(Sort(f"{name}-{each}", seconds), of(each)) for each in PROGRAMS]


def _of_operators(name: str, work: Callable[[Operators, random.Random], object]) -> Fault:
    return Fault(
        Sort(name, MOMENT, NOBODY), lambda nemesis, _host, chance: nemesis.order(work, chance)
    )


FAULTS: Mapping[str, Fault] = {
    each.sort.name: each
    for each in (
        *_of_programs("kill", Nemesis.kill, MOMENT),
        *_of_programs("freeze", Nemesis.freeze, A_WHILE),
        Fault(Sort("kill-host", A_WHILE), Nemesis.kill_host),
        Fault(Sort("freeze-host", A_WHILE), Nemesis.freeze_host),
        Fault(Sort("power-loss", A_WHILE), Nemesis.power_loss),
        Fault(Sort("isolate", A_WHILE), Nemesis.isolate),
        Fault(Sort("bridge", A_WHILE), Nemesis.bridge),
        Fault(Sort("one-way", A_WHILE), Nemesis.one_way),
        Fault(Sort("loss", A_WHILE), Nemesis.lose_frames),
        Fault(Sort("delay", A_WHILE), Nemesis.delay),
        Fault(Sort("narrow", A_WHILE), Nemesis.narrow),
        Fault(Sort("reorder", A_WHILE), Nemesis.reorder),
        Fault(Sort("torn-data", A_WHILE), Nemesis.tear_data),
        Fault(Sort("torn-state", A_WHILE), Nemesis.tear_state),
        Fault(Sort("lost-member", A_WHILE), Nemesis.lose_member),
        Fault(Sort("lost-quorum", A_WHILE, NOBODY), Nemesis.lose_quorum),
        Fault(Sort("clock-jump", A_WHILE), Nemesis.jump),
        Fault(Sort("clock-drift", A_WHILE), Nemesis.drift),
        _of_operators("pack", Operators.pack),
        _of_operators("backup", Operators.back_up),
        _of_operators("clone", Operators.clone),
        _of_operators("switchover", Operators.switch_over),
        _of_operators("two-operators", Operators.two_at_once),
        _of_operators("restart", Operators.upgrade),
        Fault(Sort("kill-command", (0.3, 3.0), NOBODY), Nemesis.kill_command),
        Fault(Sort("full-disk", A_WHILE), Nemesis.fill),
        Fault(Sort("slow-disk", A_WHILE), Nemesis.slow_down),
        Fault(Sort("failing-disk", A_WHILE), Nemesis.fail_syncs),
    )
}


NOT_OF_NEO = frozenset(
    (
        *("kill-etcd", "freeze-etcd", "lost-member", "lost-quorum"),
        *("kill-automation", "freeze-automation"),
        *("switchover", "two-operators", "kill-command", "clone"),
        *("torn-data", "torn-state"),
    )
)
"""It has no etcd, no automation and no primary, and nobody repairs a file of its storages."""
NOT_OF_DATABASE_SERVERS = frozenset({"torn-data"})
"""They check and repair their own files."""


def faults_of(backend: str) -> list[str]:
    """Return the names of the faults that a cluster of a backend can have."""
    absent = {"zrs": frozenset[str](), "neo": NOT_OF_NEO}.get(backend, NOT_OF_DATABASE_SERVERS)
    return [name for name in FAULTS if name not in absent]
