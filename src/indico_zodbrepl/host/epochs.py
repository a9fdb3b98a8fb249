"""The records of the current epoch: the primary, recorded where nodes can read it.

The control host has one, and so does the host of each Indico instance.  In a cluster of several
hosts each host has one.  A record is only raised to a higher epoch, and changed to another primary
of the same one only if a majority of the records names that.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, formats
from indico_zodbrepl.cluster.files import put_aside, write_atomically
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.interface import HostAwayError, host_of
from indico_zodbrepl.host.locking import alone_in
from indico_zodbrepl.probing import times
from indico_zodbrepl.probing.race import Race

FORMAT = formats.EPOCH.known
KEYS = {"format": int, "cluster": str, "epoch": int, "primary": str, "at": str, "reason": str}
READ_SECONDS = 1.5
"""Seconds to read the records of other hosts."""
WRITE_SECONDS = 5.0
"""Seconds to raise the records of other hosts."""


@dataclasses.dataclass(frozen=True)
class EpochRecord:
    """A host's record of the current epoch.

    Attributes:
        primary: the only node that may accept writes in it.
        at: when the record was written, ISO 8601 in UTC.
        reason: why the epoch began, one line.
    """

    cluster: str
    epoch: int
    primary: str
    at: str
    reason: str


class DamagedRecordError(OperatorError):
    """A record is no JSON, or no record of any release."""


@dataclasses.dataclass(frozen=True)
class Raised:
    """The result of ``raise_everywhere``, by the host of each record.

    Attributes:
        written: the hosts whose record now has the epoch, in the order of ``paths``.
        failed: why the others' records do not, by host.
    """

    written: tuple[str, ...]
    failed: Mapping[str, str]


def seconds(at: str) -> float | None:
    """Return a time of ``times.now`` as seconds since 1970; None if it is invalid."""
    try:
        return datetime.datetime.fromisoformat(at).timestamp()
    except ValueError:
        return None


def paths(cluster: Cluster) -> dict[str, Path]:
    """Return the paths of this host's records; none without epochs.

    Without host sections these are all records, the control host's first.
    """
    if not backend_of(cluster).has_epochs:
        return {}
    layout = Layout(cluster)
    if cluster.hosts:
        return {} if cluster.here is None else {keeper_of(cluster.here): layout.epoch_record}
    return {
        "the control host": layout.epoch_record,
        **{
            f"Indico instance {instance.name}": layout.instance_epoch_record(instance)
            for instance in cluster.indico
        },
    }


def keepers(cluster: Cluster) -> tuple[str, ...]:
    """Return who keeps a record, as messages name them; none without epochs."""
    if cluster.hosts and backend_of(cluster).has_epochs:
        return tuple(keeper_of(host.name) for host in cluster.hosts)
    return tuple(paths(cluster))


def keeper_of(host: str) -> str:
    """Return the keeper of a host's record in a cluster of several hosts."""
    return f"host {host}"


def quorum(cluster: Cluster) -> int:
    """Return how many records must confirm a primary: a majority with several hosts, else one.

    Any two majorities have a record in common, so that of two sides of a cut network one has none.
    """
    return len(cluster.hosts) // 2 + 1 if cluster.hosts else 1


def read(cluster: Cluster, path: Path) -> EpochRecord | None:
    """Return a record; None if there is none.

    Raises OperatorError (exit 8) if it is damaged, another cluster's or unreadable.
    """
    try:
        values = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _refusal(path, f"can't be read: {error.strerror}") from error
    except ValueError as error:
        raise _refusal(path, f"is no JSON: {error}", kind=DamagedRecordError) from error
    formats.EPOCH.refuse_newer(path, values)
    if not isinstance(values, dict) or set(values) != set(KEYS):
        wrong = f"its keys are not {', '.join(sorted(KEYS))}"
        raise _refusal(path, wrong, kind=DamagedRecordError)
    wrong = _what_is_wrong(cluster, values)
    if wrong:
        raise _refusal(path, wrong)
    return EpochRecord(**{key: values[key] for key in KEYS if key != "format"})


def refuse_lower(epoch: int, known: int) -> None:
    """Raise OperatorError (exit 8) if an epoch is over, because a later one is known."""
    if epoch < known:
        raise OperatorError(
            f"epoch {epoch} is over",
            f"the cluster has seen epoch {known}",
            f"use --epoch {known} or later",
            ExitCode.REFUSED,
        )


def newest(cluster: Cluster) -> EpochRecord | None:
    """Return the readable record of the highest epoch.

    None if there is none, or if records of that epoch name different primaries and none has a
    majority; see ``newest_of``.
    """
    # The start-up check reports the others, with the reason.
    readable = [each for each in all_of(cluster).values() if isinstance(each, EpochRecord)]
    return newest_of(readable, quorum(cluster))


def newest_of(records: Sequence[EpochRecord], quorum: int) -> EpochRecord | None:
    """Return the record of the highest epoch.  Pure.

    A promotion that was cut off from the majority leaves a record of an epoch that another node
    begins with the majority.  So of several primaries of one epoch a majority of the records
    names the right one; without a majority, none is.
    """
    highest = max((record.epoch for record in records), default=0)
    latest = [record for record in records if record.epoch == highest]
    counts = Counter(record.primary for record in latest)
    if len(counts) > 1:
        latest = [each for each in latest if quorum > 1 and counts[each.primary] >= quorum]
    return latest[0] if latest else None


def highest(cluster: Cluster) -> int:
    """Return the highest epoch of any record, 0 without one.

    Raises OperatorError (exit 8) if one can't be read, or fewer than ``quorum`` hosts answer.
    """
    answers = all_of(cluster).values()
    away = [each for each in answers if isinstance(each, HostAwayError)]
    for each in answers:
        if isinstance(each, OperatorError) and (
            each not in away or len(answers) - len(away) < quorum(cluster)
        ):
            raise each
    return max((each.epoch for each in answers if isinstance(each, EpochRecord)), default=0)


def all_of(cluster: Cluster) -> dict[str, EpochRecord | OperatorError | None]:
    """Return each keeper's record, None if it has none, or why it can't be read."""
    race, host = Race(), host_of(cluster)
    for keeper in keepers(cluster):
        race.start(keeper, partial(_asked, keeper, partial(host.record, keeper)))
    found = race.wait(time.monotonic() + READ_SECONDS)
    answers: dict[str, EpochRecord | OperatorError | None] = {}
    for keeper in keepers(cluster):
        answer = found.get(("record", keeper), HostAwayError(f"{keeper} does not answer", LATE))
        answers[keeper] = answer if isinstance(answer, EpochRecord | OperatorError) else None
    return answers


LATE = "no answer in time"


def _asked(keeper: str, ask: Callable[[], object]) -> Iterator[tuple[tuple[str, str], object]]:
    try:
        yield ("record", keeper), ask()
    except OperatorError as error:
        yield ("record", keeper), error


def raise_record(
    cluster: Cluster, path: Path, record: EpochRecord, *, of_majority: bool = False
) -> bool:
    """Write a record unless the existing one is the same.

    Args:
        of_majority: the records of a majority of the hosts name its primary, so it also replaces
            one of the same epoch.

    Returns:
        True if it was written; it is on disk then.

    Raises:
        OperatorError: exit 8, the existing one is of a higher epoch, or of this epoch with another
            primary, or damaged; exit 1, it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with alone_in(path.parent):
            present = read(cluster, path)
            if present and (present.epoch, present.primary) == (record.epoch, record.primary):
                return False
            if present and present.epoch >= record.epoch + of_majority:
                raise _refusal(
                    path,
                    f"it says epoch {present.epoch}, primary {present.primary} "
                    f"({present.reason}); that is not lowered to epoch {record.epoch}, "
                    f"primary {record.primary}",
                    "the newer primary stands",
                )
            write_atomically(
                path, json.dumps({"format": FORMAT, **dataclasses.asdict(record)}, indent=2) + "\n"
            )
    except OSError as error:
        raise OperatorError(
            "the record of the epoch can't be written",
            f"{path}: {error.strerror}",
            "make room there, then try again",
        ) from error
    return True


def replace_damaged(cluster: Cluster, path: Path) -> tuple[Path, EpochRecord] | None:
    """Replace a damaged record of this host by the newest one of the other hosts.

    None if fewer than ``quorum`` other records are readable: with as many, one of them has the
    latest epoch that a majority knew, whatever the damaged one said.

    Returns:
        the new path of the damaged record, and the record that replaced it.

    Raises:
        OperatorError (exit 1) if the files can't be written; as ``raise_record``.
    """
    records = [each for each in all_of(cluster).values() if isinstance(each, EpochRecord)]
    known = newest_of(records, quorum(cluster))
    if known is None or len(records) < quorum(cluster):
        return None
    try:
        aside = put_aside(path)
    except OSError as error:
        raise OperatorError(
            "the record of the epoch can't be renamed", f"{path}: {error.strerror}"
        ) from error
    raise_record(cluster, path, known)
    return aside, known


def raise_everywhere(cluster: Cluster, epoch: int, primary: str, reason: str) -> Raised:
    """Raise every reachable record; never raises OperatorError itself."""
    record = EpochRecord(cluster.name, epoch, primary, times.now(), reason)
    race, host = Race(), host_of(cluster)
    for keeper in keepers(cluster):
        race.start(keeper, partial(_asked, keeper, partial(host.raise_record, keeper, record)))
    found = race.wait(time.monotonic() + WRITE_SECONDS)
    written, failed = [], {}
    for keeper in keepers(cluster):
        answer = found.get(("record", keeper), OperatorError(f"{keeper} does not answer", LATE))
        if isinstance(answer, OperatorError):
            failed[keeper] = answer.detail or answer.notice
        else:
            written.append(keeper)
    return Raised(tuple(written), failed)


def raising(cluster: Cluster, epoch: int, primary: str) -> str:
    """Return what ``raise_everywhere`` does, one line."""
    return f"raise the records of {', '.join(keepers(cluster))} to epoch {epoch}, primary {primary}"


def _what_is_wrong(cluster: Cluster, values: Mapping[str, Any]) -> str:
    wrong = [key for key, kind in KEYS.items() if type(values[key]) is not kind]
    if wrong:
        return f"{wrong[0]} is {values[wrong[0]]!r}"
    if values["format"] != FORMAT:
        return f"its format is {values['format']}, this program knows {FORMAT}"
    if values["cluster"] != cluster.name:
        return f"it belongs to cluster {values['cluster']!r}, not {cluster.name!r}"
    if values["epoch"] < 1:
        return f"its epoch is {values['epoch']}, not a whole number from 1"
    return ""


def _refusal(
    path: Path, detail: str, hint: str = "", kind: type[OperatorError] = OperatorError
) -> OperatorError:
    return kind(
        "the record of the epoch can't be used",
        f"{path}: {detail}",
        hint or f"copy it from another keeper, or move it away: {path}",
        ExitCode.REFUSED,
    )
