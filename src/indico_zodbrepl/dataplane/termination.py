"""Ends a server on a signal, whatever its threads are doing.

Python runs signal handlers in the main thread only, between two byte codes: a
main thread that waits for a lock never gets there, and one that is just
finishing a commit is torn out of it.  So the handlers do nothing here.  A
thread of its own is woken through `signal.set_wakeup_fd`, asks the server to
stop, and sees to it that it does.
"""
import errno
import fcntl
import logging
import os
import signal
import threading
import time

logger = logging.getLogger('zodbrepl.server')

SIGNALS = signal.SIGTERM, signal.SIGINT, signal.SIGHUP

# seconds after the limit at which the kernel ends the process, should even
# logging hang
_LAST_RESORT = 5


class Termination(object):
    """Waits for SIGTERM, SIGINT or SIGHUP.

    Args:
        stop: called once, in a thread of its own; has to return at once.
        limit: seconds that the process may then take to end by itself.
        status: exit status if it takes longer.
    """

    def __init__(self, stop, limit, status):
        self._stop = stop
        self._limit = limit
        self._status = status

    def install(self):
        """Takes over the signals; call it in the main thread."""
        self._wakeup, write_end = os.pipe()
        fcntl.fcntl(write_end, fcntl.F_SETFL, os.O_NONBLOCK)
        signal.set_wakeup_fd(write_end)
        for number in SIGNALS:
            signal.signal(number, _ignore)
        thread = threading.Thread(target=self._run, name='termination')
        thread.daemon = True
        thread.start()

    def _run(self):
        _read_byte(self._wakeup)
        signal.alarm(self._limit + _LAST_RESORT)
        logger.info('told to end by a signal')
        self._stop()
        time.sleep(self._limit)
        logger.critical('not ended %d s after the signal: leaving by force',
                        self._limit)
        os._exit(self._status)


def _ignore(number, frame):
    pass


def _read_byte(descriptor):
    while True:
        try:
            return os.read(descriptor, 1)
        except OSError as error:
            if error.errno != errno.EINTR:
                raise
