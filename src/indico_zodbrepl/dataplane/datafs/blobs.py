"""The blob files of a data file, in the folder `blobs` beside it if there are any."""
import os

from ZODB.blob import FilesystemHelper

from indico_zodbrepl.dataplane.datafs import disk

FOLDER = 'blobs'
MARKER = '.layout'


def folder_of(path):
    """Return the blob folder of a Data.fs, which need not exist."""
    return os.path.join(disk.parent(path), FOLDER)


class Blobs(object):
    """The committed blobs in a folder.

    Args:
        folder: the blob folder; need not exist.
    """

    def __init__(self, folder):
        self.folder = folder
        self._helper = FilesystemHelper(folder) if os.path.isdir(folder) else None

    def name(self, oid, tid):
        """Return the path of a blob inside the folder; None if it is missing."""
        if self._helper is None:
            return None
        path = self._helper.getBlobFilename(oid, tid)
        return os.path.relpath(path, self.folder) if os.path.exists(path) else None

    def names(self):
        """Yield the path inside the folder of each committed blob."""
        for folder, _, files in os.walk(self.folder):
            for each in files:
                if each.endswith('.blob'):
                    yield os.path.relpath(os.path.join(folder, each), self.folder)

    def copy(self, name, target):
        """Copy a blob and the folder's layout to another blob folder, unless it has the blob.

        Returns the number of bytes copied; None if the blob is gone, as after a pack.
        """
        source, copied = os.path.join(self.folder, name), os.path.join(target, name)
        self._copy_marker(target)
        try:
            size = os.path.getsize(source)
            if os.path.exists(copied) and os.path.getsize(copied) == size:
                return 0
            _make_folder(disk.parent(copied))
            disk.write_file(copied, disk.blocks(source))
        except EnvironmentError:
            if os.path.exists(source):
                raise
            return None
        return size

    def _copy_marker(self, target):
        marker, copied = (os.path.join(each, MARKER) for each in (self.folder, target))
        if os.path.exists(marker) and not os.path.exists(copied):
            _make_folder(target)
            disk.write_file(copied, disk.blocks(marker))


def _make_folder(path):
    if not os.path.isdir(path):
        os.makedirs(path, 0o700)
