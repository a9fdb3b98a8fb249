"""The backend ``neo``: NEO's answers and orders in the terms of ``backends.consensus``."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from zope.interface import implementer

from indico_zodbrepl.backends import relstorage
from indico_zodbrepl.backends.consensus import (
    ANSWERS,
    RUNNING,
    SILENT,
    ConsensusServers,
    Look,
    Member,
)
from indico_zodbrepl.backends.interfaces import IBackend, Progress
from indico_zodbrepl.backends.neo import config, founding, report, status
from indico_zodbrepl.backends.neo.report import Known, Process
from indico_zodbrepl.cluster import Cluster, Endpoint, Node, NodeState, Role
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.rendering import Program, zodbrepl_command
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.probing import tid
from indico_zodbrepl.probing.answers import ServerAnswer
from indico_zodbrepl.probing.comparison import Comparison

# A process of NEO exits at once, the NEO monitor after its child.
STOP_SECONDS = 10
# Not 0: a dropped storage exits with 0, and must be restarted.
FINAL_EXITS = (ExitCode.BAD_CONFIG, ExitCode.NOT_INSTALLED, ExitCode.PORT_TAKEN, ExitCode.REFUSED)

_BY_THEMSELVES = "the masters elect the leader, and each copy takes part in every write"


class Elections(ConsensusServers):
    """The part of the backend that plans use; see ``backends.consensus.Consensus``."""

    def look(self, cluster: Cluster, deadline: float) -> Look:
        return read(cluster, report.ask(cluster, deadline))

    def ping(
        self, cluster: Cluster, installation: Installation, nodes: Iterable[Node], deadline: float
    ) -> Mapping[str, str]:
        asked = {str(node.storage_address): node.name for node in nodes}
        answer = founding.order(cluster, installation, deadline, "ping", *asked, waits=True)
        return {asked[address]: str(said) for address, said in answer.items()}

    def last_transaction(
        self, cluster: Cluster, installation: Installation, deadline: float
    ) -> int | None:
        last = founding.order(cluster, installation, deadline, "status").get("last_tid")
        return None if last is None else tid.parse(str(last))

    def drop(
        self, cluster: Cluster, installation: Installation, node: Node, deadline: float
    ) -> None:
        founding.order(cluster, installation, deadline, "drop", str(node.storage_address))

    def take_in(
        self, cluster: Cluster, installation: Installation, node: Node, deadline: float
    ) -> None:
        founding.order(cluster, installation, deadline, "add", str(node.storage_address))

    def spread(self, cluster: Cluster, installation: Installation, deadline: float) -> None:
        """Distribute partitions; NEO requires a list of the storages that do not run."""
        answer = founding.order(cluster, installation, deadline, "status")
        nodes = answer.get("nodes")
        if not isinstance(nodes, list):
            raise OperatorError(
                "the cluster of NEO does not say which storages it has", exit_code=ExitCode.FAILED
            )
        away = [
            part
            for each in nodes
            if each["type"] == "storage" and each["state"] != RUNNING and each["address"]
            for part in ("--without", str(each["address"]))
        ]
        founding.order(cluster, installation, deadline, "tweak", *away)


def read(cluster: Cluster, known: Known) -> Look:
    """Return a NEO monitor's report, by node names."""
    called = {str(node.storage_address): node.name for node in cluster.nodes}
    table = known.table
    storages = sum(1 for _ in config.of_role(cluster, Role.STORAGE))
    running = known.failure is None and known.cluster_state == RUNNING
    return Look(
        at=known.began,
        state=known.cluster_state or "",
        writable=known.writable,
        wanted=min(table.replicas + 1, storages) if table else 0,
        copies=table.up_to_date if table else 0,
        members=tuple(
            _member(
                node,
                known,
                leads=running
                and known.last_tid is not None
                and known.primary == str(node.storage_address),
            )
            for node in cluster.nodes
        ),
        holders=tuple(frozenset(called.get(each, each) for each in row) for row in table.rows)
        if table
        else (),
        majority=config.majority(cluster),
    )


def _member(node: Node, known: Known, *, leads: bool) -> Member:
    address = str(node.storage_address)
    process: Process | None = known.process(address)
    ping = SILENT if address in known.silence else known.pings.get(address, "")
    state = process.state if process else ""
    if node.role is Role.ADMIN and ping == ANSWERS:
        state = RUNNING  # on another host; the leading master tells nobody about admin nodes
    return Member(
        node.name,
        node.role,
        state,
        ping,
        known.silence.get(address, 0.0),
        leads,
        known.table.cells.get(address, {}) if known.table else {},
    )


@implementer(IBackend)
class NEO(Elections):
    """NEO 1.12 with repairs; a write is on every copy before it is acknowledged."""

    name = "neo"
    limits: Mapping[str, str] = {
        "switchover": _BY_THEMSELVES + "; to free a host, stop its nodes: `bin/zodbrepl node stop`",
        "promote": _BY_THEMSELVES,
        "follow": _BY_THEMSELVES,
        "assign": "a node is master, storage or admin for good",
        "clone": "a storage without data is filled from the others: `bin/zodbrepl rejoin NODE`",
        "recover": "no acknowledged transaction is on one copy alone",
        "backup": "no command of ours copies a storage's files: end one that holds everything, "
        "`bin/zodbrepl node stop NODE`, copy all of its neo.sqlite files, and start it "
        "again",
        "restore": "a lost storage is filled from the others: `bin/zodbrepl rejoin NODE`; all of "
        "it comes from a Data.fs into a new cluster: `convert --from DATA.fs`",
        "lineage": "storages compare their partitions when they come back; "
        "`bin/zodbrepl status` shows them",
        "hold": "the cluster can't pause writes and resume them later; stop Indico instead",
        "undo": "NEO 1.12 may end its storages, or lose objects, by an undo; it is refused",
        "blobs": "NEO keeps none; Indico keeps its files in its archive, not in the database",
        "size": "NEO has no such figure: it is that of the storages' files, and 0 while one of "
        "them is on another host",
    }

    def programs(
        self, cluster: Cluster, installation: Installation, node: Node
    ) -> tuple[Program, ...]:
        return (
            Program(
                name=node.program,
                command=zodbrepl_command(cluster, installation, "node", "run", node.name),
                directory=Layout(cluster).var,
                stop_seconds=STOP_SECONDS,
                final_exits=FINAL_EXITS,
            ),
        )

    def node_files(self, cluster: Cluster, state: NodeState) -> Mapping[Path, str]:
        return config.node_files(cluster, state)

    def client_files(self, cluster: Cluster) -> Mapping[Path, str]:
        return config.client_files(cluster)

    def readable_nodes(self, cluster: Cluster) -> tuple[Node, ...]:
        """Return no node: a storage's copy can be read only through the cluster."""
        return ()

    def server_command(
        self, cluster: Cluster, installation: Installation, state: NodeState
    ) -> tuple[str, ...]:
        return config.server_command(cluster, installation, cluster.node(state.node))

    def listens_on(self, cluster: Cluster, state: NodeState) -> tuple[Endpoint, ...]:
        return tuple(
            endpoint
            for endpoint in cluster.endpoints()
            if endpoint.kind == "node" and endpoint.name == state.node
        )

    def check(self, cluster: Cluster, installation: Installation) -> None:
        """Also refuse host names (exit 2): NEO's processes know each other by IP address."""
        for node in cluster.nodes:
            try:
                ipaddress.ip_address(node.host)
            except ValueError:
                raise OperatorError(
                    f"node {node.name} can't have the host {node.host}",
                    f"{cluster.where('node', node.name, 'host')}: NEO's processes know each other "
                    "by IP address",
                    "write the address, such as 127.0.0.1",
                    ExitCode.BAD_CONFIG,
                ) from None
        if config.settings_of(cluster).adapter == "mariadb":
            _check_driver(installation)

    def prepare(
        self, cluster: Cluster, installation: Installation, state: NodeState
    ) -> Iterable[str]:
        """Warn if a storage is empty and the cluster is not; it makes its own database."""
        node = cluster.node(state.node)
        if (
            node.role is Role.STORAGE
            and config.founded(cluster).exists()
            and not self.has_data(cluster, node)
        ):
            return [
                (
                    f"storage {node.name} has no data, although the cluster has; once the others "
                    "run, the status says how it is filled"
                )
            ]
        return ()

    def has_data(self, cluster: Cluster, node: Node) -> bool:
        """Return True if a storage has data; on MariaDB, if it was ever started."""
        if node.role is not Role.STORAGE:
            return False
        path = (
            config.sqlite_file(node)
            if config.settings_of(cluster).adapter == "sqlite"
            else config.neo_conf(node)
        )
        try:
            return path.stat().st_size > 0
        except OSError:
            return False

    def not_kept(self, cluster: Cluster) -> tuple[str, ...]:
        return (
            *super().not_kept(cluster),
            "the mark of packed transactions",
            "transactions that a pack left nothing of",
        )

    def share_of_data(self, cluster: Cluster) -> Mapping[str, float]:
        storages = [node.name for node in config.of_role(cluster, Role.STORAGE) if node.managed]
        copies = 1 + config.settings_of(cluster).replicas
        return {name: copies / len(storages) for name in storages}

    def found(
        self, cluster: Cluster, installation: Installation, progress: Progress, deadline: float
    ) -> None:
        founding.found(cluster, installation, progress, deadline)

    def ask(self, cluster: Cluster, node: Node, deadline: float) -> ServerAnswer:
        return status.answer(cluster, node, report.ask(cluster, deadline), time.time())

    def compare(
        self, cluster: Cluster, node: Node, primary: Node, answer: ServerAnswer, deadline: float
    ) -> Iterator[Comparison]:
        """Return nothing: no node follows another one."""
        return iter(())


def _check_driver(installation: Installation) -> None:
    relstorage.require(
        installation,
        "import MySQLdb",
        "NEO's adapter mariadb needs mysqlclient 1.4.6 for Python 2.7",
        "apt-get install libmariadb-dev gcc, then: "
        "parts/python27/bin/python -m pip install mysqlclient==1.4.6; or adapter sqlite",
    )
