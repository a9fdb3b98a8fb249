"""Commits on PostgreSQL and MariaDB while too few secondaries acknowledge them.

The server makes such a commit wait, and shows in which state it is (see `backends.acknowledging` of
the control plane).  RelStorage opens its transactions as writable whatever the server's default is,
and MariaDB cannot refuse anything while a commit waits.  So this process refuses at the vote, when
nothing has been written, and ends the waits of commits that were under way: their outcome is unknown.
"""
from __future__ import absolute_import

import json
import threading

from indico_zodbrepl.dataplane.programs.clock import monotonic

REFUSING = 'refusing', 'asking'
GRACE = 1.0  # seconds for a commit that is just being acknowledged

# The last state that the server shows, as JSON; NULL or an error if it shows none.
QUERIES = {
    'postgresql': "SELECT current_setting('zodbrepl.commits', true)",
    'mysql': 'SELECT state FROM zodbrepl.commits',
}


def refusal_in(text):
    """Return why commits are refused, in words; None if they are not."""
    try:
        shown = json.loads(text or '{}')
        if shown.get('state') not in REFUSING:
            return None
        return ('nothing was written: fewer than %d secondaries confirm commits (%s)'
                % (shown['count'], shown['level']))
    except (ValueError, KeyError, AttributeError, TypeError):
        return None


class CommitWaits(object):
    """The calls of this process that wait for a commit.  Thread-safe.

    The first call on a connection makes temporary tables, and commits that too.
    """

    def __init__(self):
        self._begun = {}
        self._lock = threading.Lock()

    def counted(self, call):
        """Return the function `call`, counted while it runs."""
        def counting(*args, **kwargs):
            key = object()
            with self._lock:
                self._begun[key] = monotonic()
            try:
                return call(*args, **kwargs)
            finally:
                with self._lock:
                    del self._begun[key]
        return counting

    @property
    def are_late(self):
        """Return True if one has waited for longer than one that is acknowledged needs."""
        with self._lock:
            return any(monotonic() - begun > GRACE for begun in self._begun.values())
