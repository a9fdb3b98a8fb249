"""Which measurements are made, in which order, and what becomes of those that fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from runs import answer, cluster_in

from indico_zodbrepl.bench import in_app, results
from indico_zodbrepl.bench.in_app import CACHES, READ, TESTS, WRITE, Cell, Settings
from indico_zodbrepl.bench.results import Measurement
from indico_zodbrepl.errors import ExitCode, OperatorError

ONE = Settings(tests=READ[:1], rounds=2)


class Indico:
    """Answers, or raises what it is given, in turn."""

    def __init__(self, *outcomes: BaseException | None) -> None:
        self.outcomes = list(outcomes)
        self.asked: list[tuple[str, dict[str, str]]] = []

    def measure(self, test: str, fields: dict[str, str], _seconds: float) -> dict[str, Any]:
        self.asked.append((test, fields))
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if outcome is not None:
            raise outcome
        return answer()


def silent(_cell: Cell, _made: Measurement) -> None:
    """Nobody looks."""


def test_each_test_is_made_in_each_state_in_each_round_and_rounds_follow_each_other() -> None:
    cells = in_app.plan(Settings(rounds=2))
    assert len(TESTS) * len(CACHES) * 2 == len(cells) == len(set(cells))
    assert [1] * 15 + [2] * 15 == [cell.round for cell in cells]
    assert {cell.test for cell in cells if cell.modify} == set(WRITE)


def test_a_quick_run_is_one_short_round() -> None:
    quick = Settings(tests=WRITE, modify="title").quick()
    assert (WRITE, "title", 1) == (quick.tests, quick.modify, quick.rounds)
    assert quick.seconds < 1
    assert Settings(seconds=0.1).quick().seconds == 0.1


def test_indico_is_asked_for_what_was_wanted(tmp_path: Path) -> None:
    cluster, indico = cluster_in(tmp_path), Indico()
    settings = Settings(tests=(WRITE[0],), seconds=2.5, repetitions=7, modify="room", rounds=1)
    in_app.measure(cluster, cluster.indico[0], settings, indico.measure, silent)
    assert [(WRITE[0], {"seconds": "2.5", "repetitions": "7", "modify": "room", "caches": caches})
            for caches in CACHES] == indico.asked


def test_a_test_that_failed_is_kept_with_its_error_and_the_others_go_on(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path)
    indico = Indico(None, OperatorError("no", "the storage is away"))
    told: list[str] = []
    run = in_app.measure(cluster, cluster.indico[0], ONE, indico.measure,
                         lambda _cell, made: told.append(made.error))
    assert ["", "the storage is away", "", "", "", ""] == told
    assert run.is_complete
    assert ["the storage is away"] == [each.error for each in run.failed]


@pytest.mark.parametrize("stop", [
    KeyboardInterrupt(), OperatorError("busy", exit_code=ExitCode.REFUSED),
    OperatorError("gone", exit_code=ExitCode.NOT_RUNNING)])
def test_what_was_measured_before_an_end_is_kept(tmp_path: Path, stop: BaseException) -> None:
    cluster = cluster_in(tmp_path)
    with pytest.raises(type(stop)):
        in_app.measure(cluster, cluster.indico[0], ONE, Indico(None, None, stop).measure, silent)
    found, = results.read_all(cluster)
    assert len(found.measurements) == 2
    assert found.planned == 6
    assert found.ended is not None
    assert not found.is_complete


def test_an_instance_is_found_by_its_name_or_is_the_first(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path)
    assert cluster.indico[0] == in_app.instance_of(cluster, None)
    last = cluster.indico[-1]
    assert last == in_app.instance_of(cluster, last.name)
    with pytest.raises(OperatorError, match="no Indico instance nobody"):
        in_app.instance_of(cluster, "nobody")
