"""The lease of a primary: the moment up to which its commits may begin and end.

The automation of the host extends the lease as long as it holds the role of leader.  When it cannot,
for example because the host is cut off, the lease ends, and another node may become the primary: a
commit must not be acknowledged here any more.  So a server that is leased compares the lease with
the clock

- at a client's vote,
- before it finishes a commit, which then has not happened,
- and when the commit is on disk, before the client gets an answer.  Writing may have taken seconds,
  or the process was stopped meanwhile.  The client learns that the outcome is unknown.

A timer alone would be too late after a stop.  The clock is that of `boottime`, which counts the time
that the host was suspended and which no change of the date moves.
"""
from __future__ import absolute_import

import logging

from ZEO.asyncio.server import Delay, Result
from ZEO.StorageServer import ZEOStorage
from ZODB.POSException import ReadOnlyError

from indico_zodbrepl.dataplane.programs.clock import boottime

logger = logging.getLogger('zodbrepl.control')

# Seconds.  The end of a longer one was computed with another clock.
LONGEST = 60.0

ENDED = 'this server has no lease of the role of primary'


class Lease(object):
    """The lease of one server.

    Args:
        is_leased: True if commits need a lease from the start; otherwise, from the first one on.
        call_later: as that of an event loop.
        when_checked: called in the loop's thread, after each extension with False and at the end
            of the lease with True.
    """

    def __init__(self, is_leased, call_later, when_checked):
        self._granted = (0, boottime()) if is_leased else None  # epoch, moment of its end
        self._call_later = call_later
        self._when_checked = when_checked
        self._timer = None
        self._was_in_force = not is_leased

    @property
    def left(self):
        """Return the seconds until the lease ends, negative afterwards; None if not leased."""
        granted = self._granted
        return None if granted is None else granted[1] - boottime()

    @property
    def status(self):
        """Return the lease as `ruok` reports it: {"left": seconds}; None if not leased."""
        left = self.left
        return None if left is None else {'left': round(left, 3)}

    @property
    def has_ended(self):
        """Return True if no commit may begin or end; any thread may ask."""
        granted = self._granted
        return granted is not None and boottime() >= granted[1]

    def extend(self, epoch, until):
        """Let commits begin and end until a moment of `boottime`; any thread may call it.

        Call `check` in the loop's thread afterwards.

        Args:
            epoch: in which this server has the role of primary.
        """
        self._granted = epoch, until

    def end_before(self, epoch):
        """End a lease of an earlier epoch: the server has another role now."""
        granted = self._granted
        if granted is not None and granted[0] < epoch:
            self._granted = epoch, min(granted[1], boottime())

    def check(self):
        """Compare the lease with the clock, now and at its end; call it in the loop's thread."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        is_in_force = not self.has_ended
        has_changed = is_in_force != self._was_in_force
        if has_changed:
            self._was_in_force = is_in_force
            if is_in_force:
                logger.info('the lease has begun: %.3f s are left', self.left or 0)
            else:
                logger.warning('the lease ended %.3f s ago: commits are refused', -self.left)
        if is_in_force and self._granted is not None:
            self._timer = self._call_later(max(0, self.left) + 0.001, self.check)
        self._when_checked(has_changed and not is_in_force)


class LeasedZEOStorage(ZEOStorage):
    """The end of a client's commit on a server that may be leased."""

    def tpc_finish(self, id):
        lease = self.server.gate.lease
        if lease.has_ended and self._check_tid(id):
            logger.warning('a commit was voted before the lease ended: it is aborted')
            self.tpc_abort(id)
            raise ReadOnlyError(ENDED)
        result = super(LeasedZEOStorage, self).tpc_finish(id)
        if lease.has_ended and isinstance(result, Result):
            logger.warning('a commit was on disk after the lease had ended: its outcome is unknown')
            self._clear_transaction()
            self.connection.close()
            return Delay()  # never answered
        return result
