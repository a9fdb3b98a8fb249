"""Copy the files of a backup from the host that has them; an interrupted copy continues."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.files import sync_folder
from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.host.backup import BackupFolder, Tell
from indico_zodbrepl.host.node_files import BLOBS, BLOCK, NodeFile, Range
from indico_zodbrepl.host.part_file import PartFile, check_space
from indico_zodbrepl.host.receiving import failed
from indico_zodbrepl.host.receiving_files import FilesReceiver
from indico_zodbrepl.host.remote import client, node_data
from indico_zodbrepl.host.remote.client import AgentClient
from indico_zodbrepl.host.remote.codec import BACKUPS
from indico_zodbrepl.host.remote.streams import BackupRequest, Receiver

STREAM = "/backups/stream"


class _Files:
    """The files of a folder of backups on another host; ``receiving.Streams``."""

    def __init__(self, cluster: Cluster, folder: BackupFolder) -> None:
        self._cluster = cluster
        self._folder = folder
        self._agent = AgentClient(cluster, cluster.host(folder.host))

    def of(self, backup: str) -> list[NodeFile]:
        arguments = {"folder": self._folder, "backup": backup}
        found: list[NodeFile] = self._agent.call(f"{BACKUPS}files", arguments)
        return found

    @contextlib.contextmanager
    def stream(self, ranges: Sequence[Range]) -> Iterator[Receiver]:
        request = BackupRequest(
            self._cluster.name, client.actor(), list(ranges), str(self._folder.path)
        )
        with node_data.received(self._cluster, self._agent, STREAM, request) as receiver:
            yield receiver


def copy(cluster: Cluster, folder: BackupFolder, backup: str, target: Path, tell: Tell) -> None:
    """Copy a backup to a folder of this host.

    Files that an interrupted call copied stay: a backup never changes, and a restore verifies it.

    Args:
        backup: the name of its newest piece.

    Raises OperatorError: exit 7, the host does not answer; exit 8, it has no such backup.
    """
    files = _Files(cluster, folder)
    receiving = FilesReceiver(files, target, tell, math.inf)
    wanted = receiving.again(files.of, backup)
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    missing = receiving.lacking(wanted)
    check_space(target, sum(each.bytes for each in missing))
    if not receiving.fetch([each for each in wanted if _is_blob(each)]):
        raise failed(f"{folder} has some files of the backup no more", ExitCode.REFUSED)
    for each in missing:
        if _is_blob(each):
            continue
        path = target / each.name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        part = PartFile(path.with_name(f"{path.name}.part"))
        try:
            part.cut(min(part.size, each.bytes) // BLOCK * BLOCK)
            receiving.grow(part, Range(each.name, 0, each.bytes), "received")
            part.sync()
        finally:
            part.close()
        part.path.rename(path)
        sync_folder(path.parent)


def _is_blob(file: NodeFile) -> bool:
    return file.name.startswith(f"{BLOBS}/")
