"""A database server whose promotion was interrupted is promoted without a person."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from indico_zodbrepl.automation import unpromoted
from indico_zodbrepl.automation.unpromoted import PATIENCE_SECONDS, Unpromoted
from indico_zodbrepl.cluster import Cluster, NodeState, Role, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.etcd.keys import Leader
from indico_zodbrepl.host import state
from indico_zodbrepl.probing.answers import Replication, ServerRole

CONF = Path(__file__).parents[3] / "etc" / "cluster-relstorage-postgresql.conf"
LEADER = Leader("b", "h2", 4, 17)
SERVER = Replication("demo", "b", ServerRole.SECONDARY, 4, None, None, (), 1, 1, True)


class World:
    """Node b, which the key names, and the orders to promote it."""

    def __init__(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster, self.node, self.server = cluster, cluster.node("b"), SERVER
        self.promoted: list[str] = []
        self.node.data_directory.mkdir(parents=True)
        monkeypatch.setattr(
            unpromoted,
            "complete_promotion",
            lambda _cluster, _home, claim, _seconds: self.promoted.append(claim.node),
        )
        monkeypatch.setattr(unpromoted, "replication_of", lambda *_: self.server)

        self.now = 1000.0
        monkeypatch.setattr(unpromoted, "now", lambda: self.now)
        self._unpromoted = Unpromoted(cluster, Installation(CONF.parent))

    def look(self, leader: Leader = LEADER, seconds: float = PATIENCE_SECONDS) -> list[str]:
        """Look for some seconds; return who was promoted."""
        until = self.now + seconds
        while self.now <= until:
            self._unpromoted.look(self.node, leader)
            self.now += 1
        return self.promoted

    def write(self, role: Role, epoch: int) -> None:
        upstream = None if role is Role.PRIMARY else "a"
        state.write(self.node, NodeState(self.cluster.name, "b", role, upstream, epoch))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(load(CONF, tmp_path), monkeypatch)


def test_a_leader_whose_server_still_follows_is_promoted(world: World) -> None:
    world.write(Role.PRIMARY, 4)
    assert not world.look(seconds=PATIENCE_SECONDS - 2), "somebody may promote it now"
    assert set(world.look()) == {"b"}


def test_a_primary_that_takes_writes_is_left_alone(world: World) -> None:
    world.write(Role.PRIMARY, 4)
    world.server = dataclasses.replace(SERVER, role=ServerRole.PRIMARY)
    assert not world.look()


def test_nobody_is_promoted_whose_state_or_key_says_otherwise(world: World) -> None:
    world.write(Role.SECONDARY, 4)
    assert not world.look()
    world.write(Role.PRIMARY, 5)
    assert not world.look(), "the key is of the epoch before"
    assert not world.look(dataclasses.replace(LEADER, node="a", epoch=5))
