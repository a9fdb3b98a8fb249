"""The blob files in a folder of backups, and the lists that say which backup has which.

The folder `blobs` holds each file once, as ZODB's own blob folders do; backups share them.  Beside
each piece, or in the folder of each backup, a list has one line for each blob of its transactions:
path, bytes and SHA-256.  A file appears when it is complete and on disk, and a list after its
files, so what an interrupted backup left is used by the next one.

Files are copied, never linked: a backup must not change with the data.
"""
from __future__ import absolute_import

import collections
import errno
import os
import re

from ZODB.blob import BushyLayout

from indico_zodbrepl.dataplane.backup.pieces import BLOBS, NotWhole
from indico_zodbrepl.dataplane.datafs import digests, disk
from indico_zodbrepl.dataplane.datafs.blobs import FOLDER, MARKER
from indico_zodbrepl.dataplane.datafs.failures import DataFileError

LAYOUT, LAYOUT_NAME = BushyLayout(), b'bushy'
PATH = re.compile(r'(0x[0-9a-f]{2}/){8}0x[0-9a-f]{16}\.blob$')

OF_FOLDER = 'files.list'  # the list of a backup that is a folder

Kept = collections.namedtuple('Kept', 'path bytes sha256')


class BlobLost(DataFileError):
    """The data refer to a blob whose file is missing or can't be read."""

    exit_code = 4


def path_of(oid, tid):
    """Return the path of a blob in a blob folder, from its oid and tid of 8 bytes."""
    return LAYOUT.getBlobFilePath(oid, tid)


def listed(path):
    """Return the Kept of a list.  Raises NotWhole."""
    with open(path) as lines:
        rows = [line.split() for line in lines]
    if any(len(row) != 3 or not row[1].isdigit() or not PATH.match(row[0]) for row in rows):
        raise NotWhole('%s is damaged' % path)
    return [Kept(row[0], int(row[1]), row[2]) for row in rows]


class Store(object):
    """The blob files in a folder of backups.

    Args:
        folder: of the backups.
        count: a `progress.Counted`.
    """

    def __init__(self, folder, count):
        self._folder = folder
        self._files = os.path.join(folder, FOLDER)
        self._count = count

    def lists(self):
        """Return the paths of all lists in the folder."""
        names = sorted(os.listdir(self._folder))
        found = [name for name in names if name.endswith(BLOBS)]
        found += [os.path.join(name, OF_FOLDER) for name in names]
        paths = [os.path.join(self._folder, name) for name in found]
        return [path for path in paths if os.path.exists(path)]

    def missing(self, revisions):
        """Return the paths of the wanted blobs that the folder lacks.

        Args:
            revisions: iterable of (oid, tid).
        """
        paths = [path_of(*each) for each in revisions]
        return [path for path in paths if not os.path.exists(self._at(path))]

    def add(self, source, revisions, path, verify, check_space):
        """Copy blobs that the folder lacks, and write their list, which appears when all are there.

        Args:
            source: `datafs.blobs.Blobs` of the data.
            revisions: list of (oid, tid) of all blobs of the backup.
            path: of the list.
            verify: True to read and, if it is damaged, replace what was copied for older backups.
            check_space: called with the bytes that will be copied.

        Returns the number of blobs and their bytes.  Raises BlobLost: the data lack one.
        """
        known = self._known()
        sizes = source.sizes(revisions)
        wanted, kept = [], []
        for (oid, tid), size in zip(revisions, sizes):
            name = path_of(oid, tid)
            if size is None:
                raise BlobLost('%s: the file of a blob is missing' % (
                    os.path.join(source.folder, name)))
            there = self._there(name, size, known.get(name), verify)
            kept.append(there)
            if there is None:
                wanted.append((len(kept) - 1, source.name(oid, tid), name, size))
        total = sum(each[-1] for each in wanted)
        check_space(total)
        if wanted:
            self._count.begin('files', total)
        for index, own, name, size in wanted:
            kept[index] = self._copy(os.path.join(source.folder, own or name), name, size)
        self._mark()
        self.write(path, kept)
        return len(kept), sum(each.bytes for each in kept)

    def list_received(self, revisions, path):
        """Write the list of blobs whose files were received from another host.

        Returns the number of blobs and their bytes.  Raises NotWhole: one is missing.
        """
        known, kept = self._known(), []
        for name in [path_of(*each) for each in revisions]:
            if not os.path.exists(self._at(name)):
                raise NotWhole('%s is missing' % self._at(name))
            size = os.path.getsize(self._at(name))
            kept.append(self._there(name, size, known.get(name), False))
        self._mark()
        self.write(path, kept)
        return len(kept), sum(each.bytes for each in kept)

    def write(self, path, kept):
        """Write a list; the names of its files are on disk before it is."""
        for folder in set(part for each in kept for part in self._folders(each.path)):
            disk.sync_folder(folder)
        disk.write_file(path, [b'%s %d %s\n' % each for each in kept])

    def problems(self, kept):
        """Read blobs and return what is wrong with them, one line each."""
        found = []
        for each in kept:
            path = self._at(each.path)
            if not os.path.exists(path):
                found.append('%s is missing' % os.path.join(FOLDER, each.path))
            elif os.path.getsize(path) != each.bytes:
                found.append('%s is %d bytes, should be %d bytes' % (
                    os.path.join(FOLDER, each.path), os.path.getsize(path), each.bytes))
            elif self._digest(path) != each.sha256:
                found.append('%s was changed since it was made' % os.path.join(FOLDER, each.path))
        return found

    def restore(self, kept, folder):
        """Copy blobs to a new blob folder; their content is verified.  Raises NotWhole."""
        made = set([folder])
        _make_folder(folder)
        if kept:
            self._count.begin('files', sum(each.bytes for each in kept))
        for each in kept:
            path = os.path.join(folder, each.path)
            _make_folder(disk.parent(path))
            made.update(_folders(folder, each.path))
            try:
                digest = _copy(self._at(each.path), path, self._count)
            except IOError as error:
                if error.errno != errno.ENOENT:
                    raise
                raise NotWhole('%s: %s' % (self._at(each.path), error.strerror))
            if digest != each.sha256:
                raise NotWhole('%s was changed since it was made' % self._at(each.path))
        disk.write_file(os.path.join(folder, MARKER), [LAYOUT_NAME])
        for each in made:
            disk.sync_folder(each)

    def sweep(self):
        """Remove the files that no list names, also incomplete ones; return their number."""
        named = set(each.path for name in self.lists() for each in listed(name))
        removed = 0
        for folder, _, names in list(os.walk(self._files, topdown=False)):
            if folder == self._files:
                continue
            for name in names:
                path = os.path.join(folder, name)
                if os.path.relpath(path, self._files) not in named:
                    os.unlink(path)
                    removed += 1
            if not os.listdir(folder):
                os.rmdir(folder)
        return removed

    def _known(self):
        """Return the Kept of readable lists, by path."""
        known = {}
        for path in self.lists():
            try:
                known.update((each.path, each) for each in listed(path))
            except NotWhole:
                pass  # what it named is read again
        return known

    def _there(self, name, size, known, verify):
        """Return the Kept of a file that need not be copied, or None."""
        path = self._at(name)
        if not os.path.exists(path) or os.path.getsize(path) != size:
            return None
        if known is None:  # an interrupted backup has left it
            return Kept(name, size, self._digest(path))
        if verify and self._digest(path) != known.sha256:
            return None
        return known

    def _copy(self, source, name, size):
        path = self._at(name)
        _make_folder(disk.parent(path))
        try:
            digest = _copy(source, path, self._count)
        except IOError as error:
            if error.errno != errno.ENOENT:
                raise
            raise BlobLost('%s: %s' % (source, error.strerror))
        if os.path.getsize(path) != size:
            raise BlobLost('%s has changed while it was copied' % source)
        return Kept(name, size, digest)

    def _mark(self):
        marker = os.path.join(self._files, MARKER)
        if os.path.isdir(self._files) and not os.path.exists(marker):
            disk.write_file(marker, [LAYOUT_NAME])

    def _digest(self, path):
        return digests.of_blocks(self._counted(path)).encode('hex')

    def _counted(self, path):
        for block in disk.blocks(path):
            self._count.add(len(block))
            yield block

    def _at(self, name):
        return os.path.join(self._files, name)

    def _folders(self, name):
        return [self._folder] + _folders(self._files, name)


def _copy(source, path, count):
    """Copy a file atomically; return the SHA-256 of its content as it was read.

    The caller forces its name to disk, together with others.
    """
    new = path + '.part'
    with disk.create(new) as target:
        def written():
            for block in disk.blocks(source):
                target.write(block)
                count.add(len(block))
                yield block
        digest = digests.of_blocks(written()).encode('hex')
        target.flush()
        os.fsync(target.fileno())
    os.rename(new, path)
    return digest


def _folders(folder, name):
    """Return the folders from a blob folder down to a blob."""
    found = [folder]
    for part in os.path.dirname(name).split(os.path.sep):
        found.append(os.path.join(found[-1], part))
    return found


def _make_folder(path):
    if not os.path.isdir(path):
        os.makedirs(path, 0o700)
