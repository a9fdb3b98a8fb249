"""What the errors of RelStorage and of its database drivers mean.  No I/O.

Drivers are told by the names of their modules and of the classes that each of
them has by the DB-API, so that none needs to be there.
"""
from relstorage.adapters.interfaces import (
    ReplicaClosedException, UnableToAcquireLockError,
    UnableToLockRowsDeadlockError)
from relstorage.cache.interfaces import CacheConsistencyError
from relstorage.storage.interfaces import StorageDisconnectedDuringCommit

DRIVERS = frozenset([
    'psycopg2', 'psycopg2cffi', 'MySQLdb', '_mysql_exceptions', 'pymysql',
    'sqlite3', 'cx_Oracle'])

# Of a wrong statement, or of data that do not fit, no other server makes a
# right one; everything else may be over in a moment.
FAULTS = frozenset([
    'ProgrammingError', 'DataError', 'IntegrityError', 'NotSupportedError'])
DB_API = FAULTS | frozenset([
    'OperationalError', 'InterfaceError', 'InternalError', 'DatabaseError',
    'Error'])

AWAY = (ReplicaClosedException, CacheConsistencyError,
        StorageDisconnectedDuringCommit)

# RelStorage raises it when it cannot give back a connection that is lost; the
# loss itself is not told then.
CLEANUP = 'Failed to close one or more resources'

# SQLSTATE of PostgreSQL, numbers of MySQL and MariaDB, beginnings of texts of
# SQLite.  Of the numbers those from 2000 on are the client's own: a lost
# connection, and what follows from it.
READ_ONLY = frozenset([
    '25006', 1290, 1792, 1836, 'attempt to write a readonly database'])
# The server has answered, and what it was asked to do is taken back.
TAKEN_BACK = READ_ONLY | frozenset([
    '55P03', '40P01', '40001', '53100', 1205, 1213, 1021, 1114,
    'database is locked', 'database table is locked',
    'database or disk is full'])
CLIENT_NUMBERS = 2000


def is_away(error):
    """Tells whether `error` says that the database does not serve just now."""
    error = _cause(error)
    if isinstance(error, AWAY):
        return True
    if isinstance(error, UnableToAcquireLockError):
        return not isinstance(error, UnableToLockRowsDeadlockError)
    if type(error) is Exception and str(error).startswith(CLEANUP):
        return True
    kind = _kind(error)
    if kind == 'ProgrammingError':
        # Of a connection that is closed, or out of step since it was lost.
        code = _code(error)
        return _driver(error) == 'sqlite3' or (
            isinstance(code, int) and code >= CLIENT_NUMBERS)
    return kind is not None and kind not in FAULTS


def is_read_only(error):
    """Tells whether `error` says that the server refuses writes."""
    error = _cause(error)
    return _kind(error) is not None and (
        _code(error) in READ_ONLY or _is_standby(error))


def is_taken_back(error):
    """Tells whether `error`, at the end of a commit, proves that it was not saved."""
    error = _cause(error)
    return _kind(error) is not None and (
        _code(error) in TAKEN_BACK or _is_standby(error))


def _is_standby(error):
    """Tells whether a PostgreSQL standby refused a transaction's beginning."""
    return _code(error) == '0A000' and 'during recovery' in str(error)


def _cause(error):
    """Returns what the driver raised, where RelStorage says so.

    It takes every error of a statement that locks for a lock it did not get.
    """
    if isinstance(error, UnableToLockRowsDeadlockError):
        return error
    return getattr(error, '__relstorage_cause__', error)


def _kind(error):
    """Returns the name of the DB-API's class; None for an error of no driver."""
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
    """Returns SQLSTATE, number or, where there is neither, the error's text."""
    state = getattr(error, 'pgcode', None)
    if state is not None:
        return state
    return error.args[0] if error.args else None
