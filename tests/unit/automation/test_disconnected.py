"""A follower whose database server runs without replicating rejoins, but not again and again."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from indico_zodbrepl.automation import disconnected
from indico_zodbrepl.automation.disconnected import (
    AGAIN_SECONDS,
    DISCONNECTED_SECONDS,
    LOOK_SECONDS,
    Disconnected,
)
from indico_zodbrepl.cluster import Node, NodeState, Role, load
from indico_zodbrepl.host import state
from indico_zodbrepl.probing.answers import ServerRole
from indico_zodbrepl.probing.wire import FailureKind, ProbeError

EXAMPLES = Path(__file__).parents[3] / "etc"
AWAY = ProbeError(FailureKind.REFUSED, "refused")
STARTING = ProbeError(FailureKind.CLOSED, "FATAL: the database system is starting up")
FROZEN = ProbeError(FailureKind.SILENT, "no answer in time")


class World:
    """A follower's answers, and the clock.

    Attributes:
        connected: as its server says; an exception if it does not answer.
        waits_in_vain: True if its recovery needs log that nobody has.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, example: str) -> None:
        self.cluster = load(EXAMPLES / example, folder)
        self.node = self.cluster.node("b")
        self.now = 1000.0
        self.connected: bool | ProbeError | None = True
        self.role = ServerRole.SECONDARY
        self.upstream: str | None = str(self.cluster.node("a").link_address)
        self.asked = 0
        self.waits_in_vain = False
        watch = SimpleNamespace(recovery_watch=lambda _node: lambda: self.waits_in_vain)
        monkeypatch.setattr(disconnected, "native_of", lambda _cluster: watch)
        monkeypatch.setattr(disconnected, "now", lambda: self.now)
        monkeypatch.setattr(disconnected, "replication_of", self._answer)
        self.of = Disconnected(self.cluster)

    def _answer(self, _cluster: object, _node: Node) -> SimpleNamespace:
        self.asked += 1
        if isinstance(self.connected, ProbeError):
            raise self.connected
        return SimpleNamespace(role=self.role, connected=self.connected, upstream=self.upstream)

    def after(self, seconds: float) -> float:
        """Let time go by in steps of two seconds; return how long it has not been connected."""
        end = self.now + seconds
        while self.now < end:
            self.now += 2.0
            found = self.of.seconds(self.node)
        return found


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch, "cluster-relstorage-postgresql.conf")


def test_the_time_since_a_follower_was_seen_connected_counts(world: World) -> None:
    assert world.after(60.0) == 0.0
    world.connected = False
    assert world.after(DISCONNECTED_SECONDS + LOOK_SECONDS) >= DISCONNECTED_SECONDS
    assert world.asked < 20


def test_one_whose_recovery_waits_in_vain_counts_although_it_does_not_answer(world: World) -> None:
    world.connected = STARTING
    assert world.after(2 * DISCONNECTED_SECONDS) == 0.0
    world.waits_in_vain = True
    assert world.after(DISCONNECTED_SECONDS + LOOK_SECONDS) >= DISCONNECTED_SECONDS
    world.connected = FROZEN
    assert world.after(LOOK_SECONDS) == 0.0


@pytest.mark.parametrize("answer", [True, None, AWAY])
def test_one_that_connects_again_or_whose_server_is_down_starts_anew(
    world: World, answer: bool | ProbeError | None
) -> None:
    world.connected = False
    world.after(DISCONNECTED_SECONDS - LOOK_SECONDS)
    world.connected = answer
    assert world.after(LOOK_SECONDS) == 0.0
    world.connected = False
    assert world.after(DISCONNECTED_SECONDS - LOOK_SECONDS) < DISCONNECTED_SECONDS


def test_a_server_that_runs_as_a_primary_does_not_count(world: World) -> None:
    world.connected, world.role = False, ServerRole.PRIMARY
    assert world.after(300.0) == 0.0


def test_the_time_in_which_nobody_led_does_not_count(world: World) -> None:
    world.connected = False
    world.after(DISCONNECTED_SECONDS)
    world.of.forget()
    assert world.after(LOOK_SECONDS) <= LOOK_SECONDS


def test_a_rejoin_that_did_not_help_is_tried_again_after_ten_minutes(world: World) -> None:
    world.connected = False
    world.after(DISCONNECTED_SECONDS + LOOK_SECONDS)
    world.of.tried(world.node)
    assert world.after(AGAIN_SECONDS - LOOK_SECONDS) < DISCONNECTED_SECONDS
    assert world.after(2 * LOOK_SECONDS) >= DISCONNECTED_SECONDS


def test_a_follower_that_is_connected_after_its_rejoin_counts_from_its_next_loss(
    world: World,
) -> None:
    world.of.tried(world.node)
    world.after(LOOK_SECONDS)
    world.connected = False
    assert world.after(DISCONNECTED_SECONDS + LOOK_SECONDS) >= DISCONNECTED_SECONDS


def test_a_storage_server_connects_again_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = World(tmp_path, monkeypatch, "cluster.conf")
    made.connected = False
    assert made.after(300.0) == 0.0
    assert not made.asked


@pytest.mark.parametrize(
    ("followed", "seconds"), [("own", 0.0), ("other", DISCONNECTED_SECONDS), (None, 0.0)]
)
def test_a_server_that_follows_another_node_than_its_state_file_says_is_not_connected(
    world: World, followed: str | None, seconds: float
) -> None:
    """The file was changed for a take-over while the server started."""
    node, cluster = world.node, world.cluster
    node.data_directory.mkdir(parents=True, exist_ok=True)
    state.write(node, NodeState(cluster.name, node.name, Role.SECONDARY, "a", 7))
    addresses = {"own": world.upstream, "other": str(node.link_address), None: None}
    world.upstream = addresses[followed]
    assert world.after(DISCONNECTED_SECONDS + LOOK_SECONDS) >= seconds
    assert (world.after(2.0) > 0) == (seconds > 0)
