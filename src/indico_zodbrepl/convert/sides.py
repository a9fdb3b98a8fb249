"""Where a conversion's data are read, and where they are put."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from ..backends import backend_of
from ..cluster import Cluster, Node, Role
from ..cluster.commands import Commands
from ..cluster.layout import Layout, data_fs
from ..errors import ExitCode, OperatorError
from ..node import daemon, state
from ..node.admission import newest_record
from ..node.supervised import STARTED
from ..node.supervisor import Supervisor


@dataclasses.dataclass(frozen=True)
class Source:
    """What is converted.

    Attributes:
        label: what to call it.
        opened: a Data.fs, or the ZODB configuration that reads from its servers.
        cluster: the cluster it belongs to; None for a file alone.
    """

    label: str
    opened: Path
    cluster: Cluster | None = None

    @property
    def served(self) -> bool:
        """Whether it is read through the storage of its cluster, which has to be up."""
        return self.cluster is not None and not backend_of(self.cluster).data_files


def source_of_file(path: Path) -> Source:
    """A Data.fs.  Raises OperatorError (exit 2) when there is no such file."""
    path = Path(os.path.abspath(path))
    if not path.is_file() or path.suffix != ".fs":
        raise OperatorError(f"{path} is no Data.fs",
                            "there is no such file" if not path.exists() else
                            "its name has to end in .fs", exit_code=ExitCode.BAD_CONFIG)
    return Source(str(path), path)


def source_of_cluster(cluster: Cluster) -> Source:
    """A cluster's data, those of its primary.  Raises OperatorError (exit 6): it has none."""
    label = f"cluster {cluster.name} ({cluster.backend})"
    backend = backend_of(cluster)
    if not backend.data_files:
        layout = Layout(cluster)
        readable = backend.readable_nodes(cluster)
        conf = (layout.node_zodb_conf(writable_node(cluster)) if readable
                else layout.zodb_conf)
        return Source(label, conf, cluster)
    node = writable_node(cluster)
    if not data_fs(node).is_file():
        raise OperatorError("there is nothing to convert",
                            f"node {node.name} has no {data_fs(node)}",
                            exit_code=ExitCode.NOT_RUNNING)
    return Source(f"{label}, node {node.name}", data_fs(node), cluster)


def target_file(cluster: Cluster) -> Path:
    """What is filled: the primary's Data.fs, or what the ZODB configuration leads to."""
    if backend_of(cluster).data_files:
        return data_fs(writable_node(cluster))
    return Layout(cluster).zodb_conf


def writable_node(cluster: Cluster) -> Node:
    """The primary, by the records of the epoch, or else by the nodes' states.

    Raises OperatorError (exit 8) for a state file that can't be used, ValueError for a backend
    that has no primary.
    """
    record = newest_record(cluster)
    if record is not None and record.primary in {node.name for node in cluster.nodes}:
        return cluster.node(record.primary)
    states = [state.current(cluster, node) for node in cluster.nodes]
    newest = max((each for each in states if each.role is Role.PRIMARY),
                 key=lambda each: each.epoch)
    return cluster.node(newest.node)


def refuse_running(cluster: Cluster, what: str) -> None:
    """Raise OperatorError (exit 8) when anything of a cluster runs that could use its data.

    What a killed conversion left may run: storage nodes that are no Data.fs.

    Args:
        what: ``source`` or ``target``.
    """
    if not daemon.is_running(cluster):
        return
    nodes = {node.program for node in cluster.nodes}
    running = [name for name, program in Supervisor(cluster).states().items()
               if program.state in STARTED
               and (name not in nodes or backend_of(cluster).data_files)]
    if running:
        raise OperatorError(f"the {what} of the conversion is running", ", ".join(running),
                            Commands.here(cluster).zodbrepl("down"), ExitCode.REFUSED)
