"""Which of the servers in a RelStorage's replica-conf is used: the first, while it serves."""
import threading
import time

import zope.interface
from relstorage.adapters.interfaces import IReplicaSelector
from relstorage.adapters.replica import ReplicaSelector


@zope.interface.implementer(IReplicaSelector)
class Replicas(object):
    """One choice for all threads; thread-safe.

    RelStorage's own selector goes back to the first server after some seconds, whether it
    serves or not, so that every thread waits for one that is frozen, again and again.  This
    one stays where it is until `prefer` is called or the file has changed.  And threads that
    try one server after the other do not skip servers for each other.

    Args:
        selector: RelStorage's, whose file, timeout and choice are taken over.
    """

    def __init__(self, selector):
        self._file = ReplicaSelector(selector.replica_conf, None)
        self._timeout = selector.replica_timeout
        self._lock = threading.Lock()
        self._tried = threading.local()
        self._select(selector._current_replica)

    def current(self):
        """Returns the server to use; the first one after the file has changed."""
        with self._lock:
            self._see_file()
            self._tried.servers = [self._current]
            return self._current

    def next(self):
        """Returns the server to try after the last one failed in this thread; None after all."""
        with self._lock:
            if self._see_file():
                self._tried.servers = []
            tried = self._tried.servers
            if self._current in tried:
                left = [each for each in self._file._replicas if each not in tried]
                if not left:
                    self._select(self._file._replicas[0])
                    return None
                self._select(left[0])
            tried.append(self._current)
            return self._current

    def due(self):
        """Returns the first server, when another one is used and it is time to try it again."""
        with self._lock:
            first = self._file._replicas[0]
            if self._current == first or time.time() < self._due:
                return None
            self._due = time.time() + self._timeout
            return first

    def prefer(self, server):
        """Has `server` used from now on, if the file still names it."""
        with self._lock:
            if server in self._file._replicas:
                self._select(server)

    def leave(self, server):
        """Has the one that follows in the file used, if it is `server` that is used now."""
        with self._lock:
            servers = self._file._replicas
            if server == self._current and server in servers:
                self._select(servers[(servers.index(server) + 1) % len(servers)])

    def _select(self, server):
        self._current = server
        self._due = time.time() + self._timeout

    def _see_file(self):
        """Reads the file if it has changed, at most once a second; tells if it has."""
        if not self._file._is_config_modified():
            return False
        self._file._read_config()
        self._select(self._file._replicas[0])
        return True


class Only(object):
    """A selector that knows one server only."""

    def __init__(self, server):
        self._server = server

    def current(self):
        """Returns the server."""
        return self._server

    def next(self):
        """Returns None: there is no other one."""
