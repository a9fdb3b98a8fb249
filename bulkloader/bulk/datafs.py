"""Write new records into a FileStorage of this process in the file's own format.

`FileStorage.store` looks each object up, packs its header and writes twice; for objects that are
known to be new that is most of the work. The format of a record is ZODB's, as described in
`ZODB/FileStorage/format.py`. Lock, vote, fsync and the pointers between a changed object's records
stay FileStorage's.
"""
import struct
from array import array

from ZODB.FileStorage import FileStorage
from ZODB.FileStorage.format import DATA_HDR_LEN
from ZODB.fsIndex import fsBucket, fsIndex
from ZODB.POSException import StorageTransactionError
from ZODB.utils import p64, u64, z64

_SUFFIXES = 1 << 16         # oids that fsIndex groups
_AT_ONCE = 1000             # records that are written at once, of some 240 bytes each


def file_storage_of(storage):
    """Return the FileStorage that a storage is or wraps, opened by this process; else None."""
    while storage is not None and not isinstance(storage, FileStorage):
        storage = getattr(storage, 'base', None)
    if storage is None or storage.isReadOnly() or storage._quota is not None:
        return None
    return storage


class DataFile(object):
    """The file behind an open FileStorage. One thread at a time.

    Args:
        storage: what `file_storage_of` returned.
    """

    def __init__(self, storage):
        self._storage = storage
        self._index = _Index(storage)
        storage._initIndex(self._index, storage._tindex)

    def reserve(self, count):
        """Return `count` `Oids` that nothing has and nothing will get."""
        with self._storage._lock:
            first = u64(self._storage._oid) + 1
            self._storage.set_max_oid(p64(first + count - 1))
        return Oids(first, count)

    def append(self, transaction, events, records):
        """Write new records into a transaction that has begun.

        Args:
            transaction: as given to the storage's `tpc_begin`.
            events: `stencil.Stamped` with `Oids`, by ascending ones.
            records: (oid, data) that come after them, by ascending oid.
        """
        storage = self._storage
        with storage._lock:
            if transaction is not storage._transaction:
                raise StorageTransactionError(storage, transaction)
            # tid, previous record, where the transaction begins, no version
            middle = storage._tid + z64 + p64(storage._pos) + b'\0\0'
            position = storage._pos + storage._thl + storage._tfile.tell()
            length_of = struct.Struct('>Q').pack
            places = self._index.waiting(transaction)
            for event in events:
                storage._tfile.write(event.written(middle))
                places.add(event.oids.first, event.positions(position))
                position += event.size
            for first in range(0, len(records), _AT_ONCE):
                parts = []
                for oid, data in records[first:first + _AT_ONCE]:
                    length = len(data)
                    parts += oid, middle, length_of(length), data
                    places.add(u64(oid), (position,))
                    position += DATA_HDR_LEN + length
                storage._tfile.write(b''.join(parts))


class _Places(object):
    """Where in the file objects are: eight bytes for each of those whose oids are in a row.

    Attributes: `rows`, a list of (the first oid as a number, the places from there on).
    """

    def __init__(self):
        self.rows = []
        self._next = None

    def add(self, first, positions):
        if first != self._next:
            self.rows.append((first, array('L')))
        self.rows[-1][1].extend(positions)
        self._next = first + len(positions)


class _Index(fsIndex):
    """FileStorage's index, which takes rows of new oids at once when a transaction ends."""

    def __init__(self, storage):
        self._storage = storage
        self._data = storage._index._data
        self._waiting = None, None

    def waiting(self, transaction):
        """Return the `_Places` that are taken when this transaction is saved."""
        if self._waiting[0] is not transaction:
            self._waiting = transaction, _Places()
        return self._waiting[1]

    def update(self, mapping):
        """FileStorage calls it for the transaction that it has just saved."""
        transaction, places = self._waiting
        if transaction is not None and transaction is self._storage._transaction:
            for first, positions in places.rows:
                self._extend(first, positions)
            self._waiting = None, None
        fsIndex.update(self, mapping)

    def _extend(self, first, positions):
        done = 0
        while done < len(positions):
            prefix, suffix = divmod(first + done, _SUFFIXES)
            part = positions[done:done + _SUFFIXES - suffix]
            self._extend_bucket(p64(prefix)[2:], suffix, part)
            done += len(part)

    def _extend_bucket(self, prefix, suffix, positions):
        """Add places to one bucket, which is made anew: filled one by one it is half empty."""
        count = len(positions)
        keys = struct.pack('>%dH' % count, *xrange(suffix, suffix + count))
        before = self._data.get(prefix)
        if before and before.maxKey() >= keys[:2]:
            for place, position in enumerate(positions):
                self[prefix + keys[2 * place:2 * place + 2]] = position
            return
        packed = struct.pack('>%dQ' % count, *positions)
        values = bytearray(6 * count)
        for byte in range(6):
            values[byte::6] = packed[byte + 2::8]
        text = before.toString() if before else b''
        end_of_keys = 2 * (len(text) // 8)
        self._data[prefix] = fsBucket().fromString(
            b''.join((text[:end_of_keys], keys, text[end_of_keys:], bytes(values))))


class Oids(object):
    """Object ids in a row, each of eight bytes.

    Attributes: `first`, a number.
    """

    def __init__(self, first, count):
        self.first = first
        self._numbers = xrange(first, first + count)

    def __len__(self):
        return len(self._numbers)

    def __getitem__(self, place):
        return p64(self._numbers[place])

    def __iter__(self):
        count = len(self._numbers)
        return iter(struct.unpack('8s' * count, struct.pack('>%dQ' % count, *self._numbers)))
