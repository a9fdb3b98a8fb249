"""Import archived files into the database.

A batch takes two transactions.  The first one stores the contents, which nothing refers to yet.
They are read back from where they are stored.  The second one lets the entries refer to those that
are right.  So an entry never refers to content that was not verified, and a kill leaves at most
content without an entry, which the next pack removes.

Nobody but Indico knows when a file of the archive is replaced, so each file's time and size are
compared before its entry changes, and again after the last batch.
"""
from __future__ import absolute_import

import hashlib
import os
import time
from collections import namedtuple

from ZEO.Exceptions import ClientDisconnected
from ZODB.blob import Blob
from ZODB.POSException import ConflictError, POSKeyError

from indico_zodbrepl.dataplane.programs.clock import monotonic
from indico_zodbrepl.dataplane.uploads import entries
from indico_zodbrepl.dataplane.uploads.database import PATIENCE, PAUSE, in_words
from indico_zodbrepl.dataplane.uploads.survey import batches

MOST_FILES = 100  # in a batch
MOST_BYTES = 16 << 20  # in a batch, unless a file alone is larger
BLOCK = 1 << 20  # bytes in memory at a time
ATTEMPTS = 5  # at a file that others write meanwhile
NOTE = u'import uploaded files'

# found: a `Found`. source: the file's path. mark: its time and size. content: `entries.Content`.
Staged = namedtuple('Staged', 'found source mark content')


class Unreadable(Exception):
    """A file of the archive cannot be read; the text says why."""


class Import(object):
    """One run.

    Args:
        database: a `Database`.
        digest_of: a function of `reading.reader_of`.
        folders: {name of a repository: folder of its archived files}.
        progress: a `Progress`.

    Attributes:
        files, bytes: how much was imported.
        skipped: entries that others changed or removed meanwhile.
        missing: descriptions of entries whose file vanished meanwhile.
        failed: the same of entries that stay as they are, with `why`.
    """

    def __init__(self, database, digest_of, folders, progress):
        self.files = self.bytes = self.skipped = 0
        self.missing, self.failed = [], []
        self._database = database
        self._digest_of = digest_of
        self._folders = folders
        self._progress = progress
        self._imported = []
        self._sent = {}  # place: the last `Staged` whose entry was to change
        self._replaced = frozenset()  # places that are imported again

    def run(self, archived):
        """Import files; `archived` is that of a `Survey`."""
        for batch in batches(archived, MOST_FILES, MOST_BYTES):
            self._import(batch)
            self._progress.done(len(batch), sum(each.size for each in batch))
        self._import_replaced()
        self._progress.finish()

    def as_dict(self):
        return {'imported': {'files': self.files, 'bytes': self.bytes}, 'skipped': self.skipped,
                'missing': self.missing, 'failed': self.failed}

    def _import(self, batch):
        left = batch
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(PAUSE)
            left = self._patiently(left)
            if not left:
                break
        for each in left:
            self._fail(each, u'it is written to all the time')

    def _import_replaced(self):
        """Import the files again that were replaced after they had been read."""
        replaced = [staged for staged in self._imported
                    if mark_of(staged.source) not in (staged.mark, None)]
        self._imported = []
        self._replaced = frozenset(staged.found.place for staged in replaced)
        for staged in replaced:
            self.files -= 1
            self.bytes -= staged.content.size
        for batch in batches([staged.found for staged in replaced], MOST_FILES, MOST_BYTES):
            self._import(batch)

    def _patiently(self, batch):
        """Import a batch; return those that were written to meanwhile.

        The storage may be away for a while, and a new primary may lack what was stored.
        """
        deadline = monotonic() + PATIENCE
        while True:
            try:
                staged = self._store(batch)
                return self._refer(self._verified(staged))
            except (ClientDisconnected, ConflictError, POSKeyError):
                if monotonic() >= deadline:
                    raise
                time.sleep(PAUSE)

    def _store(self, batch):
        """Store the contents of a batch in one transaction; return what was stored."""
        def work():
            stored, landed, missing, failed, size = [], [], [], [], 0
            for found in batch:
                value = self._value(found.place)
                if not self._is_to_change(found, value):
                    landed += [self._sent[found.place]] if self._is_sent(found, value) else []
                    continue
                source = entries.find(self._folders[found.place.repository], found.path)
                if source is None:
                    missing.append(entries.described(found.place, value))
                    continue
                try:
                    stored.append(self._copy(found, source, size))
                except Unreadable as error:
                    failed.append((found, unicode(error)))
                else:
                    size += stored[-1].content.size
            return stored, landed, missing, failed
        stored, landed, missing, failed = self._database.commit(work, NOTE)
        self._count(landed)
        self.missing += missing
        for found, why in failed:
            self._fail(found, why)
        self.skipped += len(batch) - len(stored + landed + missing + failed)
        return stored

    def _value(self, place):
        files = entries.repositories(self._database.root).get(place.repository, {})
        return files.get(place.id)

    def _is_to_change(self, found, value):
        """Return True if an entry is still as it was seen, or as this run left it."""
        if value is None or entries.is_archived(value):
            return value == found.path
        return found.place in self._replaced and self._is_sent(found, value)

    def _is_sent(self, found, value):
        """Return True if an entry refers to the content that this run sent last."""
        sent = self._sent.get(found.place)
        if sent is None or value is None or entries.is_archived(value):
            return False
        content = entries.Content(*value)
        return (content.blob._p_oid, content.sha256) == (sent.content.blob, sent.content.sha256)

    def _copy(self, found, source, before):
        """Copy a file to a new blob of the current transaction; return it as `Staged`."""
        blob, content, size = Blob(), hashlib.sha256(), 0
        with blob.open('w') as target:
            try:
                with open(source, 'rb') as opened:
                    mark = Mark.of(os.fstat(opened.fileno()))
                    for block in iter(lambda: opened.read(BLOCK), b''):
                        content.update(block)
                        size += len(block)
                        _write(target, block)
                        self._progress.under_way(before + size)
            except EnvironmentError as error:
                raise Unreadable(in_words(error))
        self._database.add(blob)
        return Staged(found, source, mark, entries.Content(
            found.path, blob, size, content.hexdigest(), mark.time))

    def _verified(self, stored):
        """Return those of which the storage has the right content; the others have failed."""
        self._database.refresh()
        right = []
        for staged in stored:
            blob, content = staged.content.blob, staged.content
            blob._p_activate()
            there = self._digest_of(blob._p_oid, blob._p_serial)
            if there is not None and tuple(there) == (content.size, content.sha256):
                right.append(staged)
            else:
                self._fail(staged.found, u'the storage has other content than was sent')
        return right

    def _refer(self, stored):
        """Let entries refer to verified contents; return those whose files changed meanwhile."""
        def work():
            done, again = [], []
            repositories = entries.repositories(self._database.root)
            for staged in stored:
                place = staged.found.place
                if not self._is_to_change(staged.found, self._value(place)):
                    continue
                if mark_of(staged.source) != staged.mark:
                    again.append(staged.found)
                    continue
                self._database.require(staged.content.blob)
                repositories[place.repository][place.id] = tuple(staged.content)
                done.append(_without_blob(staged))
            self._sent.update((staged.found.place, staged) for staged in done)
            return done, again
        if not stored:
            return []
        done, again = self._database.commit(work, NOTE)
        self._count(done)
        self.skipped += len(stored) - len(done + again)
        self._database.tidy()
        return again

    def _count(self, done):
        self.files += len(done)
        self.bytes += sum(staged.content.size for staged in done)
        self._imported += done

    def _fail(self, found, why):
        self.failed.append(dict(entries.described(found.place, found.path), why=why))


class _Unwritable(Exception):
    """The blob's temporary file cannot be written; `cause` says why."""

    def __init__(self, cause):
        Exception.__init__(self, in_words(cause))
        self.cause = cause


def _write(target, block):
    try:
        target.write(block)
    except EnvironmentError as error:
        raise _Unwritable(error)


def _without_blob(staged):
    """Return the same with the blob's oid in its place, so that the blob can be forgotten."""
    return staged._replace(content=staged.content._replace(blob=staged.content.blob._p_oid))


class Mark(namedtuple('Mark', 'time size inode changed')):
    """The attributes of a file of which one changes when it is written to or replaced."""

    @classmethod
    def of(cls, status):
        return cls(status.st_mtime, status.st_size, status.st_ino, status.st_ctime)


def mark_of(path):
    """Return the `Mark` of a file; None if it is missing."""
    try:
        return Mark.of(os.stat(path))
    except OSError:
        return None
