"""The state of each node, from the report of a NEO monitor."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from indico_zodbrepl.backends.neo import config
from indico_zodbrepl.backends.neo.report import Deed, Known
from indico_zodbrepl.cluster import Cluster, Node, Role
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.probing import tid, times
from indico_zodbrepl.probing.answers import (
    Alert,
    Fact,
    Level,
    Replication,
    ServerAnswer,
    ServerRole,
)
from indico_zodbrepl.probing.wire import FailureKind, ProbeError

RUNNING = "RUNNING"
UP_TO_DATE = "up_to_date"
# Seconds for which an action of the NEO monitor is news.
NEWS_SECONDS = 600.0


def answer(cluster: Cluster, node: Node, known: Known, now: float) -> ServerAnswer:
    """Return the state of a node's process.

    Args:
        now: seconds since 1970.

    Raises:
        ProbeError: it does not answer the NEO monitor's pings.
    """
    address = str(node.storage_address)
    if known.pings.get(address) == "refuses":
        raise ProbeError(FailureKind.REFUSED, f"nothing listens on {address}")
    if address in known.silence:
        raise ProbeError(
            FailureKind.SILENT, f"no answer to pings for {known.silence[address]:.0f} s"
        )
    leads = (
        known.primary == address and known.cluster_state == RUNNING and known.last_tid is not None
    )
    cells = known.table.cells.get(address, {}) if known.table else {}
    has_all = node.role is Role.STORAGE and set(cells) == {UP_TO_DATE}
    replication = Replication(
        cluster=cluster.name,
        node=node.name,
        role=ServerRole(node.role),
        epoch=None,
        upstream=None,
        connected=None,
        followers=(),
        pid=0,
        size=known.sizes.get(address, 0),
        read_only=node.role is Role.MASTER and not leads,
    )
    last = known.last_tid if leads or has_all else None
    return ServerAnswer(
        tid.EMPTY if last is None else last,
        known.clients() if leads else 0,
        replication,
        tuple(_facts(cluster, node, known, cells)),
        tuple(_problems(cluster, node, known, cells, now)),
    )


def _facts(cluster: Cluster, node: Node, known: Known, cells: Mapping[str, int]) -> Iterator[Fact]:
    if node.role is Role.MASTER:
        yield Fact("cluster state", known.cluster_state or "not known")
        if known.table is not None:
            table = known.table
            yield Fact(
                "copies",
                f"{table.up_to_date} of {table.replicas + 1} up to date, of "
                f"each of {table.partitions} partitions",
            )
            yield Fact("partition table", str(table.number))
    elif node.role is Role.STORAGE:
        process = known.process(str(node.storage_address))
        yield Fact("state", f"{process.state}, {process.id}" if process else "not known")
        if cells:
            yield Fact(
                "partitions",
                ", ".join(
                    f"{count} {state.replace('_', ' ')}" for state, count in sorted(cells.items())
                ),
            )
    elif cluster.is_here(node):
        yield Fact(
            "NEO monitor",
            f"ends what is silent for {known.hung_after:g} s"
            if known.hung_after
            else "ends nothing",
        )
        if known.deeds:
            yield Fact("its last action", _told(known.deeds[-1]))


def _problems(
    cluster: Cluster, node: Node, known: Known, cells: Mapping[str, int], now: float
) -> Iterator[Alert]:
    if node.role is Role.ADMIN and cluster.is_here(node):
        yield from _of_the_cluster(cluster, node, known)
        latest = {deed.address: deed for deed in known.deeds}
        for address, deed in latest.items():
            if now - deed.at < NEWS_SECONDS:
                yield Alert(
                    Level.NOTICE,
                    node.name,
                    f"the NEO monitor ended {_called(cluster, address)}",
                    _told(deed),
                    f"see why it hung: `{_log(cluster, address)}`",
                )
    elif node.role is Role.STORAGE:
        yield from _of_a_storage(cluster, node, known, cells)


def _of_the_cluster(cluster: Cluster, node: Node, known: Known) -> Iterator[Alert]:
    if known.failure is not None:
        yield Alert(
            Level.CRITICAL,
            node.name,
            "the cluster does not answer its admin node",
            known.failure,
            "see whether a master runs",
        )
    elif known.cluster_state != RUNNING:
        yield _of_a_cluster_that_waits(cluster, node, known)
    for text in known.problems:
        yield Alert(
            Level.CRITICAL,
            node.name,
            "a process hangs and nobody can stand in for it",
            text,
            f"look at its host; `{Commands.here(cluster).zodbrepl('status')}` shows it silent",
        )


def _of_a_cluster_that_waits(cluster: Cluster, node: Node, known: Known) -> Alert:
    text = f"the cluster is {known.cluster_state}, so nothing can be saved"
    masters = _absent(cluster, Role.MASTER, known)
    needed = config.majority(cluster)
    present = sum(1 for _ in config.of_role(cluster, Role.MASTER)) - len(masters)
    if present < needed:
        return Alert(
            Level.CRITICAL,
            node.name,
            text,
            f"{needed} masters have to elect the leader, and {', '.join(masters)} can't be reached "
            "from here",
            "start their hosts, or repair the network; nothing more is needed then",
        )
    storages = ", ".join(_absent(cluster, Role.STORAGE, known))
    start = f"`{order(cluster, 'start', '--with-what-is-there')}`"
    if storages:
        detail = f"it waits for {storages}"
        hint = (
            "start what is missing; if its disk is lost for good and the others have all "
            f"transactions: {start}"
        )
    else:
        detail, hint = "it is on its way", "wait"
        if needed > 1:
            hint += (
                "; if it does not run after a minute, the masters know of a later partition table "
                "than all storages, which may have been restored from older copies. If there are "
                f"no newer ones: {start}"
            )
    return Alert(Level.CRITICAL, node.name, text, detail, hint)


def _absent(cluster: Cluster, role: Role, known: Known) -> list[str]:
    """Return the nodes of a role that are not connected to the leading master."""
    return [
        each.name
        for each in config.of_role(cluster, role)
        if (process := known.process(str(each.storage_address))) is None
        or process.state not in (RUNNING, "PENDING")
    ]


def _of_a_storage(
    cluster: Cluster, node: Node, known: Known, cells: Mapping[str, int]
) -> Iterator[Alert]:
    process = known.process(str(node.storage_address))
    corrupted, behind = cells.get("corrupted", 0), cells.get("out_of_date", 0)
    rejoin = Commands.here(cluster).zodbrepl("rejoin", node.name)
    if corrupted:
        yield Alert(
            Level.CRITICAL,
            node.name,
            f"{corrupted} partitions of storage {node.name} are corrupted",
            "a check found them different from the reference",
            f"refill it from the others: `{rejoin}`",
        )
    if known.cluster_state == RUNNING and process is not None and process.state == "PENDING":
        yield Alert(
            Level.WARNING,
            node.name,
            f"storage {node.name} is empty and not taken in",
            "it came without data, as after its disk was replaced",
            f"fill it from the others: `{rejoin}`",
        )
    elif behind and (process is None or process.state != RUNNING):
        yield Alert(
            Level.WARNING,
            node.name,
            f"storage {node.name} is not part of the cluster",
            f"{behind} partitions have one copy less until it is back",
            f"start it, or its host: `{Commands.here(cluster).zodbrepl('up')}`; it then copies "
            "what it missed",
        )
    elif behind:
        yield Alert(
            Level.WARNING,
            node.name,
            f"storage {node.name} is not up to date",
            f"{behind} partitions are being copied from the others",
            "wait; until then it can't stand in for them",
        )


def order(cluster: Cluster, *arguments: str) -> str:
    """Return the command that gives an order to the cluster, as typed in the installation."""
    commands = Commands.here(cluster)
    admin = config.admin_here(cluster) or next(config.of_role(cluster, Role.ADMIN))
    return shlex.join(
        [
            commands.path(Installation(commands.home).python27),
            "-m",
            "indico_zodbrepl.dataplane.neo.admin",
            "--admin",
            str(admin.storage_address),
            *arguments,
        ]
    )


def _told(deed: Deed) -> str:
    return f"{times.moment(deed.at)}: {deed.what} {deed.address}, {deed.reason}: {deed.result}"


def _called(cluster: Cluster, address: str) -> str:
    node = next((each for each in cluster.nodes if str(each.storage_address) == address), None)
    return address if node is None else f"{node.role} {node.name}"


def _log(cluster: Cluster, address: str) -> str:
    commands = Commands.here(cluster)
    program = next(
        (each.program for each in cluster.nodes if str(each.storage_address) == address),
        "supervisord",
    )
    return commands.show_log(program)
