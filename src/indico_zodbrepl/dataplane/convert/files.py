"""A Data.fs as the source or the target of a conversion, without a server."""
from __future__ import absolute_import

import contextlib
import errno
import fcntl
import itertools
import os

import zc.lockfile
import ZODB
from BTrees.LLBTree import LLBTree
from ZODB.Connection import TransactionMetaData
from ZODB.FileStorage import FileStorage
from ZODB.MappingStorage import MappingStorage
from ZODB.utils import load_current, p64, u64, z64

from indico_zodbrepl.dataplane.convert.blobs import InFolder
from indico_zodbrepl.dataplane.convert.failures import InUse, OtherData
from indico_zodbrepl.dataplane.convert.transactions import Keeps, Record, Transaction
from indico_zodbrepl.dataplane.datafs import disk
from indico_zodbrepl.dataplane.datafs.blobs import folder_of
from indico_zodbrepl.dataplane.datafs.datafile import DataFile
from indico_zodbrepl.dataplane.datafs.records import PACKED, RECORD

KEEPS = Keeps(history=True, status=True, empty=False, extension_bytes=True, undo_pointers=True,
              blobs=True)


@contextlib.contextmanager
def _locked(path):
    """Keep servers off a Data.fs.  Raises InUse."""
    try:
        lock = zc.lockfile.LockFile(path + '.lock')
    except zc.lockfile.LockError:
        raise InUse('a server has %s open; stop it first' % path)
    try:
        yield
    finally:
        lock.close()


@contextlib.contextmanager
def kept_from_servers(path):
    """Keep servers off a Data.fs that is only read, and change no file.  Raises InUse, IOError.

    Other readers may share it.  A server makes the lock file, so a Data.fs without one is not
    open.  A new one, of this user, would keep another user's server from starting afterwards.
    """
    lock = _opened_lock(path + '.lock')
    try:
        if lock is not None:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except IOError:
        lock.close()
        raise InUse('a server has %s open; stop it first' % path)
    try:
        yield
    finally:
        if lock is not None:
            lock.close()


def _opened_lock(path):
    """Return a lock file, open for reading; None without one."""
    try:
        return open(path)
    except IOError as error:
        if error.errno != errno.ENOENT:
            raise
        return None


class FileSource(object):
    """A Data.fs that is only read, and that nobody writes meanwhile.

    Attributes:
        keeps: what its transactions may have.
        blobs: the files of its blobs, `blobs.InFolder`.
        unfinished: bytes of an incomplete transaction at its end, left by a kill.
    """

    keeps = KEEPS

    def __init__(self, path):
        self._path = path
        self._data_file = DataFile(path)
        self._position = 0
        self.unfinished = self._data_file.size - self._data_file.end
        self.blobs = InFolder(folder_of(path))

    def transactions(self, after=None):
        """Yield each Transaction after a tid, oldest first.  Raises Damaged."""
        return _read(self._data_file, after, self._at)

    def _at(self, position):
        self._position = position

    def fraction(self):
        """Return the fraction of the history that was read, from 0 to 1."""
        return float(self._position) / max(self._data_file.end, 1)

    def close(self):
        self._data_file.close()


class _OnDiskAtTheEnd(FileStorage):
    """A FileStorage that does not wait for the disk at each transaction."""

    def _finish_finish(self, tid):
        self._file.flush()
        self._pos = self._nextpos
        self._index.update(self._tindex)
        self._ltid = tid


class FileTarget(object):
    """A new Data.fs, which grows as PATH.part and gets its name when it is complete.

    An existing PATH is a finished copy; it becomes PATH.part again before anything is added.  The
    files of its blobs are beside it from the beginning.

    Attributes:
        blobs: those files.

    Raises OtherData if both exist.
    """

    keeps = KEEPS

    def __init__(self, path):
        self._path = path
        self._part = path + '.part'
        self._storage = None
        self.blobs = InFolder(folder_of(path))
        if os.path.exists(path) and os.path.exists(self._part):
            raise OtherData('%s and %s are both there; remove the one that is not wanted' % (
                path, self._part))

    def transactions(self, after=None):
        """Yield the complete transactions, as FileSource does."""
        path = self._part if os.path.exists(self._part) else self._path
        if not os.path.exists(path) or not os.path.getsize(path):
            return
        with DataFile(path, damaged=True) as data_file:
            for transaction in _read(data_file, after, lambda position: None):
                yield transaction

    def empty(self):
        """Remove its content, which is no more than an empty root object."""
        for path in (self._path, self._part):
            for suffix in ('', '.index'):
                disk.remove(path + suffix)

    def held(self, transaction):
        """Prepare for its existing content; nothing needs to be done."""

    def write(self, transaction, blobs=None, tell=None):
        """Add a transaction, the files of its blobs first.

        Args:
            blobs: of the source; None to leave all files out.  It yields None to leave one out.
            tell: called with the bytes of each block of a file.
        """
        storage = self._storage or self._open()
        meta = TransactionMetaData(transaction.user, transaction.description,
                                   transaction.extension)
        for oid in transaction.blobs() if blobs is not None else ():
            with blobs.file(oid, transaction.tid) as path:
                if path is not None:
                    self.blobs.put(None, oid, transaction.tid, path, tell)
        storage.tpc_begin(meta, transaction.tid, transaction.status)
        for oid, data, data_txn in transaction.records:
            storage.restore(oid, transaction.tid, data, '', data_txn, meta)
        storage.tpc_vote(meta)
        storage.tpc_finish(meta)

    def _open(self):
        if os.path.exists(self._path):
            os.rename(self._path, self._part)
            disk.remove(self._path + '.index')
        _cut_what_is_not_whole(self._part)
        self._storage = _OnDiskAtTheEnd(self._part)
        return self._storage

    def settle(self):
        """Flush everything written to disk."""
        self.close()
        if os.path.exists(self._part):
            with open(self._part, 'rb') as part:
                os.fsync(part.fileno())

    def publish(self):
        """Rename it to its final name."""
        if os.path.exists(self._part):
            if os.path.exists(self._part + '.index'):
                os.rename(self._part + '.index', self._path + '.index')
            os.rename(self._part, self._path)
            for suffix in ('.lock', '.tmp'):
                disk.remove(self._part + suffix)
        disk.sync_folder(disk.parent(self._path))

    def close(self):
        if self._storage is not None:
            self._storage.close()
            self._storage = None


def _cut_what_is_not_whole(part):
    if not os.path.exists(part):
        return
    with DataFile(part, damaged=True) as data_file:
        end, size = data_file.end, data_file.size
    if end < size:
        disk.remove(part + '.index')
        with open(part, 'r+b') as opened:
            opened.truncate(end)


@contextlib.contextmanager
def source(path):
    """Open a Data.fs as a source.  Raises DataFileError, InUse, CanNotBeKept."""
    with kept_from_servers(path), contextlib.closing(FileSource(path)) as opened:
        yield opened


@contextlib.contextmanager
def target(path):
    """Open a Data.fs as a target.  Raises DataFileError, InUse, OtherData."""
    with _locked(path), contextlib.closing(FileTarget(path)) as opened:
        yield opened


def _read(data_file, after, at):
    start = _position(data_file, after)
    for header in data_file.forward(*start):
        records = [Record(record.oid, data_file.data(record), _data_txn(data_file, record))
                   for record in data_file.records(header)]
        at(header.end)
        status = PACKED if header.packed else b' '
        yield Transaction(header.tid, status, header.user, header.description,
                          header.extension, records)


def _position(data_file, after):
    if after is None:
        return ()
    last = data_file.find(after)
    return () if last is None else (last.end,)


def _data_txn(data_file, record):
    if record.length or not record.back:
        return None
    return RECORD.unpack(data_file.read(record.back, RECORD.size))[1]


def is_only_founded(transactions):
    """Return True if these are no more than what opening a new database writes.

    Args:
        transactions: an iterable of Transaction; at most two are taken.
    """
    first = list(itertools.islice(transactions, 2))
    return (len(first) == 1
            and [(record.oid, record.data) for record in first[0].records] == [(z64, _root())])


def _root():
    storage = MappingStorage()
    ZODB.DB(storage)
    return load_current(storage, z64)[0]


class Newest(object):
    """An index that grows as transactions are passed to it, oldest first."""

    def __init__(self):
        self._tids = LLBTree()

    def add(self, transaction):
        tid = u64(transaction.tid)
        for record in transaction.records:
            self._tids[u64(record.oid)] = tid

    def newest(self, oid):
        """Return the tid of the object's last change; None for an unknown object."""
        tid = self._tids.get(u64(oid))
        return None if tid is None else p64(tid)
