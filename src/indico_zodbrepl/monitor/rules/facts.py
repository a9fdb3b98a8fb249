"""What every rule may look at, and the words they share."""

from __future__ import annotations

import dataclasses

from indico_zodbrepl import backends
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.model import Cluster, Role
from indico_zodbrepl.monitor import words
from indico_zodbrepl.monitor.findings import Findings
from indico_zodbrepl.monitor.snapshot import IndicoStatus, NodeStatus, Program
from indico_zodbrepl.node.lineage import Condition
from indico_zodbrepl.probing.answers import Replication, ServerAnswer, ServerRole

RUNNING = ("RUNNING", "STARTING")
RESTARTED = (*RUNNING, "BACKOFF")
"""States in which supervisorctl refuses `start`: the program counts as started."""
CONDITIONS = {
    "STOPPED": "is stopped", "STOPPING": "is being stopped", "EXITED": "has ended",
    "BACKOFF": "ends soon after each start", "FATAL": "could not be started"}


@dataclasses.dataclass(frozen=True)
class Facts:
    cluster: Cluster
    findings: Findings
    nodes: tuple[NodeStatus, ...]
    indico: tuple[IndicoStatus, ...]
    commands: Commands

    @property
    def primaries(self) -> list[NodeStatus]:
        """Nodes that run as a primary, writable or not, and masters that lead."""
        return [node for node in self.nodes
                if node.leads or (node.actual_role is not None
                                  and plays(self.cluster, node.actual_role, Role.PRIMARY))]

    @property
    def nobody_takes_writes(self) -> bool:
        return not any(node.writable_primary for node in self.nodes)

    def can(self, operation: str) -> bool:
        """Whether the backend has the commands of an operation, so that hints may name them."""
        return backends.can(self.cluster, operation)

    def called(self, node: NodeStatus) -> str:
        """A node by the role that it runs in, or that it is meant to run in."""
        return words.called(self.cluster, node.actual_role or node.assigned_role, node.name)

    def restart(self, node: NodeStatus) -> str:
        """What restarts a node's server, as a hint."""
        if not node.managed:
            return "restart it where it runs: it is not managed here"
        return f"`{self.commands.zodbrepl('restart', node.name)}`"

    def look_at_log(self, node: NodeStatus) -> str:
        """Where a node's server says what is wrong, as the end of a hint."""
        if not node.managed:
            return "the log of its server, where that runs"
        return f"`{self.commands.show_log(f'node-{node.name}')}`"

    def replication(self, node: NodeStatus) -> Replication | None:
        """What the server on the node's port says of itself, whoever it is."""
        answer = self.findings.servers[node.name]
        return answer.replication if isinstance(answer, ServerAnswer) else None


def plays(cluster: Cluster, actual: ServerRole, assigned: Role) -> bool:
    """Whether a running server's role is the assigned one.

    A storage without replication can be the primary of a backend that has no replication of
    ZEO servers; where ZRS is configured it is a server started with a wrong configuration.
    """
    if actual is ServerRole.STANDALONE:
        return assigned is Role.PRIMARY and cluster.backend != "zrs"
    return actual.value == assigned.value


def remedy(facts: Facts, name: str, program_name: str, program: Program | None) -> str:
    """What brings a node's server or an instance back that does not answer, by its program's state.
    """
    commands = facts.commands
    log = f"see why with `{commands.show_log(program_name)}`"
    if program is None:
        return f"start what is missing: `{commands.zodbrepl('up')}`; then {log}"
    start = commands.zodbrepl("restart", name)
    if program.state == "STARTING":
        return f"supervisor is starting it: wait some seconds; if it does not come, {log}"
    if program.state in RUNNING:
        return f"it runs without answering (frozen?): `{start}`; {log}"
    if program.state == "STOPPED":
        return f"somebody stopped it; start it with `{start}`"
    return f"{log}; when that is repaired: `{start}`"


def bring_back(facts: Facts, node: NodeStatus) -> str:
    """What brings back a node that does not answer, as a hint."""
    if not node.managed:
        return f"start the server at {node.address} where it runs: it is not managed here"
    if not node.has_program:
        return ("clients open the data themselves: see that its disk is mounted and that the user "
                f"who runs Indico may write in "
                f"{facts.commands.path(facts.cluster.node(node.name).data_directory)}")
    return remedy(facts, node.name, f"node-{node.name}", node.program)


def way_back(facts: Facts, node: NodeStatus) -> str:
    """How a node whose history may not be the cluster's comes back; never by a mere start."""
    command = facts.commands.zodbrepl
    if not facts.can("rejoin") and not facts.can("seed"):
        return backends.limit(facts.cluster, "rejoin") or ""
    if node.condition is Condition.NEEDS_SEEDING or not facts.can("rejoin"):
        return (f"`{command('seed', node.name, '--dry-run')}` shows the steps; then "
                f"`{command('seed', node.name)}`")
    return (f"`{command('rejoin', node.name, '--dry-run')}` shows what would be kept and what cut; "
            f"then `{command('rejoin', node.name)}`. Never delete its data directory by hand")


def start_verb(program: Program) -> str:
    """What to ask supervisorctl for, to have a program started whatever its state."""
    return "restart" if program.state in RESTARTED else "start"


def condition(program: Program | None) -> str:
    """What is wrong with a program that does not answer, as the end of a sentence."""
    if program is None or program.state in RUNNING:
        return "does not answer"
    return CONDITIONS.get(program.state, f"is {program.state}")


def shown_program(program: Program | None) -> str:
    """State of a program in a few words, for details."""
    if program is None:
        return "state of its program unknown"
    described = f" ({program.description})" if program.description else ""
    return f"program {program.name} is {program.state}{described}"
