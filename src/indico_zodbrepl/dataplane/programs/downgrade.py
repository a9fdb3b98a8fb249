"""Copy a Data.fs into one that the software of a stock Indico 1.2 can read.

usage: python -m indico_zodbrepl.dataplane.programs.downgrade SOURCE TARGET

ZODB 5 writes pickles of protocol 3; ZODB 3.10, which Indico 1.2 asks for, reads at
most protocol 2.  On Python 2 the two differ in their first two bytes and in two
opcodes that have older ones of the same layout, so each record keeps its length.
All transactions are copied with their tids, users, descriptions and extension
data; then every record of the copy is read by Python's own cPickle, with which
ZODB 3.10 reads.  Only then does TARGET exist; until then it is TARGET.part.

Nothing may have SOURCE open.  Tells its progress on standard error, prints
{"transactions": ..., "records": ..., "converted": records changed}.

exit status: 0 done, 1 the copy can't be made or read, 2 wrong command line,
3 SOURCE is in use, 130 interrupted.
"""
from __future__ import absolute_import

import argparse
import collections
import json
import os
import sys

import cPickle
import cStringIO
import zc.lockfile
from ZODB.blob import is_blob_record
from ZODB.FileStorage import FileStorage
from ZODB.FileStorage.FileStorage import FileStorageError
from zodbpickle.pickletools_2 import genops

from indico_zodbrepl.dataplane.programs.clock import monotonic

PROTOCOL_3 = b'\x80\x03'
PROTOCOL_2 = b'\x80\x02'
# BINBYTES is BINSTRING, SHORT_BINBYTES is SHORT_BINSTRING: a length, then bytes.
OLDER = {'BINBYTES': b'T', 'SHORT_BINBYTES': b'U'}
REPORT = 2.0  # seconds

Counts = collections.namedtuple('Counts', 'transactions records converted')


class Refused(Exception):
    """No copy can be made; the text says why."""


def older_pickles(data):
    """Return these bytes, consecutive pickles, without opcodes of protocol 3."""
    if PROTOCOL_3 not in data:
        return data
    changed = bytearray(data)
    stream = cStringIO.StringIO(data)
    while stream.tell() < len(data):
        start = stream.tell()
        if data[start:start + 2] == PROTOCOL_3:
            changed[start:start + 2] = PROTOCOL_2
        for opcode, _argument, position in genops(stream):
            if opcode.name in OLDER:
                changed[position:position + 1] = OLDER[opcode.name]
    return bytes(changed)


class _Transaction(object):
    """The attributes that FileStorage.tpc_begin reads from a transaction."""

    def __init__(self, original):
        self.user = original.user
        self.description = original.description
        self.extension_bytes = older_pickles(original.extension_bytes)


class _Anything(object):
    """A substitute for every object of any class while a pickle is read."""

    def __new__(cls, *args, **kwargs):
        return object.__new__(cls)

    def __setstate__(self, state):
        pass

    def append(self, item):
        pass

    def extend(self, items):
        pass

    def __setitem__(self, key, value):
        pass


def check_pickles(data):
    """Read these pickles as ZODB 3.10 would, apart from the classes; raise if that fails.

    One unpickler reads all of them: the second pickle of a record refers to the first one's memo.
    """
    stream = cStringIO.StringIO(data)
    unpickler = cPickle.Unpickler(stream)
    unpickler.find_global = lambda module, name: _Anything
    unpickler.persistent_load = lambda reference: _Anything()
    while stream.tell() < len(data):
        unpickler.load()


def copy(source, target, say):
    """Copy all transactions between two open FileStorages; return Counts."""
    records = converted = transactions = 0
    progress = _Progress(source.getSize(), 'copied', say)
    for original in source.iterator():
        transaction = _Transaction(original)
        target.tpc_begin(transaction, original.tid, original.status)
        for record in original:
            data = record.data
            if data is not None:
                if is_blob_record(data):
                    raise Refused(
                        'it holds uploaded files, which a stock Indico finds in its archive only; '
                        'before you stop the cluster, set `files archive`, then run '
                        '`bin/zodbrepl files export` and `bin/zodbrepl pack --days 0`')
                data = older_pickles(data)
                converted += data != record.data
            target.restore(record.oid, record.tid, data, '', record.data_txn,
                           transaction)
            records += 1
        target.tpc_vote(transaction)
        target.tpc_finish(transaction)
        transactions += 1
        progress(target.getSize())
    return Counts(transactions, records, converted)


def verify(source, target, say):
    """Compare the copy with its source and read all of it; raise Refused."""
    progress = _Progress(source.getSize(), 'verified', say)
    theirs = target.iterator()
    size = 0
    for original in source.iterator():
        transaction = next(theirs, None)
        if (transaction is None
                or _header(original, older_pickles) != _header(transaction, bytes)):
            raise Refused('transaction %s is not copied whole' % original.tid.encode('hex'))
        if transaction.extension_bytes:
            check_pickles(transaction.extension_bytes)
        copied = iter(transaction)
        for record in original:
            other = next(copied, None)
            if other is None or _record(record) != _record(other):
                raise Refused('object %s of transaction %s is not copied whole' % (
                    record.oid.encode('hex'), original.tid.encode('hex')))
            if other.data is not None:
                _check(other)
                size += len(other.data)
        if next(copied, None) is not None:
            raise Refused('transaction %s got too long' % original.tid.encode('hex'))
        progress(size)
    if next(theirs, None) is not None:
        raise Refused('the copy has more transactions')


def _check(record):
    try:
        check_pickles(record.data)
    except Exception as error:  # a pickle may raise anything
        raise Refused('object %s of transaction %s can not be read: %s: %s' % (
            record.oid.encode('hex'), record.tid.encode('hex'),
            type(error).__name__, error))


def _header(transaction, of_extension):
    return (transaction.tid, transaction.status, transaction.user,
            transaction.description, of_extension(transaction.extension_bytes))


def _record(record):
    return (record.oid, record.tid, record.data_txn,
            None if record.data is None else len(record.data))


class _Progress(object):
    """A reporter that prints now and then how much of `total` bytes is done."""

    def __init__(self, total, word, say):
        self._total = max(total, 1)
        self._word = word
        self._say = say
        self._next = monotonic() + REPORT

    def __call__(self, done):
        if monotonic() >= self._next:
            self._next = monotonic() + REPORT
            self._say('%s %d of %d MB' % (self._word, done >> 20, self._total >> 20))


def downgrade(source_path, target_path, say):
    """Create TARGET; return Counts.  Raises Refused and zc.lockfile.LockError."""
    if not os.path.isfile(source_path):
        raise Refused('there is no file %s' % source_path)
    if os.path.lexists(target_path):
        raise Refused('%s exists already' % target_path)
    part = target_path + '.part'
    lock = zc.lockfile.LockFile(source_path + '.lock')
    try:
        _remove(part)
        source = FileStorage(source_path, read_only=True)
        try:
            target = FileStorage(part, create=True)
            try:
                counts = copy(source, target, say)
                verify(source, target, say)
            finally:
                target.close()
        finally:
            source.close()
        if os.path.lexists(target_path):
            raise Refused('%s exists already' % target_path)
        os.rename(part, target_path)
        return counts
    finally:
        # Its index too is a pickle of protocol 3; the old software makes its own.
        _remove(part)
        lock.close()


def _remove(part):
    for suffix in ('', '.index', '.index.index_tmp', '.tmp', '.lock'):
        if os.path.lexists(part + suffix):
            os.unlink(part + suffix)


def _say(line):
    sys.stderr.write('downgrade: %s\n' % line)


def main(argv=None):
    parser = argparse.ArgumentParser(
        usage='python -m indico_zodbrepl.dataplane.programs.downgrade SOURCE TARGET',
        description='Copies a Data.fs into one that ZODB 3.10 can read.')
    parser.add_argument('source', metavar='SOURCE', help='a Data.fs that nothing has open')
    parser.add_argument('target', metavar='TARGET', help='the new file')
    options = parser.parse_args(argv)
    try:
        counts = downgrade(options.source, options.target, _say)
    except zc.lockfile.LockError:
        _say('%s is in use; stop the server first' % options.source)
        return 3
    except (Refused, EnvironmentError, FileStorageError) as error:
        _say('%s: %s' % (options.source, error))
        return 1
    except KeyboardInterrupt:
        _say('interrupted; %s was not made' % options.target)
        return 130
    print(json.dumps(counts._asdict()))
    return 0


if __name__ == '__main__':
    sys.exit(main())
