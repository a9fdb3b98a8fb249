"""One test at a time in an instance of Indico: a lock on a file, with who holds it."""
import contextlib
import errno
import fcntl
import json
import os
import time


class AtWork(Exception):
    """Another test runs.

    Attributes:
        who: the holder's name, since: ISO 8601 in UTC, test: its name; each
            None in the moment in which the holder is about to write it.
    """

    def __init__(self, who, since, test):
        Exception.__init__(self, 'a test runs already: %s, since %s' % (test, since))
        self.who, self.since, self.test = who, since, test


@contextlib.contextmanager
def alone(path, who, test):
    """Holds the lock file; it ends with this process at the latest.

    Raises AtWork at once when another thread or process has it, EnvironmentError
    when the file can't be used.
    """
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.fcntl(lock, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except IOError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
            raise _holder(lock)
        os.ftruncate(lock, 0)
        os.write(lock, json.dumps({'who': who, 'since': now(), 'test': test}))
        try:
            yield
        finally:
            os.ftruncate(lock, 0)
    finally:
        os.close(lock)


def now():
    """Returns the present time as ISO 8601 in UTC."""
    return time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())


def _holder(lock):
    try:
        told = json.loads(os.read(lock, 4096))
    except ValueError:
        told = {}
    return AtWork(told.get('who'), told.get('since'), told.get('test'))
