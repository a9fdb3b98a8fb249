"""The changes of keys below a prefix, as a stream that outlives members of etcd."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import threading
from collections.abc import Iterator
from typing import Any

import urllib3

from indico_zodbrepl.etcd import client, problems
from indico_zodbrepl.etcd.client import Entry, Etcd
from indico_zodbrepl.etcd.problems import EtcdAwayError

SILENT = 3.0
"""Seconds without a change after which the keys are read again: a frozen member says nothing."""
PAUSE = 0.2


@dataclasses.dataclass(frozen=True)
class Change:
    """A key that was written or deleted.

    Attributes:
        entry: None if it was deleted.
    """

    key: str
    entry: Entry | None


class Following:
    """An iterator over the changes below a prefix; it begins with the keys as they are.

    It never ends before ``close``.  After a lost connection, a compaction or a restored snapshot it
    reads all keys again and yields those that differ from what it has yielded.  One thread
    iterates; any thread may close.

    Attributes:
        problem: why no changes come at present; empty if they do.
    """

    def __init__(self, etcd: Etcd, prefix: str, silent: float = SILENT) -> None:
        self._etcd = etcd
        self._prefix = prefix
        self._silent = silent
        self._known: dict[str, Entry] = {}
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._response: Any = None
        self.problem = ""

    def __iter__(self) -> Iterator[Change]:
        """Yield changes.  Raises EtcdError if etcd refuses to give them."""
        while not self._closed.is_set():
            try:
                yield from self._catch_up_and_watch()
            except EtcdAwayError as error:
                self.problem = error.detail
                self._closed.wait(PAUSE)

    def close(self) -> None:
        """End the iteration, also while it waits for a change."""
        self._closed.set()
        with self._lock:
            if self._response is not None:
                with contextlib.suppress(OSError, ValueError):
                    self._response.shutdown()

    def _catch_up_and_watch(self) -> Iterator[Change]:
        listing = self._etcd.list(self._prefix)
        self.problem = ""
        present = {entry.key: entry for entry in listing.entries}
        for key in self._known.keys() - present.keys():
            del self._known[key]
            yield Change(key, None)
        for entry in present.values():
            if self._known.get(entry.key) != entry:
                self._known[entry.key] = entry
                yield Change(entry.key, entry)
        request = client.watch_request(self._prefix, listing.revision + 1)
        response = self._etcd.transport.stream("watch", request, self._silent)
        try:
            with self._lock:
                self._response = response
            if not self._closed.is_set():
                yield from self._changes(response)
        finally:
            with self._lock:
                self._response = None
            response.close()

    def _changes(self, response: Any) -> Iterator[Change]:
        """Yield what comes until the connection is silent or ends."""
        rest = b""
        try:
            for chunk in response.stream(1 << 16):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line.strip():
                        result = _result(line)
                        if result is None:
                            return
                        yield from self._events(result)
            raise urllib3.exceptions.ProtocolError("the stream ended")
        except urllib3.exceptions.ReadTimeoutError:
            return
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            if self._closed.is_set():
                return
            self._etcd.transport.avoid_current()
            why = problems.reason(error) if isinstance(error, urllib3.exceptions.HTTPError) else ""
            raise EtcdAwayError([why or str(error)], 0.0, unknown=False) from error

    def _events(self, result: Any) -> Iterator[Change]:
        for event in result.get("events", ()):
            entry = client.decode_entry(event["kv"])
            if event.get("type") == "DELETE":
                self._known.pop(entry.key, None)
                yield Change(entry.key, None)
            else:
                self._known[entry.key] = entry
                yield Change(entry.key, entry)


def _result(line: bytes) -> Any:
    """Return the content of a line; None if the watch was cancelled, as by a compaction."""
    values = json.loads(line)
    result = values.get("result")
    return None if result is None or result.get("canceled", False) else result
