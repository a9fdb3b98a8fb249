"""Storage errors in words that Indico knows.  No I/O: a table and a function.

Indico's request loops try again on ConflictError, POSKeyError and
ClientDisconnected and answer 503 on ReadOnlyError; every other error is a 500.
Errors that mean "the storage is away for the moment" but have another class
are listed here, one table for each kind of storage.  What is in no table
passes as it is.
"""
from concurrent.futures import CancelledError, TimeoutError

from zc.lockfile import LockError
from ZEO.Exceptions import ClientDisconnected, ServerException
from ZODB.POSException import ReadOnlyError

from . import sql_errors
from .neo import errors as neo_errors

# ZEO: a call that was under way when the client's I/O loop was closed.
ZEO_AWAY = (CancelledError, TimeoutError)

# A storage in this process: its disk is full, gone or broken, or another
# process has its files.
FILES_AWAY = (EnvironmentError, LockError)

AWAY = ZEO_AWAY + FILES_AWAY

# ZEO: the server could not write or read its files, say because its disk is
# full.  It sends the class of such an error by name.
SERVER_FAILURES = (
    'exceptions.IOError', 'exceptions.OSError', 'builtins.OSError')


class StorageAway(ClientDisconnected):
    """The storage cannot be reached; `cause` is the error that said so."""

    def __init__(self, cause):
        ClientDisconnected.__init__(
            self, '%s: %s' % (type(cause).__name__, cause))
        self.cause = cause


class StorageReadOnly(ReadOnlyError):
    """The server takes no writes at the moment; `cause` is the error that said so."""

    def __init__(self, cause):
        ReadOnlyError.__init__(self, '%s: %s' % (type(cause).__name__, cause))
        self.cause = cause


class OutcomeUnknown(StorageAway):
    """The storage was lost while it saved: it may have saved or not.

    The attribute tells Indico's loops not to try again, which might save twice.
    """

    outcome_unknown = True


def translated(error):
    """Returns the error to raise towards Indico instead of this one.

    Args:
        error: an exception raised by a storage's method.

    Returns: the same object, or one of a class that Indico knows.
    """
    if sql_errors.is_read_only(error):
        return StorageReadOnly(error)
    if isinstance(error, AWAY) or _server_failed(error) or (
            sql_errors.is_away(error) or neo_errors.is_away(error)):
        return StorageAway(error)
    return error


def translated_at_the_end(error):
    """Returns the error to raise instead of one that ended `tpc_finish`."""
    result = translated(error)
    if isinstance(result, ClientDisconnected) and not (
            sql_errors.is_taken_back(error) or
            neo_errors.is_taken_back(error)):
        return OutcomeUnknown(error)
    return result


def _server_failed(error):
    return isinstance(error, ServerException) and (
        error.args[0] in SERVER_FAILURES)
