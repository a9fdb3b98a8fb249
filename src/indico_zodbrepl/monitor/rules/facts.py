"""The input of every rule, and texts that rules share."""

from __future__ import annotations

import dataclasses

from indico_zodbrepl import backends
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.model import Cluster, Role
from indico_zodbrepl.host.history import STARTS_IN_NO_ROLE, Condition
from indico_zodbrepl.host.supervisor import NOT_KNOWN
from indico_zodbrepl.monitor import words
from indico_zodbrepl.monitor.findings import Findings
from indico_zodbrepl.monitor.host_status import Automation, HostStatus
from indico_zodbrepl.monitor.node_status import NodeStatus, Program
from indico_zodbrepl.monitor.snapshot import IndicoStatus
from indico_zodbrepl.probing.answers import Hold, Replication, ServerAnswer, ServerRole

RUNNING = ("RUNNING", "STARTING")
RESTARTED = (*RUNNING, "BACKOFF")
"""States in which supervisorctl refuses `start`: the program counts as started."""
CONDITIONS = {
    "STOPPED": "is stopped",
    "STOPPING": "is being stopped",
    "EXITED": "has exited",
    "BACKOFF": "exits soon after each start",
    "FATAL": "could not be started",
}


@dataclasses.dataclass(frozen=True)
class Facts:
    cluster: Cluster
    findings: Findings
    nodes: tuple[NodeStatus, ...]
    indico: tuple[IndicoStatus, ...]
    commands: Commands
    hosts: tuple[HostStatus, ...] = ()

    def away(self, host: str | None) -> HostStatus | None:
        """Return a host that does not answer; None for one that does, or without host sections."""
        return next((each for each in self.hosts if each.name == host and not each.up), None)

    @property
    def primaries(self) -> list[NodeStatus]:
        """Return the nodes that run as a primary, writable or not, and masters that lead."""
        return [
            node
            for node in self.nodes
            if node.leads
            or (
                node.actual_role is not None and plays(self.cluster, node.actual_role, Role.PRIMARY)
            )
        ]

    @property
    def rivals(self) -> list[NodeStatus]:
        """Return the nodes of a split brain; the one to fence is the last.  Empty without one."""
        rivals = [node for node in self.primaries if node.held is not Hold.EPOCH]
        if len(rivals) < 2:
            return []
        extra = next(
            (node for node in rivals if node.assigned_role not in (Role.PRIMARY, Role.MASTER)),
            min(reversed(rivals), key=lambda node: node.epoch or 0),
        )
        return [*(node for node in rivals if node is not extra), extra]

    @property
    def full_writers(self) -> list[NodeStatus]:
        """Return the nodes required for writes whose disks are full."""
        return [
            node
            for node in self.nodes
            if node.is_full and (node.writable_primary or node.assigned_role is Role.STORAGE)
        ]

    @property
    def nobody_takes_writes(self) -> bool:
        return not any(node.writable_primary for node in self.nodes)

    def can(self, operation: str) -> bool:
        """Return True if the backend has the commands of an operation."""
        return backends.can(self.cluster, operation)

    def called(self, node: NodeStatus) -> str:
        """Return a node's name with its actual role, or else its assigned one."""
        return words.called(self.cluster, node.actual_role or node.assigned_role, node.name)

    def restart(self, node: NodeStatus) -> str:
        """Return how to restart a node's server, as a hint."""
        if not node.managed:
            return "restart it where it runs: it is not managed here"
        return f"`{self.commands.zodbrepl('restart', node.name)}`"

    def look_at_log(self, node: NodeStatus) -> str:
        """Return where a node's server logs, as the end of a hint."""
        if not node.managed:
            return "the log of its server, where that runs"
        return f"`{self.commands.show_log(f'node-{node.name}')}`"

    def replication(self, node: NodeStatus) -> Replication | None:
        """Return the report of the server on the node's port, whatever server it is."""
        answer = self.findings.servers[node.name]
        return answer.replication if isinstance(answer, ServerAnswer) else None


def plays(cluster: Cluster, actual: ServerRole, assigned: Role) -> bool:
    """Return True if a running server has the assigned role.

    A storage without replication can be the primary of a backend without replication between ZEO
    servers; with ZRS it is a server with a wrong configuration.
    """
    if actual is ServerRole.STANDALONE:
        return assigned is Role.PRIMARY and not backends.backend_of(cluster).has_epochs
    return actual.value == assigned.value


def reviving(node: NodeStatus, *, led: bool) -> str:
    """Return the operation that brings back a managed node that does not answer.

    Args:
        led: True if there is a primary or an elected master to follow.
    """
    if node.program is None:
        return "up"
    if node.assigned_role not in (Role.MASTER, Role.STORAGE, Role.ADMIN):
        return "restart"
    if not node.reachable and node.program.state in RUNNING:
        return "failover"
    return "rejoin" if node.assigned_role is Role.STORAGE and led else "restart"


def start_command(commands: Commands, operation: str, name: str) -> str:
    """Return the command of ``reviving`` for a node or an Indico instance."""
    if operation == "up":
        return commands.zodbrepl("up")
    if operation == "failover":
        return commands.zodbrepl("failover", name, "--reason", f"{name} hangs")
    return commands.zodbrepl(operation, name)


def remedy(commands: Commands, start: str, program_name: str, program: Program | None) -> str:
    """Return how to bring back a silent node or instance, by the state of its program.

    Args:
        start: the command that starts it.
    """
    log = f"see why with `{commands.show_log(program_name)}`"
    if program is None:
        return f"start what is missing: `{commands.zodbrepl('up')}`; then {log}"
    if program.state == "STARTING":
        return f"supervisor is starting it: wait some seconds; if it does not answer then, {log}"
    if program.state in RUNNING:
        return f"it runs without answering (frozen?): `{start}`; {log}"
    if program.description == NOT_KNOWN:
        return (
            f"supervisord learns of it with `{commands.zodbrepl('up')}`; after an upgrade begin "
            f"with `{commands.zodbrepl('upgrade', '--check')}`"
        )
    if program.state == "STOPPED":
        return f"somebody stopped it; start it with `{start}`"
    return f"{log}; when that is repaired: `{start}`"


def bring_back(facts: Facts, node: NodeStatus) -> str:
    """Return how to bring back a node that does not answer, as a hint."""
    if not node.managed:
        return f"start the server at {node.address} where it runs: it is not managed here"
    if facts.away(node.host) is not None:
        return f"bring host {node.host} back; then `{facts.commands.zodbrepl('up')}`"
    if not node.has_program:
        return (
            "clients open the data themselves: see that its disk is mounted and that the user "
            f"who runs Indico may write in "
            f"{facts.commands.path(facts.cluster.node(node.name).data_directory)}"
        )
    operation = reviving(node, led=any(each.leads for each in facts.nodes))
    start = start_command(facts.commands, operation, node.name)
    return remedy(facts.commands, start, f"node-{node.name}", node.program)


def rejoins_automatically(automation: Automation | None, node: NodeStatus) -> bool:
    """Return True if the automation rejoins a former primary as soon as its host answers.

    Args:
        automation: None where it is off.
    """
    return (
        automation is not None
        and automation.may_act
        and automation.leader == node.superseded_by
        and node.superseded_by is not None
        and node.condition not in STARTS_IN_NO_ROLE
        and not node.is_damaged
    )


def way_back(facts: Facts, node: NodeStatus) -> str:
    """Return how a node with a possibly diverged history comes back; never by a mere start."""
    command = facts.commands.zodbrepl
    if not facts.can("rejoin") and not facts.can("clone"):
        return backends.limit(facts.cluster, "rejoin") or ""
    if node.condition is Condition.NEEDS_SEEDING or node.is_damaged or not facts.can("rejoin"):
        return (
            f"`{command('clone', node.name, '--dry-run')}` shows the steps; then "
            f"`{command('clone', node.name)}`"
        )
    return (
        f"`{command('rejoin', node.name, '--dry-run')}` shows what is exported and truncated; "
        f"then `{command('rejoin', node.name)}`. Never delete its data directory by hand"
    )


def start_verb(program: Program) -> str:
    """Return the verb of supervisorctl that starts a program in its state."""
    return "restart" if program.state in RESTARTED else "start"


def condition(program: Program | None) -> str:
    """Return the state of a program that does not answer, as the end of a sentence."""
    if program is None or program.state in RUNNING:
        return "does not answer"
    return CONDITIONS.get(program.state, f"is {program.state}")


def shown_program(program: Program | None) -> str:
    """Return the state of a program in a few words, for details; without its process id."""
    if program is None:
        return "state of its program unknown"
    words = program.description.removeprefix(f"pid {program.pid}, ")
    described = f" ({words})" if words else ""
    return f"program {program.name} is {program.state}{described}"
