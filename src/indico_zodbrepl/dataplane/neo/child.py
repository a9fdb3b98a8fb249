"""The admin node, as a child of the warden that asks it."""
import ctypes
import logging
import os
import signal
import subprocess
import sys
import time

log = logging.getLogger('zodbrepl.warden')

_PR_SET_PDEATHSIG = 1
# Seconds after which one that ended is started again.
_PAUSE = 1.0
_END_LIMIT = 5.0  # seconds


class Child(object):
    """Runs neoadmin; not thread-safe.  It dies with this process, however that ends.

    Args:
        folder: its data folder.
        options: of neoadmin.
    """

    def __init__(self, folder, options):
        self._command = [sys.executable, '-m', 'indico_zodbrepl.dataplane.neo.node',
                         'admin', folder] + options
        self._process = None
        self._started = 0.0

    def keep(self):
        """Starts it if it does not run."""
        if self._process is not None and self._process.poll() is None:
            return
        if self._process is not None:
            log.warning('the admin node ended with status %s', self._process.returncode)
        if time.time() >= self._started + _PAUSE:
            self._started = time.time()
            self._process = subprocess.Popen(self._command, preexec_fn=_die_with_the_parent)

    def kill(self):
        """Ends it at once, frozen or not; returns what came of it."""
        if self._process is None or self._process.poll() is not None:
            return 'it had ended'
        self._process.kill()
        self._process.wait()
        return 'process %d ended' % self._process.pid

    def end(self):
        """Asks it to end, and ends it if it doesn't."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        deadline = time.time() + _END_LIMIT
        while self._process.poll() is None and time.time() < deadline:
            time.sleep(0.05)
        self.kill()


def _die_with_the_parent():
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == 1:  # it died before that
        os._exit(1)
