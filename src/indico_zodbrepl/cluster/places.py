"""Addresses of a cluster, lines of its file, and what is wrong in one.  Pure."""

from __future__ import annotations

import dataclasses
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclasses.dataclass(frozen=True)
class Position:
    """A line of a file; ``str`` gives ``file:line``."""

    file: Path
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclasses.dataclass(frozen=True)
class Problem:
    """One thing wrong in a cluster file, in one line."""

    where: Position
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


class Positions:
    """The line numbers of sections and keys in a cluster file.

    ``kind`` is the type of a section (host, node, indico, mail, admin, watch), or None for
    top-level keys; ``name`` is its name, or None for mail, admin and watch.
    """

    def __init__(self) -> None:
        self._lines: dict[tuple[str | None, str | None, str | None], Position] = {}

    def add(
        self, position: Position, kind: str | None, name: str | None, key: str | None = None
    ) -> None:
        """Record a position; the first one of a key is kept."""
        self._lines.setdefault((kind, name, key), position)

    def find(
        self, kind: str | None, name: str | None = None, key: str | None = None
    ) -> Position | None:
        """Return the line of a key, or of its section if the key has its default."""
        for exact in ((kind, name, key), (kind, name, None), (kind, None, key)):
            if exact in self._lines:
                return self._lines[exact]
        return None

    def section(self, name: str) -> Position | None:
        """Return the line where a section of this name begins, of any kind."""
        return next(
            (
                position
                for (_kind, other, key), position in self._lines.items()
                if other == name and key is None
            ),
            None,
        )


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """An address that a cluster listens on, and the key of cluster.conf that sets it."""

    kind: str
    name: str | None
    key: str
    address: Address

    def __str__(self) -> str:
        return f"{self.key} of {self.kind}" + (f" {self.name}" if self.name else "")
