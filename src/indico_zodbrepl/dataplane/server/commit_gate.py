"""The gate that lets commits begin on a storage server, delays them or refuses them.

A commit begins when its client votes: up to then the server has written nothing.
A client that votes during an operator's hold waits.  When the hold is released
it continues.  If its connection is closed instead, because another node became
primary, its commit has not happened, and it can safely be retried there.

Without a hold, a server that knows of a higher epoch than its own, whose lease
has ended, or that has too few followers, refuses votes with ReadOnlyError.  One
with `synchronous` lets them wait for a while first (see `acknowledgements`).

Use everything here in the thread of the server's event loop.
"""
from __future__ import absolute_import

import collections
import logging
import time

from ZEO.StorageServer import LockManager, TimeoutThread
from ZODB.POSException import ReadOnlyError

from indico_zodbrepl.dataplane.programs.clock import monotonic
from indico_zodbrepl.dataplane.server.lease import ENDED, Lease
from indico_zodbrepl.dataplane.server.log import WAITING
from indico_zodbrepl.dataplane.server.status import replication_status

logger = logging.getLogger('zodbrepl.control')

OPERATOR = 'operator'
EPOCH = 'epoch'
LEASE = 'lease'
FOLLOWERS = 'followers'
SYNCHRONOUS = 'synchronous'
MANY_WAITING = 10  # as ZEO's critical messages


class GatedLockManager(LockManager):
    """A lock manager that grants the commit lock in turn, and only while the gate is open.

    ZEO's own wakes all clients that wait whenever the lock is free, and the first one in the order
    of a dict takes it, which on Python 2.7 is no order of time: with 16 clients that commit all the
    time, some never got it.

    Args:
        gate: a CommitGate.
        others: as for ZEO's LockManager.
    """

    def __init__(self, gate, *others):
        LockManager.__init__(self, *others)
        self.waiting = collections.OrderedDict()
        self._gate = gate

    def lock(self, zs, func):
        if self._gate.refusal is not None:
            raise ReadOnlyError(self._gate.refusal)
        result = LockManager.lock(self, zs, func)
        self.go_on()
        return result

    def release(self, zs):
        with self._lock:
            if self.locked is zs:
                self._unlocked(zs)
            else:
                self.waiting.pop(zs, None)
        self.go_on()

    def _can_lock(self, zs):
        return (LockManager._can_lock(self, zs) and
                next(iter(self.waiting), zs) is zs and  # nobody has waited longer
                not (self._gate.waits or self._gate.lease.has_ended))

    def go_on(self):
        """Let the client that has waited longest have the lock, if it is free."""
        first = next(iter(self.waiting), None)
        if first is not None and self.locked is None:
            first.call_soon_threadsafe(self._lock_waiting, first)

    def _log_waiting(self, zs, message):
        # ZEO's own writes several lines for each commit.
        if len(self.waiting) >= MANY_WAITING:
            logging.getLogger(WAITING).warning(
                '%d clients wait to commit to storage %s', len(self.waiting), self.storage_id)

    def refuse_waiting(self, reason):
        for zs, (_, delay) in list(self.waiting.items()):
            del self.waiting[zs]
            delay.sent = 'error'
            delay.protocol.send_error(delay.msgid, ReadOnlyError(reason))


class TransactionTimeout(TimeoutThread):
    """Closes the connection of a client that votes and does not end its transaction in time.

    ZEO's own uses the system clock.  While that is set back, a client that
    hangs would keep all others from committing.

    Args:
        timeout: seconds.
    """

    def begin(self, client):
        """Start the timer of a client that has the commit lock."""
        with self._cond:
            self._client = client
            self._deadline = monotonic() + self._timeout
            self._cond.notify()

    def run(self):
        while True:
            with self._cond:
                while self._deadline is None:
                    self._cond.wait()
                seconds = self._deadline - monotonic()
                client = self._client
                if seconds <= 0:
                    self._deadline = None
            if seconds > 0:
                time.sleep(seconds)
                continue
            client.log('transaction not ended within %g s: its connection is closed' %
                       self._timeout, logging.CRITICAL)
            client.call_soon_threadsafe(client.connection.close)


class CommitGate(object):
    """The reasons why a server lets no commit begin.

    Args:
        call_later: as that of an event loop.
        when_open: called when new clients may write to this server again.
        when_lease_ended: called when the lease has ended.
        is_leased: see `Lease`.

    Attributes:
        lease: the server's `Lease`.
        lock_managers: of the server, by storage.
        acknowledgements: `Acknowledgements` of the server.
    """

    def __init__(self, call_later, when_open, when_lease_ended, is_leased=False):
        self._call_later = call_later
        self._when_open = when_open
        self._when_lease_ended = when_lease_ended
        self.lease = Lease(is_leased, call_later, self._lease_checked)
        self._timer = None
        self._until = None
        self._superseded_by = None
        self._short_of_followers = None
        self.lock_managers = {}
        self.acknowledgements = None

    @property
    def waits(self):
        """Return True if votes wait for the end of an operator's hold, or for followers."""
        return self._is_held or self.acknowledgements.waits and self.refusal is None

    @property
    def _is_held(self):
        return self._timer is not None

    @property
    def refusal(self):
        """Return why votes are refused, in words; None if they are not."""
        if self._is_held:
            return None
        if self._superseded_by is not None:
            return ('the cluster is in epoch %d, and this server holds an '
                    'earlier one' % self._superseded_by)
        if self.lease.has_ended:
            return ENDED
        return self._short_of_followers or self.acknowledgements.refusal

    @property
    def held(self):
        """Return why no commit begins, as `ruok` reports it; None if commits may begin.

        A later epoch takes precedence: a hold ends, the epoch does not.
        """
        if self._superseded_by is not None:
            return EPOCH
        if self._is_held:
            return OPERATOR
        if self.lease.has_ended:
            return LEASE
        if self._short_of_followers is not None:
            return FOLLOWERS
        is_open = not self.acknowledgements.waits and self.acknowledgements.refusal is None
        return None if is_open else SYNCHRONOUS

    @property
    def seconds_left(self):
        """Return the seconds until an operator's hold ends automatically; None without one."""
        return max(0.0, self._until - monotonic()) if self._is_held else None

    @property
    def closed_to_writers(self):
        """Return True if new clients should look for another server to write to."""
        return self.held in (OPERATOR, EPOCH, LEASE)

    @property
    def is_role_lost(self):
        """Return True if another node may be the primary by now."""
        return self._superseded_by is not None or self.lease.has_ended

    @property
    def idle(self):
        """Return True if no client is between its vote and the answer to its commit."""
        return self.acknowledgements.idle and all(each.locked is None for each in self.lock_managers.values())

    def hold(self, seconds):
        """Make votes wait from now on, for at most that many seconds."""
        if self._timer is not None:
            self._timer.cancel()
        self._until = monotonic() + seconds
        self._timer = self._call_later(seconds, self._expired)
        logger.warning('commits are held for %g s at most', seconds)

    def release(self):
        """End an operator's hold; return True if there was one."""
        if self._timer is None:
            return False
        self._timer.cancel()
        self._end_of_hold('commits are no longer held')
        return True

    def supersede(self, epoch):
        """Close the gate for good: the cluster is in this epoch, higher than the server's."""
        self._superseded_by = epoch
        logger.warning('commits are refused from now on: the cluster is in '
                       'epoch %d', epoch)
        # Followers that know of it confirm no more.
        self.acknowledgements.give_up()
        self._settle()

    def reopen(self):
        """End a hold and forget higher epochs: the server has a new role."""
        self._superseded_by = None
        if not self.release():
            self._settle()

    def short_of_followers(self, reason):
        """Refuse votes for this reason, in words; None ends the refusal."""
        if reason != self._short_of_followers:
            self._short_of_followers = reason
            logger.warning('%s', 'commits are refused: ' + reason if reason
                           else 'there are followers enough: commits are '
                           'taken again')
            self._settle()

    def acknowledgements_changed(self):
        """Let votes continue, or refuse them, as `acknowledgements` says now."""
        self._settle()

    def _lease_checked(self, has_just_ended):
        self._settle()
        if has_just_ended:
            self._when_lease_ended()

    def _expired(self):
        self._end_of_hold('nobody ended the hold of commits in time: it ends '
                          'by itself')

    def _end_of_hold(self, message):
        self._timer = self._until = None
        logger.warning(message)
        self._settle()

    def _settle(self):
        if self.waits:
            return
        refusal = self.refusal
        for lock_manager in self.lock_managers.values():
            if refusal is None:
                lock_manager.go_on()
            else:
                lock_manager.refuse_waiting(refusal)
        if not self.closed_to_writers:
            self._when_open()


# seconds for which followers may be missing: they reconnect after a restart
GRACE = 5.0
INTERVAL = 0.1


class FollowerWatch(object):
    """A periodic check of the followers, in the thread of the server's event loop.

    Args:
        server: a NodeStorageServer.
        least: minimum number of followers for commits; 0 for none.
    """

    def __init__(self, server, least):
        self._server = server
        self._least = least
        self._short_since = None

    def start(self):
        """Start the checks; call it once, before the loop runs or in its thread."""
        if self._least:
            self._look()

    def _look(self):
        self._server.gate.short_of_followers(self._reason(monotonic()))
        self._server.acceptor.event_loop.call_later(INTERVAL, self._look)

    def _reason(self, now):
        missing = self._missing()
        if not missing:
            self._short_since = None
            return None
        if self._short_since is None:
            self._short_since = now
        if now - self._short_since < GRACE:
            return None
        return 'fewer than %d connected followers' % self._least

    def _missing(self):
        for storage in self._server.storages.values():
            status = replication_status(storage)
            if status['role'] == 'primary' and (
                    len(status['followers']) < self._least):
                return True
        return False
