"""Whether a node's history lets it follow: the decision, and what is remembered of it."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import pytest

from indico_zodbrepl.cluster import Cluster, NodeState, Role, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import data_fs, lineage_file
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import datafs, following, history
from indico_zodbrepl.host.datafs_answers import Common, Comparison, Relation
from indico_zodbrepl.host.history import Condition, Lineage

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"
OLD, COMMON, NEW = "03f0000000000001", "03f0000000000002", "03f0000000000003"
EQUAL = Comparison(
    Relation.EQUAL, Common(COMMON, "ab"), 0, None, None, 0, 0, 0, False, 0, None, 0, 1
)
DIVERGED = dataclasses.replace(
    EQUAL, relation=Relation.DIVERGED, private=2, private_first=NEW, private_last=NEW, missing=1
)
SECONDARY = NodeState("demo", "b", Role.SECONDARY, "a", 2)
PRIMARY = NodeState("demo", "b", Role.PRIMARY, None, 3)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    loaded = load(EXAMPLE, tmp_path)
    for node in loaded.nodes:
        node.data_directory.mkdir(parents=True)
        data_fs(node).write_bytes(b"FS21 and more")
    return loaded


class Compared:
    """What the comparison answers, and up to where it was told that all is known."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answer: Comparison | OperatorError = EQUAL
        self.verified: list[str | None] = []
        monkeypatch.setattr(datafs, "compare", self)
        monkeypatch.setattr(datafs, "last", lambda *_: None)

    def __call__(
        self,
        _installation: Installation,
        _file: Path,
        _upstream: Path,
        verified: str | None = None,
        _seconds: float = 0.0,
        *,
        fork: str | None = None,
        damaged: bool = False,
    ) -> Comparison:
        assert None is fork
        assert not damaged
        self.verified.append(verified)
        if isinstance(self.answer, OperatorError):
            raise self.answer
        return self.answer


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Compared:
    return Compared(monkeypatch)


def admit(cluster: Cluster, state: NodeState = SECONDARY) -> list[str]:
    return following.admit_follower(cluster, Installation(cluster.var_directory), state)


def remembered(cluster: Cluster) -> Lineage:
    found = history.read(cluster.node("b"))
    assert found is not None
    return found


def refused(cluster: Cluster) -> OperatorError:
    with pytest.raises(OperatorError) as caught:
        admit(cluster)
    assert ExitCode.REFUSED == caught.value.exit_code
    return caught.value


def test_what_was_compared_is_not_compared_again(cluster: Cluster, compared: Compared) -> None:
    assert [] == admit(cluster)
    assert (COMMON, "ab", "a", 2, False, Condition.OK) == (
        (kept := remembered(cluster)).verified_tid,
        kept.digest,
        kept.against,
        kept.epoch,
        kept.was_writable,
        kept.condition,
    )
    before = lineage_file(cluster.node("b")).stat().st_ino
    admit(cluster)
    assert [None, COMMON] == compared.verified
    assert before == lineage_file(cluster.node("b")).stat().st_ino


@pytest.mark.parametrize("relation", [Relation.AHEAD, Relation.DIVERGED, Relation.UNRELATED])
def test_a_node_with_transactions_of_its_own_is_refused_with_numbers_and_the_way_back(
    cluster: Cluster, compared: Compared, relation: Relation
) -> None:
    compared.answer = dataclasses.replace(DIVERGED, relation=relation)
    error = refused(cluster)
    assert f"2 transactions only on node b ({NEW} to {NEW})" in error.detail
    assert f"the last common one is {COMMON}" in error.detail
    assert error.hint.endswith("rejoin b")
    assert Condition.DIVERGED is remembered(cluster).condition


def test_a_diverged_node_is_compared_again_and_starts_once_it_was_repaired(
    cluster: Cluster, compared: Compared
) -> None:
    compared.answer = DIVERGED
    refused(cluster)
    compared.answer = EQUAL
    assert [] == admit(cluster)
    assert Condition.OK is remembered(cluster).condition


def test_a_primary_may_hold_what_nobody_else_has_until_it_was_compared(
    cluster: Cluster, compared: Compared
) -> None:
    history.enter_primary(cluster, PRIMARY)
    assert remembered(cluster).was_writable
    admit(cluster)
    assert not remembered(cluster).was_writable
    assert [None] == compared.verified


def test_a_former_primary_does_not_start_when_it_can_not_be_compared(
    cluster: Cluster, compared: Compared
) -> None:
    admit(cluster)
    history.enter_primary(cluster, PRIMARY)
    data_fs(cluster.node("a")).unlink()
    assert "it was a primary" in refused(cluster).detail
    assert [None] == compared.verified


def test_a_node_that_only_ever_followed_starts_without_its_upstreams_data(
    cluster: Cluster, compared: Compared
) -> None:
    admit(cluster)
    data_fs(cluster.node("a")).unlink()
    (remark,) = admit(cluster)
    assert "was not compared with that of node a" in remark
    assert [None] == compared.verified


def test_a_damaged_upstream_keeps_no_healthy_follower_from_starting(
    cluster: Cluster, compared: Compared
) -> None:
    admit(cluster)
    compared.answer = OperatorError("can't be compared", "a is damaged", "", ExitCode.REFUSED)
    (remark,) = admit(cluster)
    assert "a is damaged" in remark


def test_a_comparison_that_takes_too_long_is_no_comparison(
    cluster: Cluster, compared: Compared
) -> None:
    compared.answer = OperatorError("too long", exit_code=ExitCode.TIMED_OUT)
    with pytest.raises(OperatorError) as caught:
        admit(cluster)
    assert ExitCode.TIMED_OUT is caught.value.exit_code


@pytest.mark.parametrize(
    ("state", "starts"), [(dataclasses.replace(SECONDARY, epoch=1), True), (SECONDARY, False)]
)
def test_a_node_that_remembers_nothing_may_have_been_a_primary_after_the_first_epoch(
    cluster: Cluster, compared: Compared, state: NodeState, starts: bool
) -> None:
    data_fs(cluster.node("a")).unlink()
    if starts:
        assert admit(cluster, state)
    else:
        assert "it was a primary" in refused(cluster).detail
    assert [] == compared.verified


def test_an_empty_node_follows_without_a_comparison(cluster: Cluster, compared: Compared) -> None:
    data_fs(cluster.node("b")).write_bytes(b"FS21")
    assert [] == admit(cluster)
    assert [] == compared.verified


def test_what_a_pack_may_hide_is_not_taken_for_common_history(
    cluster: Cluster, compared: Compared
) -> None:
    admit(cluster)
    compared.answer = dataclasses.replace(EQUAL, packed=True, packed_away=1, packed_away_last=NEW)
    assert [] == admit(cluster)
    history.enter_primary(cluster, PRIMARY)
    assert "the pack of node a hides whether they were on it" in refused(cluster).detail


def test_what_was_packed_away_long_ago_hinders_nobody(cluster: Cluster, compared: Compared) -> None:
    admit(cluster)
    history.enter_primary(cluster, PRIMARY)
    compared.answer = dataclasses.replace(EQUAL, packed=True, packed_away=1, packed_away_last=OLD)
    assert [] == admit(cluster)


@pytest.mark.parametrize("condition", [Condition.QUARANTINED, Condition.NEEDS_SEEDING])
def test_a_node_whose_data_is_not_whole_starts_in_no_role(
    cluster: Cluster, compared: Compared, condition: Condition
) -> None:
    history.mark(cluster.node("b"), 2, condition, "its copy was interrupted")
    assert "its copy was interrupted" in refused(cluster).detail
    with pytest.raises(OperatorError, match=str(condition)):
        history.enter_primary(cluster, PRIMARY)
    assert [] == compared.verified


def test_a_primary_with_a_full_disk_starts_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could not take writes, but its pages stay readable."""
    history.enter_primary(cluster, PRIMARY)

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    history.enter_primary(cluster, PRIMARY)
    with pytest.raises(OperatorError, match="can't be written"):
        history.enter_primary(cluster, dataclasses.replace(PRIMARY, epoch=4))


def test_a_damaged_memory_counts_as_none(cluster: Cluster, compared: Compared) -> None:
    """All is compared then; without the upstream's data the node does not start."""
    lineage_file(cluster.node("b")).write_text("{")
    with pytest.raises(OperatorError) as caught:
        history.read(cluster.node("b"))
    assert ExitCode.REFUSED == caught.value.exit_code
    assert [] == admit(cluster)
    assert [None] == compared.verified
    assert Condition.OK is remembered(cluster).condition


def test_the_file_has_the_documented_form(cluster: Cluster, compared: Compared) -> None:
    admit(cluster)
    values = json.loads(lineage_file(cluster.node("b")).read_text())
    assert {
        "format": 1,
        "verified_tid": COMMON,
        "digest": "ab",
        "against": "a",
        "epoch": 2,
        "was_writable": False,
        "condition": "ok",
        "detail": "",
    } == {key: value for key, value in values.items() if key != "at"}
    assert 1 == len(compared.verified)
