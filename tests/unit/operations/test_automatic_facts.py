"""What a failover by hand is told while a cluster replaces its primary automatically."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.loader import load
from indico_zodbrepl.etcd.keys import Leader, Paused, Sync
from indico_zodbrepl.operations.automatic import Automation, findings, objection

LEADER = Leader("a", "h1", 4, 17, since="2026-11-24T10:00:00Z", why="switchover to a")
LOST = Automation(LEADER, unchanged=8.1)


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    return Commands(load(Path(__file__).parents[3] / "etc/cluster.conf", tmp_path), tmp_path)


def test_without_automation_nothing_changes(commands: Commands) -> None:
    assert objection(None, "a", commands) is None
    assert not list(findings(None, "a"))


def test_a_leader_that_renews_its_lease_is_not_replaced_by_hand(commands: Commands) -> None:
    found = objection(dataclasses.replace(LOST, renewed=True), "a", commands)
    assert found is not None
    assert found.notice == "primary a renews its lease: the automation replaces it if that ends"
    assert "switchover" in found.hint


def test_a_failover_that_the_automation_makes_is_not_made_twice(commands: Commands) -> None:
    new = Automation(Leader("b", "h2", 5, 1, why="the lease ended"), taken_over=True)
    found = objection(new, "a", commands)
    assert found is not None
    assert found.notice == "the automation replaces a: node b leads in epoch 5"


def test_a_lost_leader_is_replaced_by_hand_where_the_automation_can_prove_nothing(
    commands: Commands,
) -> None:
    assert objection(LOST, "a", commands) is None
    (said,) = findings(LOST, "a")
    assert "can't prove that no acknowledged commit is lost" in said.text
    assert said.evidence == "the lease of a was not renewed for 8 s, and no node took over"


def test_commits_that_only_the_lost_leader_has_are_named() -> None:
    sync = Sync(4, 1, "fsync", alone=True, since="2026-11-24T11:00:00Z")
    (said,) = findings(dataclasses.replace(LOST, sync=sync), "a")
    assert said.evidence == (
        "a acknowledged commits that no other node has, since 2026-11-24T11:00:00Z"
    )


def test_while_the_automation_is_paused_an_operator_acts(commands: Commands) -> None:
    found = dataclasses.replace(LOST, paused=Paused("eva", "new disks", "2026-11-24T12:00:00Z"))
    assert objection(found, "a", commands) is None
    # The key of a leader without a server is renewed too.
    assert objection(dataclasses.replace(found, renewed=True), "a", commands) is None
    (said,) = findings(found, "a")
    assert said.text == "the automation is paused, so it does not act"
    assert said.evidence == "by eva since 2026-11-24T12:00:00Z: new disks"
