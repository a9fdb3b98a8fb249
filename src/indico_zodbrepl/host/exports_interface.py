"""The part of the host interface that concerns recovery exports: folders in VAR/lost-tails.

An export is made on the host of the node whose transactions it has, and stays there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol


@dataclasses.dataclass(frozen=True)
class KeptExport:
    """What a folder of an export holds.

    Attributes:
        transactions: how many; None if its list can't be read.
        after: the last transaction that the cluster has; empty if its list can't be read.
        names: of its objects; the last item may count further ones.
        truncated: True if the node's data file was, or was to be, truncated after the export.
    """

    transactions: int | None
    after: str
    names: tuple[str, ...]
    truncated: bool


@dataclasses.dataclass(frozen=True)
class Listed:
    """A transaction of an export.

    Attributes:
        time: of its commit, ISO 8601 in UTC.
        objects: number of objects that it wrote.
        named: the objects that have a title.
    """

    tid: str
    time: str
    user: str
    description: str
    objects: int
    named: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class RecoveryExport:
    """A recovery export.

    Attributes:
        at: seconds since 1970.
        file: the data file that it comes from.
        after: the last transaction that the cluster has.
        names: names of its objects; the last item may count further ones.
        problem: why its list is unusable; empty if it is usable.
        host: the name of the host that has it; empty without host sections.
    """

    folder: Path
    at: float
    file: str = ""
    after: str = ""
    transactions: tuple[Listed, ...] = ()
    names: tuple[str, ...] = ()
    problem: str = ""
    host: str = ""

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def objects(self) -> int:
        return sum(each.objects for each in self.transactions)


class ExportsHost(Protocol):
    """Recovery exports.

    ``name`` is the name of a node, ``host`` that of a host section, which is ignored without host
    sections.  All raise OperatorError.
    """

    # Of a node

    def exported_before(self, name: str, after: str) -> Path | None:
        """Return the newest folder with all that a node's file holds after a transaction."""

    def export_covers(self, name: str, folder: Path, after: str) -> bool:
        """Return True if a folder has exactly the transactions after one of a node's file."""

    def kept_export(self, name: str, folder: Path) -> KeptExport | None:
        """Return what a node's export holds; None if there is no such folder."""

    def names_after(self, name: str, after: str) -> list[str]:
        """Return the names of the objects that a node's file has after a transaction."""

    def same_export(self, name: str, folder: Path) -> Path:
        """Return an earlier export with the same content, and remove this one; else this one."""

    # Of one host

    def exports(self, host: str, wanted: str = "") -> list[RecoveryExport]:
        """Return all exports of a host, newest first, or only that of a name."""

    def recover(self, host: str, folder: Path, words: Sequence[str]) -> dict[str, Any]:
        """Run ``dataplane.recover.program`` with an export of a host; return its answer."""

    def recover_event(self, host: str, folder: Path, words: Sequence[str]) -> dict[str, Any]:
        """Run ``dataplane.recover.event`` with an export of a host; return its answer."""

    # Of all hosts; commands on this host only

    def every_export(self, wanted: str = "") -> list[RecoveryExport]:
        """Return the exports of all hosts that answer, newest first, or only those of a name."""

    def packed_export(self, export: RecoveryExport) -> Iterator[bytes]:
        """Yield a zip file of an export, as ``exports.packed``."""
