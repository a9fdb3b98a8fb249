"""The recovery exports of this host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from indico_zodbrepl.host.local_operations import LocalOperations

if TYPE_CHECKING:
    from indico_zodbrepl.host.exports_interface import KeptExport, RecoveryExport


class LocalExports(LocalOperations):
    """See ``exports_interface.ExportsHost``."""

    def exported_before(self, name: str, after: str) -> Path | None:
        from indico_zodbrepl.host import exports

        return exports.exported_before(self._cluster, self._installation, self._node(name), after)

    def export_covers(self, name: str, folder: Path, after: str) -> bool:
        from indico_zodbrepl.host import exports

        return exports.covers(self._installation, self._node(name), folder, after)

    def kept_export(self, name: str, folder: Path) -> KeptExport | None:
        from indico_zodbrepl.host import exports

        self._node(name)
        return exports.kept(folder)

    def names_after(self, name: str, after: str) -> list[str]:
        from indico_zodbrepl.host import exports

        return exports.names_after(self._cluster, self._installation, self._node(name), after)

    def same_export(self, name: str, folder: Path) -> Path:
        from indico_zodbrepl.host import exports

        return exports.same(self._node(name).name, folder)

    def exports(self, host: str, wanted: str = "") -> list[RecoveryExport]:
        self._refuse_other_host(host)
        from indico_zodbrepl.host import exports

        if not wanted:
            return exports.every(self._cluster)
        found = exports.find(self._cluster, wanted)
        return [] if found is None else [found]

    def recover(self, host: str, folder: Path, words: Sequence[str]) -> dict[str, Any]:
        self._refuse_other_host(host)
        from indico_zodbrepl.host import recovering

        return recovering.recover(self._cluster, self._installation, folder, words)

    def recover_event(self, host: str, folder: Path, words: Sequence[str]) -> dict[str, Any]:
        self._refuse_other_host(host)
        from indico_zodbrepl.host import recovering

        return recovering.recover_event(self._cluster, self._installation, folder, words)

    def every_export(self, wanted: str = "") -> list[RecoveryExport]:
        return self.exports("", wanted)

    def packed_export(self, export: RecoveryExport) -> Iterator[bytes]:
        from indico_zodbrepl.host import exports

        return exports.packed(export.folder)
