"""What a primary sends for the transactions of a storage, and transactions of all kinds."""
import os
from hashlib import md5

from ZODB.Connection import TransactionMetaData
from ZODB.utils import load_current, z64

from indico_zodbrepl.dataplane.zrs.stream import checksum
from indico_zodbrepl.dataplane.zrs.stream import Tail
from nodes import BLOB_RECORD


def stream_of_ours(storage, start=z64, summed=None):
    """All that a follower is sent that has this transaction already.

    Args:
        summed: md5 of what it was sent before, if it was; covers this, too.
    """
    tail = Tail(storage, start, bool)
    summed = summed or md5(start)
    sent = []
    for each in iter(tail.next, None):
        for piece in each:
            summed.update(piece.content)
            sent.append(piece.messages)
        sent.append(checksum(summed))
    tail.close()
    return b''.join(sent)


class Writer(object):
    """Commits transactions of all kinds.

    Args:
        storage: a FileStorage, or a Primary with one, that it alone writes.
        chance: a random.Random.
        folder: py.path.local for files that become blobs.
    """

    def __init__(self, storage, chance, folder):
        self.storage = storage
        self._base = getattr(storage, '_storage', storage)
        self._chance = chance
        self._blob = folder.join('blob')
        self._serials = {}
        self._gone = set()

    def commit(self):
        choice = self._chance.choice
        meta = TransactionMetaData(
            choice([u'', u'someone', 300 * u'u']),
            choice([u'', u'/path\n\n\xe4', 40000 * u'd']),
            choice([None, None, {u'request': u'/'}, {u'much': 50000 * u'e'}]))
        self.storage.tpc_begin(meta)
        written = set()
        for _ in range(choice([0, 1, 2, 30])):
            oid = choice(list(self._serials) + [None])
            if oid not in written:
                written.add(self._write(oid, meta))
        self.storage.tpc_vote(meta)
        tid = self.storage.tpc_finish(meta)
        self._serials.update((oid, tid) for oid in written)
        return tid

    def _write(self, oid, meta):
        storage, choice = self.storage, self._chance.choice
        kinds = ['data', 'data', 'data', 'mark', 'blob', 'empty']
        if oid in self._serials:
            kinds += ['gone'] if oid in self._gone else ['gone', 'copy']
        kind = choice(kinds)
        serial = self._serials.get(oid, z64)
        oid = oid or storage.new_oid()
        if kind == 'copy':
            data, tid = load_current(storage, oid)
            storage.restore(oid, self._base._tid, data, '', tid, meta)
        elif kind == 'gone':
            storage.deleteObject(oid, serial, meta)
        elif kind in ('blob', 'empty'):
            self._blob.write(choice([1, 65536, 70001]) * 'b' if kind == 'blob' else '')
            storage.storeBlob(oid, serial, BLOB_RECORD, str(self._blob), '', meta)
        else:
            data = os.urandom(choice([1, 8, 200, 70000]))
            storage.store(
                oid, serial, data + b'ZODB.blob' * (kind == 'mark'), '', meta)
        (self._gone.add if kind == 'gone' else self._gone.discard)(oid)
        return oid
