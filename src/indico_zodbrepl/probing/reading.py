"""Read what servers and Indico instances answer to probes.

Answers come over the network: every field is checked, lengths are bounded, and control characters
are replaced before they are printed.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, TypeVar

import msgspec

from indico_zodbrepl.probing import tid, times, typed_json
from indico_zodbrepl.probing.answers import (
    FIRST_RELEASE,
    Acknowledging,
    AckState,
    Counted,
    HistoryAnswer,
    Hold,
    IndicoAnswer,
    MissingAnswer,
    RefusedFollower,
    Replication,
    ServerAnswer,
    ServerRole,
    WriteFailure,
)
from indico_zodbrepl.probing.wire import FailureKind, ProbeError

MAX_TEXT = 200
MAX_FOLLOWERS = 100
MAX_BOUNDS = 50
STORAGE = "1"
"""Name of the only storage of each managed server."""

Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class _Refused(msgspec.Struct):
    peer: str
    tid: str
    at: Any = None


class _WriteFailure(msgspec.Struct):
    error: str
    since: Count
    at: Count
    count: Count


class _Lease(msgspec.Struct):
    left: float


class AcknowledgingAnswer(msgspec.Struct):
    """Acknowledged commits as a storage server reports them."""

    state: AckState
    count: Count
    level: str
    timeout: float
    alone: str
    acknowledged: str | None = None
    in_doubt: Count = 0
    confirming: dict[str, str | None] = {}
    since: float = 0.0
    not_counted: dict[str, str] = {}


class _Replication(msgspec.Struct):
    cluster: str
    node: str
    role: ServerRole
    epoch: Count
    followers: list[str]
    pid: Count
    size: Count
    read_only: bool
    upstream: str | None = None
    connected: bool | None = None
    held: Hold | None = None
    min_followers: Count | None = None
    refused: list[_Refused] = []
    write_failure: _WriteFailure | None = None
    missing_blob_folder: str | None = None
    blobs_missing: Count = 0
    blob_missing: str = ""
    release: str = FIRST_RELEASE
    protocol: Count = 1
    lease: _Lease | None = None
    synchronous: AcknowledgingAnswer | None = None


class _Server(msgspec.Struct):
    last: str = msgspec.field(name="last-transaction")
    connections: Count
    zodbrepl: _Replication | None = None
    commits: Count | None = None


class _History(msgspec.Struct):
    known: bool | None = None
    digest: str | None = None


class _Missing(msgspec.Struct):
    transactions: Count
    exact: bool
    first: str | None = None


class _Commits(msgspec.Struct):
    latencies: list[tuple[float | None, Count]]
    conflicts: Count


class _Indico(msgspec.Struct):
    instance: str
    pid: Count
    connected: bool
    read_only: bool
    server: str | None = None
    last_tid: str | None = None
    epoch: Count | None = None
    epoch_primary: str | None = None
    built: Any = True
    set_up: Any = True
    failure: str | None = None
    release: str = FIRST_RELEASE
    files_in_archive: Count | None = None
    files_missing: Count = 0
    file_missing: str = ""
    requests: Count | None = None
    unavailable: Count = 0
    commits: _Commits | None = None


Kind = TypeVar("Kind")


def read_server_answer(raw: bytes) -> ServerAnswer:
    """Decode an answer to ``ruok``.  Raises ProbeError (MALFORMED)."""
    found = _storage(raw, _Server)
    replication = None if found.zodbrepl is None else _replication(found.zodbrepl)
    return ServerAnswer(_tid(found.last), found.connections, replication, commits=found.commits)


def _replication(found: _Replication) -> Replication:
    failed = found.write_failure
    return Replication(
        cluster=clean(found.cluster),
        node=clean(found.node),
        role=found.role,
        epoch=found.epoch,
        upstream=_clean(found.upstream),
        connected=found.connected,
        followers=tuple(map(clean, found.followers[:MAX_FOLLOWERS])),
        pid=found.pid,
        size=found.size,
        read_only=found.read_only,
        held=found.held,
        min_followers=found.min_followers or 0,
        refused=tuple(
            RefusedFollower(clean(each.peer), _tid(each.tid), _moment(each.at))
            for each in found.refused[-MAX_FOLLOWERS:]
        ),
        blobs_missing=found.blobs_missing,
        blob_missing=clean(found.blob_missing),
        write_failure=None
        if failed is None
        else WriteFailure(clean(failed.error), failed.since, failed.at, failed.count),
        missing_blob_folder=_clean(found.missing_blob_folder),
        release=clean(found.release),
        protocol=found.protocol,
        acknowledging=read_acknowledging(found.synchronous),
        lease_left=None if found.lease is None else found.lease.left,
    )


def read_acknowledging(found: AcknowledgingAnswer | None) -> Acknowledging | None:
    """Return what a storage server reports of its acknowledged commits; None without a report.

    Raises ProbeError (MALFORMED).
    """
    if found is None:
        return None
    names = list(found.confirming)[:MAX_FOLLOWERS]
    return Acknowledging(
        found.state,
        found.count,
        clean(found.level),
        found.timeout,
        clean(found.alone),
        None if found.acknowledged is None else _tid(found.acknowledged),
        found.in_doubt,
        {clean(name): tid.render(_tid(found.confirming[name] or "0")) for name in names},
        found.since,
        {
            clean(name): clean(found.not_counted[name])
            for name in list(found.not_counted)[:MAX_FOLLOWERS]
        },
    )


def _moment(value: object) -> str:
    """Return seconds since 1970 as a time in UTC, anything else as text."""
    if isinstance(value, int | float) and 0 <= value < 1 << 33:
        return times.moment(value)
    return clean(str(value))


def read_history_answer(raw: bytes) -> HistoryAnswer:
    """Decode an answer to ``history``.  Raises ProbeError (MALFORMED)."""
    found = _storage(raw, _History)
    return HistoryAnswer(found.known, _clean(found.digest))


def read_missing_answer(raw: bytes) -> MissingAnswer:
    """Decode an answer to ``since``.  Raises ProbeError (MALFORMED)."""
    found = _storage(raw, _Missing)
    first = None if found.first is None else _tid(found.first)
    return MissingAnswer(found.transactions, found.exact, first)


def read_indico_answer(raw: bytes) -> IndicoAnswer:
    """Decode an answer of Indico's health check.  Raises ProbeError (MALFORMED)."""
    found = _decode(raw, _Indico)
    return IndicoAnswer(
        clean(found.instance),
        found.pid,
        _clean(found.server),
        found.connected,
        found.read_only,
        None if found.last_tid is None else _tid(found.last_tid),
        found.epoch,
        _clean(found.epoch_primary),
        built=found.built is not False,
        set_up=found.set_up is not False,
        failure=_clean(found.failure),
        release=clean(found.release),
        files_in_archive=found.files_in_archive,
        files_missing=found.files_missing,
        file_missing=clean(found.file_missing),
        counted=_counted(found),
    )


def _counted(found: _Indico) -> Counted | None:
    if found.requests is None or found.commits is None:
        return None
    latencies = {
        math.inf if bound is None else bound: count
        for bound, count in found.commits.latencies[:MAX_BOUNDS]
    }
    return Counted(found.requests, found.unavailable, found.commits.conflicts, latencies)


def clean(text: str) -> str:
    """Return the first MAX_TEXT characters; unprintable ones become ``?``."""
    return "".join(c if c.isprintable() else "?" for c in text[:MAX_TEXT])


def _clean(text: str | None) -> str | None:
    return None if text is None else clean(text)


def _tid(text: str) -> int:
    try:
        return tid.parse(clean(text))
    except ValueError as error:
        raise ProbeError(FailureKind.MALFORMED, str(error)) from None


def _storage(raw: bytes, kind: type[Kind]) -> Kind:
    storages = _decode(raw, dict[str, msgspec.Raw])
    if STORAGE not in storages:
        raise ProbeError(FailureKind.MALFORMED, f"holds no storage {STORAGE!r}")
    return _decode(bytes(storages[STORAGE]), kind)


def _decode(raw: bytes, kind: type[Kind]) -> Kind:
    try:
        return typed_json.decode(raw, kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        quoted = clean(raw[:40].decode("ascii", "replace"))
        raise ProbeError(
            FailureKind.MALFORMED, f"unusable answer: {quoted!r} ({clean(str(error))})"
        ) from None
