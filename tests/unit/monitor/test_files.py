"""What files on disk tell: as they are, damaged, or not there."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest
from situations import cluster

from indico_zodbrepl.cluster.layout import Layout, lineage_file
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.host import history, operation_lock
from indico_zodbrepl.host.history import Condition
from indico_zodbrepl.host.operations_interface import Holder
from indico_zodbrepl.host.supervisor import last_refusal
from indico_zodbrepl.monitor import files
from indico_zodbrepl.monitor.node_status import StartRefusal
from indico_zodbrepl.monitor.snapshot import EpochWord


@pytest.fixture
def here(tmp_path: Path) -> Cluster:
    nodes = tuple(
        dataclasses.replace(node, data_directory=tmp_path / "node" / node.name)
        for node in cluster().nodes
    )
    for node in nodes:
        node.data_directory.mkdir(parents=True)
    return cluster(var_directory=tmp_path, nodes=nodes)


def found(here: Cluster) -> dict[tuple[str, str], Any]:
    return dict(result for _, job in files.jobs(here) for result in job())


def write_operation(here: Cluster, name: str, **changes: Any) -> None:
    folder = Layout(here).operations
    folder.mkdir(exist_ok=True)
    values = {
        "id": name,
        "operation": "failover",
        "outcome": "running",
        "pid": os.getpid(),
        "actor": "eve",
        "began": 10.0,
        "plan": {"target": "b"},
        **changes,
    }
    (folder / f"{name}.json").write_text(json.dumps(values))


def test_a_new_cluster_has_no_records_histories_or_operations(here: Cluster) -> None:
    said = found(here)
    assert EpochWord("the control host", None, None, "") == said["record", "the control host"]
    assert () == said["operations", ""]
    assert ("lineage", "a") not in said


def test_a_record_says_epoch_and_primary_and_a_damaged_one_why(here: Cluster) -> None:
    values = {"format": 1, "cluster": "demo", "epoch": 4, "primary": "b", "at": "", "reason": ""}
    Layout(here).epoch_record.write_text(json.dumps(values))
    damaged = Layout(here).instance_epoch_record(here.indico[0])
    damaged.parent.mkdir()
    damaged.write_text("{")
    said = found(here)
    assert EpochWord("the control host", 4, "b", "") == said["record", "the control host"]
    assert "is no JSON" in said["record", "Indico instance one"].problem


def test_a_history_file_says_its_condition(here: Cluster) -> None:
    history.mark(here.node("a"), 1, Condition.DIVERGED, "3 private\x1b")
    assert (Condition.DIVERGED, "3 private?") == found(here)["lineage", "a"]


@pytest.mark.parametrize("text", ['{"condition": "diverged"}', "[]", ""])
def test_a_damaged_history_file_says_why(here: Cluster, text: str) -> None:
    lineage_file(here.node("a")).write_text(text)
    condition, detail = found(here)["lineage", "a"]
    assert condition is None
    assert "lineage.json" in detail


def test_operations_that_ended_are_left_out_and_a_dead_process_is_noticed(here: Cluster) -> None:
    write_operation(here, "1-failover", pid=2**22 + 1, began=5.0)
    write_operation(here, "2-rejoin", outcome="done")
    write_operation(here, "3-clone", outcome="stopped")
    said = found(here)["operations", ""]
    assert [("1-failover", "b", False), ("3-clone", "b", False)] == [
        (each.identifier, each.target, each.at_work) for each in said
    ]
    write_operation(here, "1-failover", outcome="undone", pid=2**22 + 1, began=5.0)
    assert ["3-clone"] == [each.identifier for each in found(here)["operations", ""]]


def test_an_operation_is_running_while_its_process_holds_the_lock(here: Cluster) -> None:
    """Another process may have its number after a restart of the machine."""
    write_operation(here, "1-failover", pid=os.getpid(), began=5.0)
    assert [False] == [each.at_work for each in found(here)["operations", ""]]
    with operation_lock.held(here, Holder(os.getpid())):
        assert [True] == [each.at_work for each in found(here)["operations", ""]]
    with operation_lock.held(here, Holder(1)):
        assert [False] == [each.at_work for each in found(here)["operations", ""]]


def test_an_operation_that_nobody_can_read_counts_as_open(here: Cluster) -> None:
    Layout(here).operations.mkdir()
    (Layout(here).operations / "4-failover.json").write_text("{")
    (only,) = found(here)["operations", ""]
    assert ("4-failover", "stopped") == (only.identifier, only.outcome)


def test_the_last_refusal_in_a_log_is_taken_apart(tmp_path: Path) -> None:
    log = tmp_path / "node-b.log"
    log.write_text(
        "NOTICE: an old one\nHINT: old\nnode b starts\n"
        "NOTICE: node b refuses to start\nDETAIL: epoch 2 is known\n  a: epoch 2\n"
        "HINT: bin/zodbrepl rejoin b\nlater words\n"
    )
    assert StartRefusal(
        "node b refuses to start", "epoch 2 is known; a: epoch 2", "bin/zodbrepl rejoin b"
    ) == files.start_refusal(last_refusal(log))


def test_a_log_without_a_refusal_or_no_log_gives_none(tmp_path: Path) -> None:
    assert files.start_refusal(last_refusal(tmp_path / "none.log")) is None
    (tmp_path / "node.log").write_text("node b starts\n")
    assert files.start_refusal(last_refusal(tmp_path / "node.log")) is None
