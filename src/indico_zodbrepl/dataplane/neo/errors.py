"""The meaning of errors of NEO's client.  No I/O.

They are recognised by name, so that NEO is imported only if it is used.
"""
from __future__ import absolute_import

from ZODB.POSException import StorageError

# Beginnings of the leading master's messages about a failed pack.
NO_PACK = 'no pack while a copy is missing: '
PARTLY_PACKED = 'storages that went away before they had packed: '


class PackRefused(StorageError):
    """Nothing was packed."""


class PackIncomplete(StorageError):
    """Some storages were packed, others went away before; the text names them."""


def pack_failure(error):
    """Return PackRefused or PackIncomplete for the master's message; None for other errors."""
    for reason, failure in ((NO_PACK, PackRefused), (PARTLY_PACKED, PackIncomplete)):
        if reason in str(error):
            return failure(reason + str(error).partition(reason)[2])
    return None


_LOST = 'neo.client.exception.NEOPrimaryMasterLost'
_NOT_FOUND = 'neo.client.exception.NEOStorageNotFoundError'
_AWAY = frozenset([
    _LOST, 'neo.client.exception.NEOStorageError', 'neo.lib.connection.ConnectionClosed',
    'neo.lib.exception.NodeNotReady', 'neo.lib.exception.PrimaryElected'])

# A restarted storage or master does not know earlier transactions.
_UNKNOWN_TRANSACTION = 'protocol error: unknown ttid'
# Raised by the partition table while the connection to the primary master is being lost.
_NO_TABLE = "Application' object has no attribute 'pt'"
# The request itself was wrong.
_WRONG_REQUESTS = ('Already packing', 'Invalid pack time')


def is_away(error):
    """Return True if `error` means that the cluster cannot serve at the moment."""
    names = _names(error)
    if _NOT_FOUND in names or str(error) in _WRONG_REQUESTS:
        return False
    return bool(names & _AWAY) or _is_unknown_transaction(error) or (
        type(error) is AttributeError and str(error).endswith(_NO_TABLE))


def is_taken_back(error):
    """Return True if `error`, at the end of a commit, proves that the commit was rolled back.

    Either no master could be asked to commit, or a new primary master was
    asked, which dropped the transactions that its predecessor had not been
    asked to commit.
    """
    return _LOST in _names(error) or _is_unknown_transaction(error)


def _is_unknown_transaction(error):
    return 'ZODB.POSException.StorageError' in _names(error) and (
        str(error).startswith(_UNKNOWN_TRANSACTION))


def _names(error):
    return frozenset(
        '%s.%s' % (each.__module__, each.__name__) for each in type(error).__mro__)
