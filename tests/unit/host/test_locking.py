"""Only one process at a time writes the small files in a folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import epochs, history, locking
from indico_zodbrepl.host.epochs import EpochRecord
from indico_zodbrepl.host.history import Condition
from indico_zodbrepl.host.locking import alone_in

HOME = Path(__file__).parents[3]


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    path = tmp_path / "cluster.conf"
    path.write_text((HOME / "etc" / "cluster.conf").read_text())
    return load(path, tmp_path)


def test_a_folder_is_free_again_when_its_holder_has_left_or_failed(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), alone_in(tmp_path):
            raise ZeroDivisionError
    assert [] == [
        name
        for name in os.listdir("/proc/self/fd")
        if os.path.realpath(f"/proc/self/fd/{name}") == str(tmp_path)
    ]


def test_who_holds_a_folder_for_good_does_not_hang_those_who_write_there(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = cluster.node("a")
    node.data_directory.mkdir(parents=True)
    record = cluster.var_directory / "epoch.json"
    monkeypatch.setattr(locking, "FOLDER_SECONDS", 0.05)
    with alone_in(node.data_directory), alone_in(record.parent):
        with pytest.raises(OperatorError, match="history file of node a can't be written") as told:
            history.mark(node, 1, Condition.OK, "")
        assert "another process works in" in told.value.detail
        with pytest.raises(OperatorError, match="record of the epoch can't be written") as told:
            epochs.raise_record(cluster, record, EpochRecord(cluster.name, 1, "a", "", ""))
        assert "another process works in" in told.value.detail
    history.mark(node, 1, Condition.OK, "")
    assert epochs.raise_record(cluster, record, EpochRecord(cluster.name, 1, "a", "", ""))
