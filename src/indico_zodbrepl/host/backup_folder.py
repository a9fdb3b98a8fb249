"""A folder of backups: whether a cluster may use it, and its mark."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, formats
from indico_zodbrepl.cluster.files import write_atomically
from indico_zodbrepl.errors import ExitCode, OperatorError

MARK = "cluster.json"
FORMAT = formats.BACKUPS.known
OF_BACKUP = re.compile(
    r"\d{4}(-\d\d){5}(\.(dat|blobs|fs|fsz|deltafs|deltafsz)"
    r"|/(backup\.json|files\.list|[a-z]+\.sqlite3))"
    r"|blobs/(0x[0-9a-f]{2}/){8}0x[0-9a-f]{16}\.blob"
)


def refuse_another(cluster: Cluster, folder: Path) -> None:
    """Raise OperatorError (exit 8) if a folder has other contents than this cluster's backups.

    A folder without a mark may be repozo's own.
    """
    mark = folder / MARK
    try:
        known = json.loads(mark.read_text("utf-8"))
        formats.BACKUPS.refuse_newer(mark, known)
        whose = (known["cluster"], known["kind"])
    except FileNotFoundError:
        return
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OperatorError(
            f"{folder} can't be used for backups", f"{mark}: {error}", exit_code=ExitCode.REFUSED
        ) from error
    if whose != (cluster.name, _kind(cluster)):
        raise OperatorError(
            f"{folder} can't be used for backups",
            f"it has those of cluster {whose[0]} ({whose[1]})",
            "each cluster needs a folder of its own",
            ExitCode.REFUSED,
        )


def make(cluster: Cluster, folder: Path) -> None:
    """Create the folder, for its owner only, with a mark of the cluster.

    Raises OperatorError (exit 8).
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if (folder / MARK).exists():
            folder.chmod(0o700)
            return
        refuse_unfit(folder)
        folder.chmod(0o700)
        write_atomically(
            folder / MARK,
            json.dumps({"format": FORMAT, "cluster": cluster.name, "kind": _kind(cluster)}) + "\n",
            0o600,
        )
    except OSError as error:
        raise OperatorError(
            f"{folder} can't be used for backups", f"{error.strerror}", exit_code=ExitCode.REFUSED
        ) from error


def refuse_unfit(folder: Path) -> None:
    """Raise OperatorError (exit 8) if a folder is not for backups, or is not writable."""
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


def is_of_backup(name: str) -> bool:
    """Return True if a file of this name belongs to a backup; its path stays in the folder."""
    return OF_BACKUP.fullmatch(name) is not None


def _kind(cluster: Cluster) -> str:
    return "Data.fs" if backend_of(cluster).data_file(cluster.nodes[0]) else cluster.backend
