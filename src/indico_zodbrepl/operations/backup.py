"""Back up a cluster's database from the node where it disturbs Indico least.

It does not hold the lock of operations, because a failover must not wait for it; backup folders
have locks of their own.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable
from pathlib import Path

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.lookup import node_named
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.backup import BackupFolder, Made, folder_named
from indico_zodbrepl.host.backup_retention import Series, expired
from indico_zodbrepl.host.history import Condition
from indico_zodbrepl.host.interface import Host, host_of
from indico_zodbrepl.operations import journal
from indico_zodbrepl.operations.facts import current_primary, follows
from indico_zodbrepl.operations.messages import Teller
from indico_zodbrepl.operations.model import JsonValue


@dataclasses.dataclass(frozen=True)
class Source:
    """The node to back up and the folder for it.

    Attributes:
        node: whose data are read.
        why: reason for the choice, for people.
        folder: of the backups.
        size: bytes of its database now.
    """

    node: Node
    why: str
    folder: BackupFolder
    size: int


def prepare(
    cluster: Cluster, installation: Installation, name: str | None, folder: str | Path | None
) -> Source:
    """Return what ``back_up`` would do; change nothing.

    Args:
        name: the node to read; None for the best one.
        folder: as of ``folder_of``.

    Raises:
        OperatorError: exit 2, no such node, or no folder is named; exit 8, the node's data are
            unfit for a backup, or the folder holds other files or is not writable.
    """
    installation.check()
    target = folder_of(cluster, folder)
    node, why = _named(cluster, name) if name else _best(cluster)
    backups = host_of(cluster, installation).backups()
    size = backups.size(node.name)
    backups.check_folder(target, writable=True)
    return Source(node, why, target, size)


def back_up(
    cluster: Cluster,
    installation: Installation,
    source: Source,
    reason: str,
    say: Callable[[str], None],
    *,
    full: bool,
) -> Made:
    """Make, verify and journal a backup; may be interrupted and repeated.

    Args:
        say: called now and then with a line of progress.
        full: True to make a full backup in any case.

    Raises OperatorError: exit 8, the data are damaged, or another backup into the folder is
    running.
    """
    backups = host_of(cluster, installation).backups()
    backups.make_folder(source.folder)
    Layout(cluster).var.mkdir(parents=True, exist_ok=True)  # for the journal
    with journal.journaled(cluster, "backup", source.node.name, reason, otherwise=say) as told:
        told.figures["folder"] = str(source.folder)
        made = backups.back_up(source.node.name, source.folder, Teller(say), full=full)
        told.figures |= _figures(made)
    return made


def too_old(
    cluster: Cluster, installation: Installation, folder: BackupFolder, keep_days: int
) -> list[Series]:
    """Return the series of backups that a restore to any time of the last days does not need."""
    before = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=keep_days)
    found = host_of(cluster, installation).backups().series(folder)
    return expired(found, before.strftime("%Y-%m-%d-%H-%M-%S"))


def prune(
    cluster: Cluster,
    installation: Installation,
    folder: BackupFolder,
    reason: str,
    say: Callable[[str], None],
    *,
    keep_days: int,
) -> list[Series]:
    """Remove backups that are too old, after the newest was verified; return what was removed.

    All pieces of the newest series are read and compared with their checksums.  It is never
    removed itself.  May be interrupted and repeated.

    Raises OperatorError: exit 8, the newest backup is damaged and nothing was removed.
    """
    wanted = too_old(cluster, installation, folder, keep_days)
    if not wanted:
        return []
    with journal.journaled(cluster, "prune", "", reason, otherwise=say) as told:
        told.figures["folder"] = str(folder)
        backups = host_of(cluster, installation).backups()
        newest = backups.inspect(folder, None, Teller(say))
        if newest.problems:
            raise OperatorError(
                "no old backup was removed: the newest one is damaged",
                "\n".join(newest.problems),
                "make a new one, then retry: "
                + Commands.here(cluster).zodbrepl("backup", "--full", "--to", str(folder)),
                ExitCode.REFUSED,
            )
        backups.remove_series(folder, wanted, newest.name)
        told.figures["removed"] = [name for each in wanted for name in each.names]
    return wanted


def folder_of(cluster: Cluster, given: str | Path | None) -> BackupFolder:
    """Return the given folder of backups, or that of the cluster file (exit 2).

    Args:
        given: ``HOST:FOLDER``, or ``FOLDER`` on this host.
    """
    if given is not None:
        return folder_named(cluster, given)
    if cluster.backup_directory is None:
        raise OperatorError(
            "it is not said where backups are kept",
            f"{cluster.source} has no backup-directory",
            "name it there, on another disk than the data, or give the folder with the command",
            ExitCode.BAD_CONFIG,
        )
    return BackupFolder(cluster.backup_host or cluster.here or "", cluster.backup_directory)


def _named(cluster: Cluster, name: str) -> tuple[Node, str]:
    node = node_named(cluster, name)
    problem = _unfit(host_of(cluster), name)
    if problem:
        raise OperatorError(
            f"the data of node {name} are not to be kept as a backup",
            problem,
            "name another node, or none",
            ExitCode.REFUSED,
        )
    return node, "as was said"


def _best(cluster: Cluster) -> tuple[Node, str]:
    """Return a follower that is in sync, to spare the primary; else the primary."""
    if not backend_of(cluster).has_epochs:
        return cluster.nodes[0], "the only one"
    host = host_of(cluster)
    primary, _epoch = current_primary(cluster)
    for node in cluster.nodes:
        if node != primary and not _unfit(host, node.name) and follows(cluster, node, primary):
            return node, f"it follows primary {primary.name}, which goes on undisturbed"
    return primary, "it is the primary, and nobody follows it now"


def _unfit(host: Host, name: str) -> str:
    try:
        known = host.history(name)
    except OperatorError as error:
        return error.detail
    if known is None or known.condition is Condition.OK:
        return ""
    return f"its history is marked {known.condition}: {known.detail}"


def _figures(made: Made) -> dict[str, JsonValue]:
    return {
        "kind": made.kind,
        "name": made.name,
        "bytes": made.bytes,
        "whole": made.whole,
        "files": made.blobs,
        "file_bytes": made.blob_bytes,
        "last_tid": made.tid,
        "seconds": made.seconds,
    }
