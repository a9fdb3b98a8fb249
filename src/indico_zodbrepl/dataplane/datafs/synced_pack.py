"""A pack of a Data.fs that is on disk before it takes the place of the old file.

ZODB leaves it in the kernel's memory.  A loss of power could then empty or shorten the new file, also
at several nodes that were packed one after the other.  This module is the `packer` of each
`<filestorage>` that is packed.
"""
from __future__ import absolute_import

import os

from ZODB.FileStorage.fspack import FileStoragePacker

from indico_zodbrepl.dataplane.datafs import disk

# Bytes after which the copy is written to disk, so that little is left while commits wait at the end.
STEP = 64 << 20


def pack(storage, referencesf, stop, gc):
    """Pack a FileStorage; see `FileStorage.packer`.

    Returns (end of the new file, its index), with the commit lock held; None if nothing was freed.
    """
    packer = SyncedPacker(storage, referencesf, stop, gc)
    try:
        end = packer.pack()
        return None if end is None else (end, packer.index)
    finally:
        packer.close()


class SyncedPacker(FileStoragePacker):
    """Packs into a file that is on disk at the end."""

    _synced = 0

    def pack(self):
        end = FileStoragePacker.pack(self)
        if end is not None:
            try:
                disk.sync_file(self._name + '.pack')
            except EnvironmentError:
                self._commit_lock.release()
                os.remove(self._name + '.pack')
                raise
        return end

    def copyToPacktime(self):
        ends = FileStoragePacker.copyToPacktime(self)
        self._sync()
        return ends

    def copyOne(self, ipos):
        ipos = FileStoragePacker.copyOne(self, ipos)
        if self._tfile.tell() - self._synced >= STEP:
            # As while a transaction is copied, others may commit.
            self._commit_lock.release()
            self.locked = False
            self._sync()
            self._commit_lock.acquire()
            self.locked = True
        return ipos

    def _sync(self):
        self._tfile.flush()
        os.fsync(self._tfile.fileno())
        self._synced = self._tfile.tell()
