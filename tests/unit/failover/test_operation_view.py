"""What the commands that carry out a plan print."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click
import pytest
from fake_world import PLAN, cluster

from indico_zodbrepl.cli.operation_view import WIDTH, ending_lines, finding_lines
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.failover import operation
from indico_zodbrepl.failover.operation import Outcome
from indico_zodbrepl.failover.steps import Finding, Loss, Verdict


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


def test_what_was_exported_is_told_with_the_command_that_shows_it(
        of: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "var" / "lost-tails" / "a-2"
    told = "\n".join(ending_lines(of, ended(
        told={"lost_transactions": 1, "exported_to": str(folder)})))
    assert "Not in the cluster any more: 1 transaction." in told
    assert "salvage var/lost-tails/a-2" in told


def test_a_loss_that_nobody_could_look_at_is_not_passed_over(of: Cluster) -> None:
    unseen = dataclasses.replace(PLAN, source="a", loss=Loss(
        "a", None, None, False, None, "perhaps something"))
    told = "\n".join(ending_lines(of, ended(plan=unseen)))
    assert "Lost: perhaps something." in told
    assert "rejoin a" in told
