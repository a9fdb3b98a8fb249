"""The keys in etcd as this host knows them: a stream of changes, and reads of the leader key."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Mapping

from indico_zodbrepl.automation.observed import Observed, after
from indico_zodbrepl.automation.reports import Report, reported
from indico_zodbrepl.automation.threads import thread
from indico_zodbrepl.automation.timing import now
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.etcd.following import Change, Following
from indico_zodbrepl.etcd.keys import Leader, Operation, Paused, Store, Stored, Sync, stored_of

PAUSE_SECONDS = 1.0
"""Between two attempts to follow the changes after etcd has refused it."""


@dataclasses.dataclass(frozen=True)
class Known:
    """The keys at one moment; each is None if there is no such key.

    Attributes:
        observed: what the moments of the leader key's changes say; None before etcd's first answer.
        reports: by node.
    """

    observed: Observed | None = None
    leader: Stored[Leader] | None = None
    sync: Sync | None = None
    paused: Paused | None = None
    operation: Stored[Operation] | None = None
    operation_since: float = 0.0
    reports: Mapping[str, Report] = dataclasses.field(default_factory=dict)


class View:
    """The newest known keys; any thread may ask.  ``start`` begins to follow their changes.

    Args:
        on_leader: called with each new leader, in the thread that has learned of it.
    """

    def __init__(self, store: Store, on_leader: Callable[[Leader], None]) -> None:
        self._store = store
        self._on_leader = on_leader
        self._changed = threading.Condition()
        self._known = Known()
        self._marks = 0
        self._following: Following | None = None
        self._ended = False

    def start(self) -> None:
        thread("follow-etcd", self._follow).start()

    def stop(self) -> None:
        self._ended = True
        if self._following is not None:
            self._following.close()

    @property
    def known(self) -> Known:
        with self._changed:
            return self._known

    def wake(self) -> None:
        """End the present ``wait``."""
        with self._changed:
            self._marks += 1
            self._changed.notify_all()

    def wait(self, until: float) -> None:
        """Return when the leader key, ``paused`` or ``operation`` has changed, at ``until`` latest.

        Renewals by the same leader end no wait.
        """
        with self._changed:
            mark = self._marks
            self._changed.wait_for(lambda: self._marks != mark, max(0.0, until - now()))

    def read(self, seconds: float) -> None:
        """Read the leader key.  Raises EtcdError."""
        sent = now()
        found = self._store.read(self._store.keys.leader, seconds)
        self.note(found, sent)

    def note(self, found: Stored[Leader] | None, sent: float) -> None:
        """Take a value of the leader key from an answer to a call that was sent then."""
        received = now()
        with self._changed:
            before = self._known
            observed = after(
                before.observed,
                None if found is None else found.record,
                0 if found is None else found.entry.revision,
                sent,
                received,
            )
            if before.observed is not None and observed is before.observed:
                return
            is_newer = before.observed is None or observed.revision != before.observed.revision
            leader = found if is_newer else before.leader
            self._known = dataclasses.replace(before, observed=observed, leader=leader)
            is_new = before.observed is None or _role(observed) != _role(before.observed)
            if is_new:
                self._marks += 1
                self._changed.notify_all()
        if is_new and observed.leader is not None and not observed.leader.released:
            self._on_leader(observed.leader)

    def _follow(self) -> None:
        while not self._ended:
            self._following = self._store.follow()
            try:
                for change in self._following:
                    self._take(change)
            except OperatorError:
                threading.Event().wait(PAUSE_SECONDS)

    def _take(self, change: Change) -> None:
        keys = self._store.keys
        if change.key == keys.leader.name:
            found = stored_of(change, keys.leader)
            # A change that arrives late confirms nothing.
            known = self.known.observed
            revision = 0 if found is None else found.entry.revision
            if known is None or known.revision < revision or found is None:
                self.note(found, now())
            return
        if change.key.startswith(keys.members):
            self._take_report(change.key.removeprefix(keys.members), change)
            return
        with self._changed:
            if change.key == keys.sync.name:
                sync = stored_of(change, keys.sync)
                self._known = dataclasses.replace(
                    self._known, sync=None if sync is None else sync.record
                )
                return
            if change.key == keys.paused.name:
                paused = stored_of(change, keys.paused)
                self._known = dataclasses.replace(
                    self._known, paused=None if paused is None else paused.record
                )
            elif change.key == keys.operation.name:
                self._known = dataclasses.replace(
                    self._known,
                    operation=stored_of(change, keys.operation),
                    operation_since=now(),
                )
            else:
                return
            self._marks += 1
            self._changed.notify_all()

    def _take_report(self, node: str, change: Change) -> None:
        reports = dict(self.known.reports)
        before = reports.pop(node, None)
        with contextlib.suppress(OperatorError):  # one that can't be read says nothing
            found = stored_of(change, self._store.keys.member(node))
            if found is not None:
                reports[node] = reported(before, found.record, now())
        with self._changed:
            self._known = dataclasses.replace(self._known, reports=reports)


def _role(observed: Observed) -> tuple[object, ...]:
    """Return what distinguishes a change of the role from a renewal."""
    leader = observed.leader
    return () if leader is None else (leader.node, leader.epoch, leader.released)
