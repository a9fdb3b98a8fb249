"""What the commands that carry out a plan print."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click
import pytest
from fake_world import PLAN, cluster

from indico_zodbrepl.cli.operation_view import WIDTH, ending_lines, finding_lines, heading
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.operations import operation
from indico_zodbrepl.operations.messages import figure_text
from indico_zodbrepl.operations.model import Finding, Loss, Verdict
from indico_zodbrepl.operations.operation import Outcome


@pytest.fixture
def of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setenv("ZODBREPL_HOME", str(tmp_path))
    return cluster(tmp_path)


def ended(**changes: Any) -> operation.Operation:
    begun = operation.new("test", dataclasses.replace(PLAN, source="a"), "somebody", 1795172767.0)
    return dataclasses.replace(begun, outcome=Outcome.DONE, ended=begun.began + 1, **changes)


def test_a_long_finding_is_folded_within_the_width() -> None:
    lines = list(finding_lines((Finding(Verdict.WARNING, "a", "word " * 60, "evidence"),)))
    assert len(lines) > 3
    assert all(len(click.unstyle(line)) <= WIDTH for line in lines)


def test_what_was_exported_is_reported_with_the_command_that_shows_it(
    of: Cluster, tmp_path: Path
) -> None:
    folder = tmp_path / "var" / "lost-tails" / "a-2"
    told = "\n".join(
        ending_lines(of, ended(told={"lost_transactions": 1, "exported_to": str(folder)}))
    )
    assert "Lost from the cluster: 1 transaction." in told
    assert "recover var/lost-tails/a-2" in told


def test_the_ending_names_what_users_know_of_what_was_exported(of: Cluster) -> None:
    told = "\n".join(
        ending_lines(
            of,
            ended(
                told={
                    "lost_transactions": 1,
                    "exported_to": "/t",
                    "exported_objects": ['Conference 7 "Spring"', "and 3 more objects"],
                }
            ),
        )
    )
    assert '  Conference 7 "Spring", and 3 more objects' in told


@pytest.mark.parametrize(
    ("kind", "first", "last"),
    [
        ("rejoin", "REJOIN of b from a, epoch 2", "rejoin of b is done"),
        ("failover", "FAILOVER to b from a, epoch 2", "failover to b is done"),
    ],
)
def test_a_role_moves_to_a_node_and_a_rejoin_is_of_one(
    of: Cluster, kind: str, first: str, last: str
) -> None:
    plan = dataclasses.replace(PLAN, operation=kind, source="a")
    assert first == click.unstyle(next(heading(plan)))
    assert click.unstyle(next(ending_lines(of, ended(plan=plan)))).startswith(last)


def test_the_journal_shows_moments_as_times_and_lists_without_brackets() -> None:
    assert "2026-11-20 11:06:07 UTC" == figure_text("held_at", 1795172767.123)
    assert ("1, 2", "none", "7") == (
        figure_text("killed", [1, 2]),
        figure_text("killed", []),
        figure_text("seen", 7),
    )


def test_a_loss_that_nobody_could_look_at_is_not_passed_over(of: Cluster) -> None:
    unseen = dataclasses.replace(
        PLAN, source="a", loss=Loss("a", None, None, False, None, "perhaps something")
    )
    told = "\n".join(ending_lines(of, ended(plan=unseen)))
    assert "Lost: perhaps something." in told
    assert "rejoin a" in told


def test_a_recovery_says_what_was_made_again_and_what_was_left(of: Cluster) -> None:
    plan = dataclasses.replace(PLAN, operation="recover", target="a-2-x", source="", steps=())
    made = {"written": "0400000000000009", "transactions": ["1", "2"], "objects": 7, "left": 1}
    told = "\n".join(ending_lines(of, ended(plan=plan, records=(), told=made)))
    assert "Recovered in transaction 0400000000000009: 2 transactions, objects: 7." in told
    assert "conflict with later changes: 1 transaction." in told
    told = "\n".join(
        ending_lines(
            of,
            ended(
                plan=plan,
                records=(),
                told={"written": "0400000000000009", "event": "204", "title": "Spring"},
            ),
        )
    )
    assert "'Spring' is event 204 now." in told
