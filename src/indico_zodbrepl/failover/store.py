"""The files of operations, and the lock that lets only one of them work at a time."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path

from ..cluster import Cluster
from ..cluster.commands import Commands
from ..cluster.files import sync_folder
from ..cluster.layout import Layout
from ..errors import ExitCode, OperatorError
from ..node.files import write_atomically
from ..node.locking import note_pid
from . import journal, operation
from .operation import Operation, operation_from_json

LOOK_SECONDS = 0.5
"""After which the lock of operations is somebody's who works, not only looks."""


def save(cluster: Cluster, operation: Operation) -> None:
    """Write an operation's file; it is on disk when this returns.  Raises OperatorError."""
    path = Layout(cluster).operation(operation.identifier)
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        write_atomically(path, json.dumps(operation.to_json(), indent=1) + "\n", 0o640)
    except OSError as error:
        raise OperatorError("the operation's progress can't be written",
                            f"{path}: {error.strerror}",
                            "is the disk full, or the folder another user's?") from error


def forget(cluster: Cluster, operation: Operation) -> None:
    """Remove the file of an operation that did not begin after all."""
    Layout(cluster).operation(operation.identifier).unlink(missing_ok=True)


def unfinished(cluster: Cluster) -> Operation | None:
    """The operation that has begun and not ended; it may be at work right now.

    Raises OperatorError (exit 8) when the file of an operation of which the journal does not say
    that it has ended can't be used.
    """
    damaged: list[Damaged] = []
    found = None
    for path in sorted(Layout(cluster).operations.glob("*.json"), reverse=True):
        try:
            read = _read(path)
        except _DamagedError as error:
            damaged.append(Damaged(path, str(error)))
        else:
            if found is None and read.outcome.is_open:
                found = read
    in_the_way = _not_ended(cluster, damaged)
    if in_the_way:
        resume = Commands.here(cluster).zodbrepl("resume")
        raise OperatorError(
            "an operation's file can't be used",
            "\n".join(f"{each.path}: {each.problem}" for each in in_the_way),
            f"see how far it had come ({Commands.here(cluster).zodbrepl('journal')}) and what is "
            f"({Commands.here(cluster).zodbrepl('status')}); then "
            f"{resume} --abandon --reason WHY (keeps the file under another name)",
            ExitCode.REFUSED)
    return found


def read(cluster: Cluster, identifier: str) -> Operation | None:
    """One operation as it stands; None when it has no file that can be used."""
    try:
        return _read(Layout(cluster).operation(identifier))
    except (_DamagedError, OperatorError):
        return None


def of_process(cluster: Cluster, pid: int, since: float,
               until: float | None = None) -> Operation | None:
    """The operation that a process began; None if it has none.

    Args:
        since, until: when the process began and ended, seconds since 1970; None: it runs.
    """
    first = operation.stamp(since)
    for path in sorted(Layout(cluster).operations.glob("*.json"), reverse=True):
        if path.name < first:
            break
        found = read(cluster, path.stem)
        if found is not None and found.pid == pid and (until is None or found.began <= until):
            return found
    return None


def history(cluster: Cluster) -> str:
    """What stands for all operations that have begun: another text after each further one."""
    names = sorted(path.name for path in Layout(cluster).operations.glob("*.json"))
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]


def refuse_since(cluster: Cluster, then: str) -> None:
    """Raise OperatorError (exit 8) when an operation has begun since ``history`` was ``then``."""
    if then and history(cluster) != then:
        raise OperatorError(
            "the situation has changed since the plan was shown",
            "another operation was begun meanwhile; nothing was changed",
            "look at the new plan, then decide again", ExitCode.REFUSED)


def refuse_another(cluster: Cluster, expected: str) -> None:
    """Raise OperatorError (exit 8) when another operation is open than the one that was shown.

    Raises as ``the_open_one`` as well, unless nothing is expected.
    """
    found = the_open_one(cluster).identifier if expected else ""
    if found != expected:
        raise OperatorError("the situation has changed since the plan was shown",
                            f"{found} is open, not {expected}; nothing was changed",
                            "look at what is open, then decide again", ExitCode.REFUSED)


def the_open_one(cluster: Cluster) -> Operation:
    """As ``unfinished``, but raises OperatorError (exit 6) when every operation has ended."""
    found = unfinished(cluster)
    if found is None:
        raise OperatorError("there is nothing to resume", "every operation has ended",
                            exit_code=ExitCode.NOT_RUNNING)
    return found


def damaged(cluster: Cluster) -> list[Damaged]:
    """Files of operations that can't be used, whether these have ended or not.

    Raises OperatorError (exit 1) when a file can't be read at all.
    """
    found = []
    for path in sorted(Layout(cluster).operations.glob("*.json")):
        try:
            _read(path)
        except _DamagedError as error:
            found.append(Damaged(path, str(error)))
    return found


def put_away(found: Damaged) -> Path:
    """Keep a file that can't be used under another name; returns that.  Raises OperatorError."""
    kept = found.path.with_name(f"{found.path.name}.damaged")
    try:
        found.path.rename(kept)
        sync_folder(kept.parent)
    except OSError as error:
        raise OperatorError("the operation's file can't be moved away",
                            f"{found.path}: {error.strerror}") from error
    return kept


@dataclasses.dataclass(frozen=True)
class Damaged:
    """The file of an operation that can't be used, and what is wrong with it."""

    path: Path
    problem: str

    @property
    def identifier(self) -> str:
        """The operation's, by the file's name."""
        return self.path.stem


class _DamagedError(Exception):
    """What is wrong with a file that could be read."""


def _read(path: Path) -> Operation:
    try:
        return operation_from_json(json.loads(path.read_bytes().decode("utf-8")))
    except OSError as error:
        raise OperatorError("an operation's file can't be read", f"{path}: {error.strerror}",
                            "is it another user's? then run this as that user") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _DamagedError(f"{type(error).__name__}: {error}") from error


def _not_ended(cluster: Cluster, found: list[Damaged]) -> list[Damaged]:
    """Those of which the journal, which is written first, does not say that they have ended."""
    if not found:
        return []
    ended = {entry.identifier for entry in journal.read(cluster)[0] if not entry.outcome.is_open}
    return [each for each in found if each.identifier not in ended]


@contextlib.contextmanager
def alone(cluster: Cluster) -> Iterator[None]:
    """Hold the lock of operations, which the end of this process sets free in any case.

    Raises OperatorError (exit 8): another operation is at work, it says which.
    """
    path = Layout(cluster).operation_lock
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = open(path, "a+", encoding="ascii")  # noqa: SIM115 - closed by the block below
    except OSError as error:
        raise _unusable_lock(cluster, error) from error
    with lock:
        if not _taken(lock.fileno()):
            raise _busy(cluster)
        note_pid(lock.fileno())
        yield


def _taken(descriptor: int) -> bool:
    """Whether the lock could be had; who only looks at it has it for an instant."""
    deadline = time.monotonic() + LOOK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(LOOK_SECONDS / 50)
        else:
            return True


def refuse_at_work(cluster: Cluster) -> None:
    """Raise OperatorError (exit 8) when an operation is at work; for who looks once.

    Shares the lock for an instant and changes nothing.
    """
    try:
        with Layout(cluster).operation_lock.open("rb") as lock:
            fcntl.flock(lock.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return
    except BlockingIOError:
        raise _busy(cluster) from None
    except OSError as error:
        raise _unusable_lock(cluster, error) from error


def is_at_work(cluster: Cluster) -> bool:
    """Whether a process holds the lock of operations; for who asks again and again.

    To find out takes the lock for an instant, in which nobody else could begin.  So it is tried
    only while the process that noted itself in it lives: then that is most likely the holder.
    """
    try:
        pid = int(Layout(cluster).operation_lock.read_text("ascii"))
    except (OSError, ValueError):
        return False
    if not Path(f"/proc/{pid}").exists():
        return False
    try:
        refuse_at_work(cluster)
    except OperatorError:
        return True
    return False


def refuse_open(cluster: Cluster) -> None:
    """Raise OperatorError (exit 8) when an operation is at work or has not ended.

    For a dry run: it says what the command itself would, and changes nothing.
    """
    refuse_at_work(cluster)
    refuse_unfinished(cluster)


def refuse_unfinished(cluster: Cluster) -> None:
    """Raise OperatorError (exit 8) when an operation has begun and not ended."""
    found = unfinished(cluster)
    if found is not None:
        resume = Commands.here(cluster).zodbrepl("resume")
        raise OperatorError(
            f"{found.plan.name} has begun and not ended",
            f"{found.identifier}, by {found.actor}: {found.outcome}; "
            f"process {found.pid} no longer works on it",
            f"{resume} (go on) or {resume} --undo (take it back) or "
            f"{resume} --abandon --reason WHY (leave it as it is)", ExitCode.REFUSED)


def _unusable_lock(cluster: Cluster, error: OSError) -> OperatorError:
    return OperatorError(
        "the lock of operations can't be used",
        f"{Layout(cluster).operation_lock}: {error.strerror}",
        "is it another user's? then run this as that user", ExitCode.REFUSED)


def _busy(cluster: Cluster) -> OperatorError:
    path = Layout(cluster).operation_lock
    pid = path.read_text("ascii").strip() or "unknown"
    try:
        found = unfinished(cluster)
    except OperatorError:
        found = None  # who ends first tells of it
    what = (f"{found.plan.name}, {found.identifier}, by {found.actor}"
            if found is not None else "it has not told yet what it does")
    return OperatorError(f"another operation is at work (process {pid})", what,
                         "wait until it has ended", ExitCode.REFUSED)
