"""The data of nodes that are all on this host.

A method imports what it runs: ``status`` needs none of it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.cluster.installation import Installation, home_from_environment
from indico_zodbrepl.cluster.layout import data_fs
from indico_zodbrepl.cluster.lookup import node_named
from indico_zodbrepl.errors import OperatorError

if TYPE_CHECKING:
    from indico_zodbrepl.host.data_end import DataEnd
    from indico_zodbrepl.host.data_interface import Backups, Report
    from indico_zodbrepl.host.datafs_answers import (
        BlobAudit,
        Comparison,
        Copy,
        DataFile,
        Export,
        Last,
        Truncation,
    )
    from indico_zodbrepl.host.fencing import Held
    from indico_zodbrepl.host.node_files import NodeFile, Origin
    from indico_zodbrepl.host.packing import Packed
    from indico_zodbrepl.host.replacing import StagedCopy
    from indico_zodbrepl.host.sql_export import Divergent
    from indico_zodbrepl.host.statistics import Kept, Source
    from indico_zodbrepl.host.statistics import Progress as Walked
    from indico_zodbrepl.host.verifying import Verified


class LocalData:
    """See ``data_interface.DataHost``."""

    def __init__(self, cluster: Cluster, installation: Installation | None = None) -> None:
        self._cluster = cluster
        self._installation = installation or Installation(home_from_environment())

    # What there is

    def has_folder(self, name: str) -> bool:
        return self._node(name).data_directory.is_dir()

    def has_data(self, name: str) -> bool:
        return backend_of(self._cluster).has_data(self._cluster, self._node(name))

    def data_file(self, name: str) -> DataFile | None:
        from indico_zodbrepl.host import datafs

        return datafs.found(self._data(name))

    def data_end(self, name: str) -> DataEnd | None:
        from indico_zodbrepl.host import data_end

        return data_end.read(self._installation, self._data(name))

    def check_readable(self, name: str) -> None:
        file = self._data(name)
        try:
            with file.open("rb"):
                pass
        except OSError as error:
            raise OperatorError(f"{file}: {error.strerror}") from error

    def blob_bytes(self, name: str) -> int:
        from indico_zodbrepl.host import node_files

        return sum(each.bytes for each in node_files.blobs_in(self._node(name).data_directory))

    def audit_blobs(self, name: str) -> BlobAudit | None:
        from indico_zodbrepl.host import datafs

        file = backend_of(self._cluster).data_file(self._node(name))
        if file is None or not file.exists():
            return None
        return datafs.audit_blobs(self._installation, file)

    def lock(self, name: str) -> Held | None:
        from indico_zodbrepl.host import fencing

        node = self._node(name)
        return fencing.look(node) if fencing.path_of(node).exists() else None

    def half_packed(self, name: str) -> OperatorError | None:
        from indico_zodbrepl.host import following

        data = self._data(name)
        try:
            following.refuse(self._node(name))
        except OperatorError as error:
            return error if data.with_name(f"{data.name}.old").exists() else None
        return None

    # Data files

    def last_transaction(self, name: str) -> Last:
        from indico_zodbrepl.host import datafs

        return datafs.last(self._installation, self._data(name))

    def digest(self, name: str, tid: str) -> str:
        from indico_zodbrepl.host import datafs

        return datafs.digest(self._installation, self._data(name), tid)

    def compare(
        self, name: str, upstream: str, verified: str | None = None, **options: Any
    ) -> Comparison:
        from indico_zodbrepl.host import comparing

        node, other = self._node(name), self._node(upstream)
        return comparing.compare(
            self._cluster, self._installation, node, other, verified, **options
        )

    def compare_new(self, name: str, upstream: str, *, full: bool = False) -> Comparison:
        from indico_zodbrepl.host import following

        return following.compare(self._cluster, self._installation, name, upstream, full=full)

    def export(self, name: str, after: str, folder: Path, *, damaged: bool = False) -> Export:
        from indico_zodbrepl.host import datafs

        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return datafs.export(self._installation, self._data(name), after, folder, damaged=damaged)

    def truncate(self, name: str, after: str, keep: Path, *, dry_run: bool = False) -> Truncation:
        from indico_zodbrepl.host import confirmed_commits, datafs

        if not dry_run:
            confirmed_commits.distrust(
                self._cluster, self._node(name), f"its data were truncated after {after}"
            )
        return datafs.truncate(self._installation, self._data(name), after, keep, dry_run=dry_run)

    def export_divergent(
        self, name: str, upstream: str, folder: Path, *, seconds: float
    ) -> Divergent:
        from indico_zodbrepl.host import sql_export

        return sql_export.export_divergent(
            self._cluster,
            self._installation,
            self._node(name),
            self._node(upstream),
            folder=folder,
            seconds=seconds,
        )

    def pack(
        self, name: str, conf: Path, days: float, on_progress: Callable[[float], None]
    ) -> Packed:
        from indico_zodbrepl.host import packing

        node = self._node(name) if name else self._cluster.nodes[0]
        file = backend_of(self._cluster).data_file(node)
        return packing.pack(self._installation, conf, days, on_progress, file)

    def verify(self, name: str, primary: str) -> Verified | None:
        from indico_zodbrepl.host import verifying

        return verifying.verify(self._cluster, self._installation, name, primary)

    # Read by a copy on another host

    def origin(self, name: str) -> Origin:
        from indico_zodbrepl.host import node_files

        return node_files.origin(self._installation, self._node(name))

    def block_digests(self, name: str, identity: str, begin: int, end: int) -> list[str]:
        from indico_zodbrepl.host import node_files

        return node_files.block_digests(self._node(name), identity, begin, end)

    def blobs(self, name: str) -> list[NodeFile]:
        from indico_zodbrepl.host import node_files

        return node_files.blobs(self._node(name))

    # The whole database

    def database(self, name: str | None) -> Source:
        from indico_zodbrepl.host import statistics

        return statistics.source(self._cluster, name)

    def statistics(
        self,
        where: Source,
        top: int,
        *,
        history: bool = True,
        on_progress: Callable[[Walked], None] | None = None,
    ) -> dict[str, Any]:
        from indico_zodbrepl.host import statistics

        return statistics.statistics(
            self._installation, where, top, history=history, on_progress=on_progress
        )

    def keep_statistics(self, kept: Kept) -> None:
        from indico_zodbrepl.host import statistics

        statistics.keep(self._cluster, kept)

    # Replace the data

    def aside(self, name: str, why: str, now: float) -> Path:
        from indico_zodbrepl.host import replacing

        return replacing.aside(self._node(name), why, now)

    def has_aside(self, name: str, folder: Path) -> bool:
        self._node(name)
        return folder.exists()

    def put_aside(self, name: str, folder: Path) -> None:
        from indico_zodbrepl.host import replacing

        replacing.put_aside(self._cluster, self._node(name), folder)

    def staged_copy(self, name: str) -> StagedCopy:
        from indico_zodbrepl.host import replacing

        return replacing.staged(self._node(name))

    def stage_copy(self, name: str, source: str, on_progress: Report, *, seconds: float) -> Copy:
        from indico_zodbrepl.host import replacing

        return replacing.stage(
            self._cluster,
            self._installation,
            self._node(name),
            self._node(source),
            on_progress,
            seconds=seconds,
        )

    def swap_copy(self, name: str, aside: Path) -> bool:
        from indico_zodbrepl.host import replacing

        return replacing.swap(self._cluster, self._node(name), aside)

    def backups(self) -> Backups:
        from indico_zodbrepl.host.restoring import LocalBackups

        return LocalBackups(self._cluster, self._installation)

    def _node(self, name: str) -> Node:
        return node_named(self._cluster, name)

    def _data(self, name: str) -> Path:
        return data_fs(self._node(name))
