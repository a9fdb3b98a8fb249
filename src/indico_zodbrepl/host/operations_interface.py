"""The part of the host interface that keeps operations: their lock, their files, the journal.

With several hosts each keeps a copy of all operations' files and of the journal, so that a command
on any host continues what one on another has begun.  To a host a file is a text with a version, and
a line of the journal one with an id and a version; what they say is known to ``operations`` alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from indico_zodbrepl.errors import ExitCode, OperatorError


@dataclasses.dataclass(frozen=True, order=True)
class Holder:
    """The command that holds the lock of operations.

    Attributes:
        pid: its process; 0 if that is unknown.
        host: the name of its host; empty without host sections.
        key: distinguishes it from all others.
        who: who gave the command; empty if that is unknown.
    """

    pid: int
    host: str = ""
    key: str = ""
    who: str = ""

    def __str__(self) -> str:
        where = f" on host {self.host}" if self.host else ""
        by = f", {self.who}" if self.who else ""
        return f"process {self.pid or 'unknown'}{where}{by}"


class LockHeldError(OperatorError):
    """Another command holds the lock of operations.

    Args:
        detail: what it does.
    """

    def __init__(self, holder: Holder | None, detail: str = "") -> None:
        self.holder = holder or Holder(0)
        super().__init__(
            f"another operation is running ({self.holder})",
            detail,
            hint="wait until it ends, then retry",
            exit_code=ExitCode.REFUSED,
        )


class LockLostError(OperatorError):
    """A command has lost the lock, or another one has continued its operation: it must stop."""


@dataclasses.dataclass(frozen=True)
class Index:
    """What a host has of operations.

    Attributes:
        digest: equal on two hosts that have the same.
        documents: the version of each operation's file, by name.
        lines: the version of the last line of the journal, by id.
    """

    digest: str
    documents: Mapping[str, int]
    lines: Mapping[str, int]


@dataclasses.dataclass(frozen=True)
class Texts:
    """Files of operations by name, and lines of the journal."""

    documents: Mapping[str, str] = dataclasses.field(default_factory=dict)
    lines: Sequence[str] = ()

    def __bool__(self) -> bool:
        return bool(self.documents or self.lines)


class Lock(Protocol):
    """The lock of operations while it is held."""

    def check(self) -> None:
        """Raise LockLostError if it is not held any more."""

    def announce_stop(self, node: str) -> None:
        """Let nobody replace a node while its server is stopped on purpose."""


class OperationsHost(Protocol):
    """Operations: one at a time, and their files.

    ``host`` is the name of a host section; it is ignored without host sections.
    """

    # Of one host

    def lock_holder(self, host: str) -> Holder | None:
        """Return who holds the lock of a host; None if nobody does."""

    def operations_index(self, host: str, known: str = "") -> Index:
        """Return what a host has; only the digest if that is ``known``."""

    def operations_texts(self, host: str, documents: Sequence[str], lines: Sequence[str]) -> Texts:
        """Return files of operations by name, and the last lines of the journal by id."""

    def keep_operations(self, host: str, texts: Texts) -> None:
        """Write what is newer than what a host has; it is on disk when this returns.

        Raises LockLostError if the host has a newer file or another one of the same version.
        """

    # Of all hosts; commands on this host only

    def hold_lock(self, *, preempting: bool = False) -> AbstractContextManager[Lock]:
        """Hold the locks of this host and of a majority of all hosts.

        With ``automatic`` the lock is in etcd; ``preempting`` takes it from any holder.

        Raises LockHeldError; OperatorError (exit 8) if too few hosts answer.
        """

    def lock_holders(self) -> list[Holder]:
        """Return who holds locks of operations, on any host that answers."""

    def likely_lock_holder(self, host: str = "") -> Holder | None:
        """Return who holds the lock of a host, for repeated checks; None if that is unknown.

        Args:
            host: empty for this one.  With ``automatic`` only the host on which a command runs has
                that command's lock.
        """

    def spread_operations(self, texts: Texts, *, majority: bool) -> None:
        """Write files and lines on this host and all others that can be reached.

        Args:
            majority: raise OperatorError unless a majority of the hosts has them; else it is
                enough that this host has.
        """

    def catch_up(self) -> list[str]:
        """Copy what other hosts have and this one lacks; return the hosts that do not answer."""
