"""The files of operations, and the lock that lets only one operation run at a time."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.files import sync_folder, write_atomically
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.interface import host_of
from indico_zodbrepl.host.operations_interface import Holder, Lock, LockHeldError, Texts
from indico_zodbrepl.operations import journal, operation
from indico_zodbrepl.operations.model import Plan
from indico_zodbrepl.operations.operation import Operation, Outcome, operation_from_json
from indico_zodbrepl.operations.refusals import gives_way
from indico_zodbrepl.probing.race import all_at_once


def save(cluster: Cluster, operation: Operation) -> None:
    """Write an operation's file; it is on disk when this returns.

    With several hosts it is on a majority of them.  Raises OperatorError; LockLostError if another
    command has continued the operation.
    """
    path = Layout(cluster).operation(operation.identifier)
    text = json.dumps(operation.to_json(), indent=1) + "\n"
    if cluster.hosts:
        texts = Texts({operation.identifier: text})
        host_of(cluster).spread_operations(texts, majority=True)
        return
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        write_atomically(path, text, 0o640)
    except OSError as error:
        raise OperatorError(
            "the operation's progress can't be written",
            f"{path}: {error.strerror}",
            "is the disk full, or the folder another user's?",
        ) from error


def forget(cluster: Cluster, operation: Operation) -> None:
    """Remove the file of an operation that did not begin; with several hosts, close it."""
    if cluster.hosts:
        why = "it did not begin: the journal could not be written"
        save(cluster, operation.later(outcome=Outcome.UNDONE, ended=time.time(), remark=why))
        return
    Layout(cluster).operation(operation.identifier).unlink(missing_ok=True)


def unfinished(cluster: Cluster) -> Operation | None:
    """Return the operation that has not ended; it may be running now.

    Raises OperatorError (exit 8) if an operation's file is damaged, and the journal does not say
    that this operation has ended.
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
            "the file of an operation is damaged",
            "\n".join(f"{each.path}: {each.problem}" for each in in_the_way),
            f"see its progress ({Commands.here(cluster).zodbrepl('journal')}) and the present "
            f"state ({Commands.here(cluster).zodbrepl('status')}); then "
            f"{resume} --abandon --reason WHY (keeps the file under another name)",
            ExitCode.REFUSED,
        )
    return found


def read(cluster: Cluster, identifier: str) -> Operation | None:
    """Return an operation; None if it has no usable file."""
    try:
        return _read(Layout(cluster).operation(identifier))
    except (_DamagedError, OperatorError):
        return None


def of_process(
    cluster: Cluster, pid: int, since: float, until: float | None = None
) -> Operation | None:
    """Return the operation that a process began; None if it began none.

    Args:
        since, until: when the process began and ended, seconds since 1970; None: it runs.
    """
    first = operation.stamp(since)
    for path in sorted(Layout(cluster).operations.glob("*.json"), reverse=True):
        if path.name < first:
            break
        found = read(cluster, path.stem)
        if (
            found is not None
            and found.was_begun_by(pid, cluster.here)
            and (until is None or found.began <= until)
        ):
            return found
    return None


def history(cluster: Cluster) -> str:
    """Return a text that changes with each operation that begins."""
    names = sorted(path.name for path in Layout(cluster).operations.glob("*.json"))
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]


def refuse_since(cluster: Cluster, then: str) -> None:
    """Raise OperatorError (exit 8) if an operation has begun since ``history`` was ``then``."""
    if then and history(cluster) != then:
        raise OperatorError(
            "the situation has changed since the plan was shown",
            "another operation was started meanwhile; nothing was changed",
            "read the new plan, then decide again",
            ExitCode.REFUSED,
        )


def refuse_another(cluster: Cluster, expected: str) -> None:
    """Raise OperatorError (exit 8) unless the open operation is the one that was shown.

    Raises as ``the_open_one`` as well, unless nothing is expected.
    """
    found = the_open_one(cluster).identifier if expected else ""
    if found != expected:
        raise OperatorError(
            "the situation has changed since the plan was shown",
            f"{found} is open, not {expected}; nothing was changed",
            "check the open operation, then decide again",
            ExitCode.REFUSED,
        )


def the_open_one(cluster: Cluster) -> Operation:
    """Return the operation as ``unfinished``; raise OperatorError (exit 6) if all have ended."""
    found = unfinished(cluster)
    if found is None:
        raise OperatorError(
            "there is nothing to resume",
            "every operation has ended",
            exit_code=ExitCode.NOT_RUNNING,
        )
    return found


def damaged_operations(cluster: Cluster) -> list[Damaged]:
    """Return the damaged files of operations, ended or not.

    Raises OperatorError (exit 1) if a file is unreadable.
    """
    found = []
    for path in sorted(Layout(cluster).operations.glob("*.json")):
        try:
            _read(path)
        except _DamagedError as error:
            found.append(Damaged(path, str(error)))
    return found


def put_away(found: Damaged) -> Path:
    """Rename a damaged file; return its new path.  Raises OperatorError."""
    kept = found.path.with_name(f"{found.path.name}.damaged")
    try:
        found.path.rename(kept)
        sync_folder(kept.parent)
    except OSError as error:
        raise OperatorError(
            "the operation's file can't be moved away", f"{found.path}: {error.strerror}"
        ) from error
    return kept


class UnfinishedError(OperatorError):
    """An operation was interrupted and has to end first."""


@dataclasses.dataclass(frozen=True)
class Damaged:
    """A damaged file of an operation, and its problem."""

    path: Path
    problem: str

    @property
    def identifier(self) -> str:
        """Return the operation's identifier, by the file's name."""
        return self.path.stem


class _DamagedError(Exception):
    """Raised when a file can be read but holds no operation."""


def _read(path: Path) -> Operation:
    try:
        return operation_from_json(json.loads(path.read_bytes().decode("utf-8")))
    except OSError as error:
        raise OperatorError(
            "an operation's file can't be read",
            f"{path}: {error.strerror}",
            "is it another user's? then run this as that user",
        ) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _DamagedError(f"{type(error).__name__}: {error}") from error


def _not_ended(cluster: Cluster, found: list[Damaged]) -> list[Damaged]:
    """Return the files whose operations have not ended by the journal, which is written first."""
    if not found:
        return []
    ended = {entry.identifier for entry in journal.read(cluster)[0] if not entry.outcome.is_open}
    return [each for each in found if each.identifier not in ended]


@contextlib.contextmanager
def alone(cluster: Cluster, *, preempting: bool = False) -> Iterator[Lock]:
    """Hold the lock of operations; the end of this process releases it in any case.

    ``preempting`` as of ``Host.hold_lock``.

    With several hosts this host then has all that other hosts know of operations.  Raises
    OperatorError (exit 8) that names the running operation.
    """
    with contextlib.ExitStack() as held:
        try:
            lock = held.enter_context(host_of(cluster).hold_lock(preempting=preempting))
        except LockHeldError as error:
            raise _busy(cluster, error.holder) from error
        refresh(cluster)
        yield lock


def refresh(cluster: Cluster) -> None:
    """Copy what other hosts know of operations to this one, as far as they answer.

    Raises OperatorError.
    """
    if cluster.hosts:
        host_of(cluster).catch_up()


def refuse_at_work(cluster: Cluster) -> None:
    """Raise OperatorError (exit 8) if an operation is running, on any host; for a single check."""
    for holder in host_of(cluster).lock_holders():
        raise _busy(cluster, holder)


def look_around(cluster: Cluster) -> None:
    """Do as ``refresh`` and ``refuse_at_work`` at once: a silent host makes each wait."""
    all_at_once([partial(refresh, cluster), partial(refuse_at_work, cluster)])


def is_at_work(cluster: Cluster, host: str = "") -> bool:
    """Return True if a process holds the lock of operations; for repeated checks.

    Args:
        host: of the operation that is looked for; empty for this one.
    """
    return host_of(cluster).likely_lock_holder(host) is not None


def refuse_open(
    cluster: Cluster, beginning: str = "", target: str | None = None
) -> Operation | None:
    """Raise OperatorError (exit 8) if an operation is running or was interrupted.

    For a dry run: changes nothing.  Arguments and result as of ``refuse_unfinished``.
    """
    look_around(cluster)
    return refuse_unfinished(cluster, beginning, target)


def refuse_unfinished(
    cluster: Cluster, beginning: str = "", target: str | None = None
) -> Operation | None:
    """Raise OperatorError (exit 8) if an operation was interrupted and has to end first.

    Args:
        beginning, target: the operation that is to begin, as of ``gives_way``.

    Returns:
        The interrupted operation that gives way to it; ``give_way`` closes it.
    """
    found = unfinished(cluster)
    if found is not None and not gives_way(
        found.plan.operation, found.plan.target, beginning, target
    ):
        resume = Commands.here(cluster).zodbrepl("resume")
        raise UnfinishedError(
            f"{found.plan.name} was interrupted",
            f"{found.identifier}, by {found.actor}: {found.outcome}; "
            f"{found.process} no longer works on it",
            f"{resume} (continue) or {resume} --undo (undo it) or "
            f"{resume} --abandon --reason WHY (leave it as it is)",
            ExitCode.REFUSED,
        )
    return found


def _busy(cluster: Cluster, holder: Holder) -> LockHeldError:
    try:
        found = unfinished(cluster)
    except OperatorError:
        found = None  # a damaged file is reported by the next command
    what = (
        f"{found.plan.name}, {found.identifier}, by {found.actor}"
        if found is not None
        else "it has not started its first step"
    )
    return LockHeldError(holder, what)


def abandon(cluster: Cluster, reason: str, expected: str = "") -> Operation:
    """Close the interrupted operation as it is.

    For an operation that cannot be completed, for example because its target died too.  One with a
    damaged file is closed from its journal entry; the remark names the renamed file.  ``expected``
    and errors as of ``executor.resume``.
    """
    with alone(cluster):
        damaged = damaged_operations(cluster)
        if damaged:
            return _abandon_damaged(cluster, damaged[0], reason)
        refuse_another(cluster, expected)
        return _leave(cluster, the_open_one(cluster), f"{operation.actor()}: {reason}")


def close(cluster: Cluster, expected: str, remark: str) -> None:
    """Close an interrupted operation as it is, for the automation.

    Errors as of ``refuse_another``.
    """
    with alone(cluster):
        refuse_another(cluster, expected)
        _leave(cluster, the_open_one(cluster), remark)


def give_way(cluster: Cluster, found: Operation, beginning: Plan) -> None:
    """Close an interrupted operation as it is, as another one begins.  Raises OperatorError."""
    _leave(cluster, found, f"gave way to the {beginning.name}")


def _leave(cluster: Cluster, found: Operation, remark: str) -> Operation:
    left = dataclasses.replace(found, host=cluster.here or "").later(
        outcome=Outcome.ABANDONED, ended=time.time(), remark=remark
    )
    journal.append(cluster, left)
    save(cluster, left)
    return left


def to_abandon(cluster: Cluster) -> tuple[str, str]:
    """Return what ``abandon`` would close: its identifier, and a damaged file that is renamed.

    Changes nothing.  Raises as ``executor.resume``.
    """
    look_around(cluster)
    damaged = damaged_operations(cluster)
    if damaged:
        return damaged[0].identifier, f"{damaged[0].path}: {damaged[0].problem}"
    return the_open_one(cluster).identifier, ""


def _abandon_damaged(cluster: Cluster, damaged: Damaged, reason: str) -> Operation:
    now = time.time()
    plan = Plan("resume", cluster.name, "", reason, 0, (), None, ())
    known = next(
        (entry for entry in journal.read(cluster)[0] if entry.identifier == damaged.identifier),
        operation.new(cluster.name, plan, operation.actor(), now, cluster.here),
    )
    kept = put_away(damaged)
    if known.outcome.is_open:
        known = dataclasses.replace(known, outcome=Outcome.ABANDONED, ended=now)
    left = known.later(
        identifier=damaged.identifier,
        remark=f"{operation.actor()}: {reason}; its file was damaged "
        f"({damaged.problem}), and is kept as {kept}",
    )
    journal.append(cluster, left)
    return left
