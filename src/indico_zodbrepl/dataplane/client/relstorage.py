"""Client-side repairs of RelStorage: choice of server, meaning of errors."""
from __future__ import absolute_import

import os
import threading

import zope.interface
from relstorage.adapters.interfaces import (
    IReplicaSelector,
    ReplicaClosedException,
    UnableToAcquireLockError,
    UnableToLockRowsDeadlockError,
)
from relstorage.adapters.replica import ReplicaSelector
from relstorage.cache.interfaces import CacheConsistencyError
from relstorage.storage.interfaces import StorageDisconnectedDuringCommit

from indico_zodbrepl.dataplane.programs.clock import monotonic


@zope.interface.implementer(IReplicaSelector)
class Replicas(object):
    """One choice of a server for all threads, to write to or to read from.  Thread-safe.

    RelStorage's own selector returns to the first server after some seconds, whether
    or not it serves, so that threads wait for a frozen one again and again.  This one
    stays until `prefer` is called or the file changes.  Threads that try servers in
    turn do not skip servers for each other.

    Args:
        selector: RelStorage's, whose file, timeout and choice are used.
    """

    def __init__(self, selector):
        self._file = ReplicaSelector(selector.replica_conf, None)
        self._timeout = selector.replica_timeout
        self._lock = threading.Lock()
        self._tried = threading.local()
        self._select(selector._current_replica)

    def current(self):
        """Return the server to use; the first one after the file changed."""
        with self._lock:
            self._see_file()
            self._tried.servers = [self._current]
            return self._current

    def next(self):
        """Return the next server after one failed in this thread; None after the last."""
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
        """Return the first server if another one is used and a retry is due."""
        with self._lock:
            first = self._file._replicas[0]
            if self._current == first or monotonic() < self._due:
                return None
            self._due = monotonic() + self._timeout
            return first

    def prefer(self, server):
        """Use `server` from now on, if the file still lists it."""
        with self._lock:
            if server in self._file._replicas:
                self._select(server)

    def others(self, server):
        """Return all servers but `server` and the first, which is the one that was lost."""
        with self._lock:
            return [each for each in self._file._replicas[1:] if each != server]

    def leave(self, server):
        """Use the next server in the file, if `server` is the current one."""
        with self._lock:
            servers = self._file._replicas
            if server == self._current and server in servers:
                self._select(servers[(servers.index(server) + 1) % len(servers)])

    def _select(self, server):
        self._current = server
        self._due = monotonic() + self._timeout

    def _see_file(self):
        """Read the file if it changed; return True if it did.

        RelStorage looks at it once a second only.
        """
        if os.path.getmtime(self._file.replica_conf) == self._file._config_modified:
            return False
        self._file._read_config()
        self._select(self._file._replicas[0])
        return True


class Only(object):
    """A selector with a single server."""

    def __init__(self, server):
        self._server = server

    def current(self):
        """Return the server."""
        return self._server

    def next(self):
        """Return None: there is no other one."""


DRIVERS = frozenset([
    'psycopg2', 'psycopg2cffi', 'MySQLdb', '_mysql_exceptions', 'pymysql',
    'sqlite3', 'cx_Oracle'])

# No other server helps with a wrong statement or invalid data; every other error may be over in a
# moment.
FAULTS = frozenset([
    'ProgrammingError', 'DataError', 'IntegrityError', 'NotSupportedError'])
DB_API = FAULTS | frozenset([
    'OperationalError', 'InterfaceError', 'InternalError', 'DatabaseError',
    'Error'])

class Behind(Exception):
    """A read-only server does not have, or not yet, what this process has seen."""


AWAY = (Behind, ReplicaClosedException, CacheConsistencyError,
        StorageDisconnectedDuringCommit)

# RelStorage raises it if it cannot return a lost connection to the pool; it does not report the
# loss itself then.
CLEANUP = 'Failed to close one or more resources'

# Queries that return true on a read-only server, by the kind of database.
READ_ONLY_QUERIES = {
    'postgresql': "SELECT pg_is_in_recovery() OR "
                  "current_setting('default_transaction_read_only') = 'on'",
    'mysql': 'SELECT @@global.read_only',
}

# SQLSTATE of PostgreSQL, numbers of MySQL and MariaDB, beginnings of texts of
# SQLite.  Numbers from 2000 on are the client's own: a lost connection and its consequences.
READ_ONLY = frozenset([
    '25006', 1290, 1792, 1836, 'attempt to write a readonly database'])
# The server has answered, and the statement was rolled back.
TAKEN_BACK = READ_ONLY | frozenset([
    '55P03', '40P01', '40001', '53100', 1205, 1213, 1021, 1114,
    'database is locked', 'database table is locked',
    'database or disk is full'])
CLIENT_NUMBERS = 2000


def is_away(error):
    """Return True if `error` means that the database cannot serve at the moment."""
    error = _cause(error)
    if isinstance(error, AWAY):
        return True
    if isinstance(error, UnableToAcquireLockError):
        return not isinstance(error, UnableToLockRowsDeadlockError)
    if type(error) is Exception and str(error).startswith(CLEANUP):
        return True
    kind = _kind(error)
    if kind == 'ProgrammingError':
        # Errors of a connection that is closed, or out of sync since it was lost.
        code = _code(error)
        return _driver(error) == 'sqlite3' or (
            isinstance(code, int) and code >= CLIENT_NUMBERS)
    return kind is not None and kind not in FAULTS


# MariaDB's errors about a database, table or column that is missing, or that the user may not read.
_NOT_THERE = (1044, 1049, 1142, 1143, 1146)


def is_not_there(error):
    """Return True if `error` means that a MariaDB server does not show a table to this user."""
    return _code(_cause(error)) in _NOT_THERE


def is_read_only(error):
    """Return True if `error` means that the server refuses writes."""
    error = _cause(error)
    return _kind(error) is not None and (
        _code(error) in READ_ONLY or _is_standby(error))


def is_taken_back(error):
    """Return True if `error`, at the end of a commit, proves that the commit was rolled back."""
    error = _cause(error)
    return _kind(error) is not None and (
        _code(error) in TAKEN_BACK or _is_standby(error))


def _is_standby(error):
    """Return True if a PostgreSQL standby refused to begin a transaction."""
    return _code(error) == '0A000' and 'during recovery' in str(error)


def _cause(error):
    """Return the driver's exception behind RelStorage's own.

    RelStorage reports every error of a locking statement as a lock that it did not get.
    """
    if isinstance(error, UnableToLockRowsDeadlockError):
        return error
    return getattr(error, '__relstorage_cause__', error)


def _kind(error):
    """Return the name of the DB-API class; None if no driver raised the error."""
    if _driver(error) is None:
        return None
    for each in type(error).__mro__:
        if each.__name__ in DB_API:
            return each.__name__
    return None


def _driver(error):
    for each in type(error).__mro__:
        module = each.__module__.partition('.')[0]
        if module in DRIVERS:
            return module
    return None


def _code(error):
    """Return the SQLSTATE or the error number, else the error's text."""
    state = getattr(error, 'pgcode', None)
    if state is not None:
        return state
    return error.args[0] if error.args else None
