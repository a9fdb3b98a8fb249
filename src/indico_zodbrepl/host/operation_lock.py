"""The lock of operations on this host: at most one operation runs at a time.

The lock is that of a file, so it ends with the process that holds it.  Where a cluster has several
hosts, an operation holds the locks of a majority of them: its own process that of its host, and the
agents those of the others (``remote.majority_lock``, ``remote.holds``).  With ``automatic`` it
holds that of its host and a key in etcd (``remote.etcd_lock``).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from typing import IO

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.locking import take
from indico_zodbrepl.host.operations_interface import Holder, LockHeldError
from indico_zodbrepl.probing.waiting import wait_until

LOOK_SECONDS = 0.5
"""A lock that is held for longer belongs to a running operation, not to a check."""


@contextlib.contextmanager
def held(cluster: Cluster, who: Holder, seconds: float = LOOK_SECONDS) -> Iterator[None]:
    """Hold this host's lock; the end of this process releases it in any case.

    Args:
        seconds: how long to wait for another holder.

    Raises OperatorError (exit 8): the file can't be used; LockHeldError if it is still held.
    """
    path = Layout(cluster).operation_lock
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = open(path, "a+b")  # noqa: SIM115 - closed by the block below
    except OSError as error:
        raise _unusable(cluster, error) from error
    with lock:
        deadline = time.monotonic() + seconds
        if not wait_until(lambda: take(lock.fileno()), deadline, LOOK_SECONDS / 50):
            raise LockHeldError(_noted(cluster))
        _note(lock, who)
        try:
            yield
        finally:
            if who.host:  # other hosts can't ask if a process of this one lives
                _note(lock, None)


def holder(cluster: Cluster) -> Holder | None:
    """Return who holds this host's lock; None if nobody does.

    Shares the lock for an instant, in which nobody can take it, and changes nothing.  Raises
    OperatorError (exit 8) if the file can't be used.
    """
    try:
        with Layout(cluster).operation_lock.open("rb") as lock:
            fcntl.flock(lock.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return None
    except BlockingIOError:
        return _noted(cluster) or Holder(0)
    except OSError as error:
        raise _unusable(cluster, error) from error
    return None


def likely_holder(cluster: Cluster) -> Holder | None:
    """Return as ``holder``, for repeated checks: the lock is tried only if it has a live holder.

    So operations are seldom kept from beginning by a check.  None also if the file can't be used.
    """
    found = _noted(cluster)
    if found is None or not (found.host or os.path.exists(f"/proc/{found.pid}")):
        return None
    try:
        return holder(cluster)
    except OperatorError:
        return None


def refuse_other(cluster: Cluster, key: str) -> None:
    """Raise LockHeldError if another one holds this host's lock than the one of a key."""
    found = holder(cluster)
    if found is not None and found.key != key:
        raise LockHeldError(found)


def _noted(cluster: Cluster) -> Holder | None:
    """Return the holder that the lock's file names, who need not live any more."""
    try:
        words = Layout(cluster).operation_lock.read_text("ascii").split()
        return Holder(int(words[0]), *words[1:3])
    except (OSError, ValueError, IndexError):
        return None


def _note(lock: IO[bytes], who: Holder | None) -> None:
    """Write the holder into the lock's file, for people and checks; ignore a full disk."""
    with contextlib.suppress(OSError):
        os.ftruncate(lock.fileno(), 0)
        if who is not None:
            words = (who.pid, who.host, who.key) if who.host else (who.pid,)
            os.write(lock.fileno(), " ".join(map(str, words)).encode())


def _unusable(cluster: Cluster, error: OSError) -> OperatorError:
    return OperatorError(
        "the lock of operations can't be used",
        f"{Layout(cluster).operation_lock}: {error.strerror}",
        "is it another user's? then run this as that user",
        ExitCode.REFUSED,
    )
