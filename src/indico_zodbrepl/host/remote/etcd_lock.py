"""Hold the lock of operations in etcd, where the automation may act too.

The lock is the key ``operation``: its holder raises a counter, and it is free when the counter did
not change for ``patience``, or nobody's identifier is in it.  The automation may preempt a command:
the command notices before its next step, and agents refuse what it still asks for.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.etcd.connection import store_of
from indico_zodbrepl.etcd.keys import Operation, Store, Stored, Written
from indico_zodbrepl.etcd.problems import EtcdAwayError
from indico_zodbrepl.host import operation_lock
from indico_zodbrepl.host.operations_interface import Holder, LockHeldError, LockLostError
from indico_zodbrepl.host.remote.client import LOCK_KEYS, actor
from indico_zodbrepl.host.remote.roles import ONE_AT_A_TIME
from indico_zodbrepl.probing.waiting import wait_until

AUTOMATION = "automation"
"""Who holds the lock while the automation replaces a primary."""
LEAST_PATIENCE = 5.0
POLL_SECONDS = 0.1
CALL_SECONDS = 1.0
"""Seconds for one call to etcd."""
REGAIN_SECONDS = 5.0
"""Seconds for etcd to confirm the lock again after it was away."""


def patience(cluster: Cluster) -> float:
    """Return the seconds without a change after which the lock of a dead command is free."""
    return max(2 * cluster.lease, LEAST_PATIENCE)


_held: dict[Path, EtcdLock] = {}
"""The locks that this process holds."""


class LockObserver:
    """Follows the key ``operation`` on this host's own clock.

    Args:
        seconds: as of ``patience``.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._revision = 0
        self._since = 0.0
        self.moved = False
        """True if the counter has changed while it was observed: its holder lives."""

    def is_free(self, found: Stored[Operation] | None, now: float) -> bool:
        """Return True if nobody holds the lock.

        Args:
            found: the key as it was read.
            now: when the read was sent, by CLOCK_BOOTTIME.
        """
        if found is None or not found.record.identifier:
            return True
        if found.entry.revision != self._revision:
            self.moved = bool(self._revision)
            self._revision, self._since = found.entry.revision, now
        return now - self._since >= self._seconds


def holder_of(record: Operation) -> Holder:
    """Return who holds the lock by its key."""
    return Holder(record.pid, record.host, record.identifier, record.who)


@contextlib.contextmanager
def held(cluster: Cluster, *, preempting: bool = False) -> Iterator[EtcdLock]:
    """Hold the lock, and that of this host's file beside it.

    Args:
        preempting: take it from any holder; for the automation.

    Raises LockHeldError; OperatorError if etcd does not answer.
    """
    who = Holder(
        os.getpid(),
        cluster.here or "",
        secrets.token_hex(6),
        AUTOMATION if preempting else actor(),
    )
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(operation_lock.held(cluster, who))
        except LockHeldError:
            if not preempting:  # else the command that holds it stops before its next step
                raise
        yield stack.enter_context(EtcdLock(cluster, store_of(cluster), who, preempting=preempting))


def refuse_ended(cluster: Cluster, key: str) -> None:
    """Raise LockLostError if a command with a key does not hold the lock any more.

    Raises EtcdError if that is unknown.
    """
    store = store_of(cluster)
    found = store.read(store.keys.operation, CALL_SECONDS)
    if found is None or found.record.identifier != key:
        raise _lost(cluster, None if found is None else found.record)


def refuse_lockless(cluster: Cluster, method: str) -> None:
    """Raise LockLostError before a change on this host if this process has lost the lock.

    Without an answer from etcd, the calls that agents make then are made too.

    Args:
        method: of the host interface.
    """
    lock = _held.get(Layout(cluster).operation_lock)
    if lock is None:
        return
    try:
        refuse_ended(cluster, lock.who.key)
    except EtcdAwayError:
        if method in ONE_AT_A_TIME:
            lock.check()


class EtcdLock:
    """The lock while it is held; a thread renews it.

    Args:
        preempting: as of ``held``.
    """

    def __init__(
        self, cluster: Cluster, store: Store, who: Holder, *, preempting: bool = False
    ) -> None:
        self.who = who
        self._cluster = cluster
        self._store = store
        self._preempting = preempting
        self._patience = patience(cluster)
        self._changed = threading.Condition()
        self._ended = threading.Event()
        self._stored: Stored[Operation] | None = None
        self._confirmed = 0.0
        self._rival: Operation | None = None
        self._is_lost = False
        self._stops = ""
        self._writing = threading.Lock()
        self._thread = threading.Thread(target=self._keep, name="operation-lock", daemon=True)

    def __enter__(self) -> EtcdLock:
        self._acquire()
        self._thread.start()
        path = Layout(self._cluster).operation_lock
        LOCK_KEYS[path], _held[path] = self.who.key, self
        return self

    def __exit__(self, *_error: object) -> None:
        path = Layout(self._cluster).operation_lock
        if LOCK_KEYS.get(path) == self.who.key:  # not that of a holder who took it from this one
            del LOCK_KEYS[path], _held[path]
        self._ended.set()
        self._thread.join(2 * CALL_SECONDS)
        with contextlib.suppress(OperatorError):  # it is free after ``patience`` otherwise
            self._release()

    def check(self) -> None:
        """Raise LockLostError unless etcd has confirmed the lock lately, or does so soon."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_lost or self._is_certain(), REGAIN_SECONDS)
            if self._is_lost:
                raise _lost(self._cluster, self._rival)
            if not self._is_certain():
                raise LockLostError(
                    "the lock of operations was lost: etcd does not answer",
                    f"it did not confirm the lock for {_now() - self._confirmed:.1f} s",
                    "on a host that reaches etcd: "
                    f"{Commands.here(self._cluster).zodbrepl('resume')}",
                    ExitCode.REFUSED,
                )

    def announce_stop(self, node: str) -> None:
        """Write the node into the key; the automation of its host then keeps its lease.

        Raises LockLostError; EtcdError.
        """
        self._stops = node
        self._renew()
        self.check()

    def _is_certain(self) -> bool:
        return _now() - self._confirmed < self._patience / 2

    def _acquire(self) -> None:
        observer = LockObserver(self._patience)
        holder: Holder | None = None

        def attempt() -> bool:
            nonlocal holder
            sent = _now()
            found = self._store.read(self._store.keys.operation, CALL_SECONDS)
            holder = None if found is None else holder_of(found.record)
            if self._preempting or self._is_dead(found) or observer.is_free(found, sent):
                written = self._write(found)
                if written.done:
                    self._stored, self._confirmed = written.stored, sent
                elif not self._preempting and written.stored is not None:
                    raise LockHeldError(holder_of(written.stored.record))
                return written.done
            if observer.moved:
                raise LockHeldError(holder)
            return False

        if not wait_until(attempt, time.monotonic() + 2 * self._patience, POLL_SECONDS):
            raise LockHeldError(holder)

    def _is_dead(self, found: Stored[Operation] | None) -> bool:
        """Return True if the key is that of a command of this host: its lock file is held here.

        The automation may hold the key without the file.
        """
        if found is None or found.record.who == AUTOMATION:
            return False
        return found.record.host == self.who.host

    def _write(self, found: Stored[Operation] | None) -> Written[Operation]:
        counter = 1 if found is None else found.record.counter + 1
        who = self.who
        record = Operation(who.who, who.host, who.pid, who.key, counter, self._stops)
        if found is None:
            return self._store.create(self._store.keys.operation, record, CALL_SECONDS)
        return self._store.swap(found, record, CALL_SECONDS)

    def _keep(self) -> None:
        while not self._ended.wait(self._patience / 7):
            with contextlib.suppress(OperatorError):  # ``check`` reports what lasts too long
                self._renew()
            if self._is_lost:
                return

    def _renew(self) -> None:
        """Raise the counter once.  Raises EtcdError."""
        with self._writing:
            sent = _now()
            written = self._write(self._stored)
            stored = written.stored
            if not written.done and stored is not None and self._is_own(stored.record):
                self._stored = stored  # an answer was lost
                return
            with self._changed:
                if written.done:
                    self._stored, self._confirmed = stored, sent
                else:
                    self._is_lost, self._rival = True, None if stored is None else stored.record
                self._changed.notify_all()

    def _is_own(self, record: Operation) -> bool:
        return record.identifier == self.who.key

    def _release(self) -> None:
        if self._is_lost or self._stored is None:
            return
        record = dataclasses.replace(self._stored.record, identifier="", pid=0)
        self._store.swap(
            self._stored, dataclasses.replace(record, counter=record.counter + 1), CALL_SECONDS
        )


def _lost(cluster: Cluster, rival: Operation | None) -> LockLostError:
    if rival is not None and rival.who == AUTOMATION and rival.identifier:
        return LockLostError(
            "the automation took over",
            f"{holder_of(rival)} replaces the primary; this command has changed nothing since",
            f"see what it does: {Commands.here(cluster).zodbrepl('journal')}",
            ExitCode.REFUSED,
        )
    by = "nobody" if rival is None or not rival.identifier else str(holder_of(rival))
    return LockLostError(
        "the lock of operations was lost: the command was not heard of for some seconds",
        f"it is held by {by} now",
        f"continue: {Commands.here(cluster).zodbrepl('resume')}",
        ExitCode.REFUSED,
    )


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
