"""Client-side repairs of RelStorage on SQLite for blobs, which are files beside the database.

RelStorage puts their files into place while a transaction votes, forces none of them to disk, and
leaves some of them behind for ever.
"""
from __future__ import absolute_import

import os

from relstorage.blobhelper.shared import SharedBlobHelper
from ZODB.blob import remove_committed
from ZODB.TimeStamp import TimeStamp
from ZODB.utils import u64

from indico_zodbrepl.dataplane.datafs import disk


class SyncedBlobHelper(SharedBlobHelper):
    """A helper whose files are on disk before the transaction that refers to them is.

    Their content is forced to disk when they are stored, where no other commit waits for it.
    """

    def storeBlob(self, cursor, store_func, oid, *args):
        SharedBlobHelper.storeBlob(self, cursor, store_func, oid, *args)
        self._sync(self._txn_blobs[oid])

    def restoreBlob(self, cursor, oid, serial, blobfilename):
        SharedBlobHelper.restoreBlob(self, cursor, oid, serial, blobfilename)
        self._sync(self.fshelper.getBlobFilename(oid, serial))

    def copy_undone(self, copied, tid):
        SharedBlobHelper.copy_undone(self, copied, tid)
        for path in self._txn_blobs.values():
            self._sync(path)

    def vote(self, tid=None):
        SharedBlobHelper.vote(self, tid)
        for path in self._txn_blobs.values():
            disk.sync_folder(disk.parent(path))

    def _sync(self, path):
        disk.sync_file(path)
        disk.sync_parents(path, self.blob_dir)


def sync_blobs(storage):
    """Let all instances of a storage force the blob files to disk, if it keeps them itself.

    Args:
        storage: a `relstorage.storage.RelStorage`, before its first use.
    """
    if type(storage.blobhelper) is SharedBlobHelper:
        # An instance of the storage makes its helper of the same class.
        storage.blobhelper.__class__ = SyncedBlobHelper


def remove_unused_files(storage, until):
    """Remove blob files that no row refers to, up to a moment; return their number and bytes.

    They are old revisions in a database without history, and those of a commit that was killed.

    Args:
        storage: a RelStorage on SQLite.
        until: seconds since the epoch; later files may belong to a commit under way.
    """
    helper = storage.blobhelper
    if not isinstance(helper, SharedBlobHelper):
        return 0, 0
    manager = storage._adapter.connmanager
    connection, cursor = manager.open()  # the storage's own may see an older state
    try:
        return _remove(helper.fshelper, cursor, until)
    finally:
        manager.close(connection, cursor)


def _remove(files, cursor, until):
    number = size = 0
    for oid, folder in files.listOIDs():
        rows = None
        for path in [os.path.join(folder, name) for name in os.listdir(folder)]:
            _, tid = files.splitBlobFilename(path)
            if tid is None or TimeStamp(tid).timeTime() >= until:
                continue
            if rows is None:
                cursor.execute('SELECT tid FROM object_state WHERE zoid = %d' % u64(oid))
                rows = set(row[0] for row in cursor.fetchall())
            if u64(tid) not in rows:
                size += os.path.getsize(path)
                remove_committed(path)
                number += 1
    return number, size
