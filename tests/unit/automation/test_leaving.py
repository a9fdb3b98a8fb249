"""Followers that need long for it leave a silent leader before its lease has ended."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from indico_zodbrepl.automation import leaving
from indico_zodbrepl.automation.leaving import BACK_SECONDS, Leaver, is_time
from indico_zodbrepl.automation.observed import Observed
from indico_zodbrepl.automation.timing import Timing
from indico_zodbrepl.cluster import load
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.etcd.keys import Leader

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster-relstorage-mariadb.conf"
NOW = 1000.0


def key(age: float, *, released: bool = False, moved: bool = True) -> Observed:
    """Return a key that names node a and did not change for some seconds."""
    return Observed(Leader("a", "h1", 4, 7, released=released), 10, NOW - age, NOW, moved)


@pytest.mark.parametrize(
    ("lease", "age", "seconds", "expected"),
    [
        (3.0, 2.0, 1.0, True),
        (3.0, 1.9, 1.0, False),
        (3.0, 2.9, 0.0, False),
        (5.0, 4.0, 1.0, True),
        (5.0, 3.9, 1.0, False),
        (2.0, 1.2, 1.0, True),
        (2.0, 1.1, 1.0, False),
    ],
)
def test_they_begin_as_much_earlier_as_they_need(
    lease: float, age: float, seconds: float, *, expected: bool
) -> None:
    assert expected is is_time(key(age), Timing(lease), seconds)


def test_nobody_leaves_a_leader_that_gave_its_role_away_or_has_not_been_seen_to_renew() -> None:
    assert not is_time(key(9.0, released=True), Timing(3.0), 1.0)
    assert not is_time(key(9.0, moved=False), Timing(3.0), 1.0)
    assert not is_time(dataclasses.replace(key(9.0), leader=None), Timing(3.0), 1.0)


def test_each_follower_of_the_host_leaves_once_for_a_value_of_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders: list[tuple[str, int, float]] = []
    ordered = threading.Semaphore(0)

    class Control:
        def __init__(self, node: Any) -> None:
            self.node = node

        def detach(self, epoch: int, seconds: float, _limit: float) -> None:
            orders.append((self.node.name, epoch, seconds))
            ordered.release()
            raise OperatorError("it does not answer")

    monkeypatch.setattr(leaving, "control_of", lambda _cluster, node: Control(node))
    cluster = dataclasses.replace(load(EXAMPLE, tmp_path), lease=3.0)
    leaver = Leaver(cluster)
    leaver.look(key(1.9), cluster.nodes)
    assert orders == []
    for age in (2.0, 2.2):
        leaver.look(key(age), cluster.nodes)
    assert ordered.acquire(timeout=20)
    assert orders == [("b", 4, 1.0 + BACK_SECONDS)]
    leaver.look(dataclasses.replace(key(2.0), revision=11), cluster.nodes)
    assert ordered.acquire(timeout=20)
    assert len(orders) == 2


def test_the_followers_of_storage_servers_wait_for_a_candidate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaving, "thread", lambda *_: SimpleNamespace(start=pytest.fail))
    cluster = dataclasses.replace(load(EXAMPLE.with_name("cluster.conf"), tmp_path), lease=3.0)
    Leaver(cluster).look(key(2.9), cluster.nodes)


def test_the_followers_of_a_postgresql_primary_leave_it_half_a_second_before_the_lease_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    monkeypatch.setattr(
        leaving, "thread", lambda name, _: SimpleNamespace(start=lambda: begun.append(name))
    )
    path = EXAMPLE.with_name("cluster-relstorage-postgresql.conf")
    cluster = dataclasses.replace(load(path, tmp_path), lease=3.0)
    leaver = Leaver(cluster)
    leaver.look(key(2.4), cluster.nodes)
    assert not begun
    leaver.look(key(2.5), cluster.nodes)
    assert len(begun) == len(cluster.nodes) - 1
