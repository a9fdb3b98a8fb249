"""A client of etcd's key-value store; any thread may call.

If the answer to a write is lost, the client repeats the write on the next member.  It recognises a
swap that had succeeded by its value.  So ``create`` and ``swap`` need unique values: include a
counter or an identifier.
"""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Mapping
from typing import Any

from indico_zodbrepl.etcd.transport import Answer, Transport

LIMIT = 2.0
"""Seconds for a call, all tries together, if the caller names no other limit."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """A key with its value.

    Attributes:
        revision: of the last change of the key.
    """

    key: str
    value: bytes
    revision: int


@dataclasses.dataclass(frozen=True)
class Listing:
    """The keys below a prefix at one revision of the whole store."""

    entries: tuple[Entry, ...]
    revision: int


@dataclasses.dataclass(frozen=True)
class Guard:
    """A key that must have a value, or no write counts."""

    key: str
    value: bytes


class GuardError(Exception):
    """A write did not count: the key of its guard has another value; None if there is none."""

    def __init__(self, present: Entry | None) -> None:
        super().__init__("the guard differs")
        self.present = present


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of a conditional write.

    Attributes:
        done: True if the write counts.
        entry: the key after it; None if there is no such key.
    """

    done: bool
    entry: Entry | None


class Etcd:
    """The key-value store of an etcd cluster.

    Each method takes the seconds that it may last, and raises EtcdAwayError if no member that is
    part of a majority answered, or another EtcdError if etcd refused the call.  A write with a
    guard raises GuardError if that differs.
    """

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    def get(self, key: str, limit: float = LIMIT) -> Entry | None:
        """Return a key; None if there is none.  It is never older than the call."""
        entries = _entries(self._call("kv/range", {"key": _encode(key)}, limit).content)
        return entries[0] if entries else None

    def list(self, prefix: str, limit: float = LIMIT) -> Listing:
        """Return all keys that begin with a prefix."""
        content = self._call("kv/range", _prefix(prefix), limit).content
        return Listing(_entries(content), _revision(content))

    def create(
        self, key: str, value: bytes, limit: float = LIMIT, guard: Guard | None = None
    ) -> Outcome:
        """Write a key if there is none."""
        condition = {"target": "CREATE", "create_revision": "0"}
        return self._write(key, value, condition, limit, guard)

    def swap(
        self, entry: Entry, value: bytes, limit: float = LIMIT, guard: Guard | None = None
    ) -> Outcome:
        """Replace the value of a key that has not changed since it was read."""
        condition = {"target": "MOD", "mod_revision": str(entry.revision)}
        return self._write(entry.key, value, condition, limit, guard)

    def put(self, key: str, value: bytes, limit: float = LIMIT, guard: Guard | None = None) -> int:
        """Write a key whatever its value is; return its revision."""
        request = {"request_put": {"key": _encode(key), "value": _encode(value)}}
        return _revision(self._transaction(key, {}, request, limit, guard).content)

    def delete(self, entry: Entry, limit: float = LIMIT, guard: Guard | None = None) -> bool:
        """Delete a key that has not changed since it was read; return False if it has."""
        condition = {"target": "MOD", "mod_revision": str(entry.revision)}
        request = {"request_delete_range": {"key": _encode(entry.key)}}
        answer = self._transaction(entry.key, condition, request, limit, guard)
        if answer.content.get("succeeded", False):
            return True
        return answer.lost and _present(answer) is None

    def _write(
        self,
        key: str,
        value: bytes,
        condition: Mapping[str, str],
        limit: float,
        guard: Guard | None,
    ) -> Outcome:
        request = {"request_put": {"key": _encode(key), "value": _encode(value)}}
        answer = self._transaction(key, condition, request, limit, guard)
        if answer.content.get("succeeded", False):
            return Outcome(True, Entry(key, value, _revision(answer.content)))
        present = _present(answer)
        ours = answer.lost and present is not None and present.value == value
        return Outcome(ours, present)

    def _transaction(
        self,
        key: str,
        condition: Mapping[str, str],
        request: Mapping[str, object],
        limit: float,
        guard: Guard | None,
    ) -> Answer:
        """Send a request on a condition; without it the answer has the key as it is."""
        compare = [{"key": _encode(key), "result": "EQUAL", **condition}] if condition else []
        otherwise = [{"request_range": {"key": _encode(key)}}]
        if guard is not None:
            of_guard = {"key": _encode(guard.key), "target": "VALUE", "result": "EQUAL"}
            compare.append({**of_guard, "value": _encode(guard.value)})
            otherwise.append({"request_range": {"key": _encode(guard.key)}})
        body = {"compare": compare, "success": [request], "failure": otherwise}
        answer = self._call("kv/txn", body, limit)
        if guard is not None and not answer.content.get("succeeded", False):
            present = _present(answer, 1)
            if present is None or present.value != guard.value:
                raise GuardError(present)
        return answer

    def _call(self, path: str, body: Mapping[str, object], limit: float) -> Answer:
        return self.transport.call(path, body, limit)


def decode_entry(values: Mapping[str, Any]) -> Entry:
    """Return a key as it is in an answer."""
    return Entry(
        _decode(values["key"]).decode(),
        _decode(values.get("value", "")),
        int(values.get("mod_revision", 0)),
    )


def watch_request(prefix: str, revision: int) -> Mapping[str, object]:
    """Return the request for all changes below a prefix from a revision on."""
    return {"create_request": {**_prefix(prefix), "start_revision": str(revision)}}


def _prefix(prefix: str) -> dict[str, str]:
    """Return the range of all keys that begin with a prefix."""
    raw = prefix.encode()
    return {"key": _encode(raw), "range_end": _encode(raw[:-1] + bytes([raw[-1] + 1]))}


def _present(answer: Answer, number: int = 0) -> Entry | None:
    entries = _entries(answer.content["responses"][number]["response_range"])
    return entries[0] if entries else None


def _entries(content: Mapping[str, Any]) -> tuple[Entry, ...]:
    return tuple(decode_entry(each) for each in content.get("kvs", ()))


def _revision(content: Mapping[str, Any]) -> int:
    return int(content["header"]["revision"])


def _encode(value: str | bytes) -> str:
    raw = value.encode() if isinstance(value, str) else value
    return base64.b64encode(raw).decode("ascii")


def _decode(text: str) -> bytes:
    return base64.b64decode(text)
