"""The files of operations, and the lock that lets only one of them work at a time."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator

from ..cluster import Cluster
from ..cluster.commands import Commands
from ..cluster.layout import Layout
from ..errors import ExitCode, OperatorError
from ..node.files import write_atomically
from .operation import Operation, operation_from_json


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


def unfinished(cluster: Cluster) -> Operation | None:
    """The operation that has begun and not ended; it may be at work right now.

    Raises OperatorError (exit 8) when an operation's file can't be read.
    """
    for path in sorted(Layout(cluster).operations.glob("*.json"), reverse=True):
        try:
            found = operation_from_json(json.loads(path.read_text("utf-8")))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise OperatorError(
                "an operation's file can't be used", f"{path}: {type(error).__name__}: {error}",
                f"look how far it had come ({Commands.here(cluster).zodbrepl('journal')}), then "
                "move the file away",
                ExitCode.REFUSED) from error
        if found.outcome.is_open:
            return found
    return None


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
        raise OperatorError("the lock of operations can't be used", f"{path}: {error.strerror}",
                            "is it another user's? then run this as that user",
                            ExitCode.REFUSED) from error
    with lock:
        try:
            fcntl.flock(lock.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _busy(cluster) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


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


def _busy(cluster: Cluster) -> OperatorError:
    path = Layout(cluster).operation_lock
    pid = path.read_text("ascii").strip()
    found = unfinished(cluster)
    what = (f"{found.plan.name}, {found.identifier}, by {found.actor}"
            if found is not None else "it has not told yet what it does")
    return OperatorError(f"another operation is at work (process {pid})", what,
                         "wait until it has ended", ExitCode.REFUSED)
