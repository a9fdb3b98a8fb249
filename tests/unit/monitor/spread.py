"""A made-up cluster on three hosts, well and with a host lost."""

from __future__ import annotations

import dataclasses
from typing import Any

from situations import PRIMARY_KILLED, SILENT, cluster, snapshot

from indico_zodbrepl import __version__
from indico_zodbrepl.cluster.hosts import ClusterHost
from indico_zodbrepl.cluster.model import Cluster, FileStore
from indico_zodbrepl.monitor.findings import HostReport
from indico_zodbrepl.monitor.snapshot import EpochWord, Snapshot
from indico_zodbrepl.probing.comparison import Failure
from indico_zodbrepl.probing.wire import FailureKind

AWAY = Failure(FailureKind.HOST_AWAY, "its agent at 10.77.0.11:8300: no answer in time")
WELL = HostReport(__version__, True, 0.0)


def spread(*, schedulers: bool = False) -> Cluster:
    """Node a and instance one on host h1, node b and instance two on h2, nothing on h3.

    Args:
        schedulers: a scheduler runs beside each instance.
    """
    made = cluster()
    return dataclasses.replace(
        made,
        hosts=tuple(
            ClusterHost(f"h{number}", f"10.77.0.1{number}", 8300) for number in range(1, 4)
        ),
        here="h2",
        nodes=tuple(
            dataclasses.replace(node, on=host)
            for node, host in zip(made.nodes, ("h1", "h2"), strict=True)
        ),
        indico=tuple(
            dataclasses.replace(instance, on=host, scheduler=schedulers)
            for instance, host in zip(made.indico, ("h1", "h2"), strict=True)
        ),
        admin=dataclasses.replace(made.admin, on="h3"),
    )


def seen(files: FileStore = FileStore.BLOBS, **changes: Any) -> Snapshot:
    """Return its snapshot; changes are those of ``situations.snapshot``, and ``schedulers``."""
    hosts = {"h1": WELL, "h2": WELL, "h3": WELL} | changes.pop("hosts", {})
    made = spread(schedulers=changes.pop("schedulers", False))
    return snapshot(dataclasses.replace(made, files=files), hosts=hosts, **changes)


H1_LOST: dict[str, Any] = {
    **PRIMARY_KILLED,
    "hosts": {"h1": AWAY},
    "states": {"a": AWAY},
    "servers": {**PRIMARY_KILLED["servers"], "a": SILENT},
    "programs": {"node-a": None, "indico-one": None},
    "indico": {**PRIMARY_KILLED["indico"], "one": SILENT},
    "records": (
        EpochWord("host h1", None, None, "not read in time"),
        EpochWord("host h2", 1, "a", ""),
        EpochWord("host h3", 1, "a", ""),
    ),
}
