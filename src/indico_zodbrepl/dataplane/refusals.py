"""Followers that a primary turned away because their history is not its own."""
import logging
import threading
import time

from ZODB.utils import tid_repr

logger = logging.getLogger('zodbrepl.replication')

# a follower that is refused comes again and again
_CAPACITY = 100


class Refusals(object):
    """Who was refused, until someone from the same host is accepted.

    The protocol carries no names; a follower is known by its host and its last
    transaction.  Any thread may use it.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._found = {}

    def refuse(self, peer, tid):
        """Notes a follower (`host:port`) whose last transaction is unknown."""
        key = _host(peer), tid
        with self._lock:
            is_new = key not in self._found
            if is_new and len(self._found) >= _CAPACITY:
                return
            self._found[key] = {'peer': peer, 'tid': tid.encode('hex'),
                                'at': int(time.time())}
        if is_new:
            logger.critical(
                'REFUSED follower %s: its last transaction, %s, is not in the '
                'history of this node, so it holds what was never replicated '
                'to here; it has to rejoin', peer, tid_repr(tid))

    def accept(self, peer):
        with self._lock:
            for key in [key for key in self._found if key[0] == _host(peer)]:
                del self._found[key]

    def list(self):
        """Returns dicts with peer, tid (hex) and at (seconds since 1970)."""
        with self._lock:
            return sorted(self._found.values(), key=lambda each: each['at'])


def _host(peer):
    return peer.rsplit(':', 1)[0]
