"""A world of files that fake steps change, in a process that is killed at a chosen moment."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.model import Cluster, Node, Role
from indico_zodbrepl.cluster.programs import Admin
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.operations import executor, journal, store
from indico_zodbrepl.operations.model import KINDS, Context, Figures, Plan, Step

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


class FakeStep(Step):
    """Makes a file, in two moments; needs the file of another step where it says so."""

    world: ClassVar[World]
    needs: ClassVar[Mapping[str, str]] = {"prove": "hold", "promote": "seal"}

    def check(self, context: Context) -> Figures | None:
        assert context.plan.steps[NAMES.index(self.action)] == self
        if not self.world.file(self.action).exists():
            return None
        return {"number": self.world.file(self.action).read_text()}

    def do(self, context: Context) -> Figures:
        self.world.moment()
        needs = self.needs.get(self.action)
        if needs and not self.world.file(needs).exists():
            raise OperatorError(f"{needs} does not hold")
        if needs:
            assert context.results[(needs, "a")], "what was done before is known"
        if self.world.failing.get(self.action):
            self.world.failing[self.action] -= 1
            raise OperatorError(f"{self.action} failed", "as it was told", "a hint")
        with (self.world.folder / "log").open("a") as log:
            log.write(f"{self.action}\n")
        number = str(len(self.world.done()))
        self.world.file(self.action).write_text(number)
        self.world.moment()
        return {"number": number}

    def is_untouched(self, context: Context) -> bool:
        assert context.plan.steps[NAMES.index(NO_RETURN)] == self
        return not self.world.file(self.action).exists()

    def undo(self, context: Context) -> None:
        assert context.plan.steps[NAMES.index(self.action)] == self
        self.world.moment()
        self.world.file(self.action).unlink(missing_ok=True)
        self.world.moment()


def _fakes() -> dict[str, type[FakeStep]]:
    """A kind of fake step for each name; the real ones stay as they are registered."""
    registered = dict(KINDS)
    made = {name: type(f"Fake{name.title()}", (FakeStep,), {"action": name}) for name in NAMES}
    KINDS.clear()
    KINDS.update(registered)
    return made


FAKES = _fakes()


def step(name: str) -> Step:
    past = NAMES.index(name) >= NAMES.index(NO_RETURN)
    return FAKES[name](
        "a",
        {},
        title=f"do {name}",
        undoes="" if past else f"undo {name}",
        seconds=30.0,
        after_no_return=past,
        may_fail=name == "follow",
    )


PLAN = Plan("switchover", "b", "a", "a reason", 2, tuple(map(step, NAMES)), None, ())


def cluster(folder: Path) -> Cluster:
    nodes = (
        Node("a", "127.0.0.1", 1, 2, folder / "a", Role.PRIMARY),
        Node("b", "127.0.0.1", 3, 4, folder / "b", Role.SECONDARY, "a"),
    )
    return Cluster(
        name="test",
        backend="zrs",
        nodes=nodes,
        indico=(),
        admin=Admin("127.0.0.1", 5),
        var_directory=folder,
        reconnect_delay=1.0,
        keep_alive_delay=5.0,
        allow_public_addresses=False,
        source=folder / "cluster.conf",
    )


def make(folder: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world in which the executor finds the fake steps and each saving is a moment.

    A killed process leaves what it has written to the page cache, so that disks need not be
    waited for.
    """
    world = World(folder)
    monkeypatch.setattr(FakeStep, "world", world, raising=False)
    for name, fake in FAKES.items():
        monkeypatch.setitem(KINDS, name, fake)
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
