"""Open the storage for Indico's model and words its errors for operators."""
import contextlib
import errno
import threading

import transaction
import ZConfig
import ZODB.config
from indico.core.config import Config
from indico.core.db.manager import DBMgr
from indico.core.db.migration import MigratedDB
from ZEO.Exceptions import ClientDisconnected
from ZODB.FileStorage.FileStorage import FileStorageQuotaError
from ZODB.POSException import ReadOnlyError
from zc.lockfile import LockError

from indico_zodbrepl.dataplane.client.status import is_connected

from bulkloader.errors import DISK_FULL, STORAGE_AWAY, STORAGE_READ_ONLY, LoaderError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# as the C library, SQLite and MariaDB say it
_FULL_IN_WORDS = ('no space left on device', 'disk quota exceeded', 'disk is full', 'disk full')


class _ReadOnlyDBMgr(DBMgr):
    """Indico's access to a storage that this process cannot change.

    Args:
        path: a ZODB configuration file with one storage section.
    """

    def __init__(self, path):
        self._storage = read_only_storage(path)
        try:
            self._db = MigratedDB(self._storage, **Config.getInstance().getDBOptions())
        except ReadOnlyError:
            self._storage.close()
            raise
        self._conn = threading.local()
        self._conn.conn = None


def read_only_storage(path):
    """Open the storage of a ZODB configuration file, read-only whatever the file says."""
    schema = ZODB.config.getStorageSchema()
    config, _ = ZConfig.loadConfig(schema, path)
    for section in _sections(config.storage):
        if hasattr(section, 'read_only'):
            section.read_only = True
        if hasattr(section, 'read_only_fallback'):
            section.read_only_fallback = False
    return config.storage.open()


def _sections(opener):
    """Yield the ZConfig sections of a storage and of those that it wraps."""
    section = opener.config
    yield section
    for name in section.getSectionAttributes():
        value = getattr(section, name)
        for inner in value if isinstance(value, list) else [value]:
            if hasattr(inner, 'open') and hasattr(inner, 'config'):
                for each in _sections(inner):
                    yield each


@contextlib.contextmanager
def opened(storage_conf=None, read_only=False):
    """Open the database behind Indico's model and close it at the end.

    Args:
        storage_conf: a ZODB configuration file; without it the storage of indico.conf.
        read_only: opens the storage so that nothing can be changed.

    Yields Indico's `DBMgr`. One thread, one database at a time. Raises LoaderError; in the block,
    ClientDisconnected in place of ReadOnlyError when there is no server any more.
    """
    path = storage_conf or Config.getInstance().getDBStorageURL()
    try:
        manager = _ReadOnlyDBMgr(path) if read_only and path else DBMgr.getInstance()
    except LockError:
        raise LoaderError(
            STORAGE_AWAY, 'another process holds the storage', 'it is named in %s' % path,
            'load through the server that holds it: name its address there')
    except EnvironmentError as error:
        raise LoaderError(STORAGE_AWAY, 'the storage cannot be opened', str(error))
    DBMgr.setInstance(manager)
    try:
        yield manager
    except ReadOnlyError:
        # ZEO may take a client for read-only that has just lost its server.
        if not is_connected(manager._db):
            raise ClientDisconnected('the connection to the server is lost')
        raise
    finally:
        DBMgr.setInstance(None)
        manager._db.close()


@contextlib.contextmanager
def connected(manager):
    """One connection, as in a request of Indico; yields the root. Commits nothing by itself."""
    manager.startRequest()
    try:
        yield manager.getDBConnection().root()
    finally:
        transaction.abort()
        manager.getDBConnection().close()
        manager._delConnObject()


@contextlib.contextmanager
def errors_for_operators():
    """Raise LoaderError for a storage that is away, read-only or full."""
    hint = ('What was committed stays. When bin/zodbrepl status shows a writable primary, '
            'give the same command again: it goes on where it stopped.')
    try:
        yield
    except Exception as error:
        if is_full(error):
            raise LoaderError(
                DISK_FULL, 'the disk of the storage is full', _words(error),
                'What was committed stays. Make room, then give the same command again: it goes '
                'on where it stopped.')
        if isinstance(error, ClientDisconnected):
            raise LoaderError(STORAGE_AWAY, 'the storage is away', _words(error), hint)
        if isinstance(error, ReadOnlyError):
            raise LoaderError(STORAGE_READ_ONLY, 'the storage is read-only', _words(error), hint)
        raise


def is_full(error):
    """Return whether an error of a storage means that its disk is full, here or on its server."""
    if isinstance(error, FileStorageQuotaError) or getattr(error, 'errno', None) in _FULL:
        return True
    text = str(error).lower()
    return any(words in text for words in _FULL_IN_WORDS)


def _words(error):
    name = type(error).__name__
    return '%s: %s' % (name, error) if str(error) else name
