"""Facts of a consensus cluster for plans: from the NEO monitor, supervisor, kernel and pings.

Changes nothing.
"""

from __future__ import annotations

import dataclasses
import time

from indico_zodbrepl.backends import consensus_of
from indico_zodbrepl.backends.consensus import Look, Member
from indico_zodbrepl.cluster import Cluster, Node, Role
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.lookup import node_with_program
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.interface import host_of
from indico_zodbrepl.host.peers import of_nodes
from indico_zodbrepl.operations.evidence import Process
from indico_zodbrepl.operations.facts import process_of
from indico_zodbrepl.probing.waiting import wait_until
from indico_zodbrepl.probing.wire import FailureKind, ProbeError

LOOK_SECONDS = 10.0
POLL_SECONDS = 0.2
PING_SECONDS = 10.0
"""For a question to each process by itself.  Half of it is for the answers, as on a busy machine a
healthy process may need seconds; the other half for the start of the program that asks."""
SUPERVISOR_SECONDS = 5.0
UNREACHABLE = "UNREACHABLE"


@dataclasses.dataclass(frozen=True)
class NodeFacts:
    """The facts of a node.

    Attributes:
        program: supervisor's state; ``UNREACHABLE`` if it did not answer.
        process: its process, as the kernel sees it.
        ping: the answer on a new connection; see ``Member.ping``.
        has_data: True if a storage's data are visible; ``mounted``: True if their folder is.
        here: True if it is on this host, as is the NEO monitor that was asked.
        reachable: True if its host answers.
    """

    name: str
    role: Role
    program: str
    process: Process
    ping: str = ""
    has_data: bool = False
    mounted: bool = True
    here: bool = True
    reachable: bool = True


@dataclasses.dataclass(frozen=True)
class ElectingFacts:
    """The facts of a cluster.

    Attributes:
        look: what the NEO monitor knows; None when it does not answer, then ``away`` says why.
        instances: names of the Indico instances that are to work afterwards.
    """

    look: Look | None
    away: str
    nodes: tuple[NodeFacts, ...]
    instances: tuple[str, ...]

    def node(self, name: str) -> NodeFacts:
        return next(each for each in self.nodes if each.name == name)

    def member(self, name: str) -> Member | None:
        """Return a node as the cluster sees it; None while the NEO monitor does not answer."""
        return self.look.member(name) if self.look is not None else None

    def of_role(self, role: Role) -> list[NodeFacts]:
        return [each for each in self.nodes if each.role is role]


def look_anew(cluster: Cluster) -> Look:
    """Return a report that began after this call, so that it shows everything done before.

    Takes ``LOOK_SECONDS`` at most; raises ProbeError.
    """
    since, deadline = time.time(), time.monotonic() + LOOK_SECONDS

    def newer() -> Look | None:
        found = consensus_of(cluster).look(cluster, deadline)
        return found if found.at >= since else None

    found = wait_until(newer, deadline, POLL_SECONDS)
    if found is None:
        raise ProbeError(
            FailureKind.SILENT, f"the NEO monitor has not looked for {LOOK_SECONDS:g} s"
        )
    return found


def gather(
    cluster: Cluster, installation: Installation, name: str | None, *, pinging: bool
) -> ElectingFacts:
    """Gather the present facts; change nothing.

    Args:
        name: the node of the request; None for any.
        pinging: True to ping each process too, which takes up to ``PING_SECONDS``.

    Raises OperatorError: exit 2, no such node; what asking each process raises; exit 7, the host
    of that node does not answer.  Of nodes on other hosts that do not answer nothing is known.
    """
    if name is not None:
        node_with_program(cluster, name)
    installation.check()
    engine = consensus_of(cluster)
    look, away = None, ""
    try:
        look = look_anew(cluster)
    except ProbeError as error:
        away = error.detail
    pings = (
        engine.ping(cluster, installation, cluster.nodes, time.monotonic() + PING_SECONDS)
        if pinging
        else {}
    )
    host = host_of(cluster, installation)
    programs = host.programs(SUPERVISOR_SECONDS)
    names = [node.name for node in cluster.nodes]
    has_data, has_folder = (
        of_nodes(cluster, names, host.has_data),
        of_nodes(cluster, names, host.has_folder),
    )
    if name is not None:
        has_data[name], has_folder[name] = host.has_data(name), host.has_folder(name)

    def facts_of(node: Node) -> NodeFacts:
        program = programs.get(node.program)
        known = program is not None and program.state != UNREACHABLE
        return NodeFacts(
            node.name,
            node.role,
            program.state if program else UNREACHABLE,
            process_of(host, node.name, program.pid or 0) if program and known else Process.UNKNOWN,
            pings.get(node.name, ""),
            has_data.get(node.name, False),
            has_folder.get(node.name, True),
            cluster.is_here(node),
            node.name in has_folder,
        )

    return ElectingFacts(
        look,
        away,
        tuple(facts_of(node) for node in cluster.nodes),
        tuple(
            each.name
            for each in cluster.indico
            if each.program in programs and programs[each.program].state == "RUNNING"
        ),
    )


def last_transaction(cluster: Cluster, installation: Installation, seconds: float) -> int | None:
    """Ask the leading master, which must answer now; return None if it does not."""
    try:
        return consensus_of(cluster).last_transaction(
            cluster, installation, time.monotonic() + seconds
        )
    except OperatorError:
        return None  # the caller uses the silence as the answer
