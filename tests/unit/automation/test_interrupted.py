"""What the automation does about interrupted operations that keep nodes from rejoining."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from indico_zodbrepl.automation import interrupted
from indico_zodbrepl.automation.interrupted import (
    CLOSE_SECONDS,
    CONTINUE_SECONDS,
    to_close,
    to_continue,
)
from indico_zodbrepl.automation.rejoining import Rejoiner
from indico_zodbrepl.cluster import load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.etcd.keys import Leader
from indico_zodbrepl.host.operations_interface import Holder, LockHeldError
from indico_zodbrepl.operations import executor, operation, store
from indico_zodbrepl.operations.model import Plan
from indico_zodbrepl.operations.operation import Operation

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"
LEADER = Leader("c", "h3", 7, 1)


def left(name: str, target: str = "b", actor: str = "anne", epoch: int = 7) -> Operation:
    plan = Plan(name, target, "", "a new kernel", epoch, (), None, ())
    return operation.new("production", plan, actor, 1.8e9, "h1")


@pytest.mark.parametrize(
    ("found", "waited", "leads", "rejoins", "expected"),
    [
        (left("restart"), CONTINUE_SECONDS, False, False, True),
        (left("restart"), CONTINUE_SECONDS - 1, False, False, False),
        (left("restart"), CONTINUE_SECONDS, True, False, False),
        (left("restart"), CONTINUE_SECONDS, False, True, False),
        (left("restart", "a"), CONTINUE_SECONDS, False, False, False),
        (left("rejoin"), CONTINUE_SECONDS, False, True, True),
        (left("rejoin"), 0.0, False, True, False),
        (left("rejoin", actor="automation"), 0.0, False, False, True),
        (left("clone"), 9e9, False, False, False),
        (left("failover"), 9e9, False, False, False),
        (left("switchover"), 9e9, False, False, False),
    ],
)
def test_the_host_of_a_node_continues_its_restart_or_rejoin_if_nobody_does(
    found: Operation, waited: float, *, leads: bool, rejoins: bool, expected: bool
) -> None:
    assert expected is to_continue(found, "b", waited, leads=leads, rejoins=rejoins)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (left("restart"), True),
        (left("rejoin"), True),
        (left("clone"), True),
        (left("pack"), False),
        (left("switchover"), True),
        (left("switchover", epoch=8), False),
        (left("failover"), True),
        (left("failover", epoch=8), False),
        (left("failover", actor="automation"), False),
    ],
)
def test_what_others_can_end_gives_way_to_the_rejoin_of_another_node(
    found: Operation, *, expected: bool
) -> None:
    moves = found.plan.operation in ("failover", "switchover")
    seconds = CONTINUE_SECONDS if moves else CLOSE_SECONDS
    assert expected is to_close(found, seconds, LEADER.epoch)
    assert not to_close(found, seconds - 1, LEADER.epoch)


class Stage:
    """A host whose node b may have to rejoin, an operation that was interrupted, and a clock."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, found: Operation, why: str = ""
    ) -> None:
        self.left: Operation | None = found
        self.now = 1000.0
        self.done: list[str] = []
        self.fails = False
        cluster = load(EXAMPLE, folder)
        self.node = cluster.node("b")
        self.rejoiner = Rejoiner(cluster, Installation(folder), lambda: LEADER, str)
        monkeypatch.setattr(interrupted, "now", lambda: self.now)
        monkeypatch.setattr(store, "unfinished", lambda _cluster: self.left)
        monkeypatch.setattr(store, "close", self._close)
        monkeypatch.setattr(executor, "resume", self._resume)
        monkeypatch.setattr(self.rejoiner, "_why", lambda *_: why)
        monkeypatch.setattr(self.rejoiner, "_rejoin", self._rejoin)

    def look(self, later: float) -> list[str]:
        """Look after so many more seconds; return what was done until now."""
        self.now += later
        self.rejoiner.look(self.node, LEADER)
        return self.done

    def _resume(self, *_arguments: object, expected: str) -> Any:
        assert self.left is not None
        assert expected == self.left.identifier
        self.done.append("continued")
        if self.fails:
            raise OperatorError("its server does not start")
        self.left = None
        return SimpleNamespace(plan=SimpleNamespace(name=""), outcome="", identifier="")

    def _close(self, _cluster: object, expected: str, remark: str) -> None:
        assert self.left is not None
        assert expected == self.left.identifier
        assert "node b has to rejoin" in remark
        self.done.append("closed")
        self.left = None

    def _rejoin(self, *_arguments: object) -> None:
        if self.left is not None:
            raise store.UnfinishedError("restart of a was interrupted")
        self.done.append("rejoined")


def test_a_restart_that_its_operator_left_is_continued_on_its_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path, monkeypatch, left("restart"))
    assert [] == stage.look(0)
    assert [] == stage.look(CONTINUE_SECONDS - 1)
    assert ["continued"] == stage.look(1)
    assert ["continued"] == stage.look(60)


def test_a_restart_that_can_not_be_continued_is_tried_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path, monkeypatch, left("restart"))
    stage.fails = True
    stage.look(0)
    for _ in range(3):
        assert ["continued"] == stage.look(CONTINUE_SECONDS)


@pytest.mark.parametrize(
    ("found", "seconds"),
    [
        pytest.param(left("restart", "a"), CLOSE_SECONDS, id="a restart whose host is lost"),
        pytest.param(left("switchover", "c"), CONTINUE_SECONDS, id="a switchover after promotion"),
    ],
)
def test_what_was_interrupted_keeps_no_other_node_from_rejoining(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: Operation, seconds: float
) -> None:
    stage = Stage(tmp_path, monkeypatch, found, "it was left behind in epoch 6")
    assert [] == stage.look(0)
    assert [] == stage.look(seconds - 1)
    assert ["closed"] == stage.look(1)
    assert ["closed", "rejoined"] == stage.look(2)


@pytest.mark.parametrize(
    "error",
    [
        LockHeldError(Holder(7, "h3"), "the rejoin of a"),
        OperatorError("etcd does not answer"),
        store.UnfinishedError("clone of a was interrupted"),
    ],
)
def test_an_operation_that_can_not_be_closed_now_ends_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OperatorError
) -> None:
    """Another host closes it, or it runs again, at the same moment."""
    stage = Stage(tmp_path, monkeypatch, left("restart", "a"), "it was left behind in epoch 6")

    def fail(*_arguments: object) -> None:
        raise error

    stage.look(0)
    with monkeypatch.context() as changed:
        changed.setattr(store, "close", fail)
        assert [] == stage.look(CLOSE_SECONDS)
    assert ["closed"] == stage.look(60)


def test_a_switchover_that_was_interrupted_before_its_promotion_waits_for_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = left("switchover", "a", epoch=8)
    stage = Stage(tmp_path, monkeypatch, found, "it was left behind in epoch 6")
    for _ in range(3):
        assert [] == stage.look(CLOSE_SECONDS)
