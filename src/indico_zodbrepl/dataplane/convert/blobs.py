"""The blob files of a source or target: in a folder, as ZODB's own, or in the database."""
from __future__ import absolute_import

import contextlib
import os
import shutil
import tempfile

from relstorage.blobhelper.interfaces import INoBlobHelper
from relstorage.blobhelper.shared import SharedBlobHelper
from ZODB.blob import BushyLayout
from ZODB.utils import u64

from indico_zodbrepl.dataplane.convert.failures import CanNotBeKept
from indico_zodbrepl.dataplane.datafs import digests, disk
from indico_zodbrepl.dataplane.datafs.blobs import MARKER, Blobs

LAYOUT, LAYOUT_NAME = BushyLayout(), b'bushy'


class InFolder(object):
    """Blobs in a folder.

    Args:
        folder: need not exist.
    """

    def __init__(self, folder):
        self._folder = folder
        self._blobs = Blobs(folder)

    def has(self, oid, tid):
        """Return True unless the file of a blob is missing."""
        return self._blobs.name(oid, tid) is not None

    @contextlib.contextmanager
    def file(self, oid, tid):
        """Yield the path of a blob's file.  Raises CanNotBeKept if it is missing."""
        name = self._blobs.name(oid, tid)
        if name is None:
            raise _missing(oid, tid)
        yield os.path.join(self._folder, name)

    def exist(self):
        """Return True if there may be a blob."""
        return self._blobs.exist()

    def put(self, cursor, oid, tid, path, tell):
        """Copy a file to its place; it is on disk afterwards.

        Args:
            cursor: ignored.
            path: of the file.
            tell: called with the bytes of each block.
        """
        self._make_folder(self._folder)
        marker = os.path.join(self._folder, MARKER)
        if not os.path.exists(marker):
            disk.write_file(marker, [LAYOUT_NAME])
            self._blobs = Blobs(self._folder)
        copied = os.path.join(self._folder, LAYOUT.getBlobFilePath(oid, tid))
        self._make_folder(disk.parent(copied))
        disk.copy_file(path, copied, tell)

    def _make_folder(self, path):
        """Make a folder and those above it; their names are on disk afterwards."""
        if not os.path.isdir(path):
            self._make_folder(disk.parent(path))
            os.mkdir(path, 0o700)
            disk.sync_folder(disk.parent(path))

    def close(self):
        """Do nothing."""


class InDatabase(object):
    """Blobs in the database of a RelStorage; read from there, not from a client's cache.

    Args:
        storage: the storage itself, without any wrapper.
    """

    def __init__(self, storage):
        self._storage = storage
        self._mover = storage._adapter.mover
        # A temporary folder of the system may be too small for a large file.
        self._folder = None if INoBlobHelper.providedBy(storage.blobhelper) else (
            storage.temporaryDirectory())
        self._scratch = None

    def has(self, oid, tid):
        """Return True unless a blob is missing."""
        cursor = self._storage._load_connection.cursor
        cursor.execute('SELECT COUNT(*) FROM blob_chunk WHERE zoid = %d AND tid = %d' % (
            u64(oid), u64(tid)))
        return bool(cursor.fetchall()[0][0])

    @contextlib.contextmanager
    def file(self, oid, tid):
        """Yield the path of a copy of a blob, which is removed afterwards, as `InFolder` does."""
        if not self.has(oid, tid):
            raise _missing(oid, tid)
        if self._scratch is None:
            self._scratch = tempfile.mkdtemp(prefix='zodbrepl-', dir=self._folder)
        path = os.path.join(self._scratch, 'blob')
        cursor = self._storage._load_connection.cursor
        try:
            self._mover.download_blob(cursor, u64(oid), u64(tid), path)
            yield path
        finally:
            disk.remove(path)

    def exist(self):
        """Return True if there is a blob."""
        cursor = self._storage._load_connection.cursor
        cursor.execute('SELECT COUNT(*) FROM blob_chunk')
        return bool(cursor.fetchall()[0][0])

    def put(self, cursor, oid, tid, path, tell):
        """Store a file; its object's record is stored already.

        Args:
            cursor: of the transaction.
            path, tell: as for `InFolder`; told once, at the end.
        """
        self._mover.upload_blob(cursor, u64(oid), u64(tid), path)
        tell(os.path.getsize(path))

    def close(self):
        """Remove the folder of copies."""
        if self._scratch is not None:
            shutil.rmtree(self._scratch)
            self._scratch = None


def blobs_of(storage):
    """Return where an open RelStorage has its blobs."""
    if isinstance(storage.blobhelper, SharedBlobHelper):
        return InFolder(storage.blobhelper.blob_dir)
    return InDatabase(storage)


def digest(path, tell):
    """Return the SHA-256 of a file.

    Args:
        tell: called with the bytes of each block.
    """
    return digests.of_blocks(_told(path, tell))


def _told(path, tell):
    for block in disk.blocks(path):
        tell(len(block))
        yield block


def _missing(oid, tid):
    return CanNotBeKept('the file of blob %s of transaction %s is missing' % (
        oid.encode('hex'), tid.encode('hex')))
