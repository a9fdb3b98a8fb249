"""The start-up check of a follower: which differences keep it from starting."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from indico_zodbrepl.cluster import Cluster, NodeState, Role, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import data_fs
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import datafs, history
from indico_zodbrepl.host.datafs_answers import Common, Comparison, DifferingBlob, Relation
from indico_zodbrepl.host.following import admit_follower
from indico_zodbrepl.host.history import Condition, Lineage

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"
OLD, COMMON = "03f0000000000001", "03f0000000000002"
LACKING_UPSTREAM = Comparison(
    relation=Relation.DIVERGED,
    common=Common(COMMON, "ab"),
    private=0,
    private_first=None,
    private_last=None,
    missing=1,
    holes=0,
    conflicting=0,
    packed=False,
    packed_away=0,
    packed_away_last=None,
    bytes_private=0,
    examined=1,
    blobs=3,
    blobs_differing=1,
    blobs_missing_upstream=1,
    blobs_private=1,
    differing_blob=DifferingBlob("0a", OLD, 12, None),
)
LACKING = dataclasses.replace(
    LACKING_UPSTREAM,
    blobs_missing_upstream=0,
    blobs_private=0,
    differing_blob=DifferingBlob("0a", OLD, None, 12),
)
STATE = NodeState("demo", "b", Role.SECONDARY, "a", 2)
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
    for name in ("a", "b"):
        node = loaded.node(name)
        node.data_directory.mkdir(parents=True)
        data_fs(node).write_bytes(b"FS21" + 100 * b" ")
    history.write(loaded.node("b"), KNOWN)
    return loaded


@pytest.fixture
def admitted(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Comparison], list[str]]:
    """Admits node b, whose comparison with node a has this result."""

    def admit(found: Comparison) -> list[str]:
        monkeypatch.setattr(datafs, "compare", lambda *_, **__: found)
        return admit_follower(cluster, Installation(cluster.var_directory), STATE)

    return admit


def test_a_follower_starts_although_its_upstream_lacks_files_of_blobs(
    cluster: Cluster, admitted: Callable[[Comparison], list[str]]
) -> None:
    (remark,) = admitted(LACKING_UPSTREAM)
    assert "node a lacks data of epoch 2" in remark
    assert f"object 0a in transaction {OLD}: 12 bytes on node b, missing on node a" in remark
    assert KNOWN == history.read(cluster.node("b"))


def test_a_follower_that_lacks_files_of_blobs_does_not_start(
    cluster: Cluster, admitted: Callable[[Comparison], list[str]]
) -> None:
    with pytest.raises(OperatorError, match="diverged") as caught:
        admitted(LACKING)
    assert caught.value.exit_code is ExitCode.REFUSED
    assert "missing on node b, 12 bytes on node a" in caught.value.detail
    known = history.read(cluster.node("b"))
    assert known is not None
    assert (Condition.DIVERGED, OLD) == (known.condition, known.verified_tid)


def test_a_former_primary_whose_new_upstream_lacks_its_blobs_does_not_start(
    cluster: Cluster, admitted: Callable[[Comparison], list[str]]
) -> None:
    """It may have the only copies."""
    history.write(cluster.node("b"), dataclasses.replace(KNOWN, was_writable=True))
    with pytest.raises(OperatorError, match="diverged"):
        admitted(LACKING_UPSTREAM)
