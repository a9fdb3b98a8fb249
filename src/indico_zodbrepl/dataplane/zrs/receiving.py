"""The follower's side of replication: apply what the primary sends."""
from __future__ import absolute_import

import cPickle
import zc.zrs.secondary
from ZODB.POSException import StorageTransactionError

from indico_zodbrepl.dataplane.datafs.records import RECORD
from indico_zodbrepl.dataplane.server.incoming import Incoming
from indico_zodbrepl.dataplane.server.status import inside
from indico_zodbrepl.dataplane.server.write_failures import count_failure
from indico_zodbrepl.dataplane.zrs import confirmations
from indico_zodbrepl.dataplane.zrs.confirming import Confirming
from indico_zodbrepl.dataplane.zrs.staging import Staging
from indico_zodbrepl.dataplane.zrs.stream import BLOBS, NOTICE, PIECE, plain_head


class Mismatch(IOError):
    """The data received differ from those that the primary sent."""


class ReceivingProtocol(zc.zrs.secondary.SecondaryProtocol):
    """Takes the place of zc.zrs's handling of messages.

    That mistakes an empty blob for an ordinary record, never writes blobs to disk, and leaves their
    temporary files behind if the connection ends.
    """

    # The head of a record whose data come next: kind, oid, tid, version, where it was copied from,
    # and what its kind adds.
    _head = None

    # The records that were received and not yet written, and the bytes of their data.
    _records = ()
    _size = 0

    # A blob whose content comes next: the arguments of `restoreBlob` before and after its file.
    _blob = _incoming = _staging = None
    _blocks = 0

    # Created by the first question.
    _confirming = None

    def messageReceived(self, message):
        try:
            if self._head is not None:
                head, self._head = self._head, None
                self._take_record(head, message)
            elif self._blocks:
                self._take_block(message)
            else:
                self._take_message(message)
        except EnvironmentError as error:
            count_failure(self.factory.storage, error)
            raise
        self._replication_stream_md5.update(message)

    def connectionLost(self, reason):
        if self._incoming is not None:
            self._incoming.discard()
        if self._staging is not None:
            self._staging.close()
        if self._confirming is not None:
            self._confirming.close()
        zc.zrs.secondary.SecondaryProtocol.connectionLost(self, reason)

    def _take_message(self, message):
        self._head = plain_head(message)
        if self._head is not None:
            return
        kind, values = cPickle.loads(message)
        if kind == 'T':
            self._begin(zc.zrs.secondary.Transaction(*values))
        elif kind == 'C':
            self._finish(values)
        elif kind not in ('S', 'B', 'F'):
            raise ValueError('unknown message %r' % (kind,))
        elif values is None:
            self._take_notice(message[len(NOTICE):])
        else:
            self._head = (kind,) + values

    def _take_notice(self, content):
        question = confirmations.asked(content)
        if question is not None:
            if self._confirming is None:
                self._confirming = Confirming(
                    self.transport, self.factory.storage, self.factory.identity)
            self._confirming.asked(question)
        elif content.startswith(BLOBS) and self._staging is None:
            self._staging = Staging(
                self.factory.secondary._addr, content[len(BLOBS):], self.factory.storage)

    def _begin(self, transaction):
        assert self._zrs_transaction is None
        self._changed = {}
        self._records, self._size = [], 0
        self.factory.storage.tpc_begin(transaction, transaction.id, transaction.status)
        self._zrs_transaction = transaction

    def _take_record(self, head, data):
        assert self._zrs_transaction is not None
        (kind, oid, tid, version, copied), more = head[:5], head[5:]
        self._changed.setdefault(tid, {})[oid] = 1
        if kind == 'S' and data and copied is None:
            self._records.append((oid, tid, data))
            self._size += len(data)
            if self._size > PIECE:
                self._write_records()
            return
        self._write_records()
        data = data or None
        storage = self.factory.storage
        if kind == 'S':
            storage.restore(oid, tid, data, version, copied, self._zrs_transaction)
            return
        self._blob = (oid, tid, data), copied
        if kind == 'F':
            self._restore_blob(self._staging.take(oid, tid, *more))
            return
        self._incoming = Incoming(storage.temporaryDirectory())
        self._blocks, = more
        self._finish_blob()

    def _write_records(self):
        if self._records:
            _restore(inside(self.factory.storage), self._records, self._zrs_transaction)
            self._records, self._size = [], 0

    def _take_block(self, block):
        self._incoming.write(block)
        self._blocks -= 1
        self._finish_blob()

    def _finish_blob(self):
        if not self._blocks:
            self._incoming.complete()
            self._incoming.wait()
            self._restore_blob(self._incoming.path)
            self._incoming = None

    def _restore_blob(self, path):
        what, copied = self._blob
        self.factory.storage.restoreBlob(*(what + (path, copied, self._zrs_transaction)))
        self._blob = None

    def _finish(self, values):
        assert self._zrs_transaction is not None
        if self.factory.check_checksums and values[0] != self._replication_stream_md5.digest():
            raise Mismatch('transaction %s does not match its checksum'
                           % self._zrs_transaction.id.encode('hex'))
        self._write_records()
        storage, tid = self.factory.storage, self._zrs_transaction.id
        if self._confirming is not None:
            self._confirming.received(tid)
        storage.tpc_vote(self._zrs_transaction)
        storage.tpc_finish(self._zrs_transaction, self._invalidate)
        self._zrs_transaction = None
        if self._confirming is not None:
            self._confirming.finished(tid)

    def _invalidate(self, _):
        if self.factory.db is not None:
            for tid, oids in self._changed.items():
                self.factory.db.invalidate(tid, oids)


def _restore(storage, records, transaction):
    """Do what `FileStorage.restore` does, for several records that have their own data.

    That takes its lock twice for each, and the reentrant lock of Python 2.7 is written in Python.

    Args:
        storage: the FileStorage.
        records: tuples of oid, tid and data.  The data are not empty.
        transaction: the one that is being replicated.

    Raises as `restore`.
    """
    with storage._lock:
        if transaction is not storage._transaction:
            raise StorageTransactionError(storage, transaction)
        begin, known, previous_of = storage._pos, storage._oid, storage._index_get
        placed, pack, head_size = storage._tindex, RECORD.pack, RECORD.size
        position = begin + storage._thl + storage._tfile.tell()
        parts = []
        for oid, tid, data in records:
            # The index has no object beyond the largest oid.
            previous = 0 if oid > known else previous_of(oid, 0)
            size = len(data)
            parts += pack(oid, tid, previous, begin, 0, size), data
            placed[oid] = position
            position += head_size + size
        storage._tfile.write(b''.join(parts))
        storage.set_max_oid(max(records)[0])
