"""A file that says which process a NEO node is, so that the warden can end that one and no other.

A process id alone may be another program's by now; with the time at which the
process started it can't be.
"""
import errno
import json
import os
import signal

NAME = 'neo.process'


def write(folder):
    """Says in `folder` that this process is its node."""
    path = os.path.join(folder, NAME)
    with open(path + '.new', 'w') as stream:
        json.dump({'pid': os.getpid(), 'started': _started(os.getpid())}, stream)
    os.rename(path + '.new', path)


def running(folder):
    """Returns the process id of the folder's node; None when it does not run on this host.

    Raises ValueError for a file that is no such mark.
    """
    try:
        with open(os.path.join(folder, NAME)) as stream:
            mark = json.load(stream)
    except IOError as error:
        if error.errno == errno.ENOENT:
            return None
        raise
    try:
        pid, started = int(mark['pid']), mark['started']
    except (KeyError, TypeError):
        raise ValueError('%s is no mark of a process' % os.path.join(folder, NAME))
    return pid if _started(pid) == started else None


def kill(folder):
    """SIGKILL to the folder's node; returns its process id, None when it does not run here."""
    pid = running(folder)
    if pid is not None:
        os.kill(pid, signal.SIGKILL)
    return pid


def _started(pid):
    """When a process started, in clock ticks since the host did; None when there is none."""
    try:
        with open('/proc/%d/stat' % pid) as stream:
            # The program's name, in parentheses, may hold spaces.
            return int(stream.read().rpartition(')')[2].split()[19])
    except IOError:
        return None
