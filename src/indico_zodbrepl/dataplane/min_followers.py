"""Sees to it that a primary takes commits only while enough nodes follow it."""
import time

from indico_zodbrepl.dataplane.server_status import replication_status

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
        self._server.gate.short_of_followers(self._reason(time.time()))
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
