"""The database of a ZODB configuration: open it, and commit in spite of others and interruptions."""
from __future__ import absolute_import

import contextlib
import errno
import signal
import time

import transaction
import ZODB.config
from zc.lockfile import LockError
from ZEO.Exceptions import ClientDisconnected
from ZODB.DB import DB
from ZODB.POSException import ConflictError, ReadOnlyError

from indico_zodbrepl.dataplane.indico import stand_ins
from indico_zodbrepl.dataplane.programs.clock import monotonic

CACHED_OBJECTS = 2000
CLEANED_EVERY = 500  # entries that are read
PATIENCE = 60.0  # seconds for which a transaction is retried
PAUSE = 0.5  # seconds between two attempts
ATTEMPTS = 20  # of a transaction that others were faster than
FULL = (errno.ENOSPC, errno.EDQUOT)
FULL_IN_WORDS = ('No space left on device', 'Disk quota exceeded', 'disk is full')


class Locked(Exception):
    """Another process has the data file open."""


class Full(Exception):
    """A disk is full: of this host, or of a storage server."""


class _StandInDB(DB):
    """A database with stand-ins for Indico's classes."""

    def classFactory(self, connection, modulename, globalname):
        return stand_ins.class_of(connection, modulename, globalname)


@contextlib.contextmanager
def opened(path, with_indico=False):
    """Open the database of a ZODB configuration file; yield a `Database`.

    Args:
        with_indico: load objects with Indico's own classes, which must be importable.

    Raises Locked, and the storage's exceptions.
    """
    try:
        storage = ZODB.config.storageFromURL(path)
    except (LockError, ClientDisconnected) as error:
        if isinstance(getattr(error, 'cause', error), LockError):
            raise Locked(str(error))
        raise
    try:
        db = (DB if with_indico else _StandInDB)(storage, cache_size=CACHED_OBJECTS)
    except ReadOnlyError:  # an empty one: ZODB wants to create the root
        storage.close()
        raise
    try:
        yield Database(db, storage, with_indico)
    finally:
        transaction.abort()
        db.close()


class Database(object):
    """An open database.  One thread, and one connection.

    Args:
        db: the `ZODB.DB`.
        storage: its storage, perhaps an `IndicoStorage`.
        with_indico: True if objects have Indico's classes, and not stand-ins, which can't be
            stored.
    """

    def __init__(self, db, storage, with_indico):
        self.storage = storage
        self.with_indico = with_indico
        self._connection = db.open()
        self._held = self._asked = False

    @property
    def root(self):
        """The root of the database, as of the current transaction."""
        return self._connection.root()

    def add(self, new):
        """Give a new object an id in the current transaction."""
        self._connection.add(new)

    def require(self, known):
        """Let the current transaction fail if an object was changed or removed meanwhile.

        The object is not loaded; see `revision`.  Raises POSKeyError.
        """
        if known._p_changed is None:
            # ZODB would ignore it, or require the revision that it had when it was loaded.
            known._p_serial = self.revision(known)
        self._connection.readCurrent(known)

    def revision(self, known):
        """Return the id of the transaction that wrote an object, as of the current transaction.

        The object is not loaded: ZODB would fetch the content of a blob.  Raises POSKeyError.
        """
        return self._connection._storage.load(known._p_oid)[1]

    def refresh(self):
        """See what others have committed."""
        transaction.abort()
        transaction.begin()

    def tidy(self):
        """Forget objects that were not used lately."""
        self._connection.cacheGC()

    def commit(self, work, note):
        """Commit what `work()` changes; return its value.

        Is repeated after conflicts, and while the storage is away or read-only for up to a minute,
        so `work` must read what it changes each time.

        Args:
            note: text, the transaction's description.

        Raises Full, ConflictError, ClientDisconnected, ReadOnlyError; POSKeyError if an object
        of `require` is gone.
        """
        deadline, conflicts = monotonic() + PATIENCE, 0
        while True:
            try:
                return self._attempt(work, note)
            except ConflictError:
                conflicts += 1
                if conflicts == ATTEMPTS:
                    raise
            except (ClientDisconnected, ReadOnlyError) as error:
                if is_full(error):
                    raise Full(in_words(error))
                if monotonic() >= deadline:
                    raise
                time.sleep(PAUSE)
            except Exception as error:
                if is_full(error):
                    raise Full(in_words(error))
                raise

    def _attempt(self, work, note):
        self.refresh()
        try:
            value = work()
            transaction.get().note(note)
            with self._uninterrupted():
                transaction.commit()
            return value
        finally:
            transaction.abort()

    @contextlib.contextmanager
    def _uninterrupted(self):
        """Put an interruption off: FileStorage could lose track of its file."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        self.interrupted()

    @contextlib.contextmanager
    def interruptible(self):
        """Let SIGINT and SIGTERM raise KeyboardInterrupt, but not while something is committed."""
        before = [(each, signal.signal(each, self._signalled))
                  for each in (signal.SIGINT, signal.SIGTERM)]
        try:
            yield
        finally:
            for each, handler in before:
                signal.signal(each, handler)

    def _signalled(self, _number, _frame):
        self._asked = True
        if not self._held:
            raise KeyboardInterrupt

    def interrupted(self):
        """Raise KeyboardInterrupt if somebody asked for it."""
        if self._asked:
            raise KeyboardInterrupt


def is_full(error):
    """Return True if an error means that a disk is full, here or on a server."""
    if getattr(error, 'errno', None) in FULL:
        return True
    cause = getattr(error, 'cause', None)
    return cause is not None and is_full(cause) or any(
        words in str(error) for words in FULL_IN_WORDS)


def in_words(error):
    """Return an error as one line."""
    return '%s: %s' % (type(error).__name__, ' '.join(str(error).split()))
