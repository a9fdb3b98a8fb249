"""A process of a NEO cluster: master, storage or admin, run by NEO's own program.

usage: python -m indico_zodbrepl.dataplane.neo.process [--sqlite FILE] [--majority MASTERS]
           ROLE FOLDER OPTION...

Writes into FOLDER which process it is (see `process_mark`), brings the SQLite
database of a storage into write-ahead mode, and becomes neomaster, neostorage
or neoadmin with these options.  Exits at once if FOLDER is missing: a storage whose disk is not
mounted must not start from scratch on another disk.

--majority is for a cluster of several hosts: a master leads only with so many masters, itself
included, see `quorum`; and a host that falls silent is noticed.

exit status: 2 wrong command line or no such folder, else that of NEO's program.
"""

from __future__ import absolute_import

import argparse
import ctypes
import errno
import json
import logging
import os
import signal
import sqlite3
import subprocess
import sys
import time

from indico_zodbrepl.dataplane.programs.clock import install, monotonic

ROLES = ('master', 'storage', 'admin')


def write_ahead(path):
    """Make SQLite write commits to a write-ahead log, from now on.

    That more than doubles NEO's rate of commits, and each is forced to disk as
    before.  No program may have the file open; it is created if missing.
    Raises sqlite3.Error, also when the file system can't do it.
    """
    connection = sqlite3.connect(path)
    try:
        mode, = connection.execute('PRAGMA journal_mode=WAL').fetchone()
    finally:
        connection.close()
    if mode != 'wal':
        raise sqlite3.OperationalError(
            '%s: the journal mode stayed %s' % (path, mode))


def run(role, folder, options, majority=None):
    """Run NEO's program of this role until it exits; it ends the process by SystemExit."""
    import importlib
    from indico_zodbrepl.dataplane.neo import library
    install()
    library.import_neo()
    if majority:
        library.notice_silent_hosts()
    if role == 'master':
        from indico_zodbrepl.dataplane.neo import complete_packs, recovery
        recovery.install()
        complete_packs.install()
        if majority:
            from indico_zodbrepl.dataplane.neo import quorum
            quorum.install(folder, majority)
    elif role == 'storage':
        from indico_zodbrepl.dataplane.neo import checked_objects, registering
        registering.install()
        checked_objects.install()
    importlib.import_module('neo.scripts.neo' + role).main(options)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog='python -m indico_zodbrepl.dataplane.neo.process')
    parser.add_argument('--sqlite', metavar='FILE')
    parser.add_argument('--majority', type=int, metavar='MASTERS')
    parser.add_argument('role', choices=ROLES)
    parser.add_argument('folder', metavar='FOLDER')
    parser.add_argument('options', nargs=argparse.REMAINDER, metavar='OPTION')
    given = parser.parse_args(arguments)
    if not os.path.isdir(given.folder):
        parser.error('%s is no folder' % given.folder)
    if given.sqlite:
        write_ahead(given.sqlite)
    write(given.folder)
    run(given.role, given.folder, given.options, given.majority)


log = logging.getLogger('zodbrepl.neo.monitor')

_PR_SET_PDEATHSIG = 1
# Seconds after which a child that exited is restarted.
_PAUSE = 1.0
_END_LIMIT = 5.0  # seconds


class Child(object):
    """A neoadmin child process; not thread-safe.  It exits when this process exits.

    Args:
        folder: its data folder.
        options: of neoadmin.
        majority: as of this program.
    """

    def __init__(self, folder, options, majority=None):
        self._command = [sys.executable, '-m', 'indico_zodbrepl.dataplane.neo.process']
        if majority:
            self._command += ['--majority', str(majority)]
        self._command += ['admin', folder] + options
        self._process = None
        self._started = 0.0

    def keep(self):
        """Start it if it is not running."""
        if self._process is not None and self._process.poll() is None:
            return
        if self._process is not None:
            log.warning('the admin node ended with status %s', self._process.returncode)
        if monotonic() >= self._started + _PAUSE:
            self._started = monotonic()
            self._process = subprocess.Popen(self._command, preexec_fn=_die_with_the_parent)

    def kill(self):
        """Kill it at once, frozen or not; return the result."""
        if self._process is None or self._process.poll() is not None:
            return 'it had ended'
        self._process.kill()
        self._process.wait()
        return 'process %d ended' % self._process.pid

    def end(self):
        """Stop it cleanly; kill it if that fails."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        deadline = monotonic() + _END_LIMIT
        while self._process.poll() is None and monotonic() < deadline:
            time.sleep(0.05)
        self.kill()


def _die_with_the_parent():
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == 1:  # it died before that
        os._exit(1)


NAME = 'neo.process'


def write(folder):
    """Record in `folder` that this process is its node."""
    path = os.path.join(folder, NAME)
    with open(path + '.new', 'w') as stream:
        json.dump({'pid': os.getpid(), 'started': _started(os.getpid())}, stream)
    os.rename(path + '.new', path)


def running(folder):
    """Return the PID of the folder's node; None if it does not run on this host.

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
    """Send SIGKILL to the folder's node; return its PID, or None if it does not run here."""
    pid = running(folder)
    if pid is not None:
        os.kill(pid, signal.SIGKILL)
    return pid


def _started(pid):
    """Return the start time of a process in clock ticks since boot, or None."""
    try:
        with open('/proc/%d/stat' % pid) as stream:
            # The program's name, in parentheses, may hold spaces.
            return int(stream.read().rpartition(')')[2].split()[19])
    except IOError:
        return None


if __name__ == '__main__':
    sys.exit(main())
