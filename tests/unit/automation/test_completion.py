"""When a take-over has no complete operation in the journal."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from indico_zodbrepl.automation import completion, program
from indico_zodbrepl.automation.decisions import Own
from indico_zodbrepl.cluster import load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.etcd.keys import Leader
from indico_zodbrepl.operations import journal, operation
from indico_zodbrepl.operations.model import Plan
from indico_zodbrepl.operations.operation import Outcome

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
