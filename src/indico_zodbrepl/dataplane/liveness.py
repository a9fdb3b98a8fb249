"""Knows how a storage is without being asked to wait for it.

A ZEO client sees its connection go; a database driver sees that only when it
is used, a frozen server not even then, and a FileStorage not that its disk is
gone.  So a thread looks at the storage each second, and another one sees to
it that the first one gets on.
"""
import atexit
import collections
import logging
import os
import threading
import time
import weakref

log = logging.getLogger(__name__)

CUT_AGAIN = 3  # intervals, where that did not end it, or a server does not come back
CLOSE_LIMIT = 2.0  # seconds; a look that hangs is left alone then

# server: 'host:port', or None where there is none; read_only: whether it takes
# no writes; last_tid: 8 bytes, or None.
Sight = collections.namedtuple('Sight', 'server read_only last_tid')

NOTHING = Sight(None, False, None)


class Liveness(object):
    """Looks at a storage from two daemon threads; any thread may ask for what was seen.

    Args:
        view: what to look with, an object with three methods.  look() returns a
            Sight or raises any Exception, and is called by one thread only; cut()
            ends what hangs, in all threads, and close() releases the rest:
            these two may be called while look() is at work.
        name: of the storage, for the log.

    Attributes:
        interval: seconds between two looks.
        limit: seconds; a look that takes longer is one at a frozen server, or at a
            disk that hangs, and what waits for the same is ended.
        read_only_since: time at which the storage was first seen to take no
            writes; None while it does.

    Silence is counted in intervals of the second thread, not by the clock: a
    process that was itself suspended has not been kept waiting.
    """

    interval = 1.0
    limit = 8.0
    read_only_since = None

    def __init__(self, view, name):
        self._view = view
        self._name = name
        self._patience = max(1, int(self.limit / self.interval))
        self._sight = NOTHING
        self._failure = None
        self._silent = 0
        self._closing = threading.Event()
        self._pid = os.getpid()
        self._threads = [
            self._start(self._look, 'looking at %s' % name),
            self._start(self._guard, 'guarding %s' % name)]
        # A thread that runs while the interpreter is taken apart fails noisily.
        atexit.register(_close, weakref.ref(self))

    def _start(self, target, name):
        thread = threading.Thread(target=target, name=name)
        thread.setDaemon(True)
        thread.start()
        return thread

    @property
    def connected(self):
        """Whether the storage serves, as far as the last look tells.

        True before the first look, as the storage has just been opened.
        """
        return self._failure is None and self._silent < self._patience

    @property
    def sight(self):
        """The last Sight; its server is None while there is no connection."""
        sight = self._sight
        return sight if self.connected else sight._replace(
            server=None, read_only=False)

    def close(self):
        """Ends the threads, or leaves one that hangs; call it before the storage is closed."""
        if self._closing.is_set():
            return
        self._closing.set()
        if self._pid != os.getpid():
            return
        looking, guarding = self._threads
        looking.join(CLOSE_LIMIT)
        if looking.isAlive():
            self._view.cut()
            looking.join(CLOSE_LIMIT)
        guarding.join(CLOSE_LIMIT)
        self._view.close()

    def _look(self):
        while True:
            try:
                self._seen(self._view.look(), None)
            except Exception as error:  # whatever it is, the storage does not serve
                self._seen(self._sight, error)
            # What is lost may be back, or replaced, in a moment.
            if self._closing.wait(
                    self.interval / (4 if self._failure else 1)):
                return

    def _seen(self, sight, failure):
        if self._closing.is_set():
            return
        if failure is not None and self._failure is None:
            log.warning('%s: not connected: %s: %s',
                        self._name, type(failure).__name__, failure)
        if failure is None and not self.connected:
            log.warning('%s: connected again', self._name)
        self._sight, self._failure = sight, failure
        if failure is None:
            if not sight.read_only:
                self.read_only_since = None
            elif self.read_only_since is None:
                self.read_only_since = time.time()
        self._silent = 0

    def _guard(self):
        while not self._closing.wait(self.interval):
            self._silent += 1
            limit = self._patience if self._failure is None else CUT_AGAIN
            if self._silent >= limit and (self._silent - limit) % CUT_AGAIN == 0:
                log.warning('%s does not answer; ending what waits for it',
                            self._name)
                self._view.cut()


def _close(reference):
    liveness = reference()
    if liveness is not None:
        liveness.close()
