"""Whether a storage server lets commits begin.

A commit begins when its client votes: up to then the server has written nothing.
A client that votes during an operator's hold waits.  When the hold is released
it goes on; when its connection is closed instead, because another node took
over, its commit has not happened, and it may safely try it again there.

Without a hold, a server that knows of a higher epoch than the one it serves
in, or has too few followers, refuses votes with ReadOnlyError.

Use everything here in the thread of the server's event loop.
"""
from __future__ import absolute_import

import logging
import time

from ZEO.StorageServer import LockManager, TimeoutThread
from ZODB.POSException import ReadOnlyError

from indico_zodbrepl.dataplane.programs.clock import monotonic
from indico_zodbrepl.dataplane.server.status import replication_status

logger = logging.getLogger('zodbrepl.control')

OPERATOR = 'operator'
EPOCH = 'epoch'
FOLLOWERS = 'followers'


class GatedLockManager(LockManager):
    """Gives the commit lock to nobody while the gate is closed.

    Args:
        gate: a CommitGate.
        others: as for ZEO's LockManager.
    """

    def __init__(self, gate, *others):
        LockManager.__init__(self, *others)
        self._gate = gate

    def lock(self, zs, func):
        if self._gate.refusal is not None:
            raise ReadOnlyError(self._gate.refusal)
        return LockManager.lock(self, zs, func)

    def _can_lock(self, zs):
        return LockManager._can_lock(self, zs) and not self._gate.waits

    def go_on(self):
        """Let those who wait have the lock, one after the other."""
        for zs in list(self.waiting):
            zs.call_soon_threadsafe(self._lock_waiting, zs)

    def refuse_waiting(self, reason):
        for zs, (_, delay) in list(self.waiting.items()):
            del self.waiting[zs]
            delay.sent = 'error'
            delay.protocol.send_error(delay.msgid, ReadOnlyError(reason))


class TransactionTimeout(TimeoutThread):
    """Closes the connection of a client that votes and does not end its transaction in time.

    ZEO's own takes the time from the system's clock.  While that is put back, a client
    that hangs would keep all others from committing.

    Args:
        timeout: seconds.
    """

    def begin(self, client):
        """Start the timer of a client, which has the commit lock."""
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
    """The reasons for which a server lets no commit begin.

    Args:
        call_later: as that of an event loop.
        when_open: called when new clients may write to this server again.
    """

    def __init__(self, call_later, when_open):
        self._call_later = call_later
        self._when_open = when_open
        self._timer = None
        self._until = None
        self._superseded_by = None
        self._short_of_followers = None
        self.lock_managers = {}

    @property
    def waits(self):
        """Return True if votes wait for the end of an operator's hold."""
        return self._timer is not None

    @property
    def refusal(self):
        """Return why votes are refused, in words; None when they are not."""
        if self.waits:
            return None
        if self._superseded_by is not None:
            return ('the cluster is in epoch %d, and this server holds an '
                    'earlier one' % self._superseded_by)
        return self._short_of_followers

    @property
    def held(self):
        """Return why no commit begins, as `ruok` shows it; None when they may.

        A later epoch counts for more than a hold: that ends, the epoch does not.
        """
        if self._superseded_by is not None:
            return EPOCH
        if self.waits:
            return OPERATOR
        return FOLLOWERS if self._short_of_followers is not None else None

    @property
    def seconds_left(self):
        """Return seconds until an operator's hold ends by itself; None without one."""
        return max(0.0, self._until - monotonic()) if self.waits else None

    @property
    def closed_to_writers(self):
        """Return True if new clients should look for another server to write to."""
        return self.held in (OPERATOR, EPOCH)

    @property
    def idle(self):
        """Return True if no client is between its vote and its end."""
        return all(each.locked is None for each in self.lock_managers.values())

    def hold(self, seconds):
        """Let votes wait from now on, for so many seconds at most."""
        if self._timer is not None:
            self._timer.cancel()
        self._until = monotonic() + seconds
        self._timer = self._call_later(seconds, self._expired)
        logger.warning('commits are held for %g s at most', seconds)

    def release(self):
        """End an operator's hold; tell whether there was one."""
        if self._timer is None:
            return False
        self._timer.cancel()
        self._end_of_hold('commits are no longer held')
        return True

    def supersede(self, epoch):
        """Close for good to a server of an epoch lower than this one."""
        self._superseded_by = epoch
        logger.warning('commits are refused from now on: the cluster is in '
                       'epoch %d', epoch)
        self._settle()

    def reopen(self):
        """End a hold and forgets higher epochs: the server's role is new."""
        self._superseded_by = None
        if not self.release():
            self._settle()

    def short_of_followers(self, reason):
        """Refuse votes for this reason (words) until called with None."""
        if reason != self._short_of_followers:
            self._short_of_followers = reason
            logger.warning('%s', 'commits are refused: ' + reason if reason
                           else 'there are followers enough: commits are '
                           'taken again')
            self._settle()

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


# seconds that followers may be missing: they reconnect after a restart
GRACE = 5.0
INTERVAL = 0.1


class FollowerWatch(object):
    """Looks again and again, in the thread of the server's event loop.

    Args:
        server: a NodeStorageServer.
        least: followers without which it takes no commits; 0 for none.
    """

    def __init__(self, server, least):
        self._server = server
        self._least = least
        self._short_since = None

    def start(self):
        """Call it once, before the loop runs or in its thread."""
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
