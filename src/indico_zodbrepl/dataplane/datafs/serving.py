"""Answer the questions of a comparison on another host about a Data.fs of this one.

The file stays open between two questions `open`, so that a pack in between is noticed and what is
read remains that of one file.
"""
from __future__ import absolute_import

import itertools

from indico_zodbrepl.dataplane.datafs import digests
from indico_zodbrepl.dataplane.datafs.datafile import DataFile
from indico_zodbrepl.dataplane.datafs.failures import Damaged, DataFileError
from indico_zodbrepl.dataplane.datafs.messages import (
    BLOB,
    BLOB_DIGEST,
    BLOB_SIZE,
    ENTRY,
    FORMAT,
    MISSING,
    RECORD,
    RECORDS,
    TID,
    error_of,
)
from indico_zodbrepl.dataplane.datafs.packs import packed_until

ENOUGH = 1 << 20  # bytes of an answer with records
LONGEST_READ = 1 << 20
MOST_DIGESTS = 4096


class Server(object):
    """The answers about one Data.fs.

    Args:
        path: of the file.
        connection: a messages.Connection to the comparison.
    """

    def __init__(self, path, connection):
        self._path = path
        self._connection = connection
        self._file = None
        self._questions = {
            'open': self._open, 'replaced': self._replaced, 'size': self._size,
            'digests': self._digests, 'raw': self._raw, 'list': self._list,
            'digest': self._digest, 'records': self._records, 'tids': self._tids,
            'packed-oids': self._packed_oids, 'blobs-exist': self._blobs_exist,
            'blob-sizes': self._blob_sizes, 'blob-digests': self._blob_digests,
        }

    def run(self):
        """Answer until the other side closes the connection."""
        try:
            while True:
                message = self._connection.receive()
                if message is None:
                    return
                self._connection.send(*self._answer(*message))
        finally:
            self._close()

    def _answer(self, values, payload):
        try:
            question = self._questions[values.pop('do')]
            if self._file is None and question != self._open:
                raise DataFileError('%s: it was not opened' % self._path)
            return question(payload, **{str(name): value for name, value in values.items()})
        except DataFileError as error:
            return error_of(error), b''
        except EnvironmentError as error:
            return error_of(DataFileError('%s: %s' % (self._path, error.strerror))), b''
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            return error_of(DataFileError('a question of another release: %s' % error)), b''

    def _close(self):
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self, _payload, format):  # noqa: A002 a key of the message
        if format != FORMAT:
            raise DataFileError('the comparison is of another release: its questions have the '
                                'format %s, these answers %d' % (format, FORMAT))
        self._close()
        self._file = opened = DataFile(self._path)
        until = packed_until(opened)
        return {'end': opened.end, 'size': opened.size,
                'packed_until': until and until.encode('hex'), 'blobs': True,
                'first': _plain(opened.first()), 'last': _plain(opened.last())}, b''

    def _replaced(self, _payload):
        return {'replaced': self._file.replaced()}, b''

    def _size(self, _payload):
        return {'size': self._file.present_size()}, b''

    def _raw(self, _payload, position, length):
        return {}, self._piece(position, min(length, LONGEST_READ))

    def _digests(self, _payload, position, end, size):
        """Send the SHA-256 of each piece of this size."""
        positions = range(position, end, min(size, LONGEST_READ))[:MOST_DIGESTS]
        return {}, b''.join(
            digests.of_bytes(self._piece(each, min(size, end - each))) for each in positions)

    def _piece(self, position, length):
        return self._file.whole(position, length)

    def _list(self, _payload, position, count, backward, digests_until):
        """Send transactions from a boundary on, with the digests of those up to a tid."""
        until = digests_until.decode('hex')
        source = self._file.backward(position) if backward else self._file.forward(position)
        parts = []
        for each in _readable(itertools.islice(source, count)):
            found = self._digest_of(each) if each.tid <= until else b''
            parts.append(ENTRY.pack(each.tid, each.size, each.status, bool(found)) + found)
        return {}, b''.join(parts)

    def _digest_of(self, transaction):
        try:
            return digests.of_transaction(self._file, transaction)
        except Damaged:
            return b''  # the comparison may not need it; otherwise it asks for this one

    def _digest(self, _payload, position):
        return {}, digests.of_transaction(self._file, self._file.at(position))

    def _records(self, _payload, position, count):
        """Send the digests of the texts and of each record of transactions from a boundary on."""
        parts, length = [], 0
        source = itertools.islice(self._file.forward(position), count)
        for part in _readable(self._fingerprints(each) for each in source):
            parts.append(part)
            length += len(part)
            if length >= ENOUGH:
                break
        return {}, b''.join(parts)

    def _fingerprints(self, transaction):
        records = [RECORD.pack(record.oid, digests.of_record(self._file, record))
                   for record in self._file.records(transaction)]
        head = RECORDS.pack(transaction.position, transaction.end,
                            digests.of_texts(transaction), len(records))
        return head + b''.join(records)

    def _tids(self, payload):
        """Send the tids of the transactions that begin at these positions."""
        positions = _split(payload)
        return {}, b''.join(self._file.tids_at(int(each.encode('hex'), 16) for each in positions))

    def _packed_oids(self, payload):
        """Send those of some oids that the packed part of the file has."""
        return {}, b''.join(set(self._file.packed_oids(set(_split(payload)))))

    def _blobs_exist(self, _payload):
        return {'exist': self._file.blobs.exist()}, b''

    def _blob_sizes(self, payload):
        return {}, b''.join(BLOB_SIZE.pack(MISSING if size is None else size)
                            for size in self._file.blobs.sizes(_blobs(payload)))

    def _blob_digests(self, payload):
        (_, found), = self._file.blobs.digests([_blobs(payload)])
        return {}, b''.join(BLOB_DIGEST.pack(each is not None, each or b'') for each in found)


def _blobs(payload):
    """Return the (oid, tid) in a question."""
    return [BLOB.unpack_from(payload, at) for at in range(0, len(payload), BLOB.size)]


def _plain(transaction):
    return transaction and {
        'position': transaction.position, 'end': transaction.end,
        'tid': transaction.tid.encode('hex'), 'status': transaction.status}


def _split(payload):
    return [payload[at:at + TID] for at in range(0, len(payload), TID)]


def _readable(items):
    """Yield items up to damage, which is raised only if it comes first."""
    first = True
    try:
        for each in items:
            yield each
            first = False
    except Damaged:
        if first:
            raise
