"""Findings of a small cluster, healthy unless a test says what is different."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from indico_zodbrepl.cluster.model import Cluster, Node, NodeState, Role
from indico_zodbrepl.cluster.programs import Admin, IndicoInstance
from indico_zodbrepl.host.interface import SUPERVISOR_AWAY
from indico_zodbrepl.monitor.assessment import assess
from indico_zodbrepl.monitor.findings import Findings
from indico_zodbrepl.monitor.node_status import Program
from indico_zodbrepl.monitor.snapshot import EpochWord, Snapshot
from indico_zodbrepl.probing.answers import (
    IndicoAnswer,
    MissingAnswer,
    Replication,
    ServerAnswer,
    ServerRole,
)
from indico_zodbrepl.probing.comparison import Comparison, Failure
from indico_zodbrepl.probing.wire import FailureKind

HOME = Path("/srv/indico")
TID = 0x040D243A1E64B6AA
TID_TIME = 1795172767.123456
ONE_SECOND = round((1 << 32) / 60)
SILENT = Failure(FailureKind.SILENT, "no answer in time")
REFUSED = Failure(FailureKind.REFUSED, "nothing listens on 127.0.0.1:8111")


def cluster(**changes: Any) -> Cluster:
    made = Cluster(
        name="demo",
        backend="zrs",
        nodes=(
            Node("a", "127.0.0.1", 8111, 8112, HOME / "var/node/a", Role.PRIMARY),
            Node("b", "127.0.0.1", 8121, 8122, HOME / "var/node/b", Role.SECONDARY, "a"),
        ),
        indico=(IndicoInstance("one", "127.0.0.1", 8101), IndicoInstance("two", "127.0.0.1", 8102)),
        admin=Admin("127.0.0.1", 8100),
        var_directory=HOME / "var",
        reconnect_delay=1.0,
        keep_alive_delay=5.0,
        allow_public_addresses=False,
        source=HOME / "etc/cluster.conf",
    )
    return dataclasses.replace(made, **changes)


def replication(name: str, **changes: Any) -> Replication:
    made = {
        "a": Replication(
            "demo", "a", ServerRole.PRIMARY, 1, None, None, ("127.0.0.1:40112",), 101, 4096, False
        ),
        "b": Replication(
            "demo", "b", ServerRole.SECONDARY, 1, "127.0.0.1:8112", True, (), 102, 4096, True
        ),
    }[name]
    return dataclasses.replace(made, **changes)


def server(name: str, last_tid: int = TID, **changes: Any) -> ServerAnswer:
    return ServerAnswer(last_tid, 2, replication(name, **changes))


def instance(name: str, **changes: Any) -> IndicoAnswer:
    return dataclasses.replace(
        IndicoAnswer(name, 201, "127.0.0.1:8111", True, False, TID), **changes
    )


def program(name: str, state: str = "RUNNING") -> Program:
    return Program(name, state, 100, "pid 100, uptime 0:01:00")


def state(name: str, **changes: Any) -> NodeState:
    made = {
        "a": NodeState("demo", "a", Role.PRIMARY, None, 1),
        "b": NodeState("demo", "b", Role.SECONDARY, "a", 1),
    }[name]
    return dataclasses.replace(made, **changes)


def behind(
    transactions: int, primary_tid: int = TID, exact: bool = True, first: int | None = None
) -> Comparison:
    return Comparison("a", primary_tid, MissingAnswer(transactions, exact, first))


def findings(**changes: Any) -> Findings:
    """Healthy findings; a dictionary given as a change is laid over the healthy one.

    A value of None in it removes the entry, as for a comparison that was not possible; an empty
    dictionary removes all.
    """
    healthy = Findings(
        taken_at=TID_TIME + 60,
        duration=0.01,
        states={"a": state("a"), "b": state("b")},
        servers={"a": server("a"), "b": server("b")},
        comparisons={"b": behind(0)},
        indico={"one": instance("one"), "two": instance("two")},
        programs={name: program(name) for name in ("node-a", "node-b", "indico-one", "indico-two")},
        supervisor_problem="",
    )
    return dataclasses.replace(
        healthy,
        **{field: _laid_over(getattr(healthy, field), change) for field, change in changes.items()},
    )


def _laid_over(healthy: Any, change: Any) -> Any:
    if not isinstance(change, dict) or not change:
        return change
    return {key: value for key, value in {**healthy, **change}.items() if value is not None}


def snapshot(in_cluster: Cluster | None = None, **changes: Any) -> Snapshot:
    return assess(in_cluster or cluster(), findings(**changes), HOME)


HEALTHY: dict[str, Any] = {}
SECONDARY_KILLED: dict[str, Any] = {
    "servers": {
        "a": server("a", followers=()),
        "b": Failure(FailureKind.REFUSED, "nothing listens on 127.0.0.1:8121"),
    },
    "comparisons": {"b": None},
    "programs": {"node-b": program("node-b", "STOPPED")},
}
PRIMARY_KILLED: dict[str, Any] = {
    "servers": {"a": REFUSED, "b": server("b", connected=False)},
    "comparisons": {"b": None},
    "programs": {"node-a": program("node-a", "STOPPED")},
    "indico": {
        name: instance(name, server="127.0.0.1:8121", read_only=True) for name in ("one", "two")
    },
}
ALL_STOPPED: dict[str, Any] = {
    "servers": {"a": REFUSED, "b": REFUSED},
    "comparisons": {"b": None},
    "indico": {"one": REFUSED, "two": REFUSED},
    "programs": {},
    "supervisor_problem": SUPERVISOR_AWAY,
}
UNKNOWN: dict[str, Any] = {
    "servers": {"a": SILENT, "b": SILENT},
    "comparisons": {},
    "programs": {},
    "indico": {"one": SILENT, "two": SILENT},
    "supervisor_problem": "no answer in time",
}
SPLIT_BRAIN: dict[str, Any] = {
    "servers": {
        "b": server("b", role=ServerRole.PRIMARY, upstream=None, connected=None, read_only=False)
    }
}
FAILED_OVER: dict[str, Any] = {
    "states": {"b": state("b", role=Role.PRIMARY, upstream=None, epoch=2)},
    "servers": {
        "a": REFUSED,
        "b": server(
            "b", role=ServerRole.PRIMARY, upstream=None, connected=None, read_only=False, epoch=2
        ),
    },
    "comparisons": {"b": None},
    "programs": {"node-a": program("node-a", "EXITED")},
    "indico": {name: instance(name, server="127.0.0.1:8121") for name in ("one", "two")},
    "records": (EpochWord("the control host", 2, "b", ""),),
}
"""Node b was promoted; the folder of node a is gone, so its state is the one it began with."""
