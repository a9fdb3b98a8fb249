"""The questions of one round: each is a job that yields what it finds under a key."""

from __future__ import annotations

from collections.abc import Iterable

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster, IndicoInstance, Node
from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.monitor import files
from indico_zodbrepl.monitor.snapshot import Program
from indico_zodbrepl.node import supervisor
from indico_zodbrepl.probing.comparison import Failure
from indico_zodbrepl.probing.probes import probe_indico
from indico_zodbrepl.probing.wire import ProbeError

Results = Iterable[tuple[tuple[str, str], object]]


def probe_node(cluster: Cluster, node: Node, primary: Node | None, deadline: float) -> Results:
    """A node's server: ("server", name), and ("comparison", name) with its primary, if any."""
    backend = backend_of(cluster)
    try:
        answer = backend.ask(cluster, node, deadline)
    except ProbeError as error:
        yield ("server", node.name), Failure(error.kind, error.detail)
        return
    yield ("server", node.name), answer
    if primary is None:
        return
    for comparison in backend.compare(cluster, node, primary, answer, deadline):
        yield ("comparison", node.name), comparison


def probe_instance(instance: IndicoInstance, deadline: float) -> Results:
    """An Indico instance: ("indico", name)."""
    try:
        yield ("indico", instance.name), probe_indico(instance.address, deadline)
    except ProbeError as error:
        yield ("indico", instance.name), Failure(error.kind, error.detail)


def ask_supervisor(cluster: Cluster, time_limit: float) -> Results:
    """supervisord: ("programs", ""), and ("refusal", node) for nodes that refused to start."""
    programs = supervisor.program_states(cluster, time_limit)
    yield ("programs", ""), {
        name: Program(program.name, program.state, program.pid or 0, program.description,
                      program.exit_status)
        for name, program in programs.items()}
    refused = [node for node in cluster.nodes
               if node.has_program and programs[node.program].state == "EXITED"
               and programs[node.program].exit_status == ExitCode.REFUSED]
    for node in refused:
        yield ("refusal", node.name), files.last_refusal(Layout(cluster).program_log(node.program))
