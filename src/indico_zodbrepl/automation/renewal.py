"""The reign of a leader: renew its key and its server's lease, or give the role away.

One thread does only this, so that nothing slow in the program delays a renewal.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable

from indico_zodbrepl.automation.decisions import Health, Signs, examine
from indico_zodbrepl.automation.log import Once, say
from indico_zodbrepl.automation.server import ServerProcess
from indico_zodbrepl.automation.threads import thread
from indico_zodbrepl.automation.timing import ORDER_SECONDS, Timing, now
from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.etcd.keys import Leader, Store, Stored
from indico_zodbrepl.etcd.problems import EtcdError
from indico_zodbrepl.host.engine_control import control_of
from indico_zodbrepl.host.server_control import (
    NoServerError,
    ServerRefusedError,
    ServerStatus,
)

RETRY_SECONDS = 0.1
"""Between two attempts while etcd does not answer."""


class Reign:
    """The role of a leader on this host, from the swap of the key to its end.

    Attributes:
        stored: the key as this host has written it last.
        status: of the server, by its last answer.
        until: end of the server's lease, on the clock of ``timing.now``.
        over: why it has ended; empty while it lasts.
        leads: True if the server is the primary of the key's epoch, so that it gets leases.

    Args:
        stored: the key with this node.
        sent: when the swap was sent that wrote it.
        leads: True if the server is the primary of the key's epoch already.
        is_paused: True while no server is killed and no role given away.
        vouch: called before the first lease of a server's process, so that the record of
            acknowledged commits is true; raises OperatorError.
        on_end: called in the thread when it is over.
    """

    def __init__(
        self,
        cluster: Cluster,
        store: Store,
        stored: Stored[Leader],
        sent: float,
        *,
        leads: bool,
        is_paused: Callable[[], bool],
        vouch: Callable[[Reign], None],
        on_end: Callable[[], None],
    ) -> None:
        self.stored = stored
        self.status: ServerStatus | None = None
        self.over = ""
        self._store = store
        self._timing = Timing(cluster.lease)
        self.until = self._timing.until(sent)
        self._cluster = cluster
        self.node: Node = cluster.node(stored.record.node)
        self._control = control_of(cluster, self.node)
        self._is_guarded = backend_of(cluster).needs_guard
        self.leads = leads
        self._is_paused = is_paused
        self._vouch = vouch
        self._vouched = False
        self._on_end = on_end
        self._sent = sent
        self._signs = Signs(answered=now())
        self._wake = threading.Event()
        self._stopping = False
        self._giving_up = ""
        self._kills = False
        self._once = Once()
        self._process: ServerProcess | None = None
        self._thread = thread("renewal", self._run)

    @property
    def epoch(self) -> int:
        return self.stored.record.epoch

    @property
    def left(self) -> float:
        """Return the seconds until the server's lease ends; negative afterwards."""
        return self.until - now()

    def start(self) -> None:
        self._thread.start()

    def promoted(self) -> None:
        """Give leases from now on: the server is the primary of the key's epoch, or becomes it."""
        self._signs = Signs(answered=now())
        self.leads = True
        self._wake.set()

    def stop(self) -> None:
        """End the thread without giving the role away."""
        self._stopping = True
        self._wake.set()
        self._thread.join(2.0)

    def give_up(self, why: str, *, kill: bool = False) -> None:
        """Give the role away once the server certainly takes no commits; then ``over`` is set.

        Args:
            kill: an order to promote it, with a lease, may still be under way.
        """
        self._kills = kill
        self._giving_up = why
        self._wake.set()

    def end_with(self, why: str) -> None:
        """End without a word to etcd: the caller has written the key."""
        self.over = why
        self.stop()

    def _run(self) -> None:
        if self.leads:
            self._extend()
        due = self._sent + self._timing.renewal
        while not (self._stopping or self.over):
            self._wake.wait(max(0.0, due - now()))
            was_woken = self._wake.is_set()
            self._wake.clear()
            if self._stopping or self._end_if_unhealthy() or self.over:
                break
            if was_woken and now() < due:
                if self._signs.stopped_since is None:
                    self._extend()
                continue
            due = self._renew()
        if self._process is not None:
            self._process.close()
        if not self._stopping:
            self._on_end()

    def _renew(self) -> float:
        """Renew the key, then the lease; return when to do it again."""
        sent, record = now(), self.stored.record
        renewed = dataclasses.replace(record, counter=record.counter + 1, released=False)
        try:
            written = self._store.swap(self.stored, renewed, self._timing.lease / 3)
        except OperatorError as error:
            self._once.say(
                "etcd", f"the lease of {self._name} is not renewed: {error.notice}: {error.detail}"
            )
            return now() + RETRY_SECONDS
        self._once.say("etcd", "")
        found = written.stored
        if written.done and found is not None:
            gap = sent - self._sent
            if gap > self._timing.lease:
                say(f"{self._name} leads again after {gap:.1f} s without a renewal")
            self.stored, self._sent, self.until = found, sent, self._timing.until(sent)
            self._extend()
            return sent + self._timing.renewal
        if found is not None and self._is_ours(found.record):
            self.stored = found  # a program that ran here before has written it
            return now()
        self.over = _lost(found)
        say(f"{self._name} has lost its role: {self.over}")
        return now()

    def _is_ours(self, record: Leader) -> bool:
        own = self.stored.record
        return (record.node, record.host, record.epoch) == (own.node, own.host, own.epoch) and (
            not record.released
        )

    def _extend(self) -> None:
        """Extend the lease of the server; note what that says of its health."""
        if not self.leads:
            return
        if self._process is None or self._process.pid is None:
            self._process = ServerProcess(self._cluster, self.node, self._wake.set)
        sent = now()
        try:
            if not self._vouched:
                self._vouch(self)
                self._vouched = True
            limit = self._timing.slow_order if self._signs.failures else ORDER_SECONDS
            self.status = self._control.lease(self.epoch, self.until, limit)
            self._signs = Signs(answered=now())
            self._once.say("server", "")
        except NoServerError:
            self._signs = dataclasses.replace(self._signs, gone=True)
        except ServerRefusedError as error:
            if not self._is_paused():
                self._giving_up = f"{error.notice}: {error.detail}"
        except EtcdError as error:
            self._once.say("etcd", f"no lease for {self._name} yet: {error.detail}")
        except OperatorError as error:
            failures = self._signs.failures + 1
            self._signs = dataclasses.replace(self._signs, failures=failures, failed=sent)
            self._once.say("server", f"the server of {self._name} does not answer: {error.detail}")

    def _end_if_unhealthy(self) -> bool:
        """Give the role away if the server can't fill it; return True if that has been done."""
        process = self._process
        if process is not None:
            gone = self._signs.gone or process.gone
            self._signs = dataclasses.replace(
                self._signs, gone=gone, stopped_since=process.stopped_since
            )
        if self.leads:
            health, why = examine(self._signs, self._timing, now(), paused=self._is_paused())
        else:
            health, why = Health.RENEW, ""
        if self._is_paused() and self._signs.gone:
            self._again()
        if health is Health.HAND_OVER and (self._is_guarded or not (process and process.gone)):
            # A socket that was removed, for example, is no proof: the process has its lease.  Nor
            # is the end of a guard that was killed: sessions of its server may outlive it.
            health = Health.KILL
        if self._giving_up:
            health, why = Health.KILL, self._giving_up
        if health is Health.RENEW:
            return False
        say(f"{self._name} gives its role away: {why}")
        if health is Health.KILL and not self._silence():
            self.over = f"{why}; its server could not be killed, so its lease has to end"
            say(f"{self._name}: {self.over}")
            return True
        self.over = why
        self._release(why)
        return True

    def _again(self) -> None:
        """Look for a new process of the server, which has ended while automation is paused."""
        if self._process is not None:
            self._process.close()
        self._process, self._signs = None, Signs(answered=now())
        self._vouched = False

    def _silence(self) -> bool:
        """Make sure that the server commits nothing any more: its gate is closed, or it is dead."""
        signs = self._signs
        has_gate = not (self._is_guarded or self._kills)
        if has_gate and not (signs.failures or signs.gone) and signs.stopped_since is None:
            try:
                self._control.lease(self.epoch, now() - self._timing.lease, ORDER_SECONDS)
            except ServerRefusedError:
                return True
            except OperatorError:
                pass
            else:
                return True
        process = self._process or ServerProcess(self._cluster, self.node, self._wake.set)
        if process.kill():
            say(f"killed process {process.pid}, the server of {self._name}")
            return True
        return process.pid is None and process.gone

    def _release(self, why: str) -> None:
        record = self.stored.record
        released = dataclasses.replace(record, counter=record.counter + 1, released=True, why=why)
        while now() < self.until + self._timing.margin:
            try:
                self._store.swap(self.stored, released, self._timing.lease / 3)
            except OperatorError as error:
                self._once.say("etcd", f"the role can't be given away: {error.detail}")
                self._wake.wait(RETRY_SECONDS)
            else:
                return

    @property
    def _name(self) -> str:
        return f"node {self.stored.record.node} (epoch {self.epoch})"


def _lost(found: Stored[Leader] | None) -> str:
    if found is None:
        return "the key in etcd was deleted"
    record = found.record
    if record.released:
        return f"it was given away ({record.why})"
    return f"node {record.node} leads in epoch {record.epoch} ({record.why})"
