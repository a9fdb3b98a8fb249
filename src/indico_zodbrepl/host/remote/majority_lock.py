"""Hold the lock of operations on a majority of the hosts, by one kept request to each agent."""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from indico_zodbrepl.cluster import Cluster, ClusterHost
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import majority, operation_lock
from indico_zodbrepl.host.interface import HostAwayError
from indico_zodbrepl.host.majority import Decision, HostLock, Standing, decide
from indico_zodbrepl.host.operations_interface import Holder, LockHeldError, LockLostError
from indico_zodbrepl.host.remote import codec
from indico_zodbrepl.host.remote.client import LOCK_KEYS, AgentClient
from indico_zodbrepl.host.remote.holds import HoldLine

RETRY_SECONDS = 0.1
REGAIN_SECONDS = 5.0
"""Seconds to get back a majority that was lost, for example while an agent restarts."""
END_SECONDS = 2.0

_held: dict[Path, MajorityLock] = {}


def held_in(cluster: Cluster) -> MajorityLock | None:
    """Return the lock that this process holds; None if it holds none."""
    return _held.get(Layout(cluster).operation_lock)


@contextlib.contextmanager
def held(cluster: Cluster) -> Iterator[MajorityLock]:
    """Hold the locks of this host and of a majority of all.

    Raises LockHeldError; OperatorError (exit 8) if too few hosts answer.
    """
    who = Holder(os.getpid(), cluster.here or "", secrets.token_hex(6))
    with operation_lock.held(cluster, who, _patience(cluster)), MajorityLock(cluster, who) as lock:
        yield lock


def _patience(cluster: Cluster) -> float:
    """Return the seconds to wait for this host's lock: longer if its holder's host is away."""
    found = operation_lock.likely_holder(cluster)
    if found is not None and found.host not in ("", cluster.here):
        with contextlib.suppress(KeyError):  # a host that was removed
            try:
                AgentClient(cluster, cluster.host(found.host)).identity()
            except HostAwayError:
                return majority.RELEASE_SECONDS
    return operation_lock.LOOK_SECONDS


class MajorityLock:
    """The locks of other hosts beside this host's own, which the caller holds.

    Threads ask each host for its lock until the end, also after it was lost or away; so a host that
    comes back during an operation lets no other one begin.
    """

    def __init__(self, cluster: Cluster, who: Holder) -> None:
        self.who = who
        self._cluster = cluster
        self._changed = threading.Condition()
        self._locks = {
            host.name: HostLock(Standing.HELD if host.name == who.host else Standing.ASKED)
            for host in cluster.hosts
        }
        self._ended = threading.Event()
        self._requests: dict[str, Any] = {}
        self._threads = [
            threading.Thread(target=self._keep, args=(host,), name=f"hold-{host.name}", daemon=True)
            for host in cluster.hosts
            if host.name != who.host
        ]

    def __enter__(self) -> MajorityLock:
        """Take the locks.

        Raises LockHeldError; OperatorError (exit 8) if too few hosts answer.
        """
        for thread in self._threads:
            thread.start()
        try:
            self._acquire()
        except BaseException:
            self._end()
            raise
        path = Layout(self._cluster).operation_lock
        _held[path], LOCK_KEYS[path] = self, self.who.key
        return self

    def __exit__(self, *_error: object) -> None:
        path = Layout(self._cluster).operation_lock
        del _held[path], LOCK_KEYS[path]
        self._end()

    def hosts(self) -> list[str]:
        """Return the other hosts whose locks are held now."""
        with self._changed:
            return [
                host
                for host, lock in self._locks.items()
                if lock.standing is Standing.HELD and host != self.who.host
            ]

    def check(self) -> None:
        """Raise LockLostError unless a majority is held, or is held again after some seconds."""
        with self._changed:
            if not self._changed.wait_for(self._is_majority, REGAIN_SECONDS):
                raise LockLostError(
                    "the lock of operations was lost: too few hosts answer",
                    f"{majority.missing(self._locks)}; needed: {self._quorum} of "
                    f"{len(self._locks)} hosts",
                    "on a host that reaches a majority of the hosts: "
                    f"{Commands.here(self._cluster).zodbrepl('resume')}",
                    ExitCode.REFUSED,
                )

    def announce_stop(self, node: str) -> None:
        """Do nothing: there is no automation."""

    @property
    def _quorum(self) -> int:
        return majority.quorum(len(self._locks))

    def _is_majority(self) -> bool:
        held = [each for each in self._locks.values() if each.standing is Standing.HELD]
        return len(held) >= self._quorum

    def _acquire(self) -> None:
        began = time.monotonic()
        with self._changed:
            while True:
                decision = decide(self.who, self._locks, time.monotonic() - began)
                if decision is not Decision.WAIT:
                    break
                self._changed.wait(RETRY_SECONDS)
            if decision is Decision.BUSY:
                raise LockHeldError(majority.busy_holder(self._locks))
            if decision is Decision.AWAY:
                raise OperatorError(
                    "too few hosts answer, so nothing was changed",
                    f"{majority.missing(self._locks)}; an operation holds the lock of "
                    f"{self._quorum} of {len(self._locks)} hosts",
                    f"see which hosts are away: {Commands.here(self._cluster).zodbrepl('status')}",
                    ExitCode.REFUSED,
                )

    def _keep(self, host: ClusterHost) -> None:
        """Hold a host's lock until the end, and ask again when it can't be had."""
        while not self._ended.is_set():
            try:
                for line in self._lines(host):
                    self._set(host, _standing(line))
                lost = HostLock(Standing.AWAY, why="the connection ended")
                if self._locks[host.name].standing is Standing.HELD:
                    self._set(host, lost)
            except HostAwayError as error:
                self._set(host, HostLock(Standing.AWAY, why=error.detail))
            except OperatorError as error:
                self._set(host, HostLock(Standing.AWAY, why=f"{error.notice}: {error.detail}"))
            self._ended.wait(RETRY_SECONDS)

    def _lines(self, host: ClusterHost) -> Iterator[HoldLine]:
        client = AgentClient(self._cluster, host)
        with client.send("POST", "/hold", client.request(who=self.who)) as response:
            with self._changed:
                self._requests[host.name] = response
                if self._ended.is_set():
                    return
            try:
                yield from client.lines(response, HoldLine)
            finally:
                with self._changed:
                    del self._requests[host.name]

    def _set(self, host: ClusterHost, lock: HostLock) -> None:
        with self._changed:
            self._locks[host.name] = lock
            self._changed.notify_all()

    def _end(self) -> None:
        """Release all locks."""
        with self._changed:
            self._ended.set()
            for response in self._requests.values():
                response.shutdown()
        deadline = time.monotonic() + END_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))


def _standing(line: HoldLine) -> HostLock:
    if line.error is not None:
        raise codec.raised(line.error)
    if line.held:
        return HostLock(Standing.HELD)
    return HostLock(Standing.BUSY, holder=line.busy)
