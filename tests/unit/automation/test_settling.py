"""When a node counts again that may have lacked commits that it had confirmed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indico_zodbrepl.automation.settling import REFRESH_SECONDS, Seen, Settler, goal
from indico_zodbrepl.cluster import Cluster, Node, NodeState, Role, load
from indico_zodbrepl.etcd.keys import Leader
from indico_zodbrepl.host import confirmed_commits, history
from indico_zodbrepl.host.history import Condition, Lineage
from indico_zodbrepl.host.server_control import ServerStatus
from indico_zodbrepl.probing.answers import (
    Acknowledging,
    AckState,
    Replication,
    ServerAnswer,
    ServerRole,
)
from indico_zodbrepl.probing.wire import FailureKind, ProbeError

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"
LEADER = Leader("a", "h1", 4, 17)
STATE = NodeState("demo", "b", Role.SECONDARY, "a", 4)
KNOWN: Lineage = history.nothing(4, was_writable=False)
SYNCHRONOUS = Acknowledging(AckState.SYNCHRONOUS, 1, "fsync", 10.0, "refuse", acknowledged=90)
PRIMARY = Replication(
    "demo", "a", ServerRole.PRIMARY, 4, None, None, (), 1, 1, False, acknowledging=SYNCHRONOUS
)
FOLLOWER = ServerStatus("secondary", 4, 4, 100, None, None, "a:1", True, ())


def answer(tid: int = 100, **changes: Any) -> ServerAnswer:
    return ServerAnswer(tid, 0, dataclasses.replace(PRIMARY, **changes))


@pytest.mark.parametrize("said", [SYNCHRONOUS, None])
def test_a_follower_has_to_reach_all_that_the_leader_has(said: Acknowledging | None) -> None:
    """After a loss of power the leader may not know of its last acknowledgements."""
    assert goal(answer(acknowledging=said), LEADER) == 100


@pytest.mark.parametrize(
    "changes",
    [
        {"node": "c"},
        {"cluster": "other"},
        {"epoch": 3},
        {"role": ServerRole.SECONDARY},
        {"lease_left": -0.1},
    ],
)
def test_another_server_than_the_leader_sets_no_goal(changes: dict[str, Any]) -> None:
    assert goal(answer(**changes), LEADER, "demo") is None


class World:
    """The settler of node b, and what the servers answer."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.node = cluster.node("b")
        self.primary: ServerAnswer | None = answer()
        self.asked = 0
        self.now = 1000.0
        self.before_status: Callable[[], None] = lambda: None
        self.joined: list[str] = []
        self._settler = Settler(cluster, self._ask, lambda: self.now, self._has_joined)

    def _has_joined(self, _cluster: Cluster, node: Node, upstream: Node) -> bool:
        return f"{node.name} below {upstream.name}" in self.joined

    def _ask(self, *_: object) -> ServerAnswer:
        self.asked += 1
        if self.primary is None:
            raise ProbeError(FailureKind.SILENT, "no answer")
        return self.primary

    def look(
        self,
        *,
        known: Lineage = KNOWN,
        present: NodeState = STATE,
        leader: Leader | None = LEADER,
        **changes: Any,
    ) -> None:
        record = confirmed_commits.read(self.cluster, self.node)
        self.before_status()
        status = dataclasses.replace(FOLLOWER, **changes)
        self._settler.look(self.node, Seen(record, status, present, known), leader)

    @property
    def doubt(self) -> str:
        return confirmed_commits.doubt(self.cluster, self.node, 10**6)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(load(EXAMPLE, tmp_path))


def test_a_follower_that_has_caught_up_counts(world: World) -> None:
    world.look(last_tid=99)
    assert world.doubt
    world.look(last_tid=100)
    assert not world.doubt
    assert world.asked == 1


def test_under_load_it_need_not_reach_what_came_after_the_question(world: World) -> None:
    world.look(last_tid=50)
    world.primary = answer(1000)
    world.look(last_tid=120)
    assert not world.doubt


def test_data_that_were_replaced_meanwhile_are_measured_again(world: World) -> None:
    world.look(last_tid=50)
    confirmed_commits.distrust(world.cluster, world.node, "it was restored from a backup")
    world.primary = answer(200)
    world.look(last_tid=120)
    assert world.doubt
    world.look(last_tid=200)
    assert not world.doubt


def test_the_leader_of_another_epoch_is_measured_again(world: World) -> None:
    """It may lack the last commits of the former one, without acknowledged commits."""
    world.look(last_tid=50)
    world.primary = answer(90, epoch=5)
    leader = dataclasses.replace(LEADER, epoch=5)
    present = dataclasses.replace(STATE, epoch=5)
    world.look(last_tid=90, leader=leader, present=present, epoch=5)
    assert not world.doubt


def test_data_that_are_replaced_during_a_look_do_not_count(world: World) -> None:
    """The server's answer may be of the data before."""
    world.before_status = lambda: confirmed_commits.distrust(world.cluster, world.node, "cloned")
    world.look(last_tid=100)
    assert "cloned" in world.doubt


@pytest.mark.parametrize(
    "changes",
    [
        {"connected": False},
        {"epoch": 3},
        {"role": "primary"},
        {"present": dataclasses.replace(STATE, epoch=3)},
        {"known": dataclasses.replace(KNOWN, was_writable=True)},
        {"known": dataclasses.replace(KNOWN, condition=Condition.DIVERGED)},
        {"leader": None},
        {"leader": dataclasses.replace(LEADER, released=True)},
    ],
)
def test_a_node_that_does_not_follow_the_leader_does_not_count(
    world: World, changes: dict[str, Any]
) -> None:
    world.look(**changes)
    assert world.doubt


def test_while_the_leader_does_not_answer_nothing_changes(world: World) -> None:
    world.primary = None
    world.look()
    assert world.doubt
    world.primary = answer()
    world.look()
    assert not world.doubt


def test_the_leader_itself_counts(world: World) -> None:
    world.look(
        role="primary",
        connected=None,
        upstream=None,
        leader=dataclasses.replace(LEADER, node="b"),
        synchronous=Acknowledging(AckState.SYNCHRONOUS, 1, "fsync", 10.0, "refuse"),
    )
    assert not world.doubt
    assert world.asked == 0


@pytest.fixture
def database(tmp_path: Path) -> World:
    """Node b with a database server that was away when epoch 4 began."""
    world = World(dataclasses.replace(load(EXAMPLE, tmp_path), backend="relstorage-postgresql"))
    confirmed_commits.distrust_late(world.cluster, dataclasses.replace(STATE, epoch=3), STATE)
    return world


def test_nothing_is_recorded_for_a_database_server_that_was_not_away(tmp_path: Path) -> None:
    world = World(dataclasses.replace(load(EXAMPLE, tmp_path), backend="relstorage-postgresql"))
    leader = dataclasses.replace(LEADER, node="b")
    world.look(role="primary", connected=None, upstream=None, leader=leader, last_tid=0)
    assert confirmed_commits.read(world.cluster, world.node) is None


def test_a_database_server_that_was_away_counts_when_the_leader_sends_it_its_log(
    database: World,
) -> None:
    database.look(last_tid=0, epoch=1)
    assert "it has not followed the primary of epoch 4 yet" in database.doubt
    database.joined.append("b below a")
    database.look(last_tid=0, epoch=1)
    assert not database.doubt
    assert database.asked == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"present": dataclasses.replace(STATE, epoch=3)},
        {"present": dataclasses.replace(STATE, upstream="c")},
        {"known": dataclasses.replace(KNOWN, condition=Condition.DIVERGED)},
        {"leader": None},
        {"leader": dataclasses.replace(LEADER, released=True)},
        {"leader": dataclasses.replace(LEADER, epoch=5)},
    ],
)
def test_the_log_of_another_server_than_the_leader_proves_nothing(
    database: World, changes: dict[str, Any]
) -> None:
    database.joined += ["b below a", "b below c"]
    database.look(**changes)
    assert database.doubt


def test_a_database_server_that_leads_is_itself_the_history(database: World) -> None:
    present = NodeState("demo", "b", Role.PRIMARY, None, 4)
    database.look(present=present, leader=dataclasses.replace(LEADER, node="b"))
    assert not database.doubt


def test_what_a_node_has_is_recorded_again_now_and_then(world: World) -> None:
    """So that an older file that takes its place is noticed."""
    world.look(last_tid=100)
    world.now += REFRESH_SECONDS / 2
    world.look(last_tid=150)
    assert not confirmed_commits.doubt(world.cluster, world.node, 100)
    world.now += REFRESH_SECONDS
    world.look(last_tid=200)
    assert confirmed_commits.doubt(world.cluster, world.node, 199)
    world.look(last_tid=90)
    assert confirmed_commits.doubt(world.cluster, world.node, 90)
