"""Compare the files of the blobs that two data files have in common.

Sizes are compared first; the content, by digest, only of files of the same size.
"""
from __future__ import absolute_import

from indico_zodbrepl.dataplane.datafs.blobs import blob_records

AT_ONCE = 2000  # blobs whose sizes are asked for
BATCH_FILES, BATCH_BYTES = 256, 32 << 20  # of one answer with digests; a longer file comes alone


class BlobComparison(object):
    """The differences between the files of common blobs.

    A file that both sides lack is no difference.

    Args:
        mine: the DataFile in question; None for an empty one.
        upstream: the DataFile or RemoteFile with the authoritative history.

    Attributes:
        compared: how many blobs were compared.
        differing: how many differ, with those that one side lacks.
        missing_upstream: those of them that only the upstream lacks.
        own: {tid} of the blobs whose content the upstream does not have.
        first: the oldest of them: oid and tid in hexadecimal digits, and its size here and on the
            upstream, None where it is missing; None if there is no difference.
        transactions: {tid} of the blobs that differ.
    """

    def __init__(self, mine, upstream):
        self._mine = mine
        self._upstream = upstream
        self._needed = mine is not None and (
            upstream.blobs.knows and (mine.blobs.exist() or upstream.blobs.exist()))
        self._pending = []  # (oid, tid)
        self.compared = self.differing = self.missing_upstream = 0
        self.first = None
        self.transactions, self.own = set(), set()

    def add_part(self, begin, end):
        """Add the transactions between two boundaries of both files, which have the same bytes."""
        if not self._needed:
            return
        for transaction in self._mine.forward(begin):
            if transaction.position >= end:
                break
            self.add(transaction)

    def add(self, transaction, without=()):
        """Add a transaction of `mine` that the upstream has too.

        Args:
            without: oids of the records that the upstream does not have.
        """
        if not self._needed:
            return
        for record in blob_records(self._mine, transaction):
            if record.oid not in without:
                self._pending.append((record.oid, record.tid))
        if len(self._pending) >= AT_ONCE:
            self.finish()

    def finish(self):
        """Compare what was added; the attributes are complete afterwards."""
        wanted, self._pending = self._pending, []
        if not wanted:
            return
        self.compared += len(wanted)
        sizes = zip(wanted, self._mine.blobs.sizes(wanted), self._upstream.blobs.sizes(wanted))
        different = [each for each in sizes if each[1] != each[2]]
        same = [each for each in sizes if each[1] == each[2] and each[1]]
        known = {blob: size for blob, size, _ in same}
        for batch, theirs in self._upstream.blobs.digests(_batches(same)):
            (_, ours), = self._mine.blobs.digests([batch])
            for blob, own, other in zip(batch, ours, theirs):
                if own != other:
                    different.append((blob, own and known[blob], other and known[blob]))
        for each in different:
            self._note(*each)

    def _note(self, blob, ours, theirs):
        oid, tid = blob
        self.differing += 1
        self.missing_upstream += theirs is None
        self.transactions.add(tid)
        if ours is not None:
            self.own.add(tid)
        if self.first is None or tid.encode('hex') < self.first['tid']:
            self.first = {'oid': oid.encode('hex'), 'tid': tid.encode('hex'),
                          'size': ours, 'upstream_size': theirs}


def _batches(blobs):
    """Yield lists of (oid, tid) whose files are read for one answer."""
    batch, length = [], 0
    for blob, size, _ in blobs:
        if batch and (length + size > BATCH_BYTES or len(batch) == BATCH_FILES):
            yield batch
            batch, length = [], 0
        batch.append(blob)
        length += size
    if batch:
        yield batch
