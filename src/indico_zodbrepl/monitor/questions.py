"""The questions of one round: each is a job that yields what it finds under a key."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster, IndicoInstance, Node
from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.monitor import files
from indico_zodbrepl.monitor.findings import Comparison, Failure
from indico_zodbrepl.monitor.snapshot import Membership, Program
from indico_zodbrepl.node import supervisor
from indico_zodbrepl.probing import tid
from indico_zodbrepl.probing.answers import MissingAnswer
from indico_zodbrepl.probing.probes import (
    probe_history,
    probe_indico,
    probe_missing,
    probe_server,
)
from indico_zodbrepl.probing.wire import ProbeError

Results = Iterable[tuple[tuple[str, str], object]]


def probe_node(node: Node, primary: Node | None, deadline: float) -> Results:
    """A node's server: ("server", name), and ("comparison", name) with its primary, if any."""
    try:
        answer = probe_server(node.storage_address, deadline)
    except ProbeError as error:
        yield ("server", node.name), Failure(error.kind, error.detail)
        return
    yield ("server", node.name), answer
    if primary is None:
        return
    try:
        reference = probe_server(primary.storage_address, deadline).last_tid
    except ProbeError:
        return  # the primary's own probe reports it
    missing: MissingAnswer | Failure = MissingAnswer(0, True)
    if reference > answer.last_tid:
        try:
            missing = probe_missing(primary.storage_address, answer.last_tid, deadline)
        except ProbeError as error:
            missing = Failure(error.kind, error.detail)
    comparison = Comparison(primary.name, reference, missing)
    yield ("comparison", node.name), comparison
    yield ("comparison", node.name), dataclasses.replace(
        comparison, membership=_membership(node, primary, answer.last_tid, deadline))


def _membership(follower: Node, primary: Node, transaction: int,
                deadline: float) -> Membership | None:
    """The follower's last transaction in the primary's history; its content is compared too."""
    if transaction == tid.EMPTY:
        return None
    try:
        held = probe_history(primary.storage_address, transaction, deadline)
        own = probe_history(follower.storage_address, transaction, deadline)
    except ProbeError:
        return None  # servers older than the question, or dead by now: their own probes tell
    if held.known is False:
        return Membership.ABSENT
    if held.digest is None or own.digest is None:
        return None
    return Membership.HELD if held.digest == own.digest else Membership.DIFFERENT


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
               if programs[node.program].state == "EXITED"
               and programs[node.program].exit_status == ExitCode.REFUSED]
    for node in refused:
        yield ("refusal", node.name), files.last_refusal(Layout(cluster).program_log(node.program))
