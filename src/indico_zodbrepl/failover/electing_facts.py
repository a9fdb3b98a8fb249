"""What is to be known of a cluster that elects who leads, before anything is done to a node of it.

Changes nothing.  Asks the warden, supervisor and the kernel, and each process by itself.
"""

from __future__ import annotations

import dataclasses
import time

from ..backends import backend_of, electing_of
from ..backends.electing import Electing, Look, Member
from ..cluster import Cluster, Node, Role
from ..cluster.installation import Installation
from ..errors import OperatorError
from ..node import run
from ..node.supervisor import program_states
from ..probing.wire import FailureKind, ProbeError
from .evidence import Process
from .processes import process_of

LOOK_SECONDS = 10.0
POLL_SECONDS = 0.2
PING_SECONDS = 10.0
"""For a question to each process by itself.  Half of it is for the answers, as on a busy machine a
healthy process may need seconds; the other half for the start of the program that asks."""
SUPERVISOR_SECONDS = 5.0
UNREACHABLE = "UNREACHABLE"


@dataclasses.dataclass(frozen=True)
class NodeFacts:
    """One node.

    Attributes:
        program: supervisor's word; ``UNREACHABLE`` when it did not say.
        process: its process, as the kernel sees it.
        ping: what it answered somebody who asked it for the first time; see ``Member.ping``.
        has_data: whether a storage's data can be seen; ``mounted``: whether their folder can.
    """

    name: str
    role: Role
    program: str
    process: Process
    ping: str = ""
    has_data: bool = False
    mounted: bool = True


@dataclasses.dataclass(frozen=True)
class ElectingFacts:
    """A cluster.

    Attributes:
        look: what the warden knows; None when it does not answer, then ``away`` says why.
        instances: names of the Indico instances that are to work afterwards.
    """

    look: Look | None
    away: str
    nodes: tuple[NodeFacts, ...]
    instances: tuple[str, ...]

    def node(self, name: str) -> NodeFacts:
        return next(each for each in self.nodes if each.name == name)

    def member(self, name: str) -> Member | None:
        """None while the warden does not answer."""
        return self.look.member(name) if self.look is not None else None

    def of_role(self, role: Role) -> list[NodeFacts]:
        return [each for each in self.nodes if each.role is role]


def backend(cluster: Cluster) -> Electing:
    """The backend of a cluster whose plans are made here."""
    found = electing_of(cluster)
    if found is None:
        raise TypeError(f"backend {cluster.backend} does not elect who leads")
    return found


def look_anew(cluster: Cluster) -> Look:
    """A look that began after this was called, so that it tells of all that was done before.

    Takes ``LOOK_SECONDS`` at most; raises ProbeError.
    """
    since, deadline = time.time(), time.monotonic() + LOOK_SECONDS
    while True:
        found = backend(cluster).look(cluster, deadline)
        if found.at >= since:
            return found
        if time.monotonic() > deadline:
            raise ProbeError(FailureKind.SILENT,
                             f"the warden has not looked for {LOOK_SECONDS:g} s")
        time.sleep(POLL_SECONDS)


def gather(cluster: Cluster, installation: Installation, name: str | None, *,
           pinging: bool) -> ElectingFacts:
    """What there is now.

    Args:
        name: a node that is meant; None for any.
        pinging: whether each process is asked by itself, which takes up to ``PING_SECONDS``.

    Raises OperatorError: exit 2, no such node; what asking each process raises.
    """
    if name is not None:
        run.node_with_program(cluster, name)
    installation.check()
    engine = backend(cluster)
    look, away = None, ""
    try:
        look = look_anew(cluster)
    except ProbeError as error:
        away = error.detail
    pings = engine.ping(cluster, installation, cluster.nodes,
                        time.monotonic() + PING_SECONDS) if pinging else {}
    programs = program_states(cluster, SUPERVISOR_SECONDS)

    def facts_of(node: Node) -> NodeFacts:
        program = programs.get(node.program)
        known = program is not None and program.state != UNREACHABLE
        return NodeFacts(
            node.name, node.role, program.state if program else UNREACHABLE,
            process_of(program.pid or 0) if program and known else Process.UNKNOWN,
            pings.get(node.name, ""), backend_of(cluster).has_data(cluster, node),
            node.data_directory.is_dir())

    return ElectingFacts(
        look, away, tuple(facts_of(node) for node in cluster.nodes),
        tuple(each.name for each in cluster.indico
              if each.program in programs and programs[each.program].state == "RUNNING"))


def last_transaction(cluster: Cluster, installation: Installation, seconds: float) -> int | None:
    """A question to the leading master that it has to answer now; None when it doesn't."""
    try:
        return backend(cluster).last_transaction(cluster, installation,
                                                 time.monotonic() + seconds)
    except OperatorError:
        return None  # whoever asks for it takes silence for the answer
