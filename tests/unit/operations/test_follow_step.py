"""A node is made to follow, whether its server runs, does not run, or answers late."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from test_untouched import cluster, context, step

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.local import LocalHost
from indico_zodbrepl.host.operations_interface import LockLostError
from indico_zodbrepl.host.role_changes import Changed
from indico_zodbrepl.operations import checks, roles
from indico_zodbrepl.operations.checks import UNTOLD_SECONDS, SeeFollowing
from indico_zodbrepl.operations.model import Figures, Step
from indico_zodbrepl.operations.roles import Follow

__all__ = ["cluster"]  # a fixture
RUNS = OperatorError("node b is running as secondary", exit_code=ExitCode.REFUSED)


class Server:
    """What is asked of node b and its server.

    Args:
        answers: if it answers, question by question.
        assigns: the error of an assignment; None without one.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, answers: list[bool], assigns: OperatorError | None
    ) -> None:
        self.done: list[str] = []
        self._answers = iter(answers)
        self._assigns = assigns
        monkeypatch.setattr(roles, "replication", self._replication)
        monkeypatch.setattr(LocalHost, "assign", self._assign)
        monkeypatch.setattr(LocalHost, "follow", self._follow)

    def _replication(self, _cluster: Cluster, _name: str) -> object:
        return object() if next(self._answers) else None

    def _assign(self, *_: Any, **__: Any) -> None:
        self.done.append("assign")
        if self._assigns is not None:
            raise self._assigns

    def _follow(self, *_: Any, **__: Any) -> Changed:
        self.done.append("follow")
        return Changed(in_place=True, remarks=())


def follow() -> Step:
    return step(Follow, upstream="a", epoch=2, role="secondary")


def test_a_server_that_runs_follows(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch, [True], None)
    follow().do(context(cluster))
    assert ["follow"] == server.done


def test_one_that_does_not_run_follows_from_its_next_start_on(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(monkeypatch, [False], None)
    figures = follow().do(context(cluster))
    assert ["assign"] == server.done
    later = dataclasses.replace(context(cluster), results={("follow", "b"): figures})
    assert step(SeeFollowing, upstream="a").do(later) == {}, "it waits for nothing"


def test_one_that_answers_late_is_no_server_that_does_not_run(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(monkeypatch, [False, True], RUNS)
    follow().do(context(cluster))
    assert ["assign", "follow"] == server.done


def test_an_assignment_that_fails_for_another_reason_fails_the_step(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    error = OperatorError("the state can't be written", str(tmp_path))
    server = Server(monkeypatch, [False, False], error)
    with pytest.raises(OperatorError, match="the state can't be written"):
        follow().do(context(cluster))
    assert ["assign"] == server.done


@pytest.mark.parametrize(
    ("steps", "results", "expected"),
    [
        ((), {}, 10.0),
        ((follow(),), {("follow", "b"): {}}, 10.0),
        ((follow(),), {}, UNTOLD_SECONDS),
    ],
    ids=["no order is planned", "it was told", "the order failed"],
)
def test_little_is_waited_for_a_node_that_could_not_be_told_to_follow(
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    steps: tuple[Step, ...],
    results: dict[tuple[str, str], Figures],
    expected: float,
) -> None:
    """With `synchronous 1` each commit may need another node, whose rejoin waits meanwhile."""
    waited: list[float] = []
    monkeypatch.setattr(checks, "wait", lambda _context, step, _found: waited.append(step.seconds))
    made = context(cluster)
    plan = dataclasses.replace(made.plan, steps=steps)
    step(SeeFollowing, upstream="a").do(dataclasses.replace(made, plan=plan, results=results))
    assert [expected] == waited


def test_a_wait_ends_when_another_operation_has_replaced_its_own(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would hold the lock of its host for as long as its step may last, and keep others away."""

    def check_lock() -> None:
        raise LockLostError("the automation took over")

    monkeypatch.setattr(checks, "LOCK_SECONDS", 0.0)
    preempted = dataclasses.replace(context(cluster), check_lock=check_lock)
    with pytest.raises(LockLostError):
        checks.wait(preempted, step(SeeFollowing, upstream="a"), lambda: "its link is down")
