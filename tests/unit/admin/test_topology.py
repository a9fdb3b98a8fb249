"""Where the picture of a cluster has its boxes and arrows."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from pathlib import Path

import engines
import five
import pytest
import spread
import states
from situations import ALL_STOPPED, FAILED_OVER, PRIMARY_KILLED, cluster, server, snapshot, state

from indico_zodbrepl.admin import topology, topology_hosts
from indico_zodbrepl.admin.links import Health
from indico_zodbrepl.admin.topology import Box, Drawing, Sign
from indico_zodbrepl.cluster.model import Role
from indico_zodbrepl.monitor.host_status import EtcdMember, EtcdStatus
from indico_zodbrepl.monitor.node_status import Program
from indico_zodbrepl.monitor.snapshot import Snapshot


def on_hosts(seen: Snapshot, places: Mapping[str, str]) -> Snapshot:
    """Return a snapshot with its nodes on these hosts, and its instances on the first one."""
    nodes = (dataclasses.replace(node, host=places.get(node.name)) for node in seen.nodes)
    indico = (dataclasses.replace(each, host="h1") for each in seen.indico)
    return dataclasses.replace(
        seen, nodes=tuple(nodes), indico=tuple(indico), hosts=spread.seen().hosts
    )


def wide(seen: Snapshot) -> Drawing:
    return topology_hosts.wide(seen) if seen.hosts else topology.wide(seen)


def tall(seen: Snapshot) -> Drawing:
    return topology_hosts.tall(seen) if seen.hosts else topology.tall(seen)


FIVE = five.snapshot(five.cluster(Path("/srv/five")))
SPREAD = {
    "three hosts": spread.seen(),
    "a host lost": spread.seen(**spread.H1_LOST),
    "both nodes stopped": spread.seen(**ALL_STOPPED),
    "failed over": spread.seen(**FAILED_OVER),
    "five on two hosts": on_hosts(FIVE, {"a": "h1", "b": "h1", "c": "h2", "d": "h2", "e": "h2"}),
    "five, two of them elsewhere": on_hosts(FIVE, {"a": "h2", "b": "h1", "d": "h2"}),
}
SNAPSHOTS = {
    "five": FIVE,
    **SPREAD,
    **{name: states.snapshot(cluster(), name) for name in states.STATES},
    **{name: situation.snapshot for name, situation in engines.SITUATIONS.items()},
}
EACH = pytest.mark.parametrize("seen", SNAPSHOTS.values(), ids=SNAPSHOTS)
LAYOUTS = pytest.mark.parametrize("layout", [wide, tall], ids=["wide", "tall"])


def name_of(box: Box) -> str:
    return box.node.name if box.node else f"indico {box.instance.name}" if box.instance else ""


def arrows(drawing: Drawing) -> dict[tuple[str, str], Health]:
    return {(arrow.link.source, arrow.link.target): arrow.link.health for arrow in drawing.arrows}


@LAYOUTS
@EACH
def test_each_is_drawn_once_inside_of_the_picture_and_apart_from_all_others(
    layout: topology.Layout, seen: Snapshot
) -> None:
    drawing = layout(seen)
    names = [name_of(box) for box in drawing.boxes]
    assert sorted(
        [*(node.name for node in seen.nodes), *(f"indico {each.name}" for each in seen.indico)]
    ) == sorted(names)
    for box in drawing.boxes:
        assert box.x >= 0, name_of(box)
        assert box.y >= 0, name_of(box)
        assert box.right <= drawing.width, name_of(box)
        assert box.y + box.height <= drawing.height, name_of(box)
    for one, other in itertools.combinations(drawing.boxes, 2):
        beside = one.right < other.x or other.right < one.x
        above = one.y + one.height < other.y or other.y + other.height < one.y
        assert beside or above, (name_of(one), name_of(other))


@LAYOUTS
@EACH
def test_arrows_begin_and_end_at_a_box_and_pass_none(
    layout: topology.Layout, seen: Snapshot
) -> None:
    drawing = layout(seen)
    for arrow in drawing.arrows:
        for x, y in (arrow.points[0], arrow.points[-1]):
            assert any(touches(box, x, y) for box in drawing.boxes), arrow
        for (x1, y1), (x2, y2) in itertools.pairwise(arrow.points):
            assert x1 == x2 or y1 == y2, arrow
            for box in drawing.boxes:
                crosses = (
                    min(x1, x2) < box.right
                    and max(x1, x2) > box.x
                    and min(y1, y2) < box.y + box.height
                    and max(y1, y2) > box.y
                )
                assert not crosses, (arrow, name_of(box))


def touches(box: Box, x: float, y: float) -> bool:
    return box.x <= x <= box.right and box.y <= y <= box.y + box.height


@EACH
def test_the_tall_one_fits_a_telephone(seen: Snapshot) -> None:
    assert tall(seen).width <= 356


@LAYOUTS
@pytest.mark.parametrize("seen", SPREAD.values(), ids=SPREAD)
def test_each_host_is_drawn_around_what_runs_on_it_and_nothing_else(
    layout: topology.Layout, seen: Snapshot
) -> None:
    drawing = layout(seen)
    assert [host.name for host in seen.hosts] == [each.host.name for each in drawing.hosts]
    for host in drawing.hosts:
        assert host.x >= 0
        assert host.x + host.width <= drawing.width
        assert host.y + host.height <= drawing.height
        for box in drawing.boxes:
            of = box.node or box.instance
            assert of is not None
            inside = (
                host.x < box.x
                and box.right < host.x + host.width
                and host.y < box.y
                and box.y + box.height < host.y + host.height
            )
            outside = box.y + box.height < host.y or box.y > host.y + host.height
            assert inside if of.host == host.host.name else outside, (host.host.name, name_of(box))
    for one, other in itertools.pairwise(drawing.hosts):
        assert one.y + one.height < other.y


@LAYOUTS
def test_a_host_is_marked_when_it_its_member_of_etcd_or_its_automation_is_away(
    layout: topology.Layout,
) -> None:
    seen = spread.seen(hosts={"h3": spread.AWAY})
    lost = EtcdMember("https://10.77.0.11:8141", "h1", "refused", leads=False, votes=True)
    stopped = Program("automation-h2", "STOPPED", 0, "")
    seen = dataclasses.replace(
        seen,
        hosts=tuple(
            dataclasses.replace(host, automation=stopped) if host.name == "h2" else host
            for host in seen.hosts
        ),
        etcd=EtcdStatus((lost,), 2, majority=False),
        warnings=(),
    )
    assert {"h1": Sign.WARNING, "h2": Sign.WARNING, "h3": Sign.UNREACHABLE} == {
        each.host.name: each.sign for each in layout(seen).hosts
    }


def test_a_follower_on_another_host_is_in_another_row_beside_its_upstream() -> None:
    boxes = {name_of(box): box for box in wide(spread.seen()).boxes}
    assert boxes["a"].right < boxes["b"].x
    assert boxes["a"].y + boxes["a"].height < boxes["b"].y
    assert boxes["indico one"].middle == boxes["a"].middle


def test_columns_are_steps_away_from_the_primary() -> None:
    drawing = topology.wide(FIVE)
    columns = {
        x: [name_of(box) for box in boxes]
        for x, boxes in itertools.groupby(
            sorted(drawing.boxes, key=lambda box: box.x), key=lambda box: box.x
        )
    }
    assert [["indico one", "indico two", "indico three"], ["a"], ["b", "c"], ["d", "e"]] == list(
        columns.values()
    )


def test_below_a_node_are_those_who_talk_to_it_and_then_those_who_follow() -> None:
    drawing = topology.tall(FIVE)
    assert [
        ("a", 0),
        ("indico one", 1),
        ("indico two", 1),
        ("b", 1),
        ("indico three", 2),
        ("d", 2),
        ("e", 2),
        ("c", 1),
    ] == [(name_of(box), round(box.x - 1) // topology.INDENT) for box in drawing.boxes]


def test_arrows_go_from_upstream_to_follower_and_from_indico_to_its_server() -> None:
    drawing = topology.wide(snapshot())
    assert {
        ("a", "b"): Health.GOOD,
        ("one", "a"): Health.GOOD,
        ("two", "a"): Health.GOOD,
    } == arrows(drawing)
    for arrow in drawing.arrows:
        end = next(box for box in drawing.boxes if name_of(box) == arrow.link.target)
        assert arrow.points[-1][0] == end.x


def test_a_dead_primary_s_link_is_broken_and_indico_reads_elsewhere() -> None:
    assert {
        ("a", "b"): Health.BROKEN,
        ("one", "b"): Health.ODD,
        ("two", "b"): Health.ODD,
    } == arrows(topology.wide(snapshot(**PRIMARY_KILLED)))


def test_a_link_that_does_not_stand_is_broken() -> None:
    seen = snapshot(servers={"b": server("b", connected=False)})
    assert Health.BROKEN is arrows(topology.tall(seen))["a", "b"]


def test_a_follower_of_another_than_its_assigned_upstream_is_odd() -> None:
    seen = five.snapshot(five.cluster(Path("/srv/five")))
    nodes = tuple(
        dataclasses.replace(node, upstream="c") if node.name == "e" else node for node in seen.nodes
    )
    assert Health.ODD is arrows(topology.wide(dataclasses.replace(seen, nodes=nodes)))["c", "e"]


def test_nodes_that_follow_each_other_in_a_ring_are_all_drawn() -> None:
    ring = {"b": "d", "d": "b"}
    nodes = tuple(
        dataclasses.replace(node, upstream=ring.get(node.name, node.upstream))
        for node in FIVE.nodes
    )
    seen = dataclasses.replace(FIVE, nodes=nodes)
    for drawing in (topology.wide(seen), topology.tall(seen)):
        assert 8 == len(drawing.boxes)


def test_after_a_failover_the_new_primary_is_drawn_first() -> None:
    seen = states.snapshot(cluster(), "diverged")
    assert "b" == name_of(topology.tall(seen).boxes[0])


def test_neo_s_storages_hang_on_the_master_that_leads() -> None:
    seen = engines.NEO_STORAGE_KILLED.snapshot
    assert {
        ("m1", "s1"): Health.GOOD,
        ("m1", "s2"): Health.BROKEN,
        ("m1", "adm"): Health.GOOD,
        ("one", "m1"): Health.GOOD,
        ("two", "m1"): Health.GOOD,
    } == arrows(topology.wide(seen))


def test_an_indico_that_opens_the_data_itself_is_tied_to_the_one_node() -> None:
    assert {("one", "a"), ("two", "a")} == set(arrows(topology.wide(engines.SQLITE.snapshot)))


def test_two_primaries_are_beside_each_other() -> None:
    seen = snapshot(
        servers={"b": server("b", upstream=None, connected=None, read_only=False)},
        states={"b": state("b", role=Role.PRIMARY, upstream=None)},
    )
    drawing = topology.wide(seen)
    assert 1 == len({box.x for box in drawing.boxes if box.node})
