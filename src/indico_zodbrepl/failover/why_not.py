"""Why an operation can't be done to a node now, by what the monitor saw; in whole sentences.  Pure.
"""

from __future__ import annotations

from ..backends import backend_of, electing_of
from ..cluster.model import Cluster, Role
from ..monitor.rules.facts import RUNNING
from ..monitor.snapshot import Mark, NodeStatus, Snapshot
from ..node.lineage import Condition
from .switchover import SMALL_LAG_SECONDS, follows_closely


class Reasons:
    """Those of one moment; each method returns an empty text when nothing is in the way."""

    def __init__(self, cluster: Cluster, snapshot: Snapshot) -> None:
        self._cluster = cluster
        self._snapshot = snapshot
        self._nodes = snapshot.nodes
        self._electing = electing_of(cluster) is not None

    @property
    def away(self) -> str:
        if not self._snapshot.supervisor_problem:
            return ""
        return ("Supervisord does not answer, so nothing can be ended or started: "
                f"{self._snapshot.supervisor_problem}.")

    def not_hung(self, node: NodeStatus) -> str:
        if node.reachable:
            return f"Node {node.name} answers: it does not hang."
        program = node.program
        if program is not None and program.state not in RUNNING and (
                node.assigned_role is Role.STORAGE):
            return f"Node {node.name} has no process that could hang; a rejoin brings it back."
        return self.away

    def no_failover(self, node: NodeStatus) -> str:
        serving = [each.name for each in self._nodes if each.writable_primary]
        if serving:
            return f"Primary {serving[0]} serves; to hand its role over there is the switchover."
        alive = [each.name for each in self._nodes
                 if each.assigned_role is Role.PRIMARY and each.reachable and not each.refusal]
        if alive and not self._snapshot.node(alive[0]).differs_in_role:
            return f"Primary {alive[0]} answers, though nobody can save; see why first."
        return self._unfit(node)

    def no_switchover(self, node: NodeStatus) -> str:
        if self._snapshot.primary is None:
            return ("There is no single running primary to hand over from; if it is gone for good "
                    "there is the failover.")
        if self.away or self._unfit(node):
            return self.away or self._unfit(node)
        if not node.connected:
            return f"Node {node.name} is cut off from the primary: bring its link back first."
        if not follows_closely(node):
            lag = "unknown" if node.lag_seconds is None else f"{node.lag_seconds:.0f} s"
            return (f"Node {node.name} is too far behind (lag {lag}, at most "
                    f"{SMALL_LAG_SECONDS:g} s): wait until it has caught up.")
        return ""

    def _unfit(self, node: NodeStatus) -> str:
        """Why a node can't be promoted."""
        if not node.reachable:
            return sentence(f"node {node.name} does not answer: {node.problem}")
        if node.out_of_line:
            return (f"The history of node {node.name} is not that of the cluster: it has to "
                    "rejoin first.")
        if node.actual_role not in ("secondary", "relay"):
            return f"Node {node.name} does not run as a secondary."
        return ""

    def no_rejoin(self, node: NodeStatus) -> str:
        if self._electing:
            if node.reachable and node.mark is Mark.AS_ASSIGNED:
                return f"Storage {node.name} takes part already."
            return self.away or ("" if self._snapshot.primary else
                                  "No master leads, so there is nobody to copy from.")
        if self._snapshot.primary is None:
            return f"There is no single running primary that {node.name} could follow."
        if node.reachable and node.connected and not node.out_of_line and (
                node.mark is Mark.AS_ASSIGNED):
            return f"Node {node.name} follows {node.upstream or 'the primary'} already."
        if node.condition is Condition.NEEDS_SEEDING:
            return f"Node {node.name} can't go on from its own data: a seed gives it a copy."
        return self.away

    def no_seed(self, node: NodeStatus) -> str:
        if self._snapshot.primary is None:
            return f"There is no single running primary that {node.name} could follow."
        if node.out_of_line and node.condition not in (
                Condition.NEEDS_SEEDING, Condition.QUARANTINED):
            return (f"Node {node.name} may have what nobody else has: a rejoin exports that, and "
                    "may be all that is needed.")
        return self.away

    def no_restart(self, node: NodeStatus) -> str:
        """Why a node's server can't be restarted."""
        if not node.managed:
            return f"The server of node {node.name} is somebody else's: restart it where it runs."
        if not node.has_program:
            return (f"Node {node.name} has no server: with this backend Indico opens the data "
                    "itself.")
        return self.away or self._would_not_start(node)

    def _would_not_start(self, node: NodeStatus) -> str:
        rivals = [each.name for each in self._nodes
                  if each.writable_primary and each.name != node.name]
        if backend_of(self._cluster).guarded and node.writable_primary and rivals:
            return (f"Node {rivals[0]} takes writes as well: two primaries drift apart, and "
                    "neither would start again.")
        if node.out_of_line:
            return (f"The history of node {node.name} is not that of the cluster: it would not "
                    "start again before a rejoin.")
        if node.superseded_by:
            return (f"Node {node.superseded_by} is the primary of a later epoch: {node.name} would "
                    "not start again before a rejoin.")
        if node.refusal and not node.reachable:
            return sentence(f"it refused to start: {node.refusal.notice}")
        return ""


def sentence(text: str) -> str:
    """A text with a capital at its begin and a full stop."""
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


