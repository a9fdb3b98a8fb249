"""NEO's answers and orders in the words of ``backends.electing``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...cluster import Cluster, Node, Role
from ...cluster.installation import Installation
from ...errors import ExitCode, OperatorError
from ...probing import tid
from ..electing import RUNNING, SILENT, Look, Member
from . import founding, names, warden
from .warden import Known, Process


class Elections:
    """The part of the backend that plans are made with; see ``backends.electing.Electing``."""

    def look(self, cluster: Cluster, deadline: float) -> Look:
        return read(cluster, warden.ask(cluster, deadline))

    def ping(self, cluster: Cluster, installation: Installation, nodes: Iterable[Node],
             deadline: float) -> Mapping[str, str]:
        asked = {str(node.storage_address): node.name for node in nodes}
        answer = founding.order(cluster, installation, deadline, "ping", *asked, waits=True)
        return {asked[address]: str(said) for address, said in answer.items()}

    def last_transaction(self, cluster: Cluster, installation: Installation,
                         deadline: float) -> int | None:
        last = founding.order(cluster, installation, deadline, "status").get("last_tid")
        return None if last is None else tid.parse(str(last))

    def drop(self, cluster: Cluster, installation: Installation, node: Node,
             deadline: float) -> None:
        founding.order(cluster, installation, deadline, "drop", str(node.storage_address))

    def take_in(self, cluster: Cluster, installation: Installation, node: Node,
                deadline: float) -> None:
        founding.order(cluster, installation, deadline, "add", str(node.storage_address))

    def spread(self, cluster: Cluster, installation: Installation, deadline: float) -> None:
        """All storages that do not run are left out, which NEO wants to be told."""
        answer = founding.order(cluster, installation, deadline, "status")
        nodes = answer.get("nodes")
        if not isinstance(nodes, list):
            raise OperatorError("the cluster of NEO does not say which storages it has",
                                exit_code=ExitCode.FAILED)
        away = [part for each in nodes
                if each["type"] == "storage" and each["state"] != RUNNING and each["address"]
                for part in ("--without", str(each["address"]))]
        founding.order(cluster, installation, deadline, "tweak", *away)


def read(cluster: Cluster, known: Known) -> Look:
    """What a warden knows, by the names of nodes."""
    called = {str(node.storage_address): node.name for node in cluster.nodes}
    table = known.table
    storages = sum(1 for _ in names.of_role(cluster, Role.STORAGE))
    running = known.failure is None and known.cluster_state == RUNNING
    return Look(
        at=known.began, state=known.cluster_state or "", writable=known.writable,
        wanted=min(table.replicas + 1, storages) if table else 0,
        copies=table.up_to_date if table else 0,
        members=tuple(_member(node, known, leads=running and known.last_tid is not None
                              and known.primary == str(node.storage_address))
                      for node in cluster.nodes),
        holders=tuple(frozenset(called.get(each, each) for each in row)
                      for row in table.rows) if table else ())


def _member(node: Node, known: Known, *, leads: bool) -> Member:
    address = str(node.storage_address)
    process: Process | None = known.process(address)
    return Member(
        node.name, node.role, process.state if process else "",
        SILENT if address in known.silence else known.pings.get(address, ""),
        known.silence.get(address, 0.0), leads,
        known.table.cells.get(address, {}) if known.table else {})
