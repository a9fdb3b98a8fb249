"""A restart has the time that is left of its step, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from indico_zodbrepl.cluster import NodeState, Role, load
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.host import interface, starts
from indico_zodbrepl.operations.roles import Demote, Follow, Promote
from indico_zodbrepl.operations.switchover_steps import PauseWrites

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"


class Clock:
    """A clock that goes on only while a server ends."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.mark.parametrize("taken", [0.0, 30.0])
def test_what_the_end_of_a_server_takes_is_not_there_for_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: float
) -> None:
    cluster, clock, given = load(EXAMPLE, tmp_path), Clock(), {}

    def stop(*_arguments: object, **options: float) -> bool:
        given["stop"] = options["seconds"]
        clock.now += taken
        return True

    def start(*_arguments: object, **options: float) -> bool:
        given["start"] = options["seconds"]
        return True

    monkeypatch.setattr(starts, "time", clock)
    monkeypatch.setattr(starts, "stop_node", stop)
    monkeypatch.setattr(starts, "start_node", start)
    starts.restart_node(cluster, Installation(tmp_path), "a", seconds=99.0)
    assert {"stop": interface.STOP_SECONDS, "start": 99.0 - taken} == given


def test_a_step_that_may_restart_a_server_has_the_time_for_it(tmp_path: Path) -> None:
    cluster = load(EXAMPLE, tmp_path)
    commands = Commands(cluster, tmp_path)
    state = NodeState(cluster.name, "b", Role.SECONDARY, "a", 2)
    for step in (
        Promote.of(commands, "b", 2, ""),
        Demote.of(commands, state),
        Follow.of(commands, state),
    ):
        assert step.seconds >= interface.STOP_SECONDS + interface.START_SECONDS
    hold = PauseWrites.of(commands, "a")
    assert hold.seconds > float(str(hold.arguments["seconds"]))
