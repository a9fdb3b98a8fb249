"""Count what a cluster holds, and check that every follower holds the same."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster, Role
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.indico_programs import Indico27
from indico_zodbrepl.monitor import Snapshot, take_snapshot
from indico_zodbrepl.probing.race import all_at_once
from indico_zodbrepl.probing.waiting import wait_while

CATCH_UP_SECONDS = 60.0
POLL_SECONDS = 0.3
WHOLE = "all nodes together"

Counts = Mapping[str, Any]


def compare(cluster: Cluster, indico: Indico27) -> dict[str, Counts]:
    """Wait for the followers, then count what each node's own storage holds.

    Returns:
        For each node that can be read directly, the result of ``bulkload verify``, which is the
        same for all; if no node can, the result for the whole cluster, as ``WHOLE``.

    Raises:
        OperatorError: a follower did not catch up, or the nodes hold different things.
    """
    if any(node.role.follows for node in cluster.nodes):
        wait_until_in_step(cluster)
    layout = Layout(cluster)
    files = {
        node.name: layout.node_zodb_conf(node)
        for node in backend_of(cluster).readable_nodes(cluster)
    } or {WHOLE: layout.zodb_conf}
    found: dict[str, Counts] = {}

    def count(name: str) -> None:
        found[name] = indico.count(files[name])

    all_at_once(partial(count, name) for name in files)
    first, *others = files
    for other in others:
        if found[other] != found[first]:
            raise OperatorError(
                "the nodes hold different data",
                f"{first}: {found[first]}\n{other}: {found[other]}",
                _see(cluster),
            )
    return {name: found[name] for name in files}


def is_loaded(found: Mapping[str, Counts]) -> bool:
    """Return True if the nodes hold a finished load; people may have changed its events since."""
    return all(0 < counts["runs"] == counts["finished"] for counts in found.values())


def wait_until_in_step(cluster: Cluster) -> None:
    """Wait until all followers have the primary's last transaction.

    Raises OperatorError: exit 7, a follower did not catch up.
    """

    def behind() -> Snapshot | None:
        snapshot = take_snapshot(cluster)
        return None if _in_step(snapshot) else snapshot

    last = wait_while(behind, time.monotonic() + CATCH_UP_SECONDS, POLL_SECONDS)
    if last is not None:
        raise OperatorError(
            "the followers did not catch up with the primary",
            last.sentence,
            _see(cluster),
            ExitCode.TIMED_OUT,
        )


def _see(cluster: Cluster) -> str:
    return f"see: {Commands.here(cluster).zodbrepl('status')}"


def _in_step(snapshot: Snapshot) -> bool:
    """Return True if all followers are connected and have the primary's last transaction."""
    return snapshot.primary is not None and all(
        node.connected and node.lag_transactions == 0
        for node in snapshot.nodes
        if node.assigned_role is not Role.PRIMARY
    )
