"""Translate storage errors into errors that Indico handles.  No I/O.

Indico's request loops retry after ConflictError, POSKeyError and
ClientDisconnected, and answer 503 to ReadOnlyError; every other error is a 500.
Errors of other classes that mean "the storage is away at the moment" are listed
here, one table for each kind of storage.  Unlisted errors are not changed.
"""
from __future__ import absolute_import

from concurrent.futures import CancelledError, TimeoutError

from zc.lockfile import LockError
from ZEO.Exceptions import ClientDisconnected, ServerException
from ZODB.POSException import POSError, ReadOnlyError

from indico_zodbrepl.dataplane.client import relstorage
from indico_zodbrepl.dataplane.neo import errors as neo_errors

# ZEO: a call that was under way when the client's I/O loop was closed.
ZEO_AWAY = (CancelledError, TimeoutError)

# A storage in this process: its disk is full, gone or broken, or another
# process has its files.
FILES_AWAY = (EnvironmentError, LockError)

AWAY = ZEO_AWAY + FILES_AWAY

# ZEO: the server could not write or read its files, for example because its disk is full. It sends
# the name of the error's class.
SERVER_FAILURES = (
    'exceptions.IOError', 'exceptions.OSError', 'builtins.OSError')


class StorageAway(ClientDisconnected):
    """The storage cannot be reached; `cause` is the original error."""

    def __init__(self, cause):
        ClientDisconnected.__init__(
            self, '%s: %s' % (type(cause).__name__, cause))
        self.cause = cause


class StorageReadOnly(ReadOnlyError):
    """The server refuses writes at the moment; `cause` is the original error."""

    def __init__(self, cause):
        ReadOnlyError.__init__(self, '%s: %s' % (type(cause).__name__, cause))
        self.cause = cause


class OutcomeUnknown(StorageAway):
    """The storage was lost while saving: the commit may or may not have happened.

    The attribute tells Indico's loops not to retry, which might save twice.
    """

    outcome_unknown = True


def translated(error):
    """Return the error to raise towards Indico.

    Args:
        error: an exception raised by a storage's method.

    Returns: the same object, or one of a class that Indico handles.
    """
    if relstorage.is_read_only(error):
        return StorageReadOnly(error)
    if isinstance(error, AWAY) or _server_failed(error) or (
            relstorage.is_away(error) or neo_errors.is_away(error)):
        return StorageAway(error)
    return error


def translated_at_the_end(error):
    """Return the error to raise instead of one that ended `tpc_finish`."""
    result = translated(error)
    if isinstance(result, ClientDisconnected) and not (
            relstorage.is_taken_back(error) or
            neo_errors.is_taken_back(error)):
        return OutcomeUnknown(error)
    return result


def translated_at_the_end_on_zeo(error):
    """Return the error to raise instead of one that ended a ZEO client's `tpc_finish`.

    ZEO refuses with a POSError.  Any other error may have come after the server's answer.
    """
    result = translated_at_the_end(error)
    return result if isinstance(result, POSError) else OutcomeUnknown(error)


def _server_failed(error):
    return isinstance(error, ServerException) and (
        error.args[0] in SERVER_FAILURES)
