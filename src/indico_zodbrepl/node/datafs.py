"""Data.fs files, by the program of the data plane that knows their format.

Servers may have the files open, except where it says otherwise.  Every function raises
OperatorError; its exit code is REFUSED when a file is damaged or in use, TIMED_OUT when the
program did not end in time.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import subprocess
from pathlib import Path
from typing import Any

from ..cluster.installation import Installation
from ..errors import ExitCode, OperatorError

PROGRAM = "indico_zodbrepl.dataplane.datafs"
SECONDS = 60.0
COMPARE_SECONDS = 1800.0  # for reading two files of many gigabytes from a slow disk
# The program's exit status: damaged, in use, no such transaction.
EXIT_CODES = {4: ExitCode.REFUSED, 5: ExitCode.REFUSED, 6: ExitCode.REFUSED}
WHAT_FAILED = {
    "last": "the end of a data file can't be read",
    "digest": "a transaction can't be read",
    "compare": "two data files can't be compared",
}


@dataclasses.dataclass(frozen=True)
class Last:
    """The last complete transaction of a file.

    Attributes:
        tid: 16 hexadecimal digits; None when there is no transaction.
        time: when it was committed, ISO 8601 in UTC; None when there is none.
        end: position after it, in bytes.
        size: of the file, in bytes; more than ``end`` when an unfinished one follows.
    """

    tid: str | None
    time: str | None
    end: int
    size: int


class Relation(enum.StrEnum):
    """How a file's history relates to its upstream's."""

    EMPTY = "empty"
    EQUAL = "equal"
    BEHIND = "behind"
    AHEAD = "ahead"
    DIVERGED = "diverged"
    UNRELATED = "unrelated"

    @property
    def may_follow(self) -> bool:
        """Whether the file's node may start as that upstream's follower."""
        return self in {Relation.EMPTY, Relation.EQUAL, Relation.BEHIND}


@dataclasses.dataclass(frozen=True)
class Common:
    """A transaction that both files have, with the digest of its content."""

    tid: str
    digest: str


@dataclasses.dataclass(frozen=True)
class Comparison:
    """How a file's history relates to its upstream's; counts are transactions.

    Attributes:
        relation: the verdict.
        common: the last common transaction before the two go apart.
        private: those that only the file has; ``private_first`` and ``private_last`` are tids.
        missing: those that only the upstream has.
        holes: those of ``missing`` that are older than a common one, which a follower would
            never fetch.
        conflicting: those with the same tid and different content.
        packed: whether one of the files was packed.
        packed_away: those that only the file has, but that a pack of the upstream may have
            removed; ``packed_away_last`` is a tid.  When the node was writable since it was
            verified, and this is newer, transactions of its own may be among them.
        bytes_private: of the private and the conflicting ones, in the file.
        examined: transactions read one by one in both files.
    """

    relation: Relation
    common: Common | None
    private: int
    private_first: str | None
    private_last: str | None
    missing: int
    holes: int
    conflicting: int
    packed: bool
    packed_away: int
    packed_away_last: str | None
    bytes_private: int
    examined: int


def last(installation: Installation, file: Path) -> Last:
    """The last complete transaction of a file."""
    return Last(**_run(installation, SECONDS, "last", str(file)))


def digest(installation: Installation, file: Path, tid: str) -> str:
    """What identifies the content of one transaction; REFUSED when the file lacks it."""
    return str(_run(installation, SECONDS, "digest", str(file), tid)["digest"])


def compare(installation: Installation, file: Path, upstream: Path,
            verified: str | None = None, seconds: float = COMPARE_SECONDS) -> Comparison:
    """Compare a file's history with its upstream's.

    Args:
        installation: where Python 2.7 is.
        file: the Data.fs of the node that is to follow; counts as empty when it is missing.
        upstream: the Data.fs whose history is the right one.
        verified: a tid up to which the two are known to be the same, so that the cost grows
            with what came later; without it both files are read whole.
        seconds: time limit.
    """
    more = [] if verified is None else ["--verified", verified]
    answer = _run(installation, seconds, "compare", str(file), str(upstream), *more)
    common = answer.pop("common")
    return Comparison(relation=Relation(answer.pop("relation")),
                      common=Common(**common) if common else None, **answer)


def _run(installation: Installation, seconds: float, command: str, *arguments: str,
         ) -> dict[str, Any]:
    try:
        ended = subprocess.run(
            [installation.python27, "-m", PROGRAM, command, *arguments],
            capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired as error:
        raise _failure(command, f"it did not end within {seconds:g} seconds",
                       ExitCode.TIMED_OUT) from error
    except OSError as error:
        raise _failure(command, f"{installation.python27}: {error.strerror}",
                       ExitCode.NOT_INSTALLED) from error
    if ended.returncode:
        lines = ended.stderr.strip().splitlines()
        raise _failure(command, lines[-1] if lines else f"exit status {ended.returncode}",
                       EXIT_CODES.get(ended.returncode, ExitCode.FAILED))
    answer = json.loads(ended.stdout)
    if not isinstance(answer, dict):
        raise TypeError(f"{command} answered {answer!r}")
    return answer


def _failure(command: str, detail: str, exit_code: ExitCode) -> OperatorError:
    return OperatorError(WHAT_FAILED[command], detail, exit_code=exit_code)
