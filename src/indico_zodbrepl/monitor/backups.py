"""Read from the journal how old the last scheduled backup is.

``operations.journal`` reads whole entries, but nothing here may import it.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from indico_zodbrepl.cluster import backup_schedule
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.monitor.findings import Findings, LastBackup, Results
from indico_zodbrepl.monitor.host_status import BackupStatus
from indico_zodbrepl.probing.reading import clean

PART = b'"operation":"backup"'
"""Each line about a backup contains this."""


def backup_jobs(cluster: Cluster) -> Iterator[tuple[str, Callable[[], Results]]]:
    """Yield a name and a job if backups are scheduled; it yields ("backup", "") a LastBackup."""
    if cluster.backup_time is not None:
        yield "backup", partial(_ask, Layout(cluster).journal, folder(cluster))


def folder(cluster: Cluster) -> str:
    """Return the folder of scheduled backups, as the journal names it."""
    path = str(cluster.backup_directory)
    return f"{cluster.backup_host}:{path}" if cluster.backup_host else path


def _ask(path: Path, folder: str) -> Results:
    try:
        status = path.stat()
        found = _read(path, folder, status.st_ino, status.st_size, status.st_mtime_ns)
    except FileNotFoundError:
        found = LastBackup()
    except OSError as error:
        found = LastBackup(problem=f"{path}: {error.strerror}")
    yield ("backup", ""), found


@functools.lru_cache(maxsize=8)
def _read(path: Path, folder: str, _inode: int, _size: int, _modified: int) -> LastBackup:
    """Return the last backup into a folder.  Raises OSError.

    A damaged line counts as none; the journal's own page reports it.
    """
    entries: dict[str, dict[str, Any]] = {}
    for line in path.read_bytes().split(b"\n"):
        if PART not in line:
            continue
        try:
            entry = json.loads(line)
            known = entries.get(entry["id"])
            if entry["operation"] == "backup" and entry["told"].get("folder") == folder:
                entry["ended"] = float(entry["ended"])
                if known is None or entry.get("version", 0) >= known.get("version", 0):
                    entries[entry["id"]] = entry
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
    last: float | None = None
    failed, error = None, ""
    for entry in sorted(entries.values(), key=lambda each: float(each["ended"])):
        if entry.get("outcome") == "done":
            last, failed, error = entry["ended"], None, ""
        else:
            failed, error = entry["ended"], str(entry.get("remark", "")).partition("\n")[0]
    return LastBackup(last, failed, clean(error))


def backup_status(cluster: Cluster, findings: Findings) -> BackupStatus | None:
    """Return the scheduled backups for pages and commands; None without a schedule."""
    at, found = cluster.backup_time, findings.backup
    if at is None or found is None:
        return None
    return BackupStatus(
        backup_schedule.shown(at),
        backup_schedule.due_after(at, findings.taken_at),
        found.last,
        found.failed,
        found.error,
        found.problem,
    )
