"""The records of the current epoch."""

from __future__ import annotations

import contextlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from indico_zodbrepl.cluster import Cluster, NodeState, Role, load
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import epochs
from indico_zodbrepl.host.epochs import EpochRecord
from indico_zodbrepl.host.precheck import is_superseded
from indico_zodbrepl.probing import times

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"
GOOD = {
    "format": 1,
    "cluster": "demo",
    "epoch": 2,
    "primary": "b",
    "at": "2026-02-03T04:05:06Z",
    "reason": "switchover",
}


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    loaded = load(EXAMPLE, tmp_path)
    loaded.var_directory.mkdir()
    return loaded


def record(epoch: int, primary: str) -> EpochRecord:
    return EpochRecord("demo", epoch, primary, times.now(), "test")


def test_the_record_has_the_documented_form(cluster: Cluster) -> None:
    path = Layout(cluster).epoch_record
    epochs.raise_record(
        cluster, path, EpochRecord("demo", 2, "b", "2026-02-03T04:05:06Z", "switchover")
    )
    assert GOOD == json.loads(path.read_text())


def test_every_host_gets_the_record(cluster: Cluster) -> None:
    raised = epochs.raise_everywhere(cluster, 3, "b", "failover")
    assert ("the control host", "Indico instance one", "Indico instance two") == raised.written
    assert {} == raised.failed
    assert {(3, "b")} == {
        (found.epoch, found.primary)
        for path in epochs.paths(cluster).values()
        if (found := epochs.read(cluster, path))
    }


@pytest.mark.parametrize(("epoch", "primary"), [(4, "b"), (5, "b")])
def test_a_record_is_never_lowered_nor_turned_to_another_primary(
    cluster: Cluster, epoch: int, primary: str
) -> None:
    path = Layout(cluster).epoch_record
    epochs.raise_record(cluster, path, record(5, "a"))
    with pytest.raises(OperatorError) as caught:
        epochs.raise_record(cluster, path, record(epoch, primary))
    assert ExitCode.REFUSED == caught.value.exit_code
    assert "epoch 5, primary a" in caught.value.detail
    found = epochs.read(cluster, path)
    assert found is not None
    assert (5, "a") == (found.epoch, found.primary)


def test_a_record_that_a_majority_refutes_is_replaced_and_never_lowered(cluster: Cluster) -> None:
    path = Layout(cluster).epoch_record
    epochs.raise_record(cluster, path, record(5, "a"))
    assert epochs.raise_record(cluster, path, record(5, "b"), of_majority=True)
    with pytest.raises(OperatorError):
        epochs.raise_record(cluster, path, record(4, "a"), of_majority=True)
    found = epochs.read(cluster, path)
    assert found is not None
    assert (5, "b") == (found.epoch, found.primary)


def test_of_two_primaries_of_an_epoch_the_majority_of_the_records_names_the_right_one() -> None:
    assert epochs.newest_of([], 2) is None
    lone, first, second = record(2, "b"), record(2, "c"), record(2, "c")
    assert epochs.newest_of([lone, first, second], 2) == first
    assert epochs.newest_of([lone, first, record(1, "a")], 2) is None
    assert epochs.newest_of([lone, record(1, "a"), record(1, "a")], 2) == lone
    assert epochs.newest_of([lone, first], 1) is None


def test_writers_at_the_same_time_leave_the_highest_epoch(cluster: Cluster) -> None:
    path = Layout(cluster).epoch_record

    def write(epoch: int) -> None:
        with contextlib.suppress(OperatorError):
            epochs.raise_record(cluster, path, record(epoch, "a"))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, [3, 9, 1, 7, 20, 4, 15, 2] * 4))
    found = epochs.read(cluster, path)
    assert found is not None
    assert 20 == found.epoch


def test_the_same_record_is_not_written_twice(cluster: Cluster) -> None:
    path = Layout(cluster).epoch_record
    assert epochs.raise_record(cluster, path, record(2, "a"))
    assert not epochs.raise_record(cluster, path, record(2, "a"))


def test_a_host_that_can_not_be_written_to_is_named_and_the_others_are_raised(
    cluster: Cluster,
) -> None:
    (cluster.var_directory / "epochs").write_text("in the way")
    raised = epochs.raise_everywhere(cluster, 2, "b", "failover")
    assert ("the control host",) == raised.written
    assert {"Indico instance one", "Indico instance two"} == set(raised.failed)


def test_a_primary_is_superseded_by_another_one_in_a_later_epoch(cluster: Cluster) -> None:
    claim = NodeState(cluster.name, "a", Role.PRIMARY, None, 1)
    assert not is_superseded(cluster, claim), "without a record"
    epochs.raise_everywhere(cluster, 1, "a", "the first records")
    assert not is_superseded(cluster, claim)
    epochs.raise_everywhere(cluster, 2, "b", "a failover")
    assert is_superseded(cluster, claim)
    follower = NodeState(cluster.name, "a", Role.SECONDARY, "b", 1)
    assert not is_superseded(cluster, follower)


def test_no_record_is_not_a_damaged_one(cluster: Cluster) -> None:
    assert epochs.read(cluster, Layout(cluster).epoch_record) is None


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "is no JSON"),
        ("[]", "its keys are not"),
        (json.dumps(GOOD | {"more": 1}), "its keys are not"),
        (json.dumps(GOOD | {"epoch": "2"}), "epoch is '2'"),
        (json.dumps(GOOD | {"epoch": True}), "epoch is True"),
        (json.dumps(GOOD | {"epoch": 0}), "its epoch is 0"),
        (json.dumps(GOOD | {"format": 0}), "its format is 0"),
        (json.dumps(GOOD | {"cluster": "other"}), "it belongs to cluster 'other'"),
    ],
)
def test_a_record_that_can_not_be_trusted_is_refused(
    cluster: Cluster, content: str, complaint: str
) -> None:
    path = Layout(cluster).epoch_record
    path.write_text(content)
    with pytest.raises(OperatorError) as caught:
        epochs.read(cluster, path)
    assert ExitCode.REFUSED == caught.value.exit_code
    assert caught.value.detail.startswith(f"{path}: ")
    assert complaint in caught.value.detail


def test_a_damaged_record_stays_while_fewer_than_a_majority_of_the_others_are_readable(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The damaged one may have had an epoch that none of the rest knows."""
    epochs.raise_everywhere(cluster, 2, "b", "test")
    paths = list(epochs.paths(cluster).values())
    paths[0].write_text("damaged")
    monkeypatch.setattr(epochs, "quorum", lambda _cluster: len(paths))
    assert epochs.replace_damaged(cluster, paths[0]) is None
    assert paths[0].read_text() == "damaged"
    monkeypatch.setattr(epochs, "quorum", lambda _cluster: len(paths) - 1)
    replaced = epochs.replace_damaged(cluster, paths[0])
    assert replaced is not None
    assert replaced[0].read_text() == "damaged"
    assert epochs.read(cluster, paths[0]) == replaced[1]
