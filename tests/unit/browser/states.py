"""The situations in which somebody is woken: a pair of ZRS nodes in each, made up."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import planning
import situations
from situations import (
    HEALTHY,
    ONE_SECOND,
    PRIMARY_KILLED,
    REFUSED,
    SILENT,
    TID,
    TID_TIME,
    behind,
    instance,
    program,
    server,
    state,
)

from indico_zodbrepl.cluster.model import Cluster, Role
from indico_zodbrepl.host.datafs_answers import Relation
from indico_zodbrepl.host.disks import Disk
from indico_zodbrepl.host.history import Condition
from indico_zodbrepl.monitor.snapshot import EpochWord, OpenOperation, Snapshot
from indico_zodbrepl.operations import journal, operation, store
from indico_zodbrepl.operations.evidence import Process
from indico_zodbrepl.operations.failover import plan_failover
from indico_zodbrepl.operations.model import Plan
from indico_zodbrepl.operations.operation import Operation, Outcome, Progress, StepRecord
from indico_zodbrepl.probing.answers import Hold, ServerRole, WriteFailure

NOW = TID_TIME + 60
READS_FROM_B = {
    name: instance(name, server="127.0.0.1:8121", read_only=True) for name in ("one", "two")
}
WRITES_TO_B = {name: instance(name, server="127.0.0.1:8121") for name in ("one", "two")}
RECORDS = tuple(
    EpochWord(keeper, 2, "b", "")
    for keeper in ("the control host", "Indico instance one", "Indico instance two")
)

LAGGING: dict[str, Any] = {
    "servers": {"b": server("b", TID - 40 * ONE_SECOND)},
    "comparisons": {"b": behind(127, first=TID - 38 * ONE_SECOND)},
}
FROZEN: dict[str, Any] = {
    "servers": {"a": SILENT, "b": server("b", connected=True)},
    "comparisons": {"b": None},
    "indico": {name: instance(name, connected=False, server=None) for name in ("one", "two")},
}
FAILED_OVER: dict[str, Any] = {
    "servers": {
        "a": REFUSED,
        "b": server(
            "b", role=ServerRole.PRIMARY, epoch=2, upstream=None, connected=None, read_only=False
        ),
    },
    "states": {"b": state("b", role=Role.PRIMARY, upstream=None, epoch=2)},
    "comparisons": {"b": None},
    "programs": {"node-a": program("node-a", "STOPPED")},
    "indico": WRITES_TO_B,
    "records": RECORDS,
}
DIVERGED: dict[str, Any] = {
    **FAILED_OVER,
    "lineages": {"a": (Condition.DIVERGED, "5 transactions that b never had")},
}
FENCED: dict[str, Any] = {
    **FAILED_OVER,
    "servers": {**FAILED_OVER["servers"], "a": server("a", held=Hold.EPOCH, followers=())},
    "programs": {"node-a": program("node-a", "RUNNING")},
}

FULL_DISK: dict[str, Any] = {
    "servers": {
        "a": server(
            "a",
            write_failure=WriteFailure("No space left on device", int(NOW) - 14, int(NOW), 148),
        )
    },
    "disks": {"a": Disk(0, 20 << 30, 1), "b": Disk(15 << 30, 20 << 30, 2)},
    "control_disk": Disk(1 << 30, 20 << 30, 3),
}
STATES: Mapping[str, dict[str, Any]] = {
    "healthy": HEALTHY,
    "lagging": LAGGING,
    "primary dead": PRIMARY_KILLED,
    "frozen": FROZEN,
    "diverged": DIVERGED,
    "fenced": FENCED,
    "full disk": FULL_DISK,
}
"""What is found in each state that needs no files."""
OPERATIONS = ("operation running", "operation failed")


def snapshot(cluster: Cluster, name: str) -> Snapshot:
    """What the monitor sees of the pair in a state."""
    return situations.snapshot(cluster, **STATES[name])


def failover(cluster: Cluster) -> Plan:
    """The plan of a failover from the dead primary a, which has three transactions alone."""
    found = plan_failover(
        cluster,
        planning.situation(
            cluster,
            **PRIMARY_KILLED,
            processes={"a": Process.NONE},
            compared={"a": planning.compared(Relation.AHEAD, private=3)},
        ),
        None,
        "the disk of a died",
        planning.COMMANDS(cluster),
    )
    assert isinstance(found, Plan), found
    return found


@contextlib.contextmanager
def operation_in(cluster: Cluster, name: str) -> Iterator[Snapshot]:
    """A failover whose third step runs, or has failed; its files lie in the cluster's folders.

    While it runs its lock is held; yields what the monitor sees.
    """
    works = name == "operation running"
    begun = _begun(cluster, works)
    journal.append(cluster, begun)
    store.save(cluster, begun)
    seen = OpenOperation(
        begun.identifier,
        "failover",
        "b",
        begun.actor,
        begun.began,
        str(begun.outcome),
        at_work=works,
    )
    with store.alone(cluster) if works else contextlib.nullcontext():
        yield situations.snapshot(cluster, **PRIMARY_KILLED, operations=(seen,))


def _begun(cluster: Cluster, works: bool) -> Operation:
    begun = operation.new(cluster.name, failover(cluster), "alice (admin page)", NOW - 8)
    for index, seconds in enumerate((0.4, 1.1)):
        begun = begun.changed(
            index, StepRecord(Progress.DONE, NOW - 8 + index, NOW - 8 + index + seconds)
        )
    third = (
        StepRecord(Progress.BEGUN, NOW - 6)
        if works
        else StepRecord(
            Progress.FAILED,
            NOW - 6,
            NOW - 4,
            error="NOTICE: node a's host does not answer\n"
            "DETAIL: ssh: connect to host a port 22: No route to host\n"
            "HINT: is it switched on? then `bin/zodbrepl resume`",
        )
    )
    begun = begun.changed(2, third)
    return begun if works else dataclasses.replace(begun, outcome=Outcome.STOPPED)
