"""The journal: who changed what, when, why and with which result.

``VAR/journal.jsonl`` holds one JSON object a line: an operation, as ``Operation.to_json`` returns
it, when it begins and again when it ends.  Of several lines with one id the last one counts; with
several hosts, whose lines come in any order, that of the highest version.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.interface import host_of
from indico_zodbrepl.host.operation_files import append_line
from indico_zodbrepl.host.operations_interface import Texts
from indico_zodbrepl.operations import operation
from indico_zodbrepl.operations.model import JsonValue, Plan
from indico_zodbrepl.operations.operation import Operation, Outcome

FileState = tuple[int, int, int]
"""Inode, size and time of the last change of the journal's file."""


def append(cluster: Cluster, entry: Operation) -> None:
    """Append a line; it is on disk when this returns, and never mixed with another writer's.

    With several hosts all that can be reached get it.  Raises OperatorError.
    """
    line = json.dumps(entry.to_json(), separators=(",", ":"))
    if cluster.hosts:
        host_of(cluster).spread_operations(Texts({}, [line]), majority=False)
    else:
        append_line(Layout(cluster).journal, line.encode())


def note(
    cluster: Cluster,
    what: str,
    subject: str,
    reason: str,
    actor: str,
    *,
    told: Mapping[str, JsonValue] | None = None,
) -> Operation:
    """Append an entry for something that is done at once and has no plan; return it.

    Args:
        what: the kind of operation, one word.
        subject: what it was about.
        told: its figures; None without any.

    Raises OperatorError.
    """
    now = time.time()
    plan = Plan(what, subject, "", reason, 0, (), None, ())
    begun = operation.new(cluster.name, plan, actor, now, cluster.here)
    entry = begun.later(ended=now, outcome=Outcome.DONE, told=dict(told or {}))
    append(cluster, entry)
    return entry


def state(cluster: Cluster) -> FileState | None:
    """Return what changes with each change of the file; None if there is none.

    Raises OperatorError.
    """
    path = Layout(cluster).journal
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise OperatorError("the journal can't be read", f"{path}: {error.strerror}") from error
    return found.st_ino, found.st_size, found.st_mtime_ns


def read(cluster: Cluster, part: bytes = b"") -> tuple[list[Operation], list[str]]:
    """Return all operations in the order of their beginning, and a notice for each damaged line.

    Args:
        part: read only lines that contain it.

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
        if not line or part not in line:
            continue
        try:
            entry = operation.operation_from_json(json.loads(line))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            notices.append(_unusable(path, number, last=number == len(lines), error=error))
        else:
            known = entries.get(entry.identifier)
            if known is None or entry.version >= known.version:
                entries[entry.identifier] = entry
    found = list(entries.values())
    return sorted(found, key=lambda each: each.began) if cluster.hosts else found, notices


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
        cluster.here,
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
                begun.later(
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
            begun.later(
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
