"""An interrupted rejoin or clone is in no way of what another node needs."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from fake_world import PLAN, World, cluster, make

from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.operations import executor, journal, operation, store
from indico_zodbrepl.operations.operation import Operation, Outcome


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return make(tmp_path, monkeypatch)


def execute(world: World, kind: str, history: str = "") -> None:
    plan = dataclasses.replace(PLAN, operation=kind)
    executor.execute(cluster(world.folder), Installation(world.folder), plan, history=history)


def interrupted(world: World, kind: str) -> Operation:
    """An operation on a follower whose process was killed."""
    plan = dataclasses.replace(PLAN, operation=kind, target="c", source="")
    left = dataclasses.replace(operation.new("test", plan, "ada", 1.0), pid=1 << 22)
    store.save(cluster(world.folder), left)
    journal.append(cluster(world.folder), left)
    return left


@pytest.mark.parametrize("kind", ["rejoin", "clone"])
@pytest.mark.parametrize("beginning", ["failover", "switchover", "restart"])
def test_it_is_closed_as_it_stands_and_the_journal_says_why(
    world: World, kind: str, beginning: str
) -> None:
    left = interrupted(world, kind)
    execute(world, beginning)
    assert store.unfinished(cluster(world.folder)) is None
    entries, _notices = journal.read(cluster(world.folder))
    closed, begun = sorted(entries, key=lambda each: each.began)
    assert (left.identifier, Outcome.ABANDONED) == (closed.identifier, closed.outcome)
    to = "of" if beginning == "restart" else "to"
    assert f"gave way to the {beginning} {to} b" == closed.remark
    assert Outcome.DONE is begun.outcome


@pytest.mark.parametrize(
    ("kind", "beginning"),
    [("rejoin", "pack"), ("clone", "rejoin"), ("failover", "switchover"), ("pack", "failover")],
)
def test_others_have_to_end_first(world: World, kind: str, beginning: str) -> None:
    left = interrupted(world, kind)
    with pytest.raises(OperatorError, match="was interrupted") as error:
        execute(world, beginning)
    assert ExitCode.REFUSED is error.value.exit_code
    assert left == store.unfinished(cluster(world.folder))
    assert [left] == journal.read(cluster(world.folder))[0]


def test_it_stays_open_when_the_other_one_does_not_begin(world: World) -> None:
    left = interrupted(world, "rejoin")
    with pytest.raises(OperatorError, match="the situation has changed"):
        execute(world, "failover", history="of an older plan")
    assert left == store.unfinished(cluster(world.folder))
    assert not world.effects()
