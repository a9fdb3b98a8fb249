"""Back up into a repozo repository, verify its backups, and restore from it.

Repozo reads and writes the pieces.  This module removes what an interrupted run left, keeps the
blob files, reads each new piece again, and checks every transaction in it.
"""
from __future__ import absolute_import

import contextlib
import fcntl
import itertools
import os

from ZODB.scripts import repozo

from indico_zodbrepl.dataplane.backup import blobs, contents, pieces
from indico_zodbrepl.dataplane.backup.pieces import NoBackup, NotWhole
from indico_zodbrepl.dataplane.backup.progress import Counted
from indico_zodbrepl.dataplane.datafs import disk
from indico_zodbrepl.dataplane.datafs.blobs import FOLDER, Blobs, folder_of
from indico_zodbrepl.dataplane.datafs.datafile import DataFile
from indico_zodbrepl.dataplane.datafs.failures import (
    Changed,
    Damaged,
    DataFileError,
    InUse,
    NoSpace,
)
from indico_zodbrepl.dataplane.datafs.records import START, time_of
from indico_zodbrepl.dataplane.programs.clock import monotonic

LOCK = 'lock'
BLOCK = 1 << 20
ATTEMPTS = 3


class Repository(object):
    """A folder with the backups of one database.

    While in use it is the working directory of the process, because repozo cannot read its own
    lists if a path in them has blanks.  Not for use by several threads.

    Args:
        folder: must exist.
        say: called with dicts of progress.
    """

    def __init__(self, folder, say):
        self._folder = os.path.abspath(folder)
        self._count = Counted(say)
        repozo.READCHUNK = BLOCK
        repozo.dofile = self._count.counting(repozo.dofile)
        self._store = blobs.Store('.', self._count)

    @contextlib.contextmanager
    def alone(self):
        """Hold the folder's lock.  Raises InUse; NoBackup if there is no such folder."""
        try:
            os.chdir(self._folder)
        except OSError as error:
            raise NoBackup('%s: %s' % (self._folder, error.strerror))
        try:
            lock = open(LOCK, 'a')
        except IOError:  # nobody writes to a read-only medium
            yield
            return
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except IOError:
                raise InUse('another backup or restore works in %s' % self._folder)
            yield

    def back_up(self, path, full):
        """Back up what a Data.fs has beyond the newest backup; a server may have the file open.

        Args:
            path: of the Data.fs.
            full: True to make a full backup in any case.  Otherwise one is made only if the file
                does not continue the newest backup, or a part of that backup is missing.  True
                also reads the blob files that older backups have, and replaces damaged ones.

        Returns a dict for JSON: kind ('full', 'incremental', or 'none' when nothing is new),
        name of the piece, its bytes, bytes of the whole, tid and time of the last transaction,
        number and bytes of its blobs, `removed` (pieces that an interrupted run had left), seconds.

        Raises DataFileError.
        """
        begun, path = monotonic(), os.path.abspath(path)
        removed = pieces.settle('.')
        pieces.drop_received('.')
        verify = full
        full = full or not all(os.path.exists(each.name) for each in self._newest())
        for _ in range(ATTEMPTS):
            try:
                done = self._try(path, full, verify)
                break
            except Changed:
                pieces.settle('.')
        else:
            raise Changed('%s is packed again and again' % path)
        disk.sync_folder('.')
        if done['kind'] == 'full':
            self._store.sweep()
        return dict(done, removed=removed, seconds=round(monotonic() - begun, 3))

    def _try(self, path, full, verify):
        with DataFile(path) as source:
            end, last = source.end, source.last()
            if last is None:
                raise DataFileError('%s has no transaction' % path)
            needed = source.end - (0 if full else self._had(source.end))
            check_space(needed)
            pieces.wait_for_a_new_name()
            before = self._newest()
            options = repozo.parseargs(['-B', '-Q', '-r', '.', '-f', path] + ['-F'] * full)
            options.test_now = repozo.gen_filedate(options)
            kept = _Source(self._store, options, before, needed, verify, self._count)
            repozo.FileStorage = kept.opened
            self._count.begin('copied', self._expected(end, full))
            _repozo(options, repozo.do_backup)
            if source.replaced():
                self._drop_after(before)
                raise Changed('%s was packed' % path)
            after = self._newest()
            if after == before:
                return _told('none', '', 0, end, last.tid)
            piece = after[-1]
            try:
                self._verify(piece)
            except DataFileError:
                self._drop_after(before)
                raise
            if piece.end == piece.begin:  # only an unfinished transaction is new
                self._drop_after(before)
                return _told('none', '', 0, end, last.tid)
            kind = 'incremental' if piece.begin else 'full'
            return _told(kind, piece.name, piece.end - piece.begin, piece.end,
                         pieces.last_tid('.', piece), kept.number, kept.bytes)

    def _had(self, size):
        newest = self._newest()
        return newest[-1].end if newest and newest[-1].end <= size else 0

    def _expected(self, size, full):
        """Return the number of bytes that a backup will read of a file of that size."""
        newest = self._newest()
        if full or not newest or newest[-1].end > size:
            return size
        return size - newest[-1].begin  # the last piece is compared first

    def _newest(self):
        """Return the pieces of the newest full backup and of the incremental ones after it."""
        full = [name for name in pieces.data_files('.') if name.endswith(pieces.FULL)]
        return pieces.listed(pieces.list_of('.', full[-1])) if full else []

    def _drop_after(self, before):
        """Remove a piece that was just written; its list first, so that nothing refers to it."""
        after = self._newest()
        if after != before:
            pieces.write_list(pieces.list_of('.', after[0].name), after[:-1])
            pieces.remove('.', after[-1].name)

    def _verify(self, piece):
        """Raise NotWhole unless a piece is what repozo has read, complete."""
        self._count.begin('verified', piece.end - piece.begin)
        md5, size = repozo.get_checksum_and_size_of_file(piece.name, False)
        if (md5, size) != (piece.md5, piece.end - piece.begin):
            raise NotWhole('%s was written wrongly' % piece.name)

    def inspect(self, at):
        """Check a backup: the sizes and MD5 of all its pieces, the SHA-256 of its blobs.

        Args:
            at: time in repozo's form, to check the newest backup up to then; None for the newest.

        Returns a dict for JSON: name and `made` (when, ISO 8601) of its last piece, pieces,
        bytes of the data file that it makes, number and bytes of its blobs, tid and time of its
        last transaction, and `problems`, a list of texts.  Raises NoBackup.
        """
        wanted = self._wanted(at)
        chain = pieces.listed(pieces.list_of('.', wanted[0]))
        known = dict((each.name, each) for each in chain)
        said = []
        try:
            kept = self._kept(wanted)
        except NotWhole as error:
            kept = []
            said.append('%s (%s)' % (error, wanted[-1]))
        self._count.begin('checked', sum(each.bytes for each in kept) + sum(
            os.path.getsize(name) for name in wanted if os.path.exists(name)))
        repozo.error = lambda text, *values: said.append(text % values)
        options = repozo.parseargs(['-V', '-r', '.'])
        options.date = at
        repozo.do_verify(options)
        problems = [text.lstrip('./') for text in said
                    if any(name in text for name in wanted)]
        end = 0
        for name in wanted:
            if name not in known:
                problems.append('%s is in no list' % name)
            elif known[name].begin != end:
                problems.append('%s begins at byte %d, not %d' % (name, known[name].begin, end))
            end = known[name].end if name in known else end
        problems += self._store.problems(kept)
        told = {'name': wanted[-1], 'made': pieces.moment(wanted[-1]), 'pieces': len(wanted),
                'bytes': end, 'problems': problems, 'tid': None, 'time': None,
                'blobs': len(kept), 'blob_bytes': sum(each.bytes for each in kept)}
        if not problems:
            tid = pieces.last_tid('.', known[wanted[-1]])
            told.update(tid=tid.encode('hex'), time=time_of(tid))
        return told

    def _wanted(self, at):
        options = repozo.parseargs(['-V', '-r', '.'])
        options.date = at
        found = [os.path.basename(name) for name in repozo.find_files(options)]
        if not found or not found[0].endswith(pieces.FULL):
            raise NoBackup('%s has no backup%s' % (
                self._folder, ' that was made before %s UTC' % at if at else ''))
        return found

    def _kept(self, wanted):
        """Return what pieces have of blobs.  Raises NotWhole."""
        lists = [pieces.blobs_of('.', name) for name in wanted]
        found = {}
        for path in lists:
            if os.path.exists(path):
                found.update((each.path, each) for each in blobs.listed(path))
        return sorted(found.values())

    def recover(self, target, at):
        """Restore a Data.fs, its index and its blobs from a backup.

        The file appears when everything is complete and on disk; the folder of its blobs is beside
        it, and before it.  The MD5 of every piece and the SHA-256 of every blob are compared, and
        every transaction is checked afterwards.

        Args:
            target: path; an existing file and its blobs are replaced.
            at: as for `inspect`.

        Returns a dict for JSON: bytes, tid, time, transactions, number and bytes of blobs.  Raises
        DataFileError.
        """
        target = os.path.abspath(target)
        wanted = self._wanted(at)
        growing = target + '.recovering'
        kept = self._kept(wanted)
        for path in (growing, growing + '.part', growing + '.index', target + '.index', target,
                     folder_of(target)):
            disk.remove(path)
        self._count.begin('recovered', sum(
            each.end - each.begin for each in pieces.listed(pieces.list_of('.', wanted[0]))
            if each.name in wanted))
        when = ['-D', at] if at else []
        options = repozo.parseargs(['-R', '-w', '-r', '.', '-o', growing] + when)
        try:
            _repozo(options, repozo.do_recover)
        except (repozo.VerificationFail, KeyError) as error:
            raise NotWhole('%s: %s' % (self._folder, error))
        with DataFile(growing) as made:
            self._count.begin('verified', made.end)
            found, index = contents.of_all(made, self._count)
            last, size = made.last(), made.size
            if made.end != size:
                raise NotWhole('%s ends within a transaction' % self._folder)
        have = set(each.path for each in kept)
        for path in itertools.starmap(blobs.path_of, found.blobs):
            if path not in have:
                raise NotWhole('the backup has no file of a blob: %s' % (
                    os.path.join(FOLDER, path)))
        index.save(size, growing + '.index')
        total = sum(each.bytes for each in kept)
        self._store.restore(kept, folder_of(target))
        for path in (growing, growing + '.index'):
            _sync(path)
        os.rename(growing + '.index', target + '.index')
        os.rename(growing, target)
        for left in ('.lock', '.tmp'):
            disk.remove(growing + left)
        disk.sync_folder(disk.parent(target))
        return {'bytes': size, 'tid': last.tid.encode('hex'), 'time': time_of(last.tid),
                'transactions': found.transactions, 'blobs': len(kept), 'blob_bytes': total}


class _Source(object):
    """The data file as repozo opens it: a FileStorage would read all that no index has.

    When it is opened, the transactions of the new piece are checked and their blobs are kept.

    Args:
        store: a `blobs.Store`.
        options: repozo's.
        chain: the pieces before; empty for a full backup.
        needed: bytes that the piece itself needs.
        verify: as for `blobs.Store.add`.
        count: a Counted.

    Attributes:
        number, bytes: of the blobs.
    """

    def __init__(self, store, options, chain, needed, verify, count):
        self._store = store
        self._options = options
        self._chain = chain
        self._needed = needed
        self._verify = verify
        self._count = count
        self._end = START
        self._index = _NoIndex()
        self.number = self.bytes = 0

    def opened(self, path, read_only):
        """Return this object, in place of a FileStorage.  Raises DataFileError."""
        chain = [] if self._options.full else self._chain
        with DataFile(path) as now:  # it may have grown since the backup began
            self._end = now.end
            self._count.begin('verified', now.end - (chain[-1].end if chain else 0))
            try:
                found = contents.of_next_piece(now, chain, now.end, self._count)
                self._keep_blobs(path, found.blobs)
            except DataFileError:
                if now.replaced():
                    raise Changed('%s was packed' % path)
                raise
            self._count.begin('copied', now.end - (chain[-1].end if chain else 0))
        return self

    def _keep_blobs(self, path, found):
        name = pieces.blobs_of('.', repozo.gen_filename(self._options, '', self._options.test_now))
        self.number, self.bytes = self._store.add(
            Blobs(folder_of(path)), found, name, self._verify,
            lambda size: check_space(size + self._needed))

    def getSize(self):  # noqa: N802 repozo calls it
        return self._end

    def close(self):
        pass


class _NoIndex(object):
    """A backup has none: whatever restores it reads all headers, and makes the index of these."""

    def save(self, position, path):
        pass


def _repozo(options, work):
    """Run repozo and turn its errors into DataFileError."""
    try:
        return work(options)
    except repozo.NoFiles as error:
        raise NoBackup(str(error))
    except (repozo.WouldOverwriteFiles, AssertionError) as error:
        raise Changed('the data file changed while it was copied: %s' % error)


def _told(kind, name, size, whole, tid, number=0, files=0):
    return {'kind': kind, 'name': name, 'bytes': size, 'whole': whole,
            'tid': tid.encode('hex'), 'time': time_of(tid), 'blobs': number, 'blob_bytes': files}


def check_space(needed):
    """Raise NoSpace unless the working directory's disk has that many bytes free."""
    system = os.statvfs('.')
    free = system.f_bavail * system.f_frsize
    if free < needed:
        raise NoSpace('%d MB are needed in %s, %d MB are free' % (
            needed >> 20, os.getcwd(), free >> 20))


def _sync(path):
    with open(path, 'r+b') as opened:
        os.fsync(opened.fileno())
