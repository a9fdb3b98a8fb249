"""The blob files of a data file, in the folder `blobs` beside it if there are any."""
from __future__ import absolute_import

import errno
import os

from ZODB.blob import FilesystemHelper, is_blob_record

from indico_zodbrepl.dataplane.datafs import digests, disk

FOLDER = 'blobs'
MARKER = '.layout'
SUFFIX = '.blob'
MODULE = b'ZODB.blob'  # each blob's record names it, so `is_blob_record` looks for it
LONGEST = 256  # bytes of a blob's record, which holds the name of its class and no state


def folder_of(path):
    """Return the blob folder of a Data.fs, which need not exist."""
    return os.path.join(disk.parent(path), FOLDER)


def tid_of(name):
    """Return the tid in the path of a blob."""
    return os.path.basename(name)[len('0x'):-len(SUFFIX)].decode('hex')


def blob_records(data_file, transaction):
    """Yield the Records of a transaction of a DataFile that are blobs.  Raises Damaged."""
    for record in data_file.records(transaction):
        if record.length <= LONGEST and is_blob_record(data_file.data(record)):
            yield record


class Blobs(object):
    """The committed blobs in a folder.

    Args:
        folder: the blob folder; need not exist.
    """

    knows = True  # as it is for those of a `remote.RemoteFile`, unless its release has no answer

    def __init__(self, folder):
        self.folder = folder
        self._helper = FilesystemHelper(folder) if os.path.isdir(folder) else None

    def name(self, oid, tid):
        """Return the path of a blob inside the folder; None if it is missing."""
        if self._helper is None:
            return None
        path = self._helper.getBlobFilename(oid, tid)
        return os.path.relpath(path, self.folder) if os.path.exists(path) else None

    def path(self, oid, tid):
        """Return the path of a blob inside the folder, which need not exist."""
        helper = self._helper or FilesystemHelper(self.folder)
        return os.path.relpath(helper.getBlobFilename(oid, tid), self.folder)

    def exist(self):
        """Return True if the folder has a committed blob."""
        return next(self.names(), None) is not None

    def sizes(self, wanted):
        """Return the size in bytes of each blob; None for a missing one.

        Args:
            wanted: list of (oid, tid).
        """
        return [self._size(*each) for each in wanted]

    def _size(self, oid, tid):
        return None if self._helper is None else _size(self._helper.getBlobFilename(oid, tid))

    def digests(self, batches):
        """Yield each batch with the SHA-256 of its blobs; None for a missing one.

        Args:
            batches: an iterable of lists of (oid, tid).
        """
        for batch in batches:
            yield batch, [self._digest(*each) for each in batch]

    def _digest(self, oid, tid):
        if self._size(oid, tid) is None:
            return None
        try:
            return digests.of_blocks(disk.blocks(self._helper.getBlobFilename(oid, tid)))
        except IOError as error:
            if error.errno != errno.ENOENT:
                raise
            return None  # a pack removed it meanwhile

    def names(self):
        """Yield the path inside the folder of each committed blob."""
        for folder, _, files in os.walk(self.folder):
            for each in files:
                if each.endswith(SUFFIX):
                    yield os.path.relpath(os.path.join(folder, each), self.folder)

    def remove_others(self, source, last):
        """Remove blobs that another Blobs does not have, or that are newer than a tid."""
        for name in list(self.names()):
            if tid_of(name) > last or not os.path.exists(os.path.join(source.folder, name)):
                os.unlink(os.path.join(self.folder, name))

    def size(self, name):
        """Return the bytes of a blob, by its path inside the folder; None if it is gone."""
        return _size(os.path.join(self.folder, name))

    def copy(self, name, target):
        """Copy a blob and the folder's layout to another blob folder, unless it has the blob.

        A blob of the same size counts as the same: it appears there when it is complete.

        Returns the number of bytes copied; None if the blob is gone, as after a pack.
        """
        source, copied = os.path.join(self.folder, name), os.path.join(target, name)
        self.copy_marker(target)
        try:
            size = os.path.getsize(source)
            if os.path.exists(copied) and os.path.getsize(copied) == size:
                return 0
            _make_folder(disk.parent(copied))
            disk.copy_file(source, copied)
        except EnvironmentError:
            if os.path.exists(source):
                raise
            return None
        return size

    def put_aside(self, name, target):
        """Rename a blob into another folder on the same disk.

        Its folder stays: a server may be about to put a file there.
        """
        source, moved = os.path.join(self.folder, name), os.path.join(target, name)
        self.copy_marker(target)
        _make_folder(disk.parent(moved))
        if os.path.exists(moved) and os.path.samefile(source, moved):
            os.unlink(source)  # a pack has linked it there; a rename would leave both names
        else:
            os.rename(source, moved)

    def move(self, name, target):
        """Move a blob to another blob folder, unless that was done before.

        A copy that is there already stays if it has the same content.
        """
        source, moved = os.path.join(self.folder, name), os.path.join(target, name)
        if not os.path.exists(source):
            return
        self.copy_marker(target)
        if not _is_same(source, moved):
            _make_folder(disk.parent(moved))
            disk.copy_file(source, moved)
        os.unlink(source)
        folder = disk.parent(source)
        while folder != os.path.abspath(self.folder) and not os.listdir(folder):
            os.rmdir(folder)
            folder = disk.parent(folder)
        disk.sync_folder(folder)

    def copy_marker(self, target):
        """Copy the file that says how a server arranged the folder, if one has, to another folder.

        Before it starts, a server looks for blobs in all of its data file unless it finds this file.
        """
        marker, copied = (os.path.join(each, MARKER) for each in (self.folder, target))
        if os.path.exists(marker) and not os.path.exists(copied):
            _make_folder(target)
            disk.write_file(copied, disk.blocks(marker))


def _size(path):
    try:
        return os.path.getsize(path)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR):
            raise
        return None


def _is_same(one, other):
    return (os.path.exists(other) and os.path.getsize(one) == os.path.getsize(other)
            and digests.of_blocks(disk.blocks(one)) == digests.of_blocks(disk.blocks(other)))


def _make_folder(path):
    if not os.path.isdir(path):
        os.makedirs(path, 0o700)
