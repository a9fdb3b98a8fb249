"""Where a load balancer may send clients, in each situation of each backend."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from engines import (
    NEO,
    NEO_MASTERS_KILLED,
    POSTGRESQL,
    POSTGRESQL_CUT_OFF,
    POSTGRESQL_PRIMARY_KILLED,
    SQLITE,
    SQLITE_DISK_AWAY,
    Situation,
    changed,
)
from situations import (
    ALL_STOPPED,
    HEALTHY,
    ONE_SECOND,
    PRIMARY_KILLED,
    SECONDARY_KILLED,
    TID,
    UNKNOWN,
    behind,
    cluster,
    server,
    snapshot,
    state,
)

from indico_zodbrepl.admin.api import serving
from indico_zodbrepl.cluster.model import Node, Role
from indico_zodbrepl.host.history import Condition
from indico_zodbrepl.monitor.snapshot import EpochWord, Snapshot
from indico_zodbrepl.probing.answers import Hold, ServerRole

LAG: dict[str, Any] = {
    "servers": {"b": server("b", TID - 30 * ONE_SECOND)},
    "comparisons": {"b": behind(1, first=TID)},
}
TWO_PRIMARIES: dict[str, Any] = {
    "servers": {
        "b": server("b", role=ServerRole.PRIMARY, upstream=None, connected=None, read_only=False)
    }
}


@pytest.mark.parametrize(
    ("situation", "expected"),
    [
        (HEALTHY, ("a",)),
        (SECONDARY_KILLED, ("a",)),
        (PRIMARY_KILLED, ()),
        (ALL_STOPPED, ()),
        (UNKNOWN, ()),
        (TWO_PRIMARIES, ()),
    ],
)
def test_the_primary_is_the_one_node_that_takes_writes(
    situation: dict[str, Any], expected: tuple[str, ...]
) -> None:
    assert expected == serving.primaries(snapshot(**situation)).nodes


@pytest.mark.parametrize(
    ("situation", "why"),
    [
        (
            {"servers": {"a": server("a", held=Hold.EPOCH)}},
            "it refuses writes: the cluster is in a later epoch",
        ),
        (
            {"servers": {"a": server("a", held=Hold.FOLLOWERS, min_followers=1)}},
            "it refuses writes: fewer than 1 nodes follow it",
        ),
        (TWO_PRIMARIES, "split brain: a and b accept writes"),
        (
            {"lineages": {"a": (Condition.DIVERGED, "3 transactions only here")}},
            "its history is not the cluster's: diverged",
        ),
        (
            {"records": (EpochWord("the control host", 2, "b", ""),)},
            "node b is the primary of a later epoch",
        ),
        ({"states": {"b": state("b", epoch=2)}}, "it runs in epoch 1, the cluster is in epoch 2"),
        (PRIMARY_KILLED, "it does not answer: nothing listens on 127.0.0.1:8111"),
    ],
)
def test_a_primary_that_must_not_be_used_does_not_serve(
    situation: dict[str, Any], why: str
) -> None:
    found = serving.primaries(snapshot(**situation), "a")
    assert ((), why, {"a": why}) == (found.nodes, found.why, found.reasons)


def test_a_primary_whose_writes_wait_during_a_switchover_still_serves() -> None:
    held = snapshot(servers={"a": server("a", held=Hold.OPERATOR)})
    assert ("a",) == serving.primaries(held).nodes


def test_a_secondary_is_no_primary_and_a_primary_no_replica() -> None:
    healthy = snapshot()
    assert {"b": "it is a secondary and refuses writes"} == serving.primaries(healthy).reasons
    assert {"a": "it is a primary and follows no node"} == serving.replicas(healthy, None).reasons


@pytest.mark.parametrize(
    ("situation", "most", "expected"),
    [
        (HEALTHY, None, ("b",)),
        (HEALTHY, 0.0, ("b",)),
        (LAG, None, ("b",)),
        (LAG, 59.0, ()),
        (LAG, 61.0, ("b",)),
        (SECONDARY_KILLED, None, ()),
        (PRIMARY_KILLED, None, ()),
        (UNKNOWN, None, ()),
        (TWO_PRIMARIES, None, ()),
    ],
)
def test_a_replica_follows_the_primary_within_the_lag(
    situation: dict[str, Any], most: float | None, expected: tuple[str, ...]
) -> None:
    assert expected == serving.replicas(snapshot(**situation), most).nodes


@pytest.mark.parametrize(
    ("situation", "why"),
    [
        (LAG, "it is 60.0 s behind, more than 10 s"),
        ({"comparisons": {"b": None}}, "its lag is unknown"),
        (
            {"servers": {"b": server("b", connected=False)}},
            "the link of node b to its upstream is down",
        ),
        (
            {"servers": {"b": server("b", upstream="127.0.0.1:9")}},
            "node b follows 127.0.0.1:9, which is not a node of this cluster",
        ),
        (
            {"lineages": {"b": (Condition.QUARANTINED, "on an operator's word")}},
            "its history is not the cluster's: quarantined",
        ),
    ],
)
def test_a_replica_that_must_not_be_used_does_not_serve(
    situation: dict[str, Any], why: str
) -> None:
    assert why == serving.replicas(snapshot(**situation), 10.0, "b").why


def chain(**links: Any) -> Snapshot:
    """A primary, a relay and a secondary behind it; with changes of what they answer."""
    nodes = (
        *cluster().nodes[:1],
        Node("b", "127.0.0.1", 8121, 8122, cluster().nodes[1].data_directory, Role.RELAY, "a"),
        Node("c", "127.0.0.1", 8131, 8132, cluster().nodes[1].data_directory, Role.SECONDARY, "b"),
    )
    answers = {
        "b": server("b", role=ServerRole.RELAY, **links.get("b", {})),
        "c": server("b", node="c", upstream="127.0.0.1:8122", **links.get("c", {})),
    }
    return snapshot(
        cluster(nodes=nodes),
        states={"b": state("b", role=Role.RELAY), "c": state("b", node="c", upstream="b")},
        servers=answers,
        comparisons={"c": behind(0)},
    )


def test_a_secondary_behind_a_relay_serves_while_every_link_up_to_the_primary_stands() -> None:
    assert ("b", "c") == serving.replicas(chain(), 5.0).nodes
    cut = serving.replicas(chain(b={"connected": False}), None)
    assert () == cut.nodes
    assert "the link of node b to its upstream is down" == cut.reasons["c"]


def test_nodes_that_follow_each_other_in_a_circle_serve_nobody() -> None:
    circle = serving.replicas(chain(b={"upstream": "127.0.0.1:8132"}), None, "c")
    assert "the nodes follow each other in a circle" == circle.why


@pytest.mark.parametrize(
    ("situation", "primary", "replicas"),
    [
        (POSTGRESQL, ("a",), ("b",)),
        (POSTGRESQL_CUT_OFF, ("a",), ()),
        (POSTGRESQL_PRIMARY_KILLED, (), ()),
        (NEO, ("m1",), ()),
        (NEO_MASTERS_KILLED, (), ()),
        (SQLITE, ("a",), ()),
        (SQLITE_DISK_AWAY, (), ()),
    ],
)
def test_every_backend_s_nodes_serve_as_what_they_are(
    situation: Situation, primary: tuple[str, ...], replicas: tuple[str, ...]
) -> None:
    assert primary == serving.primaries(situation.snapshot).nodes
    assert replicas == serving.replicas(situation.snapshot, 5.0).nodes


def test_a_master_that_stands_by_says_so() -> None:
    assert "it is not the leading master" == serving.primaries(NEO.snapshot, "m2").why


def test_a_primary_that_is_down_to_reading_does_not_serve() -> None:
    reading = POSTGRESQL.but(servers={"a": changed(POSTGRESQL, "a", read_only=True)})
    assert "it is a primary and refuses writes" == serving.primaries(reading.snapshot, "a").why


def test_a_node_that_is_not_there_is_not_asked_about() -> None:
    with pytest.raises(KeyError):
        serving.primaries(snapshot(), "nobody")


def test_what_serves_is_never_told_with_a_reason_against_it() -> None:
    for situation in (HEALTHY, LAG, PRIMARY_KILLED, TWO_PRIMARIES, SECONDARY_KILLED):
        for found in (
            serving.primaries(snapshot(**situation)),
            serving.replicas(snapshot(**situation), 10.0),
        ):
            assert {"a", "b"} == {*found.nodes, *found.reasons}
            assert not {*found.nodes} & {*found.reasons}
            assert bool(found.nodes) == (found.why == ""), dataclasses.asdict(found)
