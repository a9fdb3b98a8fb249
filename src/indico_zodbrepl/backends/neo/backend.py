"""NEO 1.12 as a backend: masters, storages and an admin node with the warden."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from zope.interface import implementer

from ...cluster import Cluster, Endpoint, Node, NodeState, Role
from ...cluster.installation import Installation
from ...cluster.layout import Layout
from ...cluster.programs import Program, zodbrepl_command
from ...errors import ExitCode, OperatorError
from ...probing.answers import ServerAnswer
from ...probing.comparison import Comparison
from .. import drivers
from ..interfaces import IBackend, Progress
from . import configuration, founding, names, status, warden
from .electing import Elections

# A process of NEO ends at once, the warden when its child has.
STOP_SECONDS = 10
# Not 0: a storage that was taken out ends so, and is to come back.
FINAL_EXITS = (ExitCode.BAD_CONFIG, ExitCode.NOT_INSTALLED, ExitCode.PORT_TAKEN,
               ExitCode.REFUSED)

_BY_THEMSELVES = ("the masters agree by themselves on who leads, and each copy takes part in "
                  "every write")


@implementer(IBackend)
class NEO(Elections):
    """neoppod 1.12 with its traps closed; each write is on every copy before it is acknowledged."""

    name = "neo"
    guarded = False
    data_files = False
    limits: Mapping[str, str] = {
        "switchover": _BY_THEMSELVES + "; to free a host, end its nodes: `bin/zodbrepl node stop`",
        "promote": _BY_THEMSELVES,
        "follow": _BY_THEMSELVES,
        "assign": "a node is master, storage or admin for good",
        "seed": "a storage without data is filled from the others: `bin/zodbrepl rejoin NODE`",
        "salvage": "no acknowledged transaction is on one copy alone",
        "backup": "no command of ours copies a storage's files: end one that holds everything, "
                  "`bin/zodbrepl node stop NODE`, copy all of its neo.sqlite files, and start it "
                  "again",
        "restore": "a lost storage is filled from the others: `bin/zodbrepl rejoin NODE`; all of "
                   "it comes from a Data.fs into a new cluster: `convert --from DATA.fs`",
        "lineage": "storages compare their partitions when they come back; "
                   "`bin/zodbrepl status` shows them",
        "hold": "the cluster can't hold commits back and go on with them later; end Indico instead",
        "undo": "NEO 1.12 may end its storages, or lose objects, by an undo; it is refused",
        "blobs": "NEO keeps none; Indico keeps its files in its archive, not in the database",
        "size": "NEO has no such figure: it is that of the storages' files, and 0 while one of "
                "them is on another host",
    }

    def programs(self, cluster: Cluster, installation: Installation,
                 node: Node) -> tuple[Program, ...]:
        return (Program(
            name=node.program,
            command=zodbrepl_command(cluster, installation, "node", "run", node.name),
            directory=Layout(cluster).var, stop_seconds=STOP_SECONDS, final_exits=FINAL_EXITS),)

    def node_files(self, cluster: Cluster, state: NodeState) -> Mapping[Path, str]:
        return configuration.node_files(cluster, state)

    def client_files(self, cluster: Cluster) -> Mapping[Path, str]:
        return configuration.client_files(cluster)

    def readable_nodes(self, cluster: Cluster) -> tuple[Node, ...]:
        """None: a storage's copy can be read through the cluster only."""
        return ()

    def server_command(self, cluster: Cluster, installation: Installation,
                       state: NodeState) -> tuple[str, ...]:
        return configuration.server_command(cluster, installation, cluster.node(state.node))

    def listens_on(self, cluster: Cluster, state: NodeState) -> tuple[Endpoint, ...]:
        return tuple(endpoint for endpoint in cluster.endpoints()
                     if endpoint.kind == "node" and endpoint.name == state.node)

    def check(self, cluster: Cluster, installation: Installation) -> None:
        """Also refuses hosts by name (exit 2): NEO's processes know each other by address."""
        for node in cluster.nodes:
            try:
                ipaddress.ip_address(node.host)
            except ValueError:
                raise OperatorError(
                    f"node {node.name} can't have the host {node.host}",
                    f"{cluster.where('node', node.name, 'host')}: NEO's processes know each other "
                    "by IP address", "write the address, such as 127.0.0.1",
                    ExitCode.BAD_CONFIG) from None
        if names.settings(cluster).adapter == "mariadb":
            _check_driver(installation)

    def prepare(self, cluster: Cluster, installation: Installation,
                state: NodeState) -> Iterable[str]:
        """A storage makes its database itself; a cluster that has data takes in no empty one."""
        node = cluster.node(state.node)
        if (node.role is Role.STORAGE and names.founded(cluster).exists()
                and not self.has_data(cluster, node)):
            return [(f"storage {node.name} has no data, although the cluster has; once the others "
                    "run, the status says how it is filled")]
        return ()

    def has_data(self, cluster: Cluster, node: Node) -> bool:
        """On MariaDB, which keeps them elsewhere, a storage that was ever started counts."""
        if node.role is not Role.STORAGE:
            return False
        path = (names.sqlite_file(node) if names.settings(cluster).adapter == "sqlite"
                else names.neo_conf(node))
        try:
            return path.stat().st_size > 0
        except OSError:
            return False

    def found(self, cluster: Cluster, installation: Installation, progress: Progress,
              deadline: float) -> None:
        founding.found(cluster, installation, progress, deadline)

    def ask(self, cluster: Cluster, node: Node, deadline: float) -> ServerAnswer:
        return status.answer(cluster, node, warden.ask(cluster, deadline), time.time())

    def compare(self, cluster: Cluster, node: Node, primary: Node, answer: ServerAnswer,
                deadline: float) -> Iterator[Comparison]:
        """Nobody follows: a write is on every copy before it is acknowledged."""
        return iter(())


def _check_driver(installation: Installation) -> None:
    drivers.require(
        installation, "import MySQLdb",
        "NEO's adapter mariadb needs mysqlclient 1.4.6 for Python 2.7",
        "apt-get install libmariadb-dev gcc, then: "
        "parts/python27/bin/python -m pip install mysqlclient==1.4.6; or adapter sqlite")
