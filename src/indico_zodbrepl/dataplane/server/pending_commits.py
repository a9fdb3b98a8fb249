"""The transactions that a primary has committed and not acknowledged, in the order of their ids."""
from __future__ import absolute_import

import collections
import logging

from indico_zodbrepl.dataplane.programs.clock import monotonic

logger = logging.getLogger('zodbrepl.synchronous')

NEVER = float('inf')


class _Pending(object):
    """A transaction, or a call that waits for it."""

    __slots__ = 'tid', 'deadline', 'acknowledge', 'give_up'

    def __init__(self, tid, deadline, acknowledge, give_up):
        self.tid = tid
        self.deadline = deadline
        self.acknowledge = acknowledge
        self.give_up = give_up


class PendingCommits(object):
    """A queue of transactions, with the calls that answer their clients.

    Use it in the thread of the server's event loop.
    """

    def __init__(self):
        self._queue = collections.deque()

    def __len__(self):
        return len(self._queue)

    def add(self, tid, seconds, acknowledge, give_up):
        """Append a transaction.

        Args:
            seconds: until it is late.
            acknowledge: called when it is acknowledged; before those of later transactions.
            give_up: called before that if it takes too long; None if nobody waits for it.
        """
        self._queue.append(_Pending(tid, monotonic() + seconds, acknowledge, give_up))

    def after(self, call):
        """Call `call` after the last transaction; return False if there is none."""
        if not self._queue:
            return False
        last = self._queue[-1]
        self._queue.append(_Pending(last.tid, last.deadline, call, call))
        return True

    def begins_by(self, tid):
        """Return True if the first transaction is not later than `tid`."""
        return bool(self._queue) and self._queue[0].tid <= tid

    def acknowledge(self, tid):
        """Take the transactions up to `tid` off the queue; yield the id of each, then answer it."""
        while self.begins_by(tid):
            first = self._queue.popleft()
            yield first.tid
            answer(first.acknowledge)

    def give_up(self):
        """Answer the clients that wait now that the outcome of their commits is unknown."""
        for each in list(self._queue):
            call, each.give_up = each.give_up, None
            if call is not None:
                answer(call)

    @property
    def is_late(self):
        """Return True if the first transaction waits for too long."""
        return bool(self._queue) and self._queue[0].deadline < monotonic()

    @property
    def has_clients(self):
        """Return True if a client waits for its commit."""
        return any(each.give_up is not None for each in self._queue)

    @property
    def in_doubt(self):
        """Return the number of transactions for which nobody waits any more."""
        return len(set(each.tid for each in self._queue if each.give_up is None))


def answer(call):
    """Call what answers a client; an error is logged, because the others wait, too."""
    try:
        call()
    except Exception:
        logger.exception('cannot answer a client')
