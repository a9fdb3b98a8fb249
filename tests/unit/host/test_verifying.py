"""A follower's history is compared while it serves, and nobody's word about it is overwritten."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import datafs, history
from indico_zodbrepl.host.datafs_answers import Common, Comparison, DifferingBlob, Relation
from indico_zodbrepl.host.history import Condition, Lineage
from indico_zodbrepl.host.verifying import Verified, verify

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"
OLD, COMMON = "03f0000000000001", "03f0000000000002"
BEHIND = Comparison(
    Relation.BEHIND, Common(COMMON, "ab"), 0, None, None, 1, 0, 0, False, 0, None, 0, 1
)
DIVERGED = dataclasses.replace(BEHIND, relation=Relation.DIVERGED, private=2)
LACKS_A_BLOB = dataclasses.replace(
    DIVERGED,
    private=0,
    blobs=5,
    blobs_differing=1,
    blobs_private=1,
    differing_blob=DifferingBlob("0a", OLD, 12, None),
)
KNOWN = Lineage(
    OLD,
    "cd",
    "a",
    2,
    was_writable=False,
    condition=Condition.OK,
    detail="",
    at="2026-11-21T12:00:00Z",
)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    loaded = load(EXAMPLE, tmp_path)
    loaded.node("b").data_directory.mkdir(parents=True)
    history.write(loaded.node("b"), KNOWN)
    return loaded


@pytest.fixture
def compares(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Comparison]], None]:
    """Has the comparison answer what a function says, called in its middle."""

    def install(answer: Callable[[], Comparison]) -> None:
        monkeypatch.setattr(datafs, "compare", lambda *_, **__: answer())

    return install


def verified(cluster: Cluster) -> tuple[Verified | None, Lineage | None]:
    return (
        verify(cluster, Installation(cluster.var_directory), "b", "a"),
        history.read(cluster.node("b")),
    )


def test_what_is_found_the_same_is_remembered(
    cluster: Cluster, compares: Callable[[Callable[[], Comparison]], None]
) -> None:
    compares(lambda: BEHIND)
    found, now = verified(cluster)
    assert Verified(COMMON, "") == found
    assert now is not None
    assert dataclasses.replace(KNOWN, verified_tid=COMMON, digest="ab", at=now.at) == now


def test_a_divergence_is_marked_and_what_was_verified_stays(
    cluster: Cluster, compares: Callable[[Callable[[], Comparison]], None]
) -> None:
    compares(lambda: DIVERGED)
    found, now = verified(cluster)
    assert found is not None
    assert now is not None
    assert "2 transactions only on node b" in found.diverged
    assert (OLD, Condition.DIVERGED, found.diverged) == (
        now.verified_tid,
        now.condition,
        now.detail,
    )


def test_a_follower_is_not_marked_for_what_the_primarys_file_has_lost(
    cluster: Cluster, compares: Callable[[Callable[[], Comparison]], None]
) -> None:
    """It took no writes itself, so the primary had all that it has."""
    compares(lambda: dataclasses.replace(DIVERGED, relation=Relation.AHEAD, missing=0))
    assert verified(cluster) == (None, KNOWN)


def test_a_follower_is_not_marked_for_files_that_only_the_primary_lacks(
    cluster: Cluster, compares: Callable[[Callable[[], Comparison]], None]
) -> None:
    compares(lambda: dataclasses.replace(LACKS_A_BLOB, blobs_missing_upstream=1))
    with pytest.raises(OperatorError, match="node a lacks blob files that node b has") as error:
        verified(cluster)
    assert "object 0a in transaction 03f0000000000001: 12 bytes on node b, missing on node a" in (
        error.value.detail
    )
    assert KNOWN == history.read(cluster.node("b"))


def test_a_follower_is_marked_for_the_files_that_it_lacks(
    cluster: Cluster, compares: Callable[[Callable[[], Comparison]], None]
) -> None:
    lacking = DifferingBlob("0a", OLD, None, 12)
    compares(lambda: dataclasses.replace(LACKS_A_BLOB, differing_blob=lacking, blobs_private=0))
    found, now = verified(cluster)
    assert found is not None
    assert now is not None
    assert "missing on node b, 12 bytes on node a" in found.diverged
    assert now.condition is Condition.DIVERGED


@pytest.mark.parametrize(
    "known",
    [
        dataclasses.replace(KNOWN, condition=Condition.DIVERGED),
        dataclasses.replace(KNOWN, condition=Condition.QUARANTINED),
        dataclasses.replace(KNOWN, was_writable=True),
    ],
)
def test_a_condition_is_not_turned_back_and_a_former_primary_is_left_to_its_start(
    cluster: Cluster, known: Lineage, compares: Callable[[Callable[[], Comparison]], None]
) -> None:
    history.write(cluster.node("b"), known)
    compares(lambda: BEHIND)
    assert (None, known) == verified(cluster)


@pytest.mark.parametrize("answer", [BEHIND, DIVERGED])
def test_what_others_wrote_during_the_comparison_stands(
    cluster: Cluster, answer: Comparison, compares: Callable[[Callable[[], Comparison]], None]
) -> None:
    """As when the node is promoted, or somebody marks it."""
    promoted = dataclasses.replace(KNOWN, epoch=3, was_writable=True)

    def compare() -> Comparison:
        history.write(cluster.node("b"), promoted)
        return answer

    compares(compare)
    assert (None, promoted) == verified(cluster)


def test_nothing_is_written_when_it_can_not_be_compared(
    cluster: Cluster, compares: Callable[[Callable[[], Comparison]], None]
) -> None:
    def compare() -> Comparison:
        raise OperatorError("two data files can't be compared")

    compares(compare)
    with pytest.raises(OperatorError):
        verified(cluster)
    assert KNOWN == history.read(cluster.node("b"))
