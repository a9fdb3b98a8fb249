"""What the errors of NEO's client mean.  No I/O.

They are told by name, so that NEO is imported only where it is used.
"""
from __future__ import absolute_import

from ZODB.POSException import StorageError

# How the leading master begins to say why a pack did not succeed.
NO_PACK = 'no pack while a copy is missing: '
PARTLY_PACKED = 'storages that went away before they had packed: '


class PackRefused(StorageError):
    """Nothing was packed."""


class PackIncomplete(StorageError):
    """Some storages were packed, and others went away before; the text names them."""


def pack_failure(error):
    """Return PackRefused or PackIncomplete for what the master said; None for other errors."""
    for reason, failure in ((NO_PACK, PackRefused), (PARTLY_PACKED, PackIncomplete)):
        if reason in str(error):
            return failure(reason + str(error).partition(reason)[2])
    return None


_LOST = 'neo.client.exception.NEOPrimaryMasterLost'
_NOT_FOUND = 'neo.client.exception.NEOStorageNotFoundError'
_AWAY = frozenset([
    _LOST, 'neo.client.exception.NEOStorageError', 'neo.lib.connection.ConnectionClosed',
    'neo.lib.exception.NodeNotReady', 'neo.lib.exception.PrimaryElected'])

# A storage or master that was restarted does not know the transactions of before.
_UNKNOWN_TRANSACTION = 'protocol error: unknown ttid'
# The partition table, while the connection to the primary master is being lost.
_NO_TABLE = "Application' object has no attribute 'pt'"
# What was wrong is the request.
_WRONG_REQUESTS = ('Already packing', 'Invalid pack time')


def is_away(error):
    """Return whether `error` says that the cluster does not serve just now."""
    names = _names(error)
    if _NOT_FOUND in names or str(error) in _WRONG_REQUESTS:
        return False
    return bool(names & _AWAY) or _is_unknown_transaction(error) or (
        type(error) is AttributeError and str(error).endswith(_NO_TABLE))


def is_taken_back(error):
    """Return whether `error`, at the end of a commit, proves that it was not saved.

    Either nobody could be asked to save, or who was asked is a new primary
    master, which dropped what its predecessor had not been asked to save.
    """
    return _LOST in _names(error) or _is_unknown_transaction(error)


def _is_unknown_transaction(error):
    return 'ZODB.POSException.StorageError' in _names(error) and (
        str(error).startswith(_UNKNOWN_TRANSACTION))


def _names(error):
    return frozenset(
        '%s.%s' % (each.__module__, each.__name__) for each in type(error).__mro__)
