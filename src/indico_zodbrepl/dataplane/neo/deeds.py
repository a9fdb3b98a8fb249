"""What the warden did: a file of JSON lines that others read, and the latest in memory."""
import collections
import json
import logging
import os
import threading
import time

log = logging.getLogger('zodbrepl.warden')

_KEPT = 100


class Deeds(object):
    """Carries out and writes down; `latest` may be called by any thread.

    Args:
        path: of the file, which is added to.
    """

    def __init__(self, path):
        self._path = path
        self._lock = threading.Lock()
        self._latest = collections.deque(_read(path), _KEPT)

    def latest(self, count):
        """The last `count` entries, oldest first: time, deed, address, reason, result."""
        with self._lock:
            return list(self._latest)[-count:]

    def do(self, deed, action, carry_out):
        """Calls `carry_out(action)`, which returns what came of it, and writes that down.

        An exception is what came of it, too: the warden goes on watching.
        """
        try:
            result = carry_out(action)
        except Exception as error:
            log.exception('%s %s', deed, action.address)
            result = 'failed: %s: %s' % (type(error).__name__, error)
        entry = {'time': time.time(), 'deed': deed, 'address': action.address,
                 'reason': action.reason, 'result': result}
        log.warning('%(deed)s %(address)s: %(reason)s: %(result)s', entry)
        with self._lock:
            self._latest.append(entry)
        _append(self._path, entry)


def _append(path, entry):
    line = json.dumps(entry, sort_keys=True) + '\n'
    try:
        # In one write, so that a reader sees whole lines.
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)
    except OSError as error:  # a full disk ends no warden
        log.error('%s: %s', path, error.strerror)


def _read(path):
    """The entries of a file; what is not whole, as after a full disk, is left out."""
    entries = []
    try:
        with open(path) as stream:
            for line in stream:
                try:
                    entries.append(json.loads(line))
                except ValueError:
                    log.warning('%s: not a whole line: %r', path, line[:80])
    except IOError:
        if os.path.exists(path):
            raise
    return entries
