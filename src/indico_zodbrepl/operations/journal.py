"""The journal: who changed what, when, why and with which result.

``VAR/journal.jsonl`` holds one JSON object a line: an operation, as ``Operation.to_json`` returns
it, when it begins and again when it ends.  Of several lines with one id the last one counts.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.operations import operation
from indico_zodbrepl.operations.model import JsonValue, Plan
from indico_zodbrepl.operations.operation import Operation, Outcome


def append(cluster: Cluster, entry: Operation) -> None:
    """Append a line; it is on disk when this returns, and never mixed with another writer's.

    A torn line that a crash left is terminated first.  On a full disk the journal stays as it was.
    Raises OperatorError.
    """
    path = Layout(cluster).journal
    line = json.dumps(entry.to_json(), separators=(",", ":")).encode() + b"\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o640)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            _add(descriptor, line)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise OperatorError(
            "the journal can't be written",
            f"{path}: {error.strerror}",
            "is the disk full, or is the file another user's?",
        ) from error


def _add(descriptor: int, line: bytes) -> None:
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        line = b"\n" + line
    try:
        while line:
            line = line[os.write(descriptor, line) :]
        os.fsync(descriptor)
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, size)
        raise


def read(cluster: Cluster) -> tuple[list[Operation], list[str]]:
    """Return all operations in the order of their beginning, and a notice for each damaged line.

    Raises OperatorError if the file exists but is unreadable.
    """
    path = Layout(cluster).journal
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return [], []
    except OSError as error:
        raise OperatorError("the journal can't be read", f"{path}: {error.strerror}") from error
    entries: dict[str, Operation] = {}
    notices = []
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            entry = operation.operation_from_json(json.loads(line))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            notices.append(_unusable(path, number, last=number == len(lines), error=error))
        else:
            entries[entry.identifier] = entry
    return list(entries.values()), notices


def find(entries: Sequence[Operation], identifier: str) -> Operation:
    """Return the operation of that id, or the only one whose id begins with it.

    Raises OperatorError (exit 2) if there is none, or more than one.
    """
    found = [entry for entry in entries if entry.identifier.startswith(identifier)]
    exact = [entry for entry in found if entry.identifier == identifier]
    if len(exact or found) != 1:
        known = ", ".join(entry.identifier for entry in (found or entries[-5:]))
        raise OperatorError(
            f"the journal has {len(found)} operations {identifier!r}",
            f"there are: {known}" if known else "it is empty",
            exit_code=ExitCode.BAD_CONFIG,
        )
    return (exact or found)[0]


def _unusable(path: Path, number: int, *, last: bool, error: Exception) -> str:
    if last:
        return f"{path}:{number}: torn; the program was killed while it wrote this line"
    return f"{path}:{number}: no entry of a journal: {type(error).__name__}: {error}"


@dataclasses.dataclass
class Told:
    """The result of an operation without a plan; see ``journaled``.

    Attributes:
        epoch: the epoch that it began, if that was not known before.
        outcome: its outcome unless it fails.
    """

    figures: dict[str, JsonValue] = dataclasses.field(default_factory=dict)
    remark: str = ""
    epoch: int | None = None
    outcome: Outcome = Outcome.DONE


@contextlib.contextmanager
def journaled(
    cluster: Cluster,
    what: str,
    subject: str,
    reason: str,
    epoch: int = 0,
    *,
    otherwise: Callable[[str], None] | None = None,
) -> Iterator[Told]:
    """Journal something without a plan: that it begins, then its outcome.

    It leaves an entry also when it fails (outcome ``stopped``) or its process is killed
    (``running``).

    Args:
        what: the kind of operation, one word.
        subject: the node it was about.
        epoch: the epoch that it began, if it did.
        otherwise: called with one line if the journal cannot be written, for operations that must
            proceed nevertheless.  None: nothing begins then, and OperatorError is raised.
    """
    begun = operation.new(
        cluster.name,
        Plan(what, subject, "", reason, epoch, (), None, ()),
        operation.actor(),
        time.time(),
    )

    def put(entry: Operation) -> None:
        try:
            append(cluster, entry)
        except OperatorError as error:
            if otherwise is None:
                raise
            otherwise(f"{error.notice}: {error.detail}")

    put(begun)
    told = Told()
    try:
        yield told
    except BaseException as error:
        with contextlib.suppress(OperatorError):  # the failure itself is raised
            put(
                dataclasses.replace(
                    begun,
                    ended=time.time(),
                    outcome=Outcome.STOPPED,
                    told=told.figures,
                    remark=str(error) or type(error).__name__,
                )
            )
        raise
    if told.epoch is not None:
        begun = dataclasses.replace(begun, plan=dataclasses.replace(begun.plan, epoch=told.epoch))
    try:
        put(
            dataclasses.replace(
                begun,
                ended=time.time(),
                outcome=told.outcome,
                told=told.figures,
                remark=told.remark,
            )
        )
    except OperatorError as error:
        raise OperatorError(
            f"{what} {subject} is done, but the journal says only that it began",
            error.detail,
            error.hint,
            error.exit_code,
        ) from error
