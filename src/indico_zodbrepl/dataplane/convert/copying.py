"""Compare a target with its source, copy the missing history, and verify the copy."""
from __future__ import absolute_import

import contextlib

from indico_zodbrepl.dataplane.convert import files
from indico_zodbrepl.dataplane.convert.blobs import digest
from indico_zodbrepl.dataplane.convert.failures import CanNotBeKept, CopyDiffers, OtherData
from indico_zodbrepl.dataplane.convert.files import Newest, is_only_founded
from indico_zodbrepl.dataplane.convert.storages import (
    NEO,
    NEOTarget,
    RelStorageTarget,
    Source,
    keeps_of,
    open_conf,
)
from indico_zodbrepl.dataplane.convert.transactions import as_kept, difference
from indico_zodbrepl.dataplane.programs.clock import monotonic

REPORT_EACH = 0.5  # seconds


class Conversion(object):
    """A run from an open source to an open target; one thread.

    Args:
        source, target: as in `files` and `storages`.
        say: called now and then with a dict: stage, transactions and bytes of this stage,
            fraction, seconds.  Stages are survey, compare, copy, verify.

    Attributes:
        answer: a dict for JSON: transactions that the target `held` and that were `copied`;
            `records` and `bytes` of the latter, with their `blobs` and `blob_bytes`; tid of the `last` one; bytes of an `unfinished`
            transaction at the source's end; `seconds` of each stage; and what the target does
            not keep (`lost`): `transactions` that are nothing there, `records`, the `status` of
            packed transactions, `undo_pointers`.
    """

    def __init__(self, source, target, say):
        self._source = source
        self._target = target
        self._say = say
        self._newest = None
        self._exactly = source.keeps.extension_bytes and target.keeps.extension_bytes
        self.answer = {
            'held': 0, 'copied': 0, 'records': 0, 'bytes': 0, 'last': None,
            'blobs': 0, 'blob_bytes': 0,
            'unfinished': source.unfinished, 'seconds': {},
            'lost': dict.fromkeys(('records', 'transactions', 'status', 'undo_pointers'), 0)}

    def run(self):
        """Make the target hold everything that the source holds.

        Returns `answer`.  Raises ConversionError, and whatever the storages raise.
        """
        if not self._target.keeps.blobs:
            self._refuse_blobs()
        if is_only_founded(self._target.transactions()):
            self._target.empty()
        if not self._target.keeps.history:
            self._newest = self._survey()
        held = self._compare()
        wanted = self._copy(held)
        self._target.settle()
        if wanted:
            self._verify(held)
        self._target.publish()
        return self.answer

    def _refuse_blobs(self):
        """Raise CanNotBeKept if the source has a blob, before anything is written."""
        if self._source.blobs is None or not self._source.blobs.exist():
            return
        progress = self._progress('survey')
        for transaction in self._source.transactions():
            progress(transaction)
            for oid in transaction.blobs():
                raise CanNotBeKept('object %s of transaction %s is a blob, and the target keeps '
                                   'none' % (oid.encode('hex'), transaction.tid.encode('hex')))

    def _survey(self):
        newest = Newest()
        progress = self._progress('survey')
        for transaction in self._source.transactions():
            newest.add(transaction)
            progress(transaction)
        progress.end()
        return newest

    def _compare(self):
        """Return the tid of the last transaction that the target holds, or None.

        Raises OtherData unless these are the source's first.
        """
        progress = self._progress('compare')
        last = None
        wanted = self._wanted(progress, count=True)
        for held in self._target.transactions():
            mine = next(wanted, None)
            if mine is None:
                raise OtherData('transaction %s of the target is not in the source, whose last '
                                'one is %s' % (held.tid.encode('hex'), _named(last)))
            wrong = self._difference(mine, held, progress)
            if wrong:
                raise OtherData(_apart(wrong, mine, held))
            self._target.held(held)
            self.answer['held'] += 1
            last = held.tid
        progress.end()
        self.answer['last'] = last and last.encode('hex')
        return last

    def _copy(self, held):
        """Copy the transactions after that one; return True if there were any."""
        progress = self._progress('copy')
        for mine in self._wanted(progress, held, count=True):
            self._target.write(mine, self._source.blobs, progress.more)
            self.answer['copied'] += 1
            self.answer['blobs'] += len(mine.blobs())
            self.answer['records'] += len(mine.records)
            self.answer['bytes'] += mine.size
            self.answer['last'] = mine.tid.encode('hex')
        self.answer['blob_bytes'] = progress.blob_bytes
        progress.end()
        return self.answer['copied'] > 0

    def _verify(self, held):
        progress = self._progress('verify')
        there = self._target.transactions(held)
        for mine in self._wanted(progress, held):
            copied = next(there, None)
            if copied is None:
                raise CopyDiffers('transaction %s is not there' % mine.tid.encode('hex'))
            wrong = self._difference(mine, copied, progress)
            if wrong:
                raise CopyDiffers(_apart(wrong, mine, copied))
        extra = next(there, None)
        if extra is not None:
            raise CopyDiffers('transaction %s was not copied' % extra.tid.encode('hex'))
        progress.end()

    def _difference(self, mine, theirs, progress):
        """Return how a transaction differs from the target's; '' if it does not."""
        wrong = difference(mine, theirs, self._exactly)
        if wrong:
            return wrong
        for oid in mine.blobs():
            with self._source.blobs.file(oid, mine.tid) as path:
                wanted = digest(path, progress.more)
            if wanted != _digest(self._target.blobs, oid, mine.tid):
                return 'the file of blob ' + oid.encode('hex')
        return ''

    def _wanted(self, progress, after=None, count=False):
        """Yield the source's transactions as the target keeps them.

        Args:
            count: True to count what the target does not keep.
        """
        for transaction in self._source.transactions(after):
            progress(transaction)
            kept = as_kept(transaction, self._target.keeps, self._newest)
            if count:
                self._count_lost(transaction, kept)
            if kept is not None:
                yield kept

    def _count_lost(self, transaction, kept):
        lost = self.answer['lost']
        if kept is None:
            lost['transactions'] += 1
            lost['records'] += len(transaction.records)
            return
        lost['records'] += len(transaction.records) - len(kept.records)
        lost['status'] += (self._target.keeps.history and transaction.status != kept.status)
        lost['undo_pointers'] += sum(
            one.data_txn is not None for one in transaction.records) - sum(
                one.data_txn is not None for one in kept.records)

    def _progress(self, stage):
        return _Progress(self._source, stage, self._say, self.answer['seconds'])


class _Progress(object):
    """A counter of the transactions of one stage that reports progress now and then."""

    def __init__(self, source, stage, say, seconds):
        self._source = source
        self._stage = stage
        self._say = say
        self._seconds = seconds
        self._begin = self._told = monotonic()
        self._transactions = self._bytes = self.blob_bytes = 0
        self._first = None
        self._fraction = 0.0

    def __call__(self, transaction):
        fraction = self._source.fraction()
        if self._first is None:
            self._first = fraction
        self._transactions += 1
        self._bytes += transaction.size
        self._fraction = (fraction - self._first) / max(1.0 - self._first, 1e-9)
        self._tell_if_due()

    def more(self, size):
        """Count a block of the file of a blob."""
        self._bytes += size
        self.blob_bytes += size
        self._tell_if_due()

    def _tell_if_due(self):
        now = monotonic()
        if now - self._told >= REPORT_EACH:
            self._told = now
            self._tell(now, self._fraction)

    def end(self):
        now = monotonic()
        self._seconds[self._stage] = round(now - self._begin, 3)
        if self._transactions:
            self._tell(now, 1.0)

    def _tell(self, now, fraction):
        self._say({'stage': self._stage, 'transactions': self._transactions,
                   'bytes': self._bytes, 'fraction': fraction,
                   'seconds': round(now - self._begin, 3)})


def _digest(blobs, oid, tid):
    """Return the SHA-256 of a blob; None if its file is missing."""
    try:
        with blobs.file(oid, tid) as path:
            return digest(path, lambda _size: None)
    except CanNotBeKept:
        return None


def _apart(wrong, mine, theirs):
    where = 'transaction %s' % mine.tid.encode('hex')
    if wrong == 'the tid':
        return 'where the source has %s the target has transaction %s' % (
            where, theirs.tid.encode('hex'))
    return '%s differs in %s' % (where, wrong)


def _named(tid):
    return tid.encode('hex') if tid else 'none'


DATA_FILE = '.fs'


def source(path):
    """Open the source of a copy, as a context manager.

    Args:
        path: of a Data.fs, which ends in .fs, or of a ZODB configuration file.
    """
    return files.source(path) if path.endswith(DATA_FILE) else _source(path)


def target(path):
    """Open the target of a copy, as `source` does."""
    return files.target(path) if path.endswith(DATA_FILE) else _target(path)


@contextlib.contextmanager
def _source(path):
    with contextlib.closing(open_conf(path)) as storage:
        with contextlib.closing(Source(storage)) as opened:
            yield opened


@contextlib.contextmanager
def _target(path):
    with contextlib.closing(open_conf(path)) as storage:
        kind = NEOTarget if keeps_of(storage) is NEO else RelStorageTarget
    with contextlib.closing(kind(lambda: open_conf(path))) as opened:
        yield opened
