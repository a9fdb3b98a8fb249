"""Which storages `bin/zodbrepl pack` packs, in which order, and when it refuses."""

from __future__ import annotations

import dataclasses

import pytest
from planning import cluster_of
from situations import PRIMARY_KILLED, cluster, snapshot

from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.failover import packing
from indico_zodbrepl.monitor.snapshot import Alert, Level


def test_each_node_of_a_pair_is_packed_by_itself_and_the_primary_last() -> None:
    pair = cluster_of()
    assert [("b", Layout(pair).node_zodb_conf(pair.node("b"))),
            ("a", Layout(pair).node_zodb_conf(pair.node("a")))] == [
        (each.name, each.zodb_conf) for each in packing.targets(pair, snapshot(pair))]


def test_a_database_that_sees_to_its_copies_is_packed_once() -> None:
    engine = cluster(backend="relstorage-postgresql")
    assert [packing.Target(packing.ALL, Layout(engine).zodb_conf)] == list(
        packing.targets(engine, snapshot(cluster())))


def test_nothing_speaks_against_a_pack_of_a_healthy_pair() -> None:
    assert [] == list(packing.objections(snapshot()))


def test_a_node_that_is_away_speaks_against_a_pack() -> None:
    assert "a" in [each.subject for each in packing.objections(snapshot(**PRIMARY_KILLED))]


@pytest.mark.parametrize(("level", "expected"), [
    (Level.CRITICAL, [("b", "it is odd")]), (Level.WARNING, [("b", "it is odd")]),
    (Level.NOTICE, [])])
def test_a_node_out_of_order_speaks_against_a_pack(
        level: Level, expected: list[tuple[str, str]]) -> None:
    alerts = (Alert(level, "b", "it is odd", "", ""),
              Alert(level, "one", "an instance of Indico is odd", "", ""))
    assert expected == [(each.subject, each.text) for each in packing.objections(
        dataclasses.replace(snapshot(), warnings=alerts))]
