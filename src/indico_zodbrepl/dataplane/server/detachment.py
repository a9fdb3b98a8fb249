"""A follower's absence from its upstream, while others compare what each node has received."""
from __future__ import absolute_import

import logging
import threading

from indico_zodbrepl.dataplane.programs.clock import monotonic

logger = logging.getLogger('zodbrepl.replication')

LONGEST = 600.0  # seconds


class Detachment(object):
    """The time for which a follower stays away from its upstream.

    Use it in the thread of the server's event loop.

    Args:
        call_later: as that of an event loop.
        when_over: called in a thread of its own when the time is over.
    """

    def __init__(self, call_later, when_over):
        self._call_later = call_later
        self._when_over = when_over
        self._timer = None
        self._until = None

    @property
    def left(self):
        """Return the seconds that are left; None if the follower is not detached."""
        return None if self._timer is None else max(0.0, self._until - monotonic())

    @property
    def is_over(self):
        """Return True if the time has run out, and nobody has ended or renewed it."""
        return self._timer is not None and monotonic() >= self._until

    def begin(self, seconds):
        """Stay away for that many seconds from now on."""
        self.end()
        self._until = monotonic() + seconds
        self._timer = self._call_later(seconds, self._run_out)

    def end(self):
        """Return True if the follower was detached; it is no longer."""
        if self._timer is None:
            return False
        self._timer.cancel()
        self._timer = None
        return True

    def _run_out(self):
        thread = threading.Thread(target=self._when_over, name='detachment')
        thread.daemon = True
        thread.start()
