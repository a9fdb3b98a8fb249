"""Backs up a cluster's database, from the node that does Indico the least harm.

It holds no lock of operations, as a failover must not wait for it; folders of backups have locks
of their own.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path

from ..backends import backend_of
from ..cluster import Cluster, Node
from ..cluster.commands import Commands
from ..cluster.files import write_atomically
from ..cluster.installation import Installation
from ..cluster.layout import Layout
from ..errors import ExitCode, OperatorError
from ..node import lineage, run
from ..node.backups import Made, keeper_of
from ..node.lineage import Condition
from . import journal
from .rejoin_facts import current_primary, follows
from .steps import JsonValue
from .telling import Teller

MARK = "cluster.json"
FORMAT = 1


@dataclasses.dataclass(frozen=True)
class Source:
    """What is backed up, and where to.

    Attributes:
        node: whose data are read.
        why: why that one, for people.
        folder: of the backups.
        size: bytes of its database now.
    """

    node: Node
    why: str
    folder: Path
    size: int


def prepare(cluster: Cluster, installation: Installation, name: str | None,
            folder: Path | None) -> Source:
    """What ``back_up`` would do; changes nothing.

    Args:
        name: the node to read; None for the best one.
        folder: None for that of the cluster file.

    Raises:
        OperatorError: exit 2, no such node, or no folder is named; exit 8, the node's data are
            not fit to be kept, or the folder holds something else or can't be written to.
    """
    installation.check()
    target = folder_of(cluster, folder)
    node, why = _named(cluster, name) if name else _best(cluster)
    path = keeper_of(cluster, installation).database(node)
    try:
        size = path.stat().st_size
    except OSError as error:
        raise OperatorError(f"node {node.name} has no data that can be backed up",
                            f"{path}: {error.strerror}",
                            Commands.here(cluster).zodbrepl("status"), ExitCode.REFUSED) from error
    refuse_another(cluster, target)
    _refuse_unfit(target)
    return Source(node, why, target, size)


def back_up(cluster: Cluster, installation: Installation, source: Source, reason: str,
            say: Callable[[str], None], *, full: bool) -> Made:
    """Back up, verify what was written, and journal it; may be interrupted and given again.

    Args:
        say: takes a line now and then that tells how far it is.
        full: whether a full backup is wanted in any case.

    Raises OperatorError: exit 8, the data are damaged, or another backup works in the folder.
    """
    _make(cluster, source.folder)
    Layout(cluster).var.mkdir(parents=True, exist_ok=True)  # for the journal
    with journal.journaled(cluster, "backup", source.node.name, reason, otherwise=say) as told:
        told.figures["folder"] = str(source.folder)
        made = keeper_of(cluster, installation).back_up(source.node, source.folder, Teller(say),
                                                        full=full)
        told.figures |= _figures(made)
    return made


def folder_of(cluster: Cluster, given: Path | None) -> Path:
    """The folder of backups: the one that is given, else that of the cluster file (exit 2)."""
    found = given or cluster.backup_directory
    if found is None:
        raise OperatorError("it is not said where backups are kept",
                            f"{cluster.source} has no backup-directory",
                            "name it there, on another disk than the data, or give the folder "
                            "with the command", ExitCode.BAD_CONFIG)
    return Path(os.path.abspath(found))


def refuse_another(cluster: Cluster, folder: Path) -> None:
    """Raise OperatorError (exit 8) when a folder has other things than this cluster's backups.

    One without our mark may be repozo's own.
    """
    mark = folder / MARK
    try:
        known = json.loads(mark.read_text("utf-8"))
        whose = (known["cluster"], known["kind"])
    except FileNotFoundError:
        return
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OperatorError(f"{folder} can't be used for backups", f"{mark}: {error}",
                            exit_code=ExitCode.REFUSED) from error
    if whose != (cluster.name, _kind(cluster)):
        raise OperatorError(f"{folder} can't be used for backups",
                            f"it has those of cluster {whose[0]} ({whose[1]})",
                            "each cluster needs a folder of its own", ExitCode.REFUSED)


def _make(cluster: Cluster, folder: Path) -> None:
    """The folder, for its owner alone, with a mark that says whose backups it has."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if (folder / MARK).exists():
            folder.chmod(0o700)
            return
        _refuse_unfit(folder)
        folder.chmod(0o700)
        write_atomically(folder / MARK, json.dumps(
            {"format": FORMAT, "cluster": cluster.name, "kind": _kind(cluster)}) + "\n", 0o600)
    except OSError as error:
        raise OperatorError(f"{folder} can't be used for backups", f"{error.strerror}",
                            exit_code=ExitCode.REFUSED) from error


def _refuse_unfit(folder: Path) -> None:
    """Raise OperatorError (exit 8) when a folder is not for backups, or can't be written to."""
    detail = hint = ""
    there = next(each for each in (folder, *folder.parents) if os.path.lexists(each))
    if not there.exists():
        detail = f"it is a link to {os.readlink(there)}, which is not there"
        hint = "is its disk mounted?"
    elif not os.access(there, os.W_OK | os.X_OK):
        detail = f"nothing can be written to {there}"
    elif folder.is_dir() and not (folder / MARK).exists() and any(folder.iterdir()):
        detail = "it has other files, and was not made for backups"
        hint = "name a folder that is empty or not there yet"
    if detail:
        raise OperatorError(f"{folder} can't be used for backups", detail, hint, ExitCode.REFUSED)


def _kind(cluster: Cluster) -> str:
    return "Data.fs" if backend_of(cluster).data_files else cluster.backend


def _named(cluster: Cluster, name: str) -> tuple[Node, str]:
    node = run.node_named(cluster, name)
    problem = _unfit(node)
    if problem:
        raise OperatorError(f"the data of node {name} are not to be kept as a backup", problem,
                            "name another node, or none", ExitCode.REFUSED)
    return node, "as was said"


def _best(cluster: Cluster) -> tuple[Node, str]:
    """A follower that is in step, since the primary has enough to do; else the primary."""
    if not backend_of(cluster).guarded:
        return cluster.nodes[0], "the only one"
    primary, _epoch = current_primary(cluster)
    for node in cluster.nodes:
        if node != primary and not _unfit(node) and follows(cluster, node, primary):
            return node, f"it follows primary {primary.name}, which goes on undisturbed"
    return primary, "it is the primary, and nobody follows it now"


def _unfit(node: Node) -> str:
    try:
        known = lineage.read(node)
    except OperatorError as error:
        return error.detail
    if known is None or known.condition is Condition.OK:
        return ""
    return f"its lineage is marked {known.condition}: {known.detail}"


def _figures(made: Made) -> dict[str, JsonValue]:
    return {"kind": made.kind, "name": made.name, "bytes": made.bytes, "whole": made.whole,
            "last_tid": made.tid, "seconds": made.seconds}
