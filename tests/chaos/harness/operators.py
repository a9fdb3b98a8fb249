"""Operators at work during a run: what they type, on which host, and what came of it."""

from __future__ import annotations

import math
import random
import signal
import subprocess
import time
from pathlib import Path

from authors import instance_at
from neo_hosts import NeoHosts
from schedule import FOLLOWERS, PRIMARY
from stage import HOSTS, Stage
from three import HOME

from indico_zodbrepl.demo.lab.namespaces import Program

REASON = ("--reason", "chaos")
END_SECONDS = 300.0
UPGRADE = "rolling upgrade"


class Operators:
    """Types commands and lets them run.

    Attributes:
        ended: how many ended with each exit code, by command; None for those that were killed.

    Args:
        log: what they said.
    """

    def __init__(self, stage: Stage, log: Path) -> None:
        self._stage = stage
        self._log = log
        self._running: list[tuple[str, str, Program]] = []
        self._frozen: list[tuple[str, float, Program]] = []
        self.ended: dict[tuple[str, int | None], int] = {}

    def type(self, host: str, *command: str) -> Program | None:
        """Start a command on a host; return None if the host is off or frozen."""
        if host in self._stage.off:
            return None
        with self._log.open("ab") as log:
            log.write(f"--- {host}: {' '.join(command)}\n".encode())
            log.flush()
            program = self._stage.cluster.popen(host, *command, output=log.fileno())
        self._running.append((host, command[0], program))
        return program

    def freeze(self, program: Program, seconds: float) -> None:
        """Stop a command; it goes on after some seconds, if its host is on."""
        for host, _, each in self._running:
            if each is program:
                program.send_signal(signal.SIGSTOP, group=True)
                self._frozen.append((host, time.monotonic() + seconds, program))

    def _thaw(self, now: float) -> None:
        for each in list(self._frozen):
            host, until, program = each
            if host not in self._stage.off and until <= now:
                program.send_signal(signal.SIGCONT, group=True)
                self._frozen.remove(each)

    def see(self) -> None:
        """Let frozen commands go on whose time is over; count the commands that have ended."""
        self._thaw(time.monotonic())
        for each in list(self._running):
            host, name, program = each
            code = program.poll()
            if code is None and host not in self._stage.off:
                continue
            self._running.remove(each)
            if name == UPGRADE and code != 0 and isinstance(self._stage.cluster, NeoHosts):
                self._continue()
            key = name, code
            self.ended[key] = self.ended.get(key, 0) + 1

    def _continue(self) -> None:
        """Continue a restart that was interrupted with its host: on NEO nobody else does."""
        for host in HOSTS:
            if self.type(host, "resume") is not None:
                return

    def finish(self) -> None:
        """Wait for what still runs."""
        self._thaw(math.inf)
        for _, _, program in self._running:
            program.wait(END_SECONDS)
        self.see()

    # What they do

    def pack(self, chance: random.Random) -> None:
        self.type(chance.choice(HOSTS), "pack", "--days", "0", *REASON)

    def back_up(self, chance: random.Random) -> None:
        host = chance.choice(HOSTS)
        folder = self._stage.lab.srv / f"backup-{chance.getrandbits(16)}"
        self.type(host, "backup", "--to", f"{host}:{folder}", *REASON)

    def clone(self, chance: random.Random) -> None:
        self.type(chance.choice(HOSTS), "clone", self._a_follower(chance), *REASON)

    def switch_over(self, chance: random.Random) -> Program | None:
        return self.type(chance.choice(HOSTS), "switchover", self._a_follower(chance), *REASON)

    def two_at_once(self, chance: random.Random) -> None:
        """Move the role to two nodes at the same time, typed on two hosts."""
        roles = self._stage.roles()
        for host, role in zip(chance.sample(HOSTS, 2), FOLLOWERS, strict=True):
            self.type(host, "switchover", self._stage.node_on(roles[role]), *REASON)

    def upgrade(self, chance: random.Random) -> None:
        """Do what a rolling upgrade does: restart everything one by one, then type ``up``."""
        roles, host = self._stage.roles(), chance.choice(HOSTS)
        if host in self._stage.off:
            return
        first, second, last = (self._stage.node_on(roles[each]) for each in (*FOLLOWERS, PRIMARY))
        commands = [f"restart {first}", f"restart {second}"]
        if not isinstance(self._stage.cluster, NeoHosts):
            commands.append(f"switchover {first}")
        commands += [f"restart {each}" for each in (last, *map(instance_at, HOSTS))]
        program = f"{HOME}/bin/zodbrepl -c {self._stage.lab.srv}/cluster.conf"
        text = "; ".join(f"{program} {each} {' '.join(REASON)}" for each in commands)
        text += f"; {program} up"
        with self._log.open("ab") as log:
            command = self._stage.lab[host].popen(
                "sh", "-c", text, stdout=log, stderr=subprocess.STDOUT
            )
        self._running.append((host, UPGRADE, command))

    def _a_follower(self, chance: random.Random) -> str:
        return self._stage.node_on(self._stage.roles()[chance.choice(FOLLOWERS)])
