"""Recovery exports for pages: those of all hosts, and those that an operation made."""

from __future__ import annotations

from pathlib import Path

from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.host.exports_interface import RecoveryExport
from indico_zodbrepl.host.interface import host_of
from indico_zodbrepl.operations.operation import Operation


def every(cluster: Cluster) -> list[RecoveryExport]:
    """Return all exports of hosts that answer, newest first.  Raises OperatorError."""
    return host_of(cluster).every_export()


def find(cluster: Cluster, name: str) -> RecoveryExport | None:
    """Return the export of that name; None if no host that answers has it."""
    return next(iter(host_of(cluster).every_export(name)), None)


def exported(entry: Operation) -> list[Path]:
    """Return the folders to which an operation exported, in its order."""
    told = [
        figures.get("exported_to")
        for figures in (entry.told, *(record.figures for record in entry.records))
    ]
    return list(dict.fromkeys(Path(each) for each in told if isinstance(each, str) and each))


def of_operation(cluster: Cluster, entry: Operation) -> list[tuple[Path, RecoveryExport | None]]:
    """Return the folders to which an operation exported, and the export if it is still there."""
    found = [(folder, find(cluster, folder.name)) for folder in exported(entry)]
    return [
        (folder, there if there is not None and there.folder == folder else None)
        for folder, there in found
    ]
