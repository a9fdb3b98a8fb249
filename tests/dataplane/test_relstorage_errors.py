"""Which errors of RelStorage and its drivers become errors that Indico tries again."""
import errno
import sqlite3

import psycopg2
import psycopg2.errors
import psycopg2.extensions
import pymysql
import pytest
import zc.lockfile
from relstorage.adapters.interfaces import (
    ReplicaClosedException, StaleConnectionError,
    UnableToAcquireCommitLockError, UnableToAcquirePackUndoLockError,
    UnableToLockRowsToModifyDeadlockError, UnableToLockRowsToModifyError)
from relstorage.adapters.sqlite.drivers import UnableToConnect
from relstorage.storage.interfaces import StorageDisconnectedDuringCommit
from ZEO.Exceptions import ClientDisconnected
from ZODB.POSException import ConflictError, ReadOnlyError

from indico_zodbrepl.dataplane.client.translation import (
    OutcomeUnknown,
    StorageAway,
    translated,
    translated_at_the_end,
)


class WithState(psycopg2.OperationalError):
    """psycopg2 gives SQLSTATE to the errors that it makes itself only."""

    def __init__(self, state, text):
        psycopg2.OperationalError.__init__(self, text)
        self.state = state

    pgcode = property(lambda self: self.state)


class ReadOnlyInPostgreSQL(psycopg2.errors.ReadOnlySqlTransaction):

    pgcode = '25006'


class OnAStandby(psycopg2.errors.FeatureNotSupported):

    pgcode = '0A000'


def not_locked(cause, kind=UnableToLockRowsToModifyError):
    """What RelStorage makes of `cause` when it happens in a statement that locks."""
    error = kind('Acquiring a lock during commit failed: %s' % cause)
    error.__relstorage_cause__ = cause
    return error


LOST = [
    psycopg2.OperationalError('server closed the connection unexpectedly'),
    psycopg2.InterfaceError('connection already closed'),
    psycopg2.DatabaseError('error with status PGRES_TUPLES_OK'),
    WithState('57P01', 'terminating connection due to administrator command'),
    pymysql.OperationalError(2013, 'Lost connection to MySQL server during query'),
    pymysql.OperationalError(1053, 'Server shutdown in progress'),
    pymysql.InterfaceError(0, ''),
    pymysql.err.Error('Already closed'),
    pymysql.ProgrammingError(2014, 'Commands out of sync'),
    sqlite3.OperationalError('disk I/O error'),
    sqlite3.DatabaseError('file is not a database'),
    sqlite3.ProgrammingError('Cannot operate on a closed database.'),
    UnableToConnect(sqlite3.OperationalError('unable to open database file')),
    ReplicaClosedException('Switched replica from a to b'),
    StorageDisconnectedDuringCommit(),
    not_locked(psycopg2.OperationalError('server closed the connection')),
    Exception('Failed to close one or more resources: [...]'),
    IOError(errno.EIO, 'Input/output error'),
]
REFUSED = [
    sqlite3.OperationalError('database is locked'),
    sqlite3.OperationalError('database or disk is full'),
    WithState('55P03', 'canceling statement due to lock timeout'),
    pymysql.OperationalError(1205, 'Lock wait timeout exceeded'),
    not_locked(pymysql.OperationalError(1205, 'Lock wait timeout exceeded'),
               UnableToAcquireCommitLockError),
]
READ_ONLY = [
    sqlite3.OperationalError('attempt to write a readonly database'),
    ReadOnlyInPostgreSQL('cannot execute CREATE TABLE'),
    pymysql.OperationalError(1290, 'running with the --read-only option'),
    not_locked(ReadOnlyInPostgreSQL('cannot execute SELECT FOR UPDATE')),
    OnAStandby('cannot set transaction read-write mode during recovery'),
]
FAULTS = [
    psycopg2.ProgrammingError('column "x" does not exist'),
    psycopg2.IntegrityError('duplicate key'),
    OnAStandby('cross-database references are not implemented'),
    pymysql.ProgrammingError(1064, 'You have an error in your SQL syntax'),
    sqlite3.IntegrityError('UNIQUE constraint failed'),
    Exception('mine'),
]
CONFLICTS = [
    StaleConnectionError('the database connection is stale'),
    UnableToLockRowsToModifyDeadlockError('deadlock detected'),
    ConflictError(),
]


@pytest.mark.parametrize(
    'error', LOST + REFUSED + [
        UnableToAcquirePackUndoLockError('a pack is in progress'),
        zc.lockfile.LockError("Couldn't lock 'Data.fs.lock'")], ids=repr)
def test_a_database_that_does_not_serve_just_now_is_away(error):
    result = translated(error)
    assert isinstance(result, StorageAway)
    assert result.cause is error


@pytest.mark.parametrize('error', READ_ONLY, ids=repr)
def test_a_server_that_takes_no_writes_is_read_only_at_any_moment(error):
    assert isinstance(translated(error), ReadOnlyError)
    assert isinstance(translated_at_the_end(error), ReadOnlyError)


@pytest.mark.parametrize('error', FAULTS + CONFLICTS, ids=repr)
def test_a_mistake_or_a_conflict_passes_as_it_is(error):
    assert translated(error) is error
    assert translated_at_the_end(error) is error


@pytest.mark.parametrize('error', LOST, ids=repr)
def test_a_commit_whose_end_was_not_told_has_an_unknown_outcome(error):
    assert isinstance(translated_at_the_end(error), OutcomeUnknown)


@pytest.mark.parametrize('error', REFUSED, ids=repr)
def test_a_commit_that_the_database_took_back_is_tried_again(error):
    result = translated_at_the_end(error)
    assert isinstance(result, ClientDisconnected)
    assert not isinstance(result, OutcomeUnknown)
