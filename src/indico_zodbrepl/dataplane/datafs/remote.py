"""The Data.fs of another host, as far as a comparison needs it, without moving its data."""
from __future__ import absolute_import

from indico_zodbrepl.dataplane.datafs import digests
from indico_zodbrepl.dataplane.datafs.content import equal_bytes
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
    Pipeline,
)
from indico_zodbrepl.dataplane.datafs.records import NUMBER, START, Transaction

PIECE = 1 << 20  # bytes of which one digest is compared
SMALL_PIECE = 1 << 14
MOST_PIECES = 64  # in one answer
FIRST_COUNT, MOST = 16, 8192  # transactions in one answer; it grows while they are read in order
NEAR = 1 << 20  # bytes between two transactions whose records are read in order
OIDS_AT_ONCE = 1 << 20


class RemoteTransaction(Transaction):
    """A transaction without its texts and records; `digest` is None until it is known."""

    __slots__ = ('digest',)

    def __init__(self, position, end, tid, status, found):
        Transaction.__init__(self, position, None, end, tid, status, None, None, None)
        self.digest = found


class RemoteBlobs(object):
    """The blobs beside another host's Data.fs, as `blobs.Blobs`.

    Attributes:
        knows: False for a host whose release has no answers about blobs; there are none then.
    """

    def __init__(self, connection, knows):
        self._connection = connection
        self.knows = knows

    def exist(self):
        return self._connection.ask('blobs-exist')[0]['exist']

    def sizes(self, wanted):
        _, payload = self._connection.ask('blob-sizes', _packed(wanted))
        sizes = [BLOB_SIZE.unpack_from(payload, at)[0]
                 for at in range(0, len(payload), BLOB_SIZE.size)]
        return [None if size == MISSING else size for size in sizes]

    def digests(self, batches):
        questions = ((batch, 'blob-digests', {'payload': _packed(batch)}) for batch in batches)
        with Pipeline(self._connection, questions) as answers:
            for batch, payload in answers:
                found = [BLOB_DIGEST.unpack_from(payload, at)
                         for at in range(0, len(payload), BLOB_DIGEST.size)]
                yield batch, [content if exists else None for exists, content in found]


def _packed(blobs):
    return b''.join(BLOB.pack(*each) for each in blobs)


class RemoteFile(object):
    """The complete transactions of another host's Data.fs when it was opened, as of a DataFile.

    Args:
        connection: a messages.Connection to a `serving.Server`; one file of it at a time.
        path: what messages call it.

    Attributes:
        end, size: as of a DataFile.
        packed_until: as `packs.packed_until` of it.
        digests_until: a tid; the digests of transactions up to there are sent with them, because
            the other file may have the same ones.
        blobs: RemoteBlobs.
    """

    by_digests = True

    def __init__(self, connection, path):
        self.path = path
        self._connection = connection
        found, _ = connection.ask('open', format=FORMAT)
        self.end, self.size = found['end'], found['size']
        self.blobs = RemoteBlobs(connection, found.get('blobs', False))
        self.packed_until = found['packed_until'] and found['packed_until'].decode('hex')
        self._first, self._last = [
            each and RemoteTransaction(each['position'], each['end'], each['tid'].decode('hex'),
                                       each['status'].encode('ascii'), None)
            for each in (found['first'], found['last'])]
        self._recent = self._last
        self.digests_until = b''
        self._fingerprints = {}
        self._fingerprints_end = None
        self._fingerprints_count = 1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass  # the other side closes it with the connection

    def present_size(self):
        return self._connection.ask('size')[0]['size']

    def replaced(self):
        """Return True if the path now leads to another file."""
        return self._connection.ask('replaced')[0]['replaced']

    # Transactions

    def first(self):
        return self._first

    def last(self):
        return self._last

    def before(self, position):
        """Return the transaction that ends at a position; None at the beginning of the file."""
        if position == START:
            return None
        if self._recent is not None and self._recent.end == position:
            return self._recent
        return self._listed(position, 1, backward=True)[0]

    def forward(self, position=START):
        """Yield the transactions from a boundary on, oldest first.  Raises Damaged."""
        tid, count = b'', FIRST_COUNT
        while position < self.end:
            for each in self._listed(position, count):
                self._check_order(tid, each.tid, each.position)
                tid, position = each.tid, each.end
                yield each
            count = min(2 * count, MOST)

    def backward(self):
        """Yield the transactions, newest first.  Raises Damaged."""
        newer, count = self._last, 1
        if newer is not None:
            self._recent = newer
            yield newer
        while newer is not None and newer.position > START:
            for each in self._listed(newer.position, count, backward=True):
                self._check_order(each.tid, newer.tid, newer.position)
                newer = self._recent = each
                yield each
            count = min(4 * count, MOST)

    def _check_order(self, older, newer, position):
        if older >= newer:
            raise Damaged(self.path, position, 'transaction %s comes after %s' % (
                newer.encode('hex'), older.encode('hex')))

    def _listed(self, position, count, backward=False):
        _, payload = self._connection.ask(
            'list', position=position, count=count, backward=backward,
            digests_until=b'' if backward else self.digests_until.encode('hex'))
        found, at = [], 0
        while at < len(payload):
            tid, size, status, has_digest = ENTRY.unpack_from(payload, at)
            at += ENTRY.size
            length = digests.TRANSACTION_DIGEST if has_digest else 0
            begin = position - size if backward else position
            found.append(RemoteTransaction(begin, begin + size, tid, status,
                                           payload[at:at + length] or None))
            at += length
            position = begin if backward else begin + size
        if not found:
            raise DataFileError('%s: the answer is empty' % self.path)
        return found

    def digest(self, transaction):
        """Return the digest of a transaction, as `digests.of_transaction`."""
        if transaction.digest is None:
            _, transaction.digest = self._connection.ask('digest', position=transaction.position)
        return transaction.digest

    def tids_at(self, positions):
        """Yield the tids of the transactions that begin at these positions."""
        for part in _in_parts(NUMBER.pack(each) for each in positions):
            _, payload = self._connection.ask('tids', b''.join(part))
            for at in range(0, len(payload), TID):
                yield payload[at:at + TID]

    # Records

    def fingerprints(self, transaction):
        """Return the digest of a transaction's texts, and [(oid, digest)] of its records."""
        position = transaction.position
        if position not in self._fingerprints:
            behind = self._fingerprints_end
            in_order = behind is not None and 0 <= position - behind < NEAR
            self._fingerprints_count = (
                min(2 * self._fingerprints_count, MOST) if in_order else 1)
            self._read_fingerprints(position)
        return self._fingerprints[position]

    def _read_fingerprints(self, position):
        _, payload = self._connection.ask(
            'records', position=position, count=self._fingerprints_count)
        self._fingerprints, at = {}, 0
        while at < len(payload):
            begin, self._fingerprints_end, texts, number = RECORDS.unpack_from(payload, at)
            at += RECORDS.size
            self._fingerprints[begin] = texts, [
                RECORD.unpack_from(payload, at + index * RECORD.size) for index in range(number)]
            at += number * RECORD.size
        if position not in self._fingerprints:
            raise DataFileError('%s: the answer lacks a transaction' % self.path)

    def oids(self, transaction):
        """Return the objects of a transaction."""
        return [oid for oid, _ in self.fingerprints(transaction)[1]]

    def packed_oids(self, wanted):
        """Yield those of some oids that the packed part of the file has."""
        for part in _in_parts(wanted):
            _, payload = self._connection.ask('packed-oids', b''.join(part))
            for at in range(0, len(payload), TID):
                yield payload[at:at + TID]

    # Bytes

    def first_difference(self, local, position, end):
        """Return the first position at which a DataFile of this host differs, or `end`."""
        for size in (PIECE, SMALL_PIECE):
            position = self._differing_piece(local, position, end, size)
            end = min(end, position + size)
        if position == end:
            return end
        _, theirs = self._connection.ask('raw', position=position, length=end - position)
        return position + equal_bytes(local.raw(position, end - position), theirs)

    def _differing_piece(self, local, position, end, size):
        """Return where the first piece begins that differs, or `end`."""
        questions = ((each, 'digests', dict(zip(('position', 'end'), each), size=size))
                     for each in _ranges(position, end, size))
        with Pipeline(self._connection, questions) as answers:
            for (begin, limit), payload in answers:
                for index, each in enumerate(range(begin, limit, size)):
                    ours = digests.of_bytes(local.raw(each, min(size, limit - each)))
                    if ours != payload[32 * index:32 * index + 32]:
                        return each
        return end


def _ranges(position, end, size):
    """Yield ranges of whole pieces, more and more of them: files may differ at the beginning."""
    pieces = 1
    while position < end:
        limit = min(end, position + pieces * size)
        yield position, limit
        position, pieces = limit, min(2 * pieces, MOST_PIECES)


def _in_parts(items):
    part = []
    for each in items:
        part.append(each)
        if len(part) == OIDS_AT_ONCE:
            yield part
            part = []
    if part:
        yield part
