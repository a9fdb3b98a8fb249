"""Who follows in a site, and whether all followers have what the primary has."""

from __future__ import annotations

import time

from ..backends import backend_of
from ..cluster import Cluster, Node, Role
from ..cluster.settings import NeoSettings
from ..errors import ExitCode, OperatorError
from ..probing.wire import ProbeError
from .site import Site

ANSWER_SECONDS = 5.0
POLL_SECONDS = 0.05


def followers(cluster: Cluster | None) -> tuple[Node, ...]:
    """The nodes that would not be there without replication.

    Those with an upstream; of NEO's storages, which are all alike, all but the first, if there
    are replicas.
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
    """Names of the supervised programs of a site's followers."""
    if site.cluster is None:
        return frozenset()
    backend = backend_of(site.cluster)
    return frozenset(program.name for node in followers(site.cluster)
                     for program in backend.programs(site.cluster, site.installation, node))


def observable(cluster: Cluster | None) -> tuple[Node, ...]:
    """The followers whose own copy can be read by itself, as it may lag behind."""
    if cluster is None:
        return ()
    readable = {node.name for node in backend_of(cluster).readable_nodes(cluster)}
    return tuple(node for node in followers(cluster) if node.name in readable)


def wait_until_equal(cluster: Cluster | None, seconds: float) -> None:
    """Wait until each follower has the last transaction of the primary, which nobody writes to.

    Raises:
        OperatorError: exit 7, one has it not in time, or does not answer.
    """
    watched = observable(cluster)
    if cluster is None or not watched:
        return
    primary = next(node for node in cluster.nodes if node.role is Role.PRIMARY)
    deadline = time.monotonic() + seconds
    for node in watched:
        while behind := _behind(cluster, node, primary):
            if time.monotonic() > deadline:
                raise OperatorError(f"follower {node.name} is behind", behind,
                                    exit_code=ExitCode.TIMED_OUT)
            time.sleep(POLL_SECONDS)


def _behind(cluster: Cluster, node: Node, primary: Node) -> str:
    """What a follower lacks, or why it can't be told; '' when nothing."""
    tids = []
    for each in (primary, node):
        try:
            answer = backend_of(cluster).ask(cluster, each, time.monotonic() + ANSWER_SECONDS)
        except ProbeError as error:
            return f"{each.name}: {error.detail}"
        tids.append(answer.last_tid)
    return "" if tids[0] == tids[1] else f"{node.name} has {tids[1]:016x}, not {tids[0]:016x}"
