"""Export files from the database to the archive, or copy them to another folder.

A file is written under another name, forced to disk, read back and renamed before its entry
changes.  No file is ever replaced: where one with other content has the name, the exported one gets
a folder of its own.
"""
from __future__ import absolute_import

import os
import time
from collections import namedtuple

from ZEO.Exceptions import ClientDisconnected
from ZODB.POSException import ConflictError, POSKeyError

from indico_zodbrepl.dataplane.datafs import disk
from indico_zodbrepl.dataplane.programs.clock import monotonic
from indico_zodbrepl.dataplane.uploads import entries
from indico_zodbrepl.dataplane.uploads.database import PATIENCE, PAUSE
from indico_zodbrepl.dataplane.uploads.survey import batches

MOST_FILES = 100  # in a batch
MOST_BYTES = 64 << 20  # in a batch, unless a file alone is larger
BLOCK = 1 << 20  # bytes in memory at a time
PART = '.zodbrepl-part'  # ends the name of a file that is not complete
NOTE = u'export uploaded files'

# A file that was written. oid, sha256: of its blob. path: in the folder of its repository.
# renamed: whether another file has its name.
Written = namedtuple('Written', 'place oid sha256 path size renamed')


class Damaged(Exception):
    """The content of a file is missing in the database, or differs; the text says how."""


class Export(object):
    """One run.

    Args:
        database: a `Database`.
        folders: {name of a repository: folder that gets its files}.
        progress: a `Progress`.
        changes_entries: False to copy only.

    Attributes:
        files, bytes: how much is exported now.
        skipped: entries that others changed or removed meanwhile.
        renamed: number of files whose name was taken by another file.
        failed: descriptions of entries that stay as they are, with `why`.
    """

    def __init__(self, database, folders, progress, changes_entries):
        self.files = self.bytes = self.skipped = self.renamed = 0
        self.failed = []
        self._database = database
        self._folders = folders
        self._progress = progress
        self._changes_entries = changes_entries

    def run(self, stored):
        """Export files; `stored` is that of a `Survey`."""
        for batch in batches(stored, MOST_FILES, MOST_BYTES):
            self._patiently(batch)
            self._progress.done(len(batch), sum(each.size for each in batch))
        self._progress.finish()

    def as_dict(self):
        return {'exported': {'files': self.files, 'bytes': self.bytes}, 'skipped': self.skipped,
                'renamed': self.renamed, 'failed': self.failed}

    def _patiently(self, batch):
        deadline = monotonic() + PATIENCE
        while True:
            try:
                return self._export(batch)
            except (ClientDisconnected, ConflictError):
                if monotonic() >= deadline:
                    raise
                time.sleep(PAUSE)

    def _export(self, batch):
        self._database.refresh()
        written, failed, size = [], [], 0
        for found in batch:
            value = self._value(found.place)
            if value is None or entries.is_archived(value):
                continue
            content = entries.Content(*value)
            try:
                path = self._write(found.place, content, size)
            except Damaged as error:
                failed.append(dict(entries.described(found.place, value), why=unicode(error)))
            else:
                written.append(Written(found.place, content.blob._p_oid, content.sha256, path,
                                       content.size, path != content.path))
                size += content.size
        left = self._refer(written) if written and self._changes_entries else ()
        done = [each for each in written if each not in left]
        self.files += len(done)
        self.bytes += sum(each.size for each in done)
        self.renamed += sum(each.renamed for each in done)
        self.skipped += len(batch) - len(done) - len(failed)
        self.failed += failed
        self._database.tidy()

    def _value(self, place):
        files = entries.repositories(self._database.root).get(place.repository, {})
        return files.get(place.id)

    def _write(self, place, content, before):
        """Write a file; return its path in the folder of its repository.  Raises Damaged."""
        folder = self._folders[place.repository]
        part = os.path.join(folder, PART)
        make_folder(folder)
        try:
            self._copy(content, part, before)
            found = disk.size_and_sha256(part)
            if found != (content.size, content.sha256):
                raise Damaged('%d bytes are recorded, SHA-256 %s; the database has %d bytes, %s' % (
                    content.size, content.sha256, found[0], found[1]))
            return self._put(part, folder, place, content)
        finally:
            disk.remove(part)

    def _copy(self, content, part, before):
        """Copy the content of a file to a new file that is on disk then."""
        try:
            source = content.blob.open('r')
        except POSKeyError:
            raise Damaged('its content is missing')
        with source, disk.create(part) as target:
            size = 0
            for block in iter(lambda: source.read(BLOCK), b''):
                target.write(block)
                size += len(block)
                self._progress.under_way(before + size)
            target.flush()
            os.fsync(target.fileno())

    def _put(self, part, folder, place, content):
        """Give a complete file the first name that is free, or that of an equal file."""
        for path in _names(place, content.path):
            target = os.path.join(folder, path)
            try:
                if disk.size_and_sha256(target) == (content.size, content.sha256):
                    break
                continue
            except EnvironmentError:
                if os.path.lexists(target):
                    continue
            make_folder(os.path.dirname(target))
            os.utime(part, (content.created, content.created))
            os.rename(part, target)
            disk.sync_folder(os.path.dirname(target))
            break
        return path

    def _refer(self, written):
        """Let entries refer to exported files; return those that have other content by now."""
        def work():
            repositories = entries.repositories(self._database.root)
            left = []
            for each in written:
                value = self._value(each.place)
                if value is None or entries.is_archived(value):
                    left += [each] if value != each.path else []
                    continue
                content = entries.Content(*value)
                if (content.blob._p_oid, content.sha256) == (each.oid, each.sha256):
                    repositories[each.place.repository][each.place.id] = each.path
                else:
                    left.append(each)
            return left
        return self._database.commit(work, NOTE)


def _names(place, path):
    """Yield paths for a file: its own, then in folders that carry its id."""
    folder, name = os.path.split(path)
    if entries.is_inside(path):
        yield path
    else:
        folder = 'exported'
    number = 0
    while True:
        number += 1
        yield os.path.join(folder, '%s-%d' % (place.id, number), name)


def make_folder(path):
    """Create a folder with those above it; their names are on disk then."""
    if not os.path.isdir(path):
        parent = os.path.dirname(os.path.abspath(path))
        make_folder(parent)
        os.mkdir(path, 0o700)
        disk.sync_folder(parent)
