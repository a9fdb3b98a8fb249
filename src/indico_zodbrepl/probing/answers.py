"""What servers and Indico instances answer to a probe, checked and typed.

Answers come over the network, so every field is checked, lengths are bounded, and characters
that could steer a terminal are replaced before anybody prints them.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
from collections.abc import Mapping

from indico_zodbrepl.probing import tid
from indico_zodbrepl.probing.wire import FailureKind, ProbeError

MAX_TEXT = 200
MAX_FOLLOWERS = 100
STORAGE = "1"
"""Name of the one storage that each of our servers holds."""


class ServerRole(enum.StrEnum):
    """Role of a running server; standalone is a storage without replication.

    Master, storage and admin are NEO's; the elected master is the one that takes writes.
    """

    PRIMARY = "primary"
    SECONDARY = "secondary"
    RELAY = "relay"
    STANDALONE = "standalone"
    MASTER = "master"
    STORAGE = "storage"
    ADMIN = "admin"


class Hold(enum.StrEnum):
    """Why a server lets no commit begin.

    operator: somebody asked for it, and it ends by itself.  epoch: the cluster is in a later one.
    followers: fewer are connected than there have to be.
    """

    OPERATOR = "operator"
    EPOCH = "epoch"
    FOLLOWERS = "followers"


@dataclasses.dataclass(frozen=True)
class RefusedFollower:
    """A follower that a server turned away: its address, its last transaction, when it came.

    Attributes:
        at: as the server says it.
    """

    peer: str
    tid: int
    at: str


@dataclasses.dataclass(frozen=True)
class Replication:
    """Who a server is and how replication stands, as the server itself sees it.

    Attributes:
        epoch: of which it was started or promoted; None where the backend has no epochs.
        upstream: address followed, ``host:port``, which is a node's replication address, or its
            storage address where the engine has one port for both; None for a primary.
        connected: whether the link to the upstream stands; None without upstream.
        followers: addresses from which others follow.
        pid: 0 when it can't be told.
        size: bytes of the data.
        held: why it lets no commit begin; None when it does.
        min_followers: followers without which it takes no writes.
        refused: followers that it turned away, as their last transaction is not in its history.
    """

    cluster: str
    node: str
    role: ServerRole
    epoch: int | None
    upstream: str | None
    connected: bool | None
    followers: tuple[str, ...]
    pid: int
    size: int
    read_only: bool
    held: Hold | None = None
    min_followers: int = 0
    refused: tuple[RefusedFollower, ...] = ()


@dataclasses.dataclass(frozen=True)
class Fact:
    """One of an engine's own truths in the engine's own words, for people to read."""

    label: str
    value: str


class Severity(enum.StrEnum):
    """How bad an engine's problem is; a notice leaves a healthy cluster healthy."""

    CRITICAL = "critical"
    WARNING = "warning"
    NOTICE = "notice"


@dataclasses.dataclass(frozen=True)
class EngineProblem:
    """Something wrong that only the engine's own words tell.

    Attributes:
        text: what, in one line.
        detail: the evidence; may be empty.
        hint: what to do, commands in backquotes.
    """

    severity: Severity
    text: str
    detail: str
    hint: str


@dataclasses.dataclass(frozen=True)
class ServerAnswer:
    """What a node's server answers; ``replication`` is None when it is no server of ours."""

    last_tid: int
    clients: int
    replication: Replication | None
    facts: tuple[Fact, ...] = ()
    problems: tuple[EngineProblem, ...] = ()


@dataclasses.dataclass(frozen=True)
class MissingAnswer:
    """Transactions a server holds after some tid; at least that many when not exact.

    Attributes:
        first: tid of the oldest of them; None when there is none or it is not known.
    """

    transactions: int
    exact: bool
    first: int | None = None


@dataclasses.dataclass(frozen=True)
class HistoryAnswer:
    """Whether a server holds a transaction; None when it can't tell, as after a pack.

    Attributes:
        digest: over the transaction's content; None when it is not known or not held.
    """

    known: bool | None
    digest: str | None


@dataclasses.dataclass(frozen=True)
class IndicoAnswer:
    """Answer of an Indico instance to its health probe.

    Attributes:
        epoch: the current one by the record that its host keeps; None when it has none.
        epoch_primary: the primary of that epoch.
        built: whether it has begun to serve pages.
        set_up: whether the database holds an Indico; if not, each page is answered 503.
        failure: why it serves no pages, though it has a storage; None while it is starting.
    """

    instance: str
    pid: int
    server: str | None
    connected: bool
    read_only: bool
    last_tid: int | None
    epoch: int | None = None
    epoch_primary: str | None = None
    built: bool = True
    set_up: bool = True
    failure: str | None = None


def read_server_answer(raw: bytes) -> ServerAnswer:
    """Raises ProbeError (MALFORMED) when it is no answer to ``ruok``."""
    storage = _Fields(_storage(raw))
    try:
        last_tid = tid.parse(storage.text("last-transaction"))
    except ValueError as error:
        raise _malformed(str(error)) from None
    extension = storage.values.get("zodbrepl")
    return ServerAnswer(last_tid, storage.count("connections"),
                        None if extension is None else _read_replication(_mapping(extension)))


def _read_replication(values: Mapping[str, object]) -> Replication:
    fields = _Fields(values)
    try:
        role = ServerRole(fields.text("role"))
    except ValueError:
        raise _malformed(f"role is {fields.text('role')!r}") from None
    followers = values.get("followers")
    if not isinstance(followers, list):
        raise _malformed("followers is no list")
    return Replication(
        cluster=fields.text("cluster"), node=fields.text("node"), role=role,
        epoch=fields.count("epoch"), upstream=fields.text_or_none("upstream"),
        connected=None if values.get("connected") is None else fields.flag("connected"),
        followers=tuple(clean(str(follower)) for follower in followers[:MAX_FOLLOWERS]),
        pid=fields.count("pid"), size=fields.count("size"), read_only=fields.flag("read_only"),
        held=_read_hold(fields),
        min_followers=0 if values.get("min_followers") is None else fields.count("min_followers"),
        refused=_read_refused(values.get("refused", [])))


def _read_hold(fields: _Fields) -> Hold | None:
    text = fields.text_or_none("held")
    try:
        return None if text is None else Hold(text)
    except ValueError:
        raise _malformed(f"held is {text!r}") from None


def _read_refused(values: object) -> tuple[RefusedFollower, ...]:
    if not isinstance(values, list):
        raise _malformed("refused is no list")
    found = []
    for value in values[-MAX_FOLLOWERS:]:
        each = _Fields(_mapping(value))
        try:
            last = tid.parse(each.text("tid"))
        except ValueError as error:
            raise _malformed(str(error)) from None
        found.append(RefusedFollower(each.text("peer"), last, _moment(each.values.get("at"))))
    return tuple(found)


def _moment(value: object) -> str:
    """Seconds since 1970 as a time in UTC; what is something else as it stands."""
    if isinstance(value, int | float) and 0 <= value < 1 << 33:
        return f"{datetime.datetime.fromtimestamp(value, datetime.UTC):%Y-%m-%d %H:%M:%S} UTC"
    return clean(str(value))


def read_history_answer(raw: bytes) -> HistoryAnswer:
    """Raises ProbeError (MALFORMED) when it is no answer to ``history``."""
    fields = _Fields(_storage(raw))
    known = None if fields.values.get("known") is None else fields.flag("known")
    return HistoryAnswer(known, fields.text_or_none("digest"))


def read_missing_answer(raw: bytes) -> MissingAnswer:
    """Raises ProbeError (MALFORMED) when it is no answer to ``since``."""
    fields = _Fields(_storage(raw))
    first = fields.text_or_none("first")
    try:
        return MissingAnswer(fields.count("transactions"), fields.flag("exact"),
                             None if first is None else tid.parse(first))
    except ValueError as error:
        raise _malformed(str(error)) from None


def read_indico_answer(raw: bytes) -> IndicoAnswer:
    """Raises ProbeError (MALFORMED) when it is no answer of our health probe."""
    values = _load(raw)
    fields = _Fields(values)
    last = fields.text_or_none("last_tid")
    try:
        last_tid = None if last is None else tid.parse(last)
    except ValueError as error:
        raise _malformed(str(error)) from None
    return IndicoAnswer(fields.text("instance"), fields.count("pid"),
                        fields.text_or_none("server"), fields.flag("connected"),
                        fields.flag("read_only"), last_tid,
                        None if values.get("epoch") is None else fields.count("epoch"),
                        fields.text_or_none("epoch_primary"),
                        built=values.get("built") is not False,
                        set_up=values.get("set_up") is not False,
                        failure=fields.text_or_none("failure"))


def clean(text: str) -> str:
    """Printable characters only, at most MAX_TEXT of them."""
    return "".join(c if c.isprintable() else "?" for c in text[:MAX_TEXT])


class _Fields:
    def __init__(self, values: Mapping[str, object]) -> None:
        self.values = values

    def text(self, key: str) -> str:
        value = self.values.get(key)
        if not isinstance(value, str):
            raise _malformed(f"{key} is {_shown(value)}, not text")
        return clean(value)

    def text_or_none(self, key: str) -> str | None:
        return None if self.values.get(key) is None else self.text(key)

    def count(self, key: str) -> int:
        value = self.values.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
            raise _malformed(f"{key} is {_shown(value)}, not a count")
        return value

    def flag(self, key: str) -> bool:
        value = self.values.get(key)
        if not isinstance(value, bool):
            raise _malformed(f"{key} is {_shown(value)}, not true or false")
        return value


def _storage(raw: bytes) -> Mapping[str, object]:
    storages = _load(raw)
    if STORAGE not in storages:
        raise _malformed(f"holds no storage {STORAGE!r}")
    return _mapping(storages[STORAGE])


def _load(raw: bytes) -> Mapping[str, object]:
    try:
        return _mapping(json.loads(raw))
    except (ValueError, RecursionError):
        raise _malformed(f"answered no JSON: {_shown(raw[:40])}") from None


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise _malformed(f"answered {_shown(value)}, not a JSON object")
    return value


def _shown(value: object) -> str:
    if isinstance(value, bytes):
        value = value.decode("ascii", "replace")
    return "missing" if value is None else clean(repr(value))[:60]


def _malformed(detail: str) -> ProbeError:
    return ProbeError(FailureKind.MALFORMED, detail)
