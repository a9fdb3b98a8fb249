"""What a rejoin decides, from what is known of two data files."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from indico_zodbrepl.cluster import Cluster, NodeState, Role, load
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.host import promise
from indico_zodbrepl.host.datafs_answers import Common, Comparison, DifferingBlob, Relation
from indico_zodbrepl.operations.model import KINDS, Plan, Refusal, Verdict, plan_from_json
from indico_zodbrepl.operations.rejoin import Ending, Facts, judge, plan_rejoin

HOME = Path(__file__).parents[3]
COMMON = "0400000000000005"
EQUAL = Comparison(
    relation=Relation.EQUAL,
    common=Common(COMMON, "d"),
    private=0,
    private_first=None,
    private_last=None,
    missing=0,
    holes=0,
    conflicting=0,
    packed=False,
    packed_away=0,
    packed_away_last=None,
    bytes_private=0,
    examined=10,
)
DIVERGED = dataclasses.replace(EQUAL, relation=Relation.DIVERGED, private=5, missing=3)
MERGED = dataclasses.replace(EQUAL, relation=Relation.DIVERGED, private=1)
HOLED = dataclasses.replace(EQUAL, relation=Relation.DIVERGED, missing=2, holes=2)
OTHER_BLOB = dataclasses.replace(
    EQUAL,
    relation=Relation.DIVERGED,
    blobs=7,
    blobs_differing=2,
    blobs_private=1,
    differing_blob=DifferingBlob("0a", "0400000000000002", 3, None),
)
PACKED = dataclasses.replace(
    EQUAL,
    packed=True,
    packed_away=7,
    packed_away_last=COMMON,
    packed_away_after="0400000000000001",
)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    path = tmp_path / "cluster.conf"
    path.write_text((HOME / "etc" / "cluster.conf").read_text())
    return load(path, tmp_path)


def facts(comparison: Comparison | None = DIVERGED, **more: object) -> Facts:
    known = Facts(
        now=1_700_000_000.0,
        node="a",
        state=NodeState("demo", "a", Role.PRIMARY, None, 1),
        primary="b",
        epoch=2,
        primary_problem="",
        following=False,
        has_followers=False,
        comparison=comparison,
        damage="",
        verified=None,
        was_writable=True,
        size=1000,
    )
    return dataclasses.replace(known, **more)  # type: ignore[arg-type]


def plan(cluster: Cluster, known: Facts) -> Plan | Refusal:
    return plan_rejoin(cluster, known, "a reason", Commands(cluster, HOME))


def steps_of(cluster: Cluster, known: Facts) -> list[str]:
    found = plan(cluster, known)
    assert isinstance(found, Plan)
    return [step.action for step in found.steps]


@pytest.mark.parametrize(
    "comparison",
    [
        EQUAL,
        dataclasses.replace(EQUAL, relation=Relation.BEHIND, missing=3),
        dataclasses.replace(EQUAL, relation=Relation.EMPTY, common=None),
    ],
)
def test_a_node_that_only_lacks_something_joins_and_nothing_is_cut(
    cluster: Cluster, comparison: Comparison
) -> None:
    assert [
        "fence",
        "rejoin-compare",
        "assign",
        "rejoin-mark",
        "start",
        "rejoin-catch-up",
    ] == steps_of(cluster, facts(comparison))


@pytest.mark.parametrize(
    "comparison",
    [DIVERGED, MERGED, HOLED, dataclasses.replace(EQUAL, relation=Relation.AHEAD, private=1)],
)
def test_what_only_the_node_has_is_exported_before_it_is_cut(
    cluster: Cluster, comparison: Comparison
) -> None:
    assert [
        "fence",
        "rejoin-compare",
        "rejoin-export",
        "rejoin-cut",
        "assign",
        "rejoin-mark",
        "start",
        "rejoin-catch-up",
    ] == steps_of(cluster, facts(comparison))


@pytest.mark.parametrize(
    ("verified", "what"), [(None, "from end to end"), (COMMON, "after the last comparison")]
)
def test_the_plan_says_how_much_is_compared(
    cluster: Cluster, verified: str | None, what: str
) -> None:
    found = plan(cluster, facts(verified=verified))
    assert isinstance(found, Plan)
    (compare,) = (step for step in found.steps if step.action == "rejoin-compare")
    assert f"Compare a's data file with b's, {what}" == compare.title
    assert verified == compare.arguments["verified"]


@pytest.mark.parametrize(
    ("comparison", "exports"),
    [
        (dataclasses.replace(EQUAL, unreadable=108), False),
        (dataclasses.replace(EQUAL, relation=Relation.BEHIND, missing=3, unreadable=108), False),
        (dataclasses.replace(DIVERGED, unreadable=108), True),
    ],
)
@pytest.mark.parametrize("was_writable", [True, False])
def test_a_damaged_end_of_a_data_file_is_kept_and_cut_off(
    cluster: Cluster, comparison: Comparison, *, exports: bool, was_writable: bool
) -> None:
    found = plan(cluster, facts(comparison, was_writable=was_writable))
    assert isinstance(found, Plan)
    steps = {step.action: step for step in found.steps}
    assert steps["rejoin-cut"].arguments["after"] == COMMON
    assert steps["rejoin-compare"].arguments["damaged"] is True
    assert ("rejoin-export" in steps) == exports
    assert "the last 108 bytes of its data file can't be read" in found.findings[1].text
    assert (found.loss is not None and not found.loss.exact) == was_writable


def test_a_node_whose_blobs_differ_from_the_primarys_needs_a_clone(cluster: Cluster) -> None:
    """Its records are right, so nothing that could be cut off would help."""
    found = plan(cluster, facts(OTHER_BLOB))
    assert isinstance(found, Plan)
    assert ["fence", "rejoin-mark"] == [step.action for step in found.steps]
    mark = found.steps[-1].arguments
    assert "needs-seeding" == mark["condition"]
    assert "object 0a in transaction 0400000000000002: 3 bytes on node a, missing on node b" in str(
        mark["detail"]
    )


def test_what_was_exported_before_is_used_and_the_plan_says_so(cluster: Cluster) -> None:
    found = plan(cluster, facts(exported=Path("/var/lost-tails/a-2-x")))
    assert isinstance(found, Plan)
    cut, export = found.steps[found.no_return()], found.steps[found.no_return() - 1]
    assert "/var/lost-tails/a-2-x" == export.arguments["folder"] == cut.arguments["folder"]
    assert (True, True) == (export.arguments["reused"], export.title.startswith("Use the export"))


def test_the_cut_is_the_point_of_no_return_and_keeps_what_it_cuts_with_the_export(
    cluster: Cluster,
) -> None:
    found = plan(cluster, facts())
    assert isinstance(found, Plan)
    cut = found.steps[found.no_return()]
    export = found.steps[found.no_return() - 1]
    assert ("rejoin-cut", COMMON) == (cut.action, cut.arguments["after"])
    assert export.arguments["folder"] == cut.arguments["folder"]
    assert str(export.arguments["folder"]).endswith("lost-tails/a-2-20231114T221320Z")
    assert found.loss is not None
    assert 5 == found.loss.transactions


@pytest.mark.parametrize(
    ("known", "ending"),
    [
        (facts(dataclasses.replace(DIVERGED, common=None)), Ending.NEEDS_SEEDING),
        (facts(dataclasses.replace(EQUAL, relation=Relation.UNRELATED)), Ending.NEEDS_SEEDING),
        (facts(None, damage="offset 100: no transaction"), Ending.NEEDS_SEEDING),
        (
            facts(dataclasses.replace(EQUAL, relation=Relation.EMPTY, common=None, unreadable=9)),
            Ending.NEEDS_SEEDING,
        ),
        (facts(PACKED), Ending.NEEDS_SEEDING),
        (facts(dataclasses.replace(DIVERGED, conflicting=1)), Ending.QUARANTINED),
    ],
)
def test_a_node_that_can_not_be_shown_to_share_a_history_is_stopped_and_marked(
    cluster: Cluster, known: Facts, ending: Ending
) -> None:
    assert ending is judge(known).ending
    found = plan(cluster, known)
    assert isinstance(found, Plan)
    assert ["fence", "rejoin-mark"] == [step.action for step in found.steps]
    assert str(ending) == found.steps[1].arguments["condition"]


@pytest.mark.parametrize(
    "known",
    [
        facts(PACKED, was_writable=False),
        facts(PACKED, verified=COMMON),
        facts(PACKED, fork=COMMON),
    ],
)
def test_what_a_pack_hides_does_no_harm_where_it_was_verified_or_parted_or_never_writable(
    cluster: Cluster,
    known: Facts,
) -> None:
    assert Ending.JOINED is judge(known).ending
    found = plan(cluster, known)
    assert isinstance(found, Plan)
    assert found.loss is None


def test_what_a_pack_may_hide_is_reported_as_a_possible_loss(cluster: Cluster) -> None:
    found = plan(cluster, facts(PACKED))
    assert isinstance(found, Plan)
    assert found.loss is not None
    assert (None, False, "0400000000000001") == (
        found.loss.transactions,
        found.loss.exact,
        found.loss.after,
    )
    assert "up to 7 transactions of a that can't be shown to be common" in found.loss.text


def test_the_current_primary_does_not_rejoin(cluster: Cluster) -> None:
    found = plan(cluster, facts(None, node="b"))
    assert isinstance(found, Refusal)
    assert "it is the primary" in found.notice


def test_nothing_is_done_while_the_primary_does_not_serve(cluster: Cluster) -> None:
    found = plan(cluster, facts(None, primary_problem="connection refused"))
    assert isinstance(found, Refusal)
    assert "connection refused" == found.findings[0].evidence


def test_a_node_that_follows_with_the_same_history_has_joined_already(cluster: Cluster) -> None:
    found = plan(cluster, facts(EQUAL, following=True, was_writable=False))
    assert isinstance(found, Refusal)
    assert [Verdict.FINE] == [each.verdict for each in found.findings]
    assert isinstance(plan(cluster, facts(MERGED, following=True)), Plan)


def test_a_former_primary_that_follows_without_a_comparison_rejoins(cluster: Cluster) -> None:
    """A switchover that was interrupted leaves it so; until then it can't take over."""
    assert isinstance(plan(cluster, facts(EQUAL, following=True)), Plan)


def test_a_node_that_others_follow_becomes_a_relay(cluster: Cluster) -> None:
    found = plan(cluster, facts(has_followers=True))
    assert isinstance(found, Plan)
    (assign,) = (step for step in found.steps if step.action == "assign")
    assert {"role": "relay", "upstream": "b", "epoch": 2} == assign.arguments


def test_every_step_has_an_action_and_a_plan_survives_json(cluster: Cluster) -> None:
    found = plan(cluster, facts())
    assert isinstance(found, Plan)
    assert all(KINDS[step.action] is type(step) for step in found.steps)
    assert found == plan_from_json(found.to_json())


@pytest.mark.parametrize(
    ("state", "count", "said"),
    [
        ("synchronous", 1, "in doubt: never acknowledged"),
        ("waiting", 1, "in doubt: never acknowledged"),
        ("refusing", 1, "in doubt: never acknowledged"),
        ("alone", 1, "acknowledged, and lost with the node"),
        ("off", 0, "acknowledged, and lost with the node"),
    ],
)
def test_the_plan_says_what_the_record_of_the_server_tells_of_private_transactions(
    cluster: Cluster, state: str, count: int, said: str
) -> None:
    node = cluster.node("a")
    node.data_directory.mkdir(parents=True)
    written = {"state": state, "node": "a", "epoch": 1, "at": 1.5, "count": count,
               "level": "fsync", "acknowledged": None}  # fmt: skip
    (node.data_directory / promise.NAME).write_text(json.dumps(written))
    found = plan(cluster, facts(fate=promise.fate(promise.read(node), 1)))
    assert isinstance(found, Plan)
    assert found.loss is not None
    assert found.loss.text == f"5 transactions, exported and cut off; {said}"
    later = plan(cluster, facts(fate=promise.fate(promise.read(node), 2)))
    assert isinstance(later, Plan)
    assert later.loss is not None
    assert later.loss.text.endswith("perhaps acknowledged"), "the record is of another epoch"
