"""The followers of a site, and waiting until they have caught up."""

from __future__ import annotations

import time
from functools import partial

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.bench.sites.site import Site
from indico_zodbrepl.cluster import Cluster, Node, Role
from indico_zodbrepl.cluster.settings import NeoSettings
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.probing.waiting import wait_while
from indico_zodbrepl.probing.wire import ProbeError

ANSWER_SECONDS = 5.0
POLL_SECONDS = 0.05


def followers(cluster: Cluster | None) -> tuple[Node, ...]:
    """Return the nodes that exist only for replication.

    These are nodes with an upstream, and for NEO with replicas all storages except the first.
    """
    if cluster is None:
        return ()
    match cluster.settings:
        case NeoSettings(replicas=replicas):
            storages = [node for node in cluster.nodes if node.role is Role.STORAGE]
            return tuple(storages[1:]) if replicas else ()
        case _:
            return tuple(node for node in cluster.nodes if node.upstream)


def follower_programs(site: Site) -> frozenset[str]:
    """Return the names of the followers' supervised programs."""
    if site.cluster is None:
        return frozenset()
    backend = backend_of(site.cluster)
    return frozenset(
        program.name
        for node in followers(site.cluster)
        for program in backend.programs(site.cluster, site.installation, node)
    )


def observable(cluster: Cluster | None) -> tuple[Node, ...]:
    """Return the followers whose own copy can be read directly, as it may lag."""
    if cluster is None:
        return ()
    readable = {node.name for node in backend_of(cluster).readable_nodes(cluster)}
    return tuple(node for node in followers(cluster) if node.name in readable)


def wait_until_equal(cluster: Cluster | None, seconds: float) -> None:
    """Wait until each follower has the last transaction of an idle primary.

    Raises:
        OperatorError: exit 7, a follower did not catch up in time or does not answer.
    """
    watched = observable(cluster)
    if cluster is None or not watched:
        return
    primary = next(node for node in cluster.nodes if node.role is Role.PRIMARY)
    deadline = time.monotonic() + seconds
    for node in watched:
        behind = wait_while(partial(_behind, cluster, node, primary), deadline, POLL_SECONDS)
        if behind:
            raise OperatorError(
                f"follower {node.name} is behind", behind, exit_code=ExitCode.TIMED_OUT
            )


def _behind(cluster: Cluster, node: Node, primary: Node) -> str:
    """Return what a follower lacks, or why that is unknown; '' if nothing."""
    tids = []
    for each in (primary, node):
        try:
            answer = backend_of(cluster).ask(cluster, each, time.monotonic() + ANSWER_SECONDS)
        except ProbeError as error:
            return f"{each.name}: {error.detail}"
        tids.append(answer.last_tid)
    return "" if tids[0] == tids[1] else f"{node.name} has {tids[1]:016x}, not {tids[0]:016x}"
