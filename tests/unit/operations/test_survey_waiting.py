"""A switchover to a node that is behind for a moment only is not refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from situations import ONE_SECOND, TID, TID_TIME, behind, cluster, findings, server

from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.monitor.findings import Findings
from indico_zodbrepl.monitor.snapshot import Snapshot
from indico_zodbrepl.operations import survey

LATER = TID + 60 * ONE_SECOND
BEHIND: dict[str, Any] = {
    "servers": {"a": server("a", LATER)},
    "taken_at": TID_TIME + 60,
    "comparisons": {"b": behind(7, LATER, first=TID + ONE_SECOND)},
}


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[Findings]:
    """What the rounds of probes will find, the last of them again and again."""
    coming: list[Findings] = []
    monkeypatch.setattr(
        survey, "collect", lambda *_: coming.pop(0) if len(coming) > 1 else coming[0]
    )
    monkeypatch.setattr(survey, "POLL_SECONDS", 0.0)
    return coming


def probed(installation: Path) -> Snapshot:
    _findings, snapshot = survey._once_caught_up(cluster(), Installation(installation), "b")
    return snapshot


def test_a_target_that_catches_up_within_a_moment_is_looked_at_again(
    rounds: list[Findings], tmp_path: Path
) -> None:
    rounds += [findings(**BEHIND), findings(**BEHIND), findings()]
    assert 0.0 == probed(tmp_path).node("b").lag_seconds
    assert 1 == len(rounds)


def test_a_target_that_stays_behind_is_reported_as_it_is(
    rounds: list[Findings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "CATCH_UP_SECONDS", 0.05)
    rounds.append(findings(**BEHIND))
    assert 59.0 == pytest.approx(probed(tmp_path).node("b").lag_seconds, abs=1e-3)


def test_nothing_is_waited_for_when_the_target_is_cut_off(
    rounds: list[Findings], tmp_path: Path
) -> None:
    cut_off = {**BEHIND, "servers": {**BEHIND["servers"], "b": server("b", connected=False)}}
    rounds += [findings(**cut_off), findings(), findings()]
    assert probed(tmp_path).node("b").connected is False
    assert 2 == len(rounds)
