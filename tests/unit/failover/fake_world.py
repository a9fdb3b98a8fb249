"""A world of files that fake actions change, in a process that is killed at a chosen moment."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.model import Admin, Cluster, Node, Role
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.failover import actions, executor, journal, store
from indico_zodbrepl.failover.actions import Context
from indico_zodbrepl.failover.steps import Figures, Plan, Step

NAMES = ("hold", "prove", "seal", "promote", "stop", "follow", "start")
NO_RETURN = "promote"


@dataclasses.dataclass
class World:
    """A folder with one file for each effect, and a log of all that was done.

    Attributes:
        failing: actions that fail, with how often they still do.
        kill_at: the moment (counted from 1) at which the process kills itself; 0 for never.
    """

    folder: Path
    failing: dict[str, int] = dataclasses.field(default_factory=dict)
    kill_at: int = 0
    moments: int = 0

    def moment(self) -> None:
        self.moments += 1
        if self.moments == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def effects(self) -> set[str]:
        return {path.name for path in self.folder.glob("*.effect")}

    def done(self) -> list[str]:
        log = self.folder / "log"
        return log.read_text().split() if log.exists() else []

    def file(self, name: str) -> Path:
        return self.folder / f"{name}.effect"


@dataclasses.dataclass(frozen=True)
class FakeAction:
    """Makes a file, in two moments; needs the file of the action before it where it says so."""

    world: World
    name: str
    needs: str = ""

    def check(self, context: Context, step: Step) -> Figures | None:
        assert context.plan.steps[NAMES.index(self.name)] == step
        if not self.world.file(self.name).exists():
            return None
        return {"number": self.world.file(self.name).read_text()}

    def do(self, context: Context, step: Step) -> Figures:
        assert step.action == self.name
        self.world.moment()
        if self.needs and not self.world.file(self.needs).exists():
            raise OperatorError(f"{self.needs} does not hold")
        if self.needs:
            assert context.results[(self.needs, "a")], "what was done before is known"
        if self.world.failing.get(self.name):
            self.world.failing[self.name] -= 1
            raise OperatorError(f"{self.name} failed", "as it was told", "a hint")
        with (self.world.folder / "log").open("a") as log:
            log.write(f"{self.name}\n")
        number = str(len(self.world.done()))
        self.world.file(self.name).write_text(number)
        self.world.moment()
        return {"number": number}

    def is_untouched(self, context: Context, step: Step) -> bool:
        assert context.plan.steps[NAMES.index(NO_RETURN)] == step
        return not self.world.file(self.name).exists()

    def undo(self, context: Context, step: Step) -> None:
        assert context.plan.steps[NAMES.index(self.name)] == step
        self.world.moment()
        self.world.file(self.name).unlink(missing_ok=True)
        self.world.moment()


def step(name: str) -> Step:
    past = NAMES.index(name) >= NAMES.index(NO_RETURN)
    return Step(name, "a", {}, f"do {name}", "", "" if past else f"undo {name}", "", 30.0, past,
                may_fail=name == "follow")


PLAN = Plan("switchover", "b", "a", "a reason", 2, tuple(map(step, NAMES)), None, ())


def cluster(folder: Path) -> Cluster:
    nodes = (Node("a", "127.0.0.1", 1, 2, folder / "a", Role.PRIMARY),
             Node("b", "127.0.0.1", 3, 4, folder / "b", Role.SECONDARY, "a"))
    return Cluster(name="test", backend="zrs", nodes=nodes, indico=(),
                   admin=Admin("127.0.0.1", 5), var_directory=folder, reconnect_delay=1.0,
                   keep_alive_delay=5.0, allow_public_addresses=False,
                   source=folder / "cluster.conf")


def make(folder: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world in which the executor finds the fake actions and each saving is a moment.

    A killed process leaves what it has written to the page cache, so that disks need not be
    waited for.
    """
    world = World(folder)
    fakes = {name: FakeAction(world, name) for name in NAMES}
    fakes |= {"prove": FakeAction(world, "prove", "hold"),
              "promote": FakeAction(world, "promote", "seal")}
    monkeypatch.setattr(actions, "find", fakes.__getitem__)
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)
    for module, name in ((store, "save"), (journal, "append")):
        monkeypatch.setattr(module, name, _between_moments(world, getattr(module, name)))
    return world


def _between_moments(world: World, original: Callable[..., None]) -> Callable[..., None]:
    def wrapped(*arguments: object) -> None:
        world.moment()
        original(*arguments)
        world.moment()

    return wrapped


def killed(world: World, in_cluster: Cluster, moment: int) -> bool:
    """Execute PLAN in a process of its own that is killed at a moment; False if it ended first."""
    child = os.fork()
    if not child:
        world.kill_at = moment
        try:
            executor.execute(in_cluster, Installation(world.folder), PLAN)
        finally:
            os._exit(0)
    _pid, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)
