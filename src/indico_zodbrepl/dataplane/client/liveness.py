"""Monitor a storage from threads, so that nobody has to wait for its state.

A ZEO client notices a lost connection.  A database driver notices it only on
use, never notices a frozen server, and a FileStorage does not notice a missing disk.  So one
thread checks the storage each second, and a second thread interrupts a check that hangs.

With automatic failover nobody should wait to read until a lost server is replaced.  So while a call
is under way, the storage is checked at once; if its server is silent, another one is read from.
"""
from __future__ import absolute_import

import atexit
import collections
import logging
import os
import threading
import weakref

from indico_zodbrepl.dataplane.programs.clock import monotonic

log = logging.getLogger(__name__)

CUT_AGAIN = 3  # intervals; for a check that was not interrupted, or a server that stays away
LATE = 2  # intervals; for a check at a server that another one has replaced
PARTS = 12  # of an interval; after each, silent and replaced servers are looked for
SILENT = 3  # parts; for a check while somebody waits, if others can be read from
CLOSE_LIMIT = 2.0  # seconds; after that, a hanging check is abandoned

# server: 'host:port', or None without one; read_only: True if it refuses writes; last_tid: 8
# bytes, or None; refusal: why commits are refused at the vote, or None.
Sight = collections.namedtuple('Sight', 'server read_only last_tid refusal')
Sight.__new__.__defaults__ = (None,)

NOTHING = Sight(None, False, None)


class Liveness(object):
    """A monitor of a storage with two daemon threads.  Any thread may read its state.

    Args:
        view: checks the storage, with five methods.  look() returns a Sight or
            raises any Exception; only one thread calls it.  cut() interrupts
            whatever hangs, in all threads.  cut_replaced() interrupts only what waits for
            a server that another one has replaced.  read_elsewhere() interrupts only what reads
            from the server, and lets others be read from until look() has succeeded again.
            close() releases the rest.  All but look() may be called during look().
        name: of the storage, for the log.
        calls: the `StorageCalls` that may wait for a silent server; None to never read elsewhere.

    Attributes:
        interval: seconds between two checks.
        limit: seconds after which a check counts as hanging at a frozen server or
            disk, and is interrupted together with everything that waits for the same.
        read_only_since: time since which the storage has refused writes, or None.

    Silence is counted in intervals of the second thread, not by the clock, because
    a suspended process has not been waiting.
    """

    interval = 1.0
    limit = 8.0
    read_only_since = None

    def __init__(self, view, name, calls=None):
        self._view = view
        self._name = name
        self._calls = calls
        self._look_number = 0
        self._looking = False
        self._unanswered = 0, 0  # the number of a look, and the parts since it was first seen
        self._wake = threading.Event()
        self._patience = max(1, int(self.limit / self.interval))
        self._sight = NOTHING
        self._failure = None
        self._silent = 0
        self._closing = threading.Event()
        self._pid = os.getpid()
        self._threads = [
            self._start(self._look, 'looking at %s' % name),
            self._start(self._guard, 'guarding %s' % name)]
        # A thread that runs during interpreter shutdown fails noisily.
        atexit.register(_close, weakref.ref(self))

    def _start(self, target, name):
        thread = threading.Thread(target=target, name=name)
        thread.setDaemon(True)
        thread.start()
        return thread

    @property
    def connected(self):
        """Return True if the storage serves, according to the last check.

        Return True before the first check, because the storage has just been opened.
        """
        return self._failure is None and self._silent < self._patience

    @property
    def sight(self):
        """Return the last Sight; its server is None without a connection."""
        sight = self._sight
        return sight if self.connected else sight._replace(
            server=None, read_only=False)

    def close(self):
        """Stop the threads, or abandon one that hangs; call it before closing the storage."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._wake.set()
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
        while not self._closing.is_set():
            self._look_number += 1
            self._looking = True
            try:
                self._seen(self._view.look(), None)
            except Exception as error:  # any exception means that the storage does not serve
                self._seen(self._sight, error)
            self._looking = False
            # A lost server may be back, or replaced, in a moment.
            self._wake.wait(self.interval / (4 if self._failure else 1))
            if not self._closing.is_set():
                self._wake.clear()

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
                self.read_only_since = monotonic()
        self._silent = 0

    def _guard(self):
        part = 0
        while not self._closing.wait(self.interval / PARTS):
            if self._calls is not None:
                self._listen()
            if self._silent >= LATE:
                self._view.cut_replaced()
            part = (part + 1) % PARTS
            if part:
                continue
            self._silent += 1
            limit = self._patience if self._failure is None else CUT_AGAIN
            if self._silent >= limit and (self._silent - limit) % CUT_AGAIN == 0:
                log.warning('%s does not answer; ending what waits for it',
                            self._name)
                self._view.cut()

    def _listen(self):
        """Read from another server if this one is silent while a call is under way."""
        if not self._calls.are_under_way():
            self._unanswered = 0, 0
            return
        number, parts = self._unanswered
        if not self._looking:
            self._wake.set()
        parts = parts + 1 if number == self._look_number and self._looking else 0
        self._unanswered = self._look_number, parts
        if parts == SILENT:
            log.info('%s does not answer; reading from another server', self._name)
            self._view.read_elsewhere()


def _close(reference):
    liveness = reference()
    if liveness is not None:
        liveness.close()
