"""What the monitor is told of a node, from what the warden knows.  No I/O."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Iterator, Mapping

from ...cluster import Cluster, Node, Role
from ...cluster.commands import Commands
from ...cluster.installation import Installation
from ...probing import tid
from ...probing.answers import (
    EngineProblem,
    Fact,
    Replication,
    ServerAnswer,
    ServerRole,
    Severity,
)
from ...probing.wire import FailureKind, ProbeError
from . import names
from .warden import Deed, Known

RUNNING = "RUNNING"
UP_TO_DATE = "up_to_date"
# For so many seconds a deed of the warden is news.
NEWS_SECONDS = 600.0

_ROLES = {Role.MASTER: ServerRole.MASTER, Role.STORAGE: ServerRole.STORAGE,
          Role.ADMIN: ServerRole.ADMIN}


def answer(cluster: Cluster, node: Node, known: Known, now: float) -> ServerAnswer:
    """What a node's process is.

    Args:
        now: seconds since 1970.

    Raises:
        ProbeError: it does not answer the warden's pings.
    """
    address = str(node.storage_address)
    if known.pings.get(address) == "refuses":
        raise ProbeError(FailureKind.REFUSED, f"nothing listens on {address}")
    if address in known.silence:
        raise ProbeError(FailureKind.SILENT,
                         f"no answer to pings for {known.silence[address]:.0f} s")
    leads = (known.primary == address and known.cluster_state == RUNNING
             and known.last_tid is not None)
    cells = known.table.cells.get(address, {}) if known.table else {}
    has_all = node.role is Role.STORAGE and set(cells) == {UP_TO_DATE}
    replication = Replication(
        cluster=cluster.name, node=node.name, role=_ROLES[node.role], epoch=None, upstream=None,
        connected=None, followers=(), pid=0, size=known.sizes.get(address, 0),
        read_only=node.role is Role.MASTER and not leads)
    last = known.last_tid if leads or has_all else None
    return ServerAnswer(
        tid.EMPTY if last is None else last, known.clients() if leads else 0, replication,
        tuple(_facts(node, known, cells)), tuple(_problems(cluster, node, known, cells, now)))


def _facts(node: Node, known: Known, cells: Mapping[str, int]) -> Iterator[Fact]:
    if node.role is Role.MASTER:
        yield Fact("cluster state", known.cluster_state or "not known")
        if known.table is not None:
            table = known.table
            yield Fact("copies", f"{table.up_to_date} of {table.replicas + 1} up to date, of "
                                 f"each of {table.partitions} partitions")
            yield Fact("partition table", str(table.number))
    elif node.role is Role.STORAGE:
        process = known.process(str(node.storage_address))
        yield Fact("state", f"{process.state}, {process.id}" if process else "not known")
        if cells:
            yield Fact("partitions", ", ".join(
                f"{count} {state.replace('_', ' ')}" for state, count in sorted(cells.items())))
    else:
        yield Fact("warden", f"ends what is silent for {known.hung_after:g} s"
                   if known.hung_after else "ends nothing")
        if known.deeds:
            yield Fact("its last deed", _told(known.deeds[-1]))


def _problems(cluster: Cluster, node: Node, known: Known, cells: Mapping[str, int],
              now: float) -> Iterator[EngineProblem]:
    if node.role is Role.ADMIN:
        yield from _of_the_cluster(cluster, known)
        latest = {deed.address: deed for deed in known.deeds}
        for address, deed in latest.items():
            if now - deed.at < NEWS_SECONDS:
                yield EngineProblem(
                    Severity.NOTICE, f"the warden ended {_called(cluster, address)}",
                    _told(deed), f"see why it hung: `{_log(cluster, address)}`")
    elif node.role is Role.STORAGE:
        yield from _of_a_storage(cluster, node, known, cells)


def _of_the_cluster(cluster: Cluster, known: Known) -> Iterator[EngineProblem]:
    if known.failure is not None:
        yield EngineProblem(Severity.CRITICAL, "the cluster does not answer its admin node",
                            known.failure, "see whether a master runs")
    elif known.cluster_state != RUNNING:
        missing = ", ".join(
            each.name for each in names.of_role(cluster, Role.STORAGE)
            if (process := known.process(str(each.storage_address))) is None
            or process.state not in (RUNNING, "PENDING"))
        yield EngineProblem(
            Severity.CRITICAL, f"the cluster is {known.cluster_state}, so nothing can be saved",
            f"it waits for {missing}" if missing else "it is on its way",
            "start what is missing; if its disk is lost for good and the others have all "
            f"transactions: `{order(cluster, 'start', '--with-what-is-there')}`"
            if missing else "wait")
    for text in known.problems:
        yield EngineProblem(
            Severity.CRITICAL, "a process hangs and nobody can stand in for it", text,
            f"look at its host; `{Commands.here(cluster).zodbrepl('status')}` shows it silent")


def _of_a_storage(cluster: Cluster, node: Node, known: Known,
                  cells: Mapping[str, int]) -> Iterator[EngineProblem]:
    process = known.process(str(node.storage_address))
    corrupted, behind = cells.get("corrupted", 0), cells.get("out_of_date", 0)
    rejoin = Commands.here(cluster).zodbrepl("rejoin", node.name)
    if corrupted:
        yield EngineProblem(
            Severity.CRITICAL, f"{corrupted} partitions of storage {node.name} are corrupted",
            "a check found them different from the reference",
            f"fill it anew from the others: `{rejoin}`")
    if known.cluster_state == RUNNING and process is not None and process.state == "PENDING":
        yield EngineProblem(
            Severity.WARNING, f"storage {node.name} is empty and not taken in",
            "it came without data, as after its disk was replaced",
            f"fill it from the others: `{rejoin}`")
    elif behind:
        yield EngineProblem(
            Severity.WARNING, f"storage {node.name} is not up to date",
            f"{behind} partitions are being copied from the others",
            "wait; until then it can't stand in for them")


def order(cluster: Cluster, *arguments: str) -> str:
    """The command that gives an order to the cluster, as it is typed in the installation."""
    commands = Commands.here(cluster)
    admin = next(names.of_role(cluster, Role.ADMIN))
    return shlex.join([commands.path(Installation(commands.home).python27), "-m",
                       "indico_zodbrepl.dataplane.neo.admin", "--admin",
                       str(admin.storage_address), *arguments])


def _told(deed: Deed) -> str:
    when = datetime.datetime.fromtimestamp(deed.at, datetime.UTC)
    return f"{when:%Y-%m-%d %H:%M:%S} UTC: {deed.what} {deed.address}, {deed.reason}: {deed.result}"


def _called(cluster: Cluster, address: str) -> str:
    node = next((each for each in cluster.nodes if str(each.storage_address) == address), None)
    return address if node is None else f"{node.role} {node.name}"


def _log(cluster: Cluster, address: str) -> str:
    commands = Commands.here(cluster)
    program = next((each.program for each in cluster.nodes
                    if str(each.storage_address) == address), "supervisord")
    return commands.show_log(program)
