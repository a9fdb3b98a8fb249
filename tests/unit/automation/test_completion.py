"""When a take-over has no complete operation in the journal."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from indico_zodbrepl.automation import completion, program
from indico_zodbrepl.automation.decisions import Own
from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.etcd.keys import Leader
from indico_zodbrepl.host import epochs
from indico_zodbrepl.operations import journal, operation
from indico_zodbrepl.operations.model import Plan
from indico_zodbrepl.operations.operation import Outcome
from indico_zodbrepl.operations.takeover import ACTOR

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"
TAKEN_OVER = Leader("b", "h2", 2, 7, why="node a has not renewed its lease for 4.9 s")


@pytest.mark.parametrize(
    ("outcome", "epoch", "missing"),
    [
        (Outcome.RUNNING, 2, True),
        (Outcome.STOPPED, 2, True),
        (Outcome.DONE, 2, False),
        (Outcome.INCOMPLETE, 2, False),
        (Outcome.ABANDONED, 2, False),
        (Outcome.DONE, 1, True),
    ],
)
def test_one_that_was_interrupted_is_completed_after_a_restart(
    tmp_path: Path, outcome: Outcome, epoch: int, *, missing: bool
) -> None:
    cluster = load(EXAMPLE, tmp_path)
    Layout(cluster).journal.parent.mkdir(parents=True, exist_ok=True)
    plan = Plan("failover", "b", "a", TAKEN_OVER.why, epoch, (), None, ())
    begun = operation.new(cluster.name, plan, "automation", 1.8e9, "h2")
    journal.append(cluster, begun.later(outcome=outcome))
    assert completion.is_missing(cluster, TAKEN_OVER) == missing


def test_a_role_that_nobody_took_over_needs_no_operation(tmp_path: Path) -> None:
    cluster = load(EXAMPLE, tmp_path)
    first = Leader("a", "h1", 1, 1, why="the first leader")
    assert not completion.is_missing(cluster, first)


RESUMED = dataclasses.replace(TAKEN_OVER, why="its server has been stopped for 0.3 s")
"""The key after the leader gave its role away, and took it again."""


def begin(cluster: Cluster, actor: str) -> None:
    """Leave an open failover in the journal."""
    Layout(cluster).journal.parent.mkdir(parents=True, exist_ok=True)
    plan = Plan("failover", "b", "a", TAKEN_OVER.why, 2, (), None, ())
    begun = operation.new(cluster.name, plan, actor, 1.8e9, "h2")
    journal.append(cluster, begun.later(outcome=Outcome.STOPPED))


def test_one_whose_leader_gave_its_role_away_meanwhile_is_completed_too(tmp_path: Path) -> None:
    cluster = load(EXAMPLE, tmp_path)
    begin(cluster, ACTOR)
    assert completion.is_missing(cluster, RESUMED)


def test_one_that_was_killed_before_its_operation_began_is_known_by_the_epochs_reason(
    tmp_path: Path,
) -> None:
    cluster = load(EXAMPLE, tmp_path)
    assert not completion.is_missing(cluster, RESUMED)
    epochs.raise_everywhere(cluster, 1, "b", TAKEN_OVER.why)
    assert not completion.is_missing(cluster, RESUMED)
    epochs.raise_everywhere(cluster, 2, "b", TAKEN_OVER.why)
    assert completion.is_missing(cluster, RESUMED)


@pytest.mark.parametrize("reason", ["node a needs a new disk", "node a has been repaired"])
def test_an_operators_switchover_is_none_whatever_its_reason(tmp_path: Path, reason: str) -> None:
    cluster = load(EXAMPLE, tmp_path)
    epochs.raise_everywhere(cluster, 2, "b", reason)
    assert not completion.is_missing(cluster, RESUMED)


def test_an_operators_failover_is_left_to_the_operator(tmp_path: Path) -> None:
    cluster = load(EXAMPLE, tmp_path)
    begin(cluster, "root")
    epochs.raise_everywhere(cluster, 2, "b", "node a is broken")
    assert not completion.is_missing(cluster, RESUMED)


def test_a_node_that_is_promoted_after_a_restart_has_its_take_over_completed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program was killed between the take-over and the promotion."""
    done: list[Leader] = []
    called = threading.Event()

    def complete(_cluster: object, _installation: object, record: Leader, _none: object) -> None:
        done.append(record)
        called.set()

    monkeypatch.setattr(program, "store_of", lambda _cluster: SimpleNamespace())
    monkeypatch.setattr(completion, "is_missing", lambda _cluster, _record: True)
    monkeypatch.setattr(completion, "complete", complete)
    cluster = load(EXAMPLE, tmp_path)
    made = program.Automation(cluster, Installation(tmp_path))
    monkeypatch.setattr(made, "_own", lambda node: Own(node.name, "primary", 2, 2))
    reign: Any = SimpleNamespace(
        node=cluster.node("b"),
        epoch=2,
        leads=False,
        over=False,
        stored=SimpleNamespace(record=TAKEN_OVER),
        promoted=lambda: None,
    )
    made._reign = reign
    for _ in range(2):
        made._tend(reign)
    assert called.wait(20)
    assert done == [TAKEN_OVER]
