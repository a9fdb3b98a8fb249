"""Where the data of a conversion are read, and whether nothing else uses them meanwhile."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, Node, Role
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.layout import Layout, data_fs
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import daemon
from indico_zodbrepl.host.interface import SUPERVISOR_AWAY, host_of
from indico_zodbrepl.host.programs import STARTED
from indico_zodbrepl.host.supervisor import ProgramState, Supervisor

UNREACHABLE = "UNREACHABLE"
"""State of a program whose supervisord, or host, does not answer."""


@dataclasses.dataclass(frozen=True)
class Source:
    """The source of a conversion.

    Attributes:
        label: for messages.
        opened: a Data.fs, or the ZODB configuration of the source's servers.
        cluster: None for a file alone.
    """

    label: str
    opened: Path
    cluster: Cluster | None = None

    @property
    def served(self) -> bool:
        """Return True if it is read through its cluster's servers, which must run."""
        return self.cluster is not None and not is_filled_directly(self.cluster)


def source_of_file(path: Path) -> Source:
    """Return a Data.fs as source.  Raises OperatorError (exit 2) if there is no such file."""
    path = Path(os.path.abspath(path))
    if not path.is_file() or path.suffix != ".fs":
        raise OperatorError(
            f"{path} is not a Data.fs",
            "there is no such file" if not path.exists() else "its name must end in .fs",
            exit_code=ExitCode.BAD_CONFIG,
        )
    return Source(str(path), path)


def source_of_cluster(cluster: Cluster) -> Source:
    """Return the data of a cluster's primary.  Raises OperatorError (exit 6) without data."""
    label = f"cluster {cluster.name} ({cluster.backend})"
    if not is_filled_directly(cluster):
        layout = Layout(cluster)
        readable = backend_of(cluster).readable_nodes(cluster)
        conf = layout.node_zodb_conf(writable_node(cluster)) if readable else layout.zodb_conf
        return Source(label, conf, cluster)
    refuse_elsewhere(cluster, "source")
    node = writable_node(cluster)
    if not data_fs(node).is_file():
        raise OperatorError(
            "there is nothing to convert",
            f"node {node.name} has no {data_fs(node)}",
            exit_code=ExitCode.NOT_RUNNING,
        )
    return Source(f"{label}, node {node.name}", data_fs(node), cluster)


def target_file(cluster: Cluster) -> Path:
    """Return the file to fill: the primary's Data.fs, or the ZODB configuration."""
    if is_filled_directly(cluster):
        return data_fs(writable_node(cluster))
    return Layout(cluster).zodb_conf


def is_filled_directly(cluster: Cluster) -> bool:
    """Return True if the nodes' own files are read and filled, without their servers."""
    return all(backend_of(cluster).data_file(node) is not None for node in cluster.nodes)


def writable_node(cluster: Cluster) -> Node:
    """Return the primary, according to the records of the epoch or to the nodes' states.

    Raises OperatorError (exit 8) for an unreadable state file, ValueError for a backend without
    primary.
    """
    host = host_of(cluster)
    record = host.newest_record()
    if record is not None and record.primary in {node.name for node in cluster.nodes}:
        return cluster.node(record.primary)
    states = [host.state(node.name) for node in cluster.nodes]
    newest = max(
        (each for each in states if each.role is Role.PRIMARY), key=lambda each: each.epoch
    )
    return cluster.node(newest.node)


def refuse_running(cluster: Cluster, what: str) -> None:
    """Raise OperatorError (exit 8) if a running program of a cluster could use its data.

    Database servers that a killed conversion left running are allowed.

    Args:
        what: ``source`` or ``target``.
    """
    nodes = {node.program for node in cluster.nodes}
    states = _programs(cluster)
    silent = {
        each.description
        for each in states.values()
        if each.state == UNREACHABLE and each.description != SUPERVISOR_AWAY
    }
    if silent:
        raise OperatorError(
            f"it is unknown whether the {what} of the conversion is running",
            "; ".join(sorted(silent)),
            Commands.here(cluster).zodbrepl("status"),
            ExitCode.REFUSED,
        )
    running = [
        name
        for name, program in states.items()
        if program.state in STARTED and (name not in nodes or is_filled_directly(cluster))
    ]
    if running:
        raise OperatorError(
            f"the {what} of the conversion is running",
            ", ".join(running),
            Commands.here(cluster).zodbrepl("down"),
            ExitCode.REFUSED,
        )


def _programs(cluster: Cluster) -> Mapping[str, ProgramState]:
    """Return the programs of a cluster by name, on all its hosts."""
    if cluster.hosts:
        return host_of(cluster).programs()
    return Supervisor(cluster).states() if daemon.is_running(cluster) else {}


def refuse_elsewhere(cluster: Cluster, what: str) -> None:
    """Raise OperatorError (exit 8) if this host can't open a cluster's data.

    Args:
        what: ``source`` or ``target``.
    """
    if is_filled_directly(cluster):
        node = writable_node(cluster)
        if not cluster.is_here(node):
            raise OperatorError(
                f"the {what} of the conversion is on another host",
                f"node {node.name} of cluster {cluster.name} is on host {node.on}",
                f"type the command on host {node.on}",
                ExitCode.REFUSED,
            )
        return
    other = next((node for node in cluster.nodes if not cluster.is_here(node)), None)
    if other is not None:
        raise OperatorError(
            f"the {what} of the conversion is on several hosts",
            f"node {other.name} of cluster {cluster.name} is on host {other.on}, and a conversion "
            f"starts the storage of this host only",
            "convert to or from a cluster whose nodes are all on this host, or a Data.fs",
            ExitCode.REFUSED,
        )
