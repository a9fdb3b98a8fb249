"""A node that a failover has fenced: what only it has is exported before it follows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_untouched import cluster, context

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.host.local import LocalHost
from indico_zodbrepl.host.sql_export import Divergent
from indico_zodbrepl.operations import operation
from indico_zodbrepl.operations.model import Figures, Plan
from indico_zodbrepl.operations.native_rejoin_steps import KeepAfterwards
from indico_zodbrepl.operations.operation import StepRecord

__all__ = ["cluster"]  # a fixture


@pytest.mark.parametrize(
    ("follower", "lost", "needs_copy", "started"),
    [
        (True, 0, "", ["b"]),  # it was asked later than the new primary
        (True, 2, "", []),
        (True, 0, "its log has ended elsewhere", []),
        (False, 0, "", []),  # a former primary rejoins
    ],
)
def test_a_follower_that_only_seemed_to_be_ahead_is_started_again(
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    follower: bool,
    lost: int,
    needs_copy: str,
    started: list[str],
) -> None:
    starts: list[str] = []
    found = Divergent(lost, 0, None, history=True, needs_copy=needs_copy)
    answers: dict[str, Any] = {
        "fence": None,
        "kept_export": None,
        "has_data": True,
        "export_divergent": found,
        "same_export": tmp_path,
        "mark": None,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(LocalHost, name, lambda *_, answer=answer, **__: answer)
    monkeypatch.setattr("indico_zodbrepl.operations.native_rejoin_steps.names", lambda *_: [])
    monkeypatch.setattr(LocalHost, "start_node", lambda _, name, **__: starts.append(name))
    make = KeepAfterwards.of_follower if follower else KeepAfterwards.of
    figures = make("b", "a", tmp_path / "tail").do(context(cluster))
    assert starts == started
    assert figures["lost_transactions"] == lost


def test_all_nodes_of_an_operation_are_named_and_nothing_is_counted_twice() -> None:
    plan = Plan("failover", "b", "a", "a was lost", 2, (), None, ())
    figures: list[Figures] = [
        {"diverged": ["c"], "lost_transactions": 1, "exported_to": "c-2"},
        {"starts_later": ["d"]},
        {"diverged": ["a"], "lost_transactions": 3, "exported_to": "a-2"},
        {"starts_later": ["e"], "lost_transactions": 0},
    ]
    made = operation.new("demo", plan, "anne", 1.8e9)
    done = made.later(records=tuple(StepRecord(figures=each) for each in figures))
    assert done.figures == {
        "diverged": ["c", "a"],
        "starts_later": ["d", "e"],
        "lost_transactions": 3,
        "exported_to": "a-2",
    }
