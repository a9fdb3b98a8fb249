"""One problem of a cluster file."""

from __future__ import annotations

import dataclasses

from indico_zodbrepl.cluster.places import Position


@dataclasses.dataclass(frozen=True)
class Problem:
    """One thing wrong, in one line."""

    where: Position
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"
