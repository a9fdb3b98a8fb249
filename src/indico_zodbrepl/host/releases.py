"""The releases in a cluster: the one that last ran ``up``, and those of the running programs.

Storage servers and Indico instances report their release when they are probed.  The admin page, the
monitor and the automation note it in VAR/run when they start.  A program that does neither is of
release 0.1.0.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from indico_zodbrepl import PROTOCOL, __version__
from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, IndicoInstance, Node, formats
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.files import write_atomically
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import stages
from indico_zodbrepl.host.interface import answer_deadline
from indico_zodbrepl.host.supervisor import program_states
from indico_zodbrepl.probing import times
from indico_zodbrepl.probing.answers import FIRST_RELEASE, Replication
from indico_zodbrepl.probing.probes import probe_indico
from indico_zodbrepl.probing.race import all_at_once
from indico_zodbrepl.probing.wire import ProbeError

PROBE_SECONDS = 1.0
CHANGES_ROLES = ("switchover", "failover", "rejoin", "clone", "restore")


@dataclasses.dataclass(frozen=True)
class Running:
    """A running program.

    Attributes:
        name: of the node or the Indico instance; else of the program.
        release: that it was started from; None for an engine of its own, and for a program that
            does not answer.
        replication: what a storage server reports; None for others.
    """

    name: str
    release: str | None
    replication: Replication | None = None


def record(cluster: Cluster) -> None:
    """Record that this release runs ``up``.  Raises OperatorError."""
    path = Layout(cluster).release
    values = {"format": formats.RELEASE.known, "release": __version__, "at": times.now()}
    if last(cluster) == __version__:
        return
    try:
        write_atomically(path, json.dumps(values) + "\n")
    except OSError as error:
        raise OperatorError(
            "the release can't be recorded",
            f"{path}: {error.strerror}",
            "make room there, then retry",
        ) from error


def last(cluster: Cluster) -> str | None:
    """Return the release that last ran ``up``; None if none did.  0.1.0 records nothing."""
    layout = Layout(cluster)
    try:
        return str(json.loads(layout.release.read_text("utf-8"))["release"])
    except (OSError, ValueError, KeyError, TypeError):
        return FIRST_RELEASE if layout.supervisord_conf.exists() else None


def note(cluster: Cluster, program: str) -> None:
    """Note the release of this process, which is a program of the control plane."""
    values = {"pid": os.getpid(), "release": __version__}
    with contextlib.suppress(OSError):  # it then counts as one of release 0.1.0
        write_atomically(_note(cluster, program), json.dumps(values) + "\n")


def running(cluster: Cluster) -> dict[str, Running]:
    """Return the running programs of this host, in start order, by the names of programs."""
    here = cluster.local
    found: dict[str, Running] = {}
    deadline = time.monotonic() + PROBE_SECONDS
    all_at_once(
        [
            *(partial(_ask_node, found, cluster, node, deadline) for node in here.nodes),
            *(partial(_ask_instance, found, each, deadline) for each in here.indico),
        ]
    )
    states = program_states(cluster)
    for name in control_programs(cluster):
        pid = states[name].pid
        if pid is not None:
            found[name] = Running(name, _noted(cluster, name, pid))
    for node in here.nodes:
        if node.has_program and states[node.program].pid is not None:
            found.setdefault(node.program, Running(node.name, None))
    for each in here.indico:
        if states[each.program].pid is not None:
            found.setdefault(each.program, Running(each.name, None))
    return {name: found[name] for name in cluster.program_names() if name in found}


def control_programs(cluster: Cluster) -> list[str]:
    """Return the programs of this host that note their release, in start order."""
    return [*stages.election(cluster), *stages.lookouts(cluster)]


def mixed(programs: Mapping[str, Running]) -> dict[str, Running]:
    """Return the storage servers that understand another protocol than this release."""
    return {
        name: each
        for name, each in programs.items()
        if each.replication is not None and each.replication.protocol != PROTOCOL
    }


def refuse_mixed(cluster: Cluster, operation: str) -> None:
    """Raise OperatorError (exit 8) if servers can't do what an operation asks of them.

    Operations that change no role always can: a restart brings a server to this release.
    """
    if operation not in CHANGES_ROLES:
        return
    found: dict[str, Running] = {}
    deadline = time.monotonic() + PROBE_SECONDS
    all_at_once([partial(_ask_node, found, cluster, node, deadline) for node in cluster.nodes])
    others = mixed(found)
    if others:
        raise mixed_refusal(cluster, operation, others)


def mixed_refusal(cluster: Cluster, operation: str, others: Mapping[str, Running]) -> OperatorError:
    """Return the error for servers of another protocol."""
    told = ", ".join(
        f"{each.name} runs release {each.release} (protocol {each.replication.protocol})"
        for each in others.values()
        if each.replication is not None
    )
    return OperatorError(
        f"{operation} is not possible while servers of another release run",
        f"{told}; release {__version__} speaks protocol {PROTOCOL}; nothing was changed",
        f"complete the upgrade first: {Commands.here(cluster).zodbrepl('upgrade', '--check')}",
        ExitCode.REFUSED,
    )


def _ask_node(found: dict[str, Running], cluster: Cluster, node: Node, deadline: float) -> None:
    if not node.has_program:
        return
    try:
        deadline = answer_deadline(cluster, node.on, deadline)
        replication = backend_of(cluster).ask(cluster, node, deadline).replication
    except ProbeError:
        return
    release = None if replication is None else replication.release
    found[node.program] = Running(node.name, release, replication)


def _ask_instance(found: dict[str, Running], instance: IndicoInstance, deadline: float) -> None:
    with contextlib.suppress(ProbeError):
        answer = probe_indico(instance.address, deadline)
        found[instance.program] = Running(instance.name, answer.release)


def _noted(cluster: Cluster, program: str, pid: int) -> str:
    try:
        values = json.loads(_note(cluster, program).read_text("utf-8"))
        return str(values["release"]) if values["pid"] == pid else FIRST_RELEASE
    except (OSError, ValueError, KeyError, TypeError):
        return FIRST_RELEASE


def _note(cluster: Cluster, program: str) -> Path:
    return Layout(cluster).run / f"{program}.release"
