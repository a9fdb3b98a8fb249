"""When a leader whose disk is full gives its role away."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from indico_zodbrepl.automation import full_disks
from indico_zodbrepl.automation.full_disks import (
    AGAIN_SECONDS,
    FULL_SECONDS,
    LEAST_BYTES,
    FullDisk,
    has_successor,
)
from indico_zodbrepl.automation.reports import REPEAT_SECONDS, Report, reported
from indico_zodbrepl.automation.view import Known
from indico_zodbrepl.cluster import Node, load
from indico_zodbrepl.etcd.keys import Member, Sync
from indico_zodbrepl.host.disks import Disk

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster-relstorage-mariadb.conf"
NODES = ("a", "b", "c")
SYNC = Sync(7, 1, "fsync", members=("b", "c"))
NOW = 1000.0
WAITED = "its server waited for room on its disk, which has some again"
B = Member("b", "h2", 7, role="secondary")
C = Member("c", "h3", 7, role="secondary")


def successor(
    *found: Member, sync: Sync | None = SYNC, heard: float | None = NOW - 1, configured: int = 1
) -> bool:
    reports: Mapping[str, Report] = {each.node: Report(each, heard) for each in found}
    return has_successor("a", NODES, reports, sync, configured=configured, epoch=7, now=NOW)


def but(member: Member, **changes: Any) -> Member:
    return dataclasses.replace(member, **changes)


def test_followers_that_prove_the_last_commit_succeed_a_leader_if_one_has_room() -> None:
    assert successor(B, C)
    assert successor(but(B, full=True), C)
    assert successor(but(B, role="relay"), C)


@pytest.mark.parametrize(
    "found",
    [
        (but(B, full=True), but(C, full=True)),
        (B,),
        (B, but(C, role="", problem="its server does not run")),
        (B, but(C, problem="it was a primary, and its data have not been compared since")),
        (B, but(C, condition="diverged")),
        (B, but(C, role="primary")),
        (B, but(C, node="d")),
    ],
    ids=["all full", "no report", "stopped", "former", "diverged", "no follower", "another node"],
)
def test_without_such_followers_a_full_leader_stays(found: tuple[Member, ...]) -> None:
    assert not successor(*found)


@pytest.mark.parametrize(
    "sync",
    [Sync(7, 0, "fsync"), dataclasses.replace(SYNC, alone=True)],
    ids=["asynchronous", "alone"],
)
def test_a_full_leader_stays_if_only_it_may_have_acknowledged_commits(sync: Sync) -> None:
    assert not successor(B, C, sync=sync)


def test_without_acknowledged_commits_a_full_leader_stays() -> None:
    assert not successor(B, C, sync=None, configured=0)


def test_a_node_that_may_have_confirmed_commits_has_to_be_heard_too() -> None:
    """One that is in no cluster file any more, for example."""
    assert not successor(B, C, sync=dataclasses.replace(SYNC, members=("b", "c", "d")))


@pytest.mark.parametrize("heard", [None, NOW - 3 * REPEAT_SECONDS])
def test_old_reports_name_no_successor(heard: float | None) -> None:
    assert not successor(B, C, heard=heard)


def test_a_report_is_recent_if_it_was_written_after_the_first_look() -> None:
    first = reported(None, B, 10.0)
    assert not first.is_recent(10.0)
    assert not reported(first, B, 12.0).is_recent(12.0)
    second = reported(first, but(B, at="later"), 14.0)
    assert second.is_recent(14.0)
    assert not second.is_recent(14.0 + 3 * REPEAT_SECONDS)


class Stage:
    """The host of a leader, whose follower has room, and a clock."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = NOW
        self.free = 0
        self.acts = True
        self.heard = True
        self.sync = dataclasses.replace(SYNC, members=("b",))
        self.asked = 0
        self.waits = False
        self.killed: list[str] = []
        self.given: list[str] = []
        source = folder / "cluster.conf"
        source.write_text(EXAMPLE.read_text())
        cluster = load(source, folder)
        self.node = cluster.node("a")
        self.reign: Any = SimpleNamespace(
            node=self.node, epoch=7, leads=True, over="", give_up=self.given.append
        )
        view: Any = self
        self.alone = False
        calm: Any = SimpleNamespace(acts=lambda: self.acts, leaves_alone=lambda _name: self.alone)
        self.disk = FullDisk(cluster, view, calm, lambda: self.reign)
        monkeypatch.setattr(full_disks, "now", lambda: self.now)
        monkeypatch.setattr(full_disks, "disk_of", lambda _folder: Disk(self.free, 500 << 30, 1))
        native = SimpleNamespace(waits_for_room=self._ask)
        monkeypatch.setattr(full_disks, "native_of", lambda _cluster: native)
        monkeypatch.setattr(full_disks, "ServerProcess", self._process)

    @property
    def known(self) -> Known:
        heard = self.now if self.heard else None
        return Known(sync=self.sync, reports={"b": Report(B, heard)})

    def look(self, later: float = 0.0) -> list[str]:
        """Look after so many more seconds; return why the role was given away until now."""
        self.now += later
        self.disk.look(self.node)
        return self.given

    def make_room(self) -> list[str]:
        """Let the disk be full for a moment, and have room then."""
        self.look()
        self.free = LEAST_BYTES
        return self.look(1)

    def _ask(self, node: Node, _deadline: float) -> bool:
        assert node == self.node
        self.asked += 1
        return self.waits

    def _process(self, _cluster: object, node: Node, _on_change: object) -> Any:
        def kill() -> bool:
            self.killed.append(node.name)
            return True

        return SimpleNamespace(pid=7, kill=kill, close=lambda: None)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(tmp_path, monkeypatch)


def test_a_leader_gives_its_role_away_when_its_disk_has_been_full_for_a_while(stage: Stage) -> None:
    assert [] == stage.look()
    assert [] == stage.look(FULL_SECONDS - 0.1)
    assert ["its disk is full (0 MiB free)"] == stage.look(0.1)


def test_a_disk_that_has_room_in_between_is_not_full(stage: Stage) -> None:
    stage.look()
    stage.free = LEAST_BYTES
    stage.look(FULL_SECONDS - 1)
    stage.free = LEAST_BYTES - 1
    assert [] == stage.look(1)
    assert [] == stage.look(FULL_SECONDS - 1)
    assert 1 == len(stage.look(1))


def test_a_leader_that_nobody_has_replaced_gives_its_role_away_again_after_a_minute(
    stage: Stage,
) -> None:
    stage.look()
    stage.look(FULL_SECONDS)
    assert 1 == len(stage.look(AGAIN_SECONDS - 1))
    assert 2 == len(stage.look(1))


def test_nothing_is_done_while_an_operation_runs_or_the_automation_is_paused(stage: Stage) -> None:
    stage.look()
    stage.acts = False
    stage.waits = True
    assert [] == stage.look(FULL_SECONDS)
    stage.free = LEAST_BYTES
    assert [] == stage.look(1)
    assert not stage.asked
    stage.acts = True
    assert [WAITED] == stage.look(1)


@pytest.mark.parametrize("change", [{"leads": False}, {"over": "it has ended"}])
def test_a_reign_that_has_not_begun_or_has_ended_is_left_alone(
    stage: Stage, change: Mapping[str, Any]
) -> None:
    vars(stage.reign).update(change)
    stage.look()
    assert [] == stage.look(FULL_SECONDS)
    stage.reign = None
    assert [] == stage.look(FULL_SECONDS)


def test_the_server_of_a_node_that_is_being_promoted_is_not_killed(stage: Stage) -> None:
    stage.reign.leads = False
    stage.waits = True
    assert [] == stage.make_room()
    assert not stage.killed


def test_that_nobody_can_succeed_is_told_once_until_somebody_can(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.heard = False
    stage.look()
    for _ in range(20):
        assert [] == stage.look(FULL_SECONDS)
    said = capsys.readouterr().out
    assert 1 == said.count("the disk of node a is full, and it keeps its role")
    stage.heard = True
    assert 1 == len(stage.look(1))


def test_a_leader_whose_server_does_not_notice_room_gives_its_role_away(stage: Stage) -> None:
    """The leader itself may lead again: a new server does not wait."""
    stage.waits = True
    stage.heard = False
    assert [WAITED] == stage.make_room()
    assert not stage.killed


@pytest.mark.parametrize(
    "sync",
    [
        Sync(7, 0, "fsync"),
        dataclasses.replace(SYNC, alone=True),
        dataclasses.replace(SYNC, epoch=6),
    ],
    ids=["asynchronous", "alone", "of another epoch"],
)
def test_a_leader_with_commits_that_only_it_may_have_may_wait(stage: Stage, sync: Sync) -> None:
    stage.waits = True
    stage.sync = sync
    assert [] == stage.make_room()
    assert not stage.killed


def test_an_operation_that_may_wait_for_a_follower_does_not_keep_it_waiting(stage: Stage) -> None:
    stage.reign = None
    stage.acts = False
    stage.waits = stage.alone = True
    stage.look()
    stage.alone = False
    stage.make_room()
    assert ["a"] == stage.killed


@pytest.mark.parametrize(("waits", "expected"), [(True, ["a"]), (False, [])])
def test_the_server_of_a_follower_that_does_not_notice_room_is_killed(
    stage: Stage, expected: list[str], *, waits: bool
) -> None:
    stage.reign = None
    stage.waits = waits
    stage.make_room()
    stage.look(1)
    assert (expected, 1) == (stage.killed, stage.asked)
