"""What the writer and the reader have in common; Python 2.7.

Each is a ZEO client as Indico is one.  It appends what it did to its log, a JSON object a line,
and works until its standard input ends; a line `pause` there has it
log `paused` and wait for the next line.  Times are seconds of the monotonic clock, which all
processes of a machine share.
"""
import ctypes
import json
import os
import random
import sys
import threading
import time

import transaction
import ZODB
import ZODB.config
from ZEO.Exceptions import ClientDisconnected
from ZODB.POSException import ConflictError
from ZODB.utils import z64

from indico_zodbrepl.dataplane.client.status import storage_status

OPENING_ATTEMPTS = 300
END_LIMIT = 20  # seconds for an attempt that runs when the end is asked for
KEY = 'scenario %s'
PAIR = 'scenario-pair %s %s'  # two objects that each commit of a writer sets to its number
CLOCK_MONOTONIC = 1


class _Timespec(ctypes.Structure):
    _fields_ = [('seconds', ctypes.c_long), ('nanoseconds', ctypes.c_long)]


_clock_gettime = ctypes.CDLL(None).clock_gettime


def now():
    """Seconds of the monotonic clock."""
    found = _Timespec()
    _clock_gettime(CLOCK_MONOTONIC, ctypes.byref(found))
    return found.seconds + found.nanoseconds * 1e-9


class Log(object):
    """A file that holds each entry as soon as `write` returns, whatever happens to the writer."""

    def __init__(self, path):
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, kind, began, **values):
        values.update(kind=kind, began=began, ended=now(), pid=os.getpid())
        os.write(self._file, json.dumps(values) + '\n')


class Work(object):
    """Repeats attempts until standard input ends.

    Args:
        configuration: of the storage, a file.
        log: a `Log`.
    """

    def __init__(self, configuration, log):
        self.log = log
        self.storage = ZODB.config.storageFromURL(configuration)
        self.db = self._open_database()
        self.connection = self.db.open()
        self._ended = threading.Event()
        self._goes_on = threading.Event()
        self._goes_on.set()
        thread = threading.Thread(target=self._wait_for_the_end)
        thread.setDaemon(True)
        thread.start()

    def _open_database(self):
        """Opens it; makes the root of an empty one, unless another client is doing so."""
        for _ in range(OPENING_ATTEMPTS):
            try:
                return ZODB.DB(self.storage)
            except (ConflictError, ClientDisconnected) as error:
                time.sleep(0.1)
        raise error

    def _wait_for_the_end(self):
        for line in iter(sys.stdin.readline, ''):
            (self._goes_on.clear if line == 'pause\n' else self._goes_on.set)()
        self._ended.set()
        self._goes_on.set()
        threading.Event().wait(END_LIMIT)
        os._exit(3)

    def root(self):
        return self.connection.root()

    def ask_the_server(self):
        """One question that no cache answers.

        RelStorage connects again where a transaction begins, so it asks by this connection.
        """
        own = self.connection._storage
        getattr(own, 'history', self.storage.history)(z64, 1)

    def server(self):
        """The address of the server that is used now; None if the storage does not know."""
        return storage_status(self.db)['server']

    def repeat(self, attempt, pause):
        """Calls `attempt` again and again, each a transaction of its own; ends the process.

        Args:
            attempt: called without arguments; what it raises is logged as failed.
            pause: seconds between two attempts, on average.
        """
        while not self._ended.is_set():
            began = now()
            if not self._goes_on.is_set():
                self.log.write('paused', began)
                self._goes_on.wait()
                continue
            try:
                transaction.begin()
                attempt(began)
            except Exception as error:
                self.log.write('failed', began, error='%s: %s' % (type(error).__name__, error))
            transaction.abort()
            self._ended.wait(pause * random.uniform(0.5, 1.5))
        # The storage is not closed: that would wait for a server that is frozen.
        os._exit(0)


def ranges(numbers):
    """Sorted numbers as a list of [first, last]."""
    found = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found
