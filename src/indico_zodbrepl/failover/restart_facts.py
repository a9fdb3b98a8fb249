"""What is to be known before a node's server or an Indico instance is restarted."""

from __future__ import annotations

from ..backends import backend_of, electing_of
from ..cluster import Cluster, Node
from ..cluster.installation import Installation
from ..errors import ExitCode, OperatorError
from ..monitor import take_snapshot
from ..node import converting, rehearsal, run
from . import electing_facts
from .restart import RestartFacts


def gather(cluster: Cluster, installation: Installation, name: str) -> RestartFacts:
    """All that a restart is planned by.  A follower's data are compared with its upstream's.

    Raises:
        OperatorError: exit 2, nothing has that name, or a node and an instance have it; exit 8,
            the node has no program of ours, or a conversion into the cluster has not ended.
    """
    node = _node_named(cluster, name)
    installation.check()
    if node is None:
        converting.refuse_unfinished(cluster)
        return RestartFacts(name, is_node=False, snapshot=take_snapshot(cluster))
    run.node_with_program(cluster, name)
    electing = electing_of(cluster) is not None and electing_facts.gather(
        cluster, installation, name, pinging=False)
    admitted, refusal = _admitted(cluster, installation, node)
    return RestartFacts(name, is_node=True, snapshot=take_snapshot(cluster), admitted=admitted,
                        refusal=refusal, electing=electing or None)


def _node_named(cluster: Cluster, name: str) -> Node | None:
    """The node of that name; None when it is an Indico instance's."""
    nodes = [node for node in cluster.nodes if node.name == name]
    instances = [each.name for each in cluster.indico]
    if nodes and name in instances:
        raise OperatorError(f"{name} is a node and an Indico instance",
                            "a restart needs to know which",
                            f"give one of them another name in {cluster.source}",
                            ExitCode.BAD_CONFIG)
    if not nodes and name not in instances:
        known = ", ".join([*(node.name for node in cluster.nodes), *instances])
        raise OperatorError(f"no node or Indico instance {name!r} in {cluster.source}",
                            f"it has: {known}", exit_code=ExitCode.BAD_CONFIG)
    return nodes[0] if nodes else None


def _admitted(cluster: Cluster, installation: Installation,
              node: Node) -> tuple[str, OperatorError | None]:
    """What lets a node start again, one line, or why it would not; as its program would see it."""
    if not backend_of(cluster).guarded:
        return "", None
    try:
        present = run.foreseen(cluster, node)
        wanted = run.caught_up(cluster, node, present) if present.upstream else present
        return "; ".join(rehearsal.admissible(cluster, installation, wanted)), None
    except OperatorError as error:
        if error.exit_code not in (ExitCode.REFUSED, ExitCode.TIMED_OUT):
            raise
        return "", error
