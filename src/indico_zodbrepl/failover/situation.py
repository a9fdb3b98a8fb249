"""All that a planner looks at.  Gathered in ``survey``; the planners themselves are pure."""

from __future__ import annotations

import dataclasses
import datetime
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..cluster.layout import Layout
from ..cluster.model import Cluster
from ..monitor.findings import Findings
from ..monitor.snapshot import NodeStatus, Snapshot
from ..node.datafs import Comparison
from ..probing import tid
from .evidence import Process


@dataclasses.dataclass(frozen=True)
class LastSeen:
    """What the watch program last saw of a primary that answered.

    Attributes:
        at: seconds since 1970.
    """

    at: float
    primary: str
    last_tid: int


def read_last_seen(values: Any) -> LastSeen | None:
    """What the watch program left as JSON; None when it is something else, such as nothing."""
    try:
        at = datetime.datetime.fromisoformat(values["at"]).timestamp()
        return LastSeen(at, str(values["primary"]), tid.parse(values["last_tid"]))
    except (KeyError, TypeError, ValueError):
        return None


@dataclasses.dataclass(frozen=True)
class Situation:
    """One moment of a cluster.

    Attributes:
        now: seconds since 1970.
        findings, snapshot: one round of probes, raw and judged.
        comparisons: nodes' data files held against another one's, which the planner's own
            words name; a text where that could not be done, which says why.
        conditions: of each node's lineage file that says something else than ``ok``.
        free: bytes free where a node's data is.
        processes: those of the nodes of whom the host can tell; see ``processes``.
        fingerprints: of the data files, taken before they were compared.
        last_seen: None when there is no such record.
        holders: processes that have nodes' data files, where there is no supervisor to ask.
    """

    now: float
    findings: Findings
    snapshot: Snapshot
    comparisons: Mapping[str, Comparison | str]
    conditions: Mapping[str, str]
    free: Mapping[str, int]
    processes: Mapping[str, Process] = dataclasses.field(default_factory=dict)
    last_seen: LastSeen | None = None
    fingerprints: Mapping[str, str] = dataclasses.field(default_factory=dict)
    holders: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def assigned_primary(self) -> NodeStatus | None:
        """The node that its state file makes primary, of several the one in the highest epoch.

        A record of a later epoch counts for more: the state file of a primary that is gone may
        be gone with it.
        """
        primaries = [(node.assigned_epoch or 0, node) for node in self.snapshot.nodes
                     if node.assigned_role == "primary"]
        recorded = {record.primary: record.epoch for record in self.snapshot.records
                    if record.epoch is not None}
        primaries += [(recorded[node.name], node) for node in self.snapshot.nodes
                      if node.name in recorded]
        return max(primaries, key=lambda found: found[0], default=(0, None))[1]


def tail_folder(cluster: Cluster, node: str, epoch: int, now: float) -> Path:
    """Where what only ``node`` has is kept once ``epoch`` begins without it."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    return Layout(cluster).lost_tails / f"{node}-{epoch}-{stamp}"
