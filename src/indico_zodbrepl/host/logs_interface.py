"""The part of the host interface that concerns the logs of programs, in VAR/log of their host.

Passwords and tokens are masked before a line leaves its host.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from indico_zodbrepl.errors import OperatorError

MOST_LINES = 300
"""Lines of a log that are shown at once."""


@dataclasses.dataclass(frozen=True)
class LogLine:
    """A line of a program's log.

    Attributes:
        at: seconds since 1970.
        text: the line without its time, secrets masked.
        host: where the program runs; empty without host sections.
    """

    at: float
    program: str
    text: str
    host: str = ""


@dataclasses.dataclass(frozen=True)
class LogPart:
    """The newest matching lines of a log.

    Attributes:
        path: the log, on its host.
        lines: oldest first, secrets masked.
        cut: True if older ones may match too.
    """

    path: Path
    lines: tuple[str, ...]
    cut: bool


@dataclasses.dataclass(frozen=True)
class LogWarnings:
    """The warnings and errors of a period, and the decisions of the automation.

    Attributes:
        cut: programs whose log was not read to the end of the period.
    """

    lines: tuple[LogLine, ...]
    cut: tuple[str, ...]


class Logs(Protocol):
    """The logs of programs.

    ``host`` is the name of a host section; empty without host sections.  All raise OperatorError:
    exit 8 for a log that does not exist.
    """

    # Of one host

    def programs(self, host: str) -> list[str]:
        """Return the programs that have a log on a host, by name."""

    def part(
        self,
        host: str,
        program: str,
        *,
        text: str = "",
        most: int = MOST_LINES,
        warnings: bool = False,
    ) -> LogPart:
        """Return the newest matching lines of a program's log.

        Args:
            text: part of each line, regardless of case.
            warnings: True for lines with the level of a warning or error only.
        """

    def warnings(self, host: str, begins: float, ends: float) -> LogWarnings:
        """Return the warnings of a period in all logs of a host; see ``log_files.lines``."""

    # Of all hosts, and whole logs; commands on this host only

    def every(self) -> Mapping[str, list[str] | OperatorError]:
        """Return ``programs`` of each host, or why it does not tell."""

    def every_warning(
        self, begins: float, ends: float
    ) -> Mapping[str, LogWarnings | OperatorError]:
        """Return ``warnings`` of each host, or why it does not tell."""

    def whole(self, host: str, program: str) -> Iterator[bytes]:
        """Yield a program's log, secrets masked."""
