"""Back up into a repozo repository, verify its backups, and restore from it.

Repozo does all reading and writing.  This module removes what an interrupted run left, reads each
new piece again, and checks every transaction in it.
"""
from __future__ import absolute_import

import contextlib
import fcntl
import os

from ZODB.FileStorage import FileStorage
from ZODB.scripts import repozo

from indico_zodbrepl.dataplane.backup import pieces
from indico_zodbrepl.dataplane.backup.pieces import NoBackup, NotWhole
from indico_zodbrepl.dataplane.datafs import disk
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
                does not continue the newest backup, or a part of that backup is missing.

        Returns a dict for JSON: kind ('full', 'incremental', or 'none' when nothing is new),
        name of the piece, its bytes, bytes of the whole, tid and time of the last transaction,
        `removed` (pieces that an interrupted run had left), seconds.

        Raises DataFileError.
        """
        begun, path = monotonic(), os.path.abspath(path)
        removed = pieces.settle('.')
        pieces.drop_received('.')
        full = full or not all(os.path.exists(each.name) for each in self._newest())
        for _ in range(ATTEMPTS):
            try:
                done = self._try(path, full)
                break
            except Changed:
                pieces.settle('.')
        else:
            raise Changed('%s is packed again and again' % path)
        disk.sync_folder('.')
        return dict(done, removed=removed, seconds=round(monotonic() - begun, 3))

    def _try(self, path, full):
        with DataFile(path) as source:
            end, last = source.end, source.last()
            if last is None:
                raise DataFileError('%s has no transaction' % path)
            _check_space(source.end - (0 if full else self._had(source.end)))
            pieces.wait_for_a_new_name()
            before = self._newest()
            self._count.begin('copied', self._expected(end, full))
            _repozo(['-B', '-Q', '-r', '.', '-f', path] + ['-F'] * full, repozo.do_backup)
            if source.replaced():
                self._drop_after(before)
                raise Changed('%s was packed' % path)
            after = self._newest()
            if after == before:
                return _told('none', '', 0, end, last.tid)
            piece = after[-1]
            try:
                self._verify(source, path, end, piece)
            except DataFileError:
                self._drop_after(before)
                raise
            if piece.end == piece.begin:  # only an unfinished transaction is new
                self._drop_after(before)
                return _told('none', '', 0, end, last.tid)
            kind = 'incremental' if piece.begin else 'full'
            return _told(kind, piece.name, piece.end - piece.begin, piece.end,
                         pieces.last_tid('.', piece))

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

    def _verify(self, source, path, end, piece):
        """Raise Damaged unless a piece is complete and consists of complete transactions."""
        if piece.end < end:
            raise Damaged(path, piece.end, 'this is no transaction')
        self._count.begin('verified', 2 * (piece.end - piece.begin))
        md5, size = repozo.get_checksum_and_size_of_file(piece.name, False)
        if (md5, size) != (piece.md5, piece.end - piece.begin):
            raise NotWhole('%s was written wrongly' % piece.name)
        with DataFile(path) as now:  # it may have grown since it was opened
            if source.replaced():
                raise Changed('%s was packed' % path)
            look_at(now, max(piece.begin, START), piece.end, self._count)

    def inspect(self, at):
        """Check a backup: the sizes and MD5 of all its pieces.

        Args:
            at: time in repozo's form, to check the newest backup up to then; None for the newest.

        Returns a dict for JSON: name and `made` (when, ISO 8601) of its last piece, pieces,
        bytes of the data file that it makes, tid and time of its last transaction, and
        `problems`, a list of texts.  Raises NoBackup.
        """
        wanted = self._wanted(at)
        chain = pieces.listed(pieces.list_of('.', wanted[0]))
        known = dict((each.name, each) for each in chain)
        self._count.begin('checked', sum(
            os.path.getsize(name) for name in wanted if os.path.exists(name)))
        said = []
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
        told = {'name': wanted[-1], 'made': pieces.moment(wanted[-1]), 'pieces': len(wanted),
                'bytes': end, 'problems': problems, 'tid': None, 'time': None}
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

    def recover(self, target, at):
        """Restore a Data.fs and its index from a backup; it appears when complete and on disk.

        The MD5 of every piece is compared, and every transaction is checked afterwards.

        Args:
            target: path; an existing file is replaced.
            at: as for `inspect`.

        Returns a dict for JSON: bytes, tid, time, transactions.  Raises DataFileError.
        """
        target = os.path.abspath(target)
        wanted = self._wanted(at)
        growing = target + '.recovering'
        for path in (growing, growing + '.part', growing + '.index', target + '.index', target):
            disk.remove(path)
        self._count.begin('recovered', sum(
            each.end - each.begin for each in pieces.listed(pieces.list_of('.', wanted[0]))
            if each.name in wanted))
        when = ['-D', at] if at else []
        try:
            _repozo(['-R', '-w', '-r', '.', '-o', growing] + when, repozo.do_recover)
        except (repozo.VerificationFail, KeyError) as error:
            raise NotWhole('%s: %s' % (self._folder, error))
        with DataFile(growing) as made:
            self._count.begin('verified', made.end)
            count = look_at(made, START, made.end, self._count)
            last, size = made.last(), made.size
            if made.end != size:
                raise NotWhole('%s ends within a transaction' % self._folder)
        if not os.path.exists(growing + '.index'):
            FileStorage(growing).close()  # which makes it
        for path in (growing, growing + '.index'):
            _sync(path)
        os.rename(growing + '.index', target + '.index')
        os.rename(growing, target)
        for left in ('.lock', '.tmp'):
            disk.remove(growing + left)
        disk.sync_folder(disk.parent(target))
        return {'bytes': size, 'tid': last.tid.encode('hex'), 'time': time_of(last.tid),
                'transactions': count}


def look_at(data_file, begin, end, count):
    """Read all headers between two positions; return the number of transactions.

    Raises Damaged.
    """
    found = 0
    for transaction in data_file.forward(begin):
        if transaction.position >= end:
            break
        for record in data_file.records(transaction):
            data_file.data_at(record)
        found += 1
        count.add(transaction.size)
    return found


def _repozo(arguments, work):
    """Run repozo and turn its errors into DataFileError."""
    try:
        return work(repozo.parseargs(arguments))
    except repozo.NoFiles as error:
        raise NoBackup(str(error))
    except (repozo.WouldOverwriteFiles, AssertionError) as error:
        raise Changed('the data file changed while it was copied: %s' % error)


def _told(kind, name, size, whole, tid):
    return {'kind': kind, 'name': name, 'bytes': size, 'whole': whole,
            'tid': tid.encode('hex'), 'time': time_of(tid)}


def _check_space(needed):
    system = os.statvfs('.')
    free = system.f_bavail * system.f_frsize
    if free < needed:
        raise NoSpace('%d MB are needed in %s, %d MB are free' % (
            needed >> 20, os.getcwd(), free >> 20))


def _sync(path):
    with open(path, 'r+b') as opened:
        os.fsync(opened.fileno())


REPORT_EACH = 0.5  # seconds


class Counted(object):
    """A counter of bytes that reports progress now and then.

    Args:
        say: called with a dict of stage, done and total, in bytes; the total may be None.
    """

    def __init__(self, say):
        self._say = say
        self._stage, self._total, self._done = '', None, 0
        self._next = 0

    def begin(self, stage, total):
        self._stage, self._total, self._done = stage, total, 0

    def add(self, count):
        self._done += count
        if monotonic() >= self._next:
            self._next = monotonic() + REPORT_EACH
            total = self._total and max(self._total, self._done)
            self._say({'stage': self._stage, 'done': self._done, 'total': total})

    def counting(self, dofile):
        """Return a counting version of repozo's dofile, through which repozo reads everything."""
        dofile = getattr(dofile, 'uncounted', dofile)

        def counted(func, fp, n=None):
            def one(data):
                func(data)
                self.add(len(data))
            return dofile(one, fp, n)

        counted.uncounted = dofile
        return counted
