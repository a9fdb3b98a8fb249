"""The bytes that replicate one transaction, as zc.zrs's protocol 2.1 has them.

A transaction is a message 'T', for each record a message 'S' and one with its
data (or 'B', its data, and the blob's content in blocks), and a message 'C'
with a checksum.  Each is a pickle or raw data, after its length.  Everything
except the checksum is the same for every follower.

Ours adds: 'F' and its data, for a blob that the follower has got on its blob
channel; and between transactions, notices: NOTICE and what it says, which a
follower that does not know it ignores.  BLOBS and a token tells a follower that
it may open such a channel.  See `confirmations` for the other.
"""
from __future__ import absolute_import

import errno
import io
import struct
import time

import cPickle
from ZODB.blob import is_blob_record
from ZODB.utils import z64

from indico_zodbrepl.dataplane.datafs.blobs import MODULE
from indico_zodbrepl.dataplane.datafs.datafile import DataFile
from indico_zodbrepl.dataplane.datafs.failures import Damaged
from indico_zodbrepl.dataplane.datafs.records import NUMBER, START
from indico_zodbrepl.dataplane.server.status import missing_blob_folder

# Approximate bytes of a piece of the stream.
PIECE = 1 << 18

# Bytes of the largest transaction that is one piece, if it has no blobs.
WHOLE = 2 * PIECE

_BLOB_BLOCK = 1 << 16
_LENGTH = struct.Struct('>I')

# A data record's oid, tid, where its transaction begins (and the length of its
# version, which is 0), and the length of its data, whose second half is also
# that of the message with its data.
_RECORD = struct.Struct('>8s8s8x10sQ')
_DATA_LENGTH = _RECORD.size - _LENGTH.size

# What cPickle makes of ('S', (oid, tid, '', None)): this, the oid, and the end.
# Instead of None (N) there may be the id of another transaction.
_HEAD = b'(U\x01S(U\x08'
_END = b'U\x08%sU\x00Ntt.'
_END_OF_COPY = b'U\x08%sU\x00U\x08%stt.'
_PLAIN = struct.Struct('>%ds8s2s8s%ds' % (len(_HEAD), len(_END % b'') - 2))
_PLAIN_PARTS = _HEAD, _END[:2], (_END % b'')[2:]
_HEAD_WITH_LENGTH = _LENGTH.pack(len(_HEAD) + 8 + len(_END % (8 * b'x'))) + _HEAD
_CHECKSUM = b'(U\x01C(U\x10%stt.'

# A pickle of ('S', None), which another follower ignores like everything that follows a pickle.
NOTICE = b'(U\x01SNt.'

BLOBS = b'blobs1.0'


class Piece(object):
    """A part of the stream.

    Attributes:
        messages: bytes; each message after its length.
        content: the same without the lengths, as covered by the checksum.
        uploads: those of the blobs that it only names; see `sharing`.
    """

    __slots__ = 'messages', 'content', 'uploads'

    def __init__(self, messages, content, uploads=()):
        self.messages = b''.join(messages)
        self.content = b''.join(content)
        self.uploads = uploads


def _no_upload(oid, tid):
    return None


def pieces(data_file, transaction, load_blob, upload_of=_no_upload):
    """Yield the Pieces of a transaction: one, or more if it is larger than WHOLE or has blobs.

    It is optimised for many small records.

    Args:
        data_file: an open `DataFile`.
        transaction: a `datafs.records.Transaction` of it.
        load_blob: returns a blob's open file, by oid and tid; None if the
            record is to be sent without one.
        upload_of: returns the `Upload` that became a blob and that followers
            have, by oid and tid, or None.

    Raises Damaged.
    """
    messages, content, uploads = [], [], []
    _add(messages, content, _pickled('T', (
        transaction.tid, transaction.status, transaction.user,
        transaction.description, transaction.extension or {})))
    copied_size = 0
    unpack, head_size = _RECORD.unpack_from, _RECORD.size
    owner = NUMBER.pack(transaction.position) + b'\0\0'
    record_end = _END % transaction.tid
    position, end = transaction.records, transaction.end - NUMBER.size
    data, at, size, needed = b'', 0, 0, head_size
    read_size = WHOLE if end - position <= WHOLE else PIECE
    while position < end:
        if at + needed > size:
            if at and size:
                yield Piece(messages, content, uploads)
                messages, content, uploads = [], [], []
            if position + needed > end:
                raise Damaged(data_file.path, position, 'a record goes beyond its transaction')
            data = data_file.read(position, min(max(needed, read_size), end - position))
            at, size, may_be_blob = 0, len(data), MODULE in data
        oid, tid, found_owner, length = unpack(data, at)
        if found_owner != owner:
            raise Damaged(data_file.path, position, 'this is no record of its transaction')
        needed = head_size + (length or NUMBER.size)
        stop = at + needed
        if stop > size:
            continue
        if length and tid == transaction.tid and not may_be_blob:
            messages += _HEAD_WITH_LENGTH, oid, record_end, data[at + _DATA_LENGTH:stop]
            content += _HEAD, oid, record_end, data[at + head_size:stop]
        else:
            found, copied = _resolve(data_file, transaction, position)
            upload = upload_of(oid, tid)
            blob = is_blob_record(found) and not upload and load_blob(oid, tid)
            if upload:
                _add(messages, content, _pickled('F', (
                    oid, tid, b'', copied, upload.number, long(upload.source.size),
                    upload.source.sha256)), found)
                uploads.append(upload)
            elif blob:
                yield Piece(messages, content, uploads)
                for piece in _blob_pieces(oid, tid, found, copied, blob):
                    yield piece
                messages, content, uploads = [], [], []
            else:
                _add(messages, content, _head(oid, tid, copied), found)
                copied_size += len(found)
                if copied_size > PIECE:
                    yield Piece(messages, content, uploads)
                    messages, content, uploads, copied_size = [], [], [], 0
        position += needed
        at, needed = stop, head_size
    yield Piece(messages, content, uploads)


def plain_head(message):
    """Return what is in the head of a record that is neither a copy nor a blob; None for others.

    Nearly all are.  `cPickle.loads`, which is slower, would return ('S', (oid, tid, '', None));
    this returns the kind and the values as one tuple.
    """
    if len(message) != _PLAIN.size:
        return None
    head, oid, middle, tid, end = _PLAIN.unpack(message)
    if (head, middle, end) != _PLAIN_PARTS:
        return None
    return b'S', oid, tid, b'', None


def notice(content):
    """Return the Piece of a message between transactions that some followers know."""
    return _piece(NOTICE + content)


def checksum(md5):
    """Return the message that ends a transaction; add it to `md5`.

    Args:
        md5: over the id after which the follower started, and everything sent
            to it since.
    """
    message = _CHECKSUM % md5.digest()
    md5.update(message)
    return _LENGTH.pack(len(message)) + message


def _resolve(data_file, transaction, position):
    """Return a record's data, b'' for none, and the tid it was copied from, or None."""
    record = data_file.record(transaction, position)
    if not record.back:
        return data_file.data(record) or b'', None
    older = data_file.read(record.back, 16)
    if older[:8] != record.oid:
        raise Damaged(data_file.path, position, 'it copies another object')
    return data_file.data(record) or b'', older[8:]


def _head(oid, tid, copied):
    end = _END % tid if copied is None else _END_OF_COPY % (tid, copied)
    return _HEAD + oid + end


def _blob_pieces(oid, tid, data, copied, blob):
    with blob:
        blob.seek(0, io.SEEK_END)
        blocks = (blob.tell() + _BLOB_BLOCK - 1) // _BLOB_BLOCK
        yield _piece(_pickled('B', (oid, tid, b'', copied, long(blocks))), data)
        blob.seek(0)
        for _ in range(blocks):
            block = blob.read(_BLOB_BLOCK)
            if not block:
                raise IOError('%s has become shorter' % blob.name)
            yield _piece(block)


def _piece(*new):
    messages, content = [], []
    _add(messages, content, *new)
    return Piece(messages, content)


def _add(messages, content, *new):
    for message in new:
        messages += _LENGTH.pack(len(message)), message
        content.append(message)


def _pickled(kind, values):
    stream = io.BytesIO()
    pickler = cPickle.Pickler(stream, 1)
    pickler.fast = 1
    pickler.dump((kind, values))
    return stream.getvalue()


_UNDONE = b'u'
_POLL = 0.01


class Stopped(Exception):
    """The transactions are not needed any more."""


def _ignore(path):
    pass


class Tail(object):
    """The transactions that a storage has committed after a given one.

    For one thread at a time.  It takes the storage's lock only to open its
    file: at first, and after a pack.

    Args:
        storage: an open FileStorage.
        tid: id of the transaction after which to begin; `z64` for all.  If a
            pack has removed it, the next existing one comes first.
        is_stopped: called while it waits; if it returns true, Stopped is raised.
        missing: called with the path of a blob's file that should exist and
            does not; the record is sent without it.

    Attributes:
        tid: id of the last transaction that it returned.
        is_stopped: as above; set it when the owner changes.

    Raises DataFileError.
    """

    def __init__(self, storage, tid, is_stopped, missing=_ignore):
        self.tid = tid
        self._storage = storage
        self.is_stopped = is_stopped
        self._missing = missing
        self._data_file = None
        try:
            self._open()
        except:  # noqa: E722 raised again
            self.close()
            raise

    def close(self):
        if self._data_file is not None:
            self._data_file.close()
            self._data_file = None

    def next(self, upload_of=_no_upload):
        """Return the Pieces of the next transaction, or None if there is none yet.

        Args:
            upload_of: as for `pieces`.

        Consume all pieces before the next call.  The transaction, and all
        before it, are on disk.
        """
        while True:
            # In this order: a pack sets a new file first, then its end.
            end = self._storage._pos
            if self._storage._file is not self._seen:
                self._open()
                continue
            if self._position >= end:
                return None
            self._data_file.end = end
            transaction = self._data_file.at(self._position)
            self._position = transaction.end
            self.tid = transaction.tid
            if transaction.status != _UNDONE:
                return pieces(self._data_file, transaction,
                              self._open_blob, upload_of)

    def _open_blob(self, oid, tid):
        try:
            path = self._storage.fshelper.getBlobFilename(oid, tid)
        except TypeError:  # a storage without a folder for blobs
            return None
        try:
            return open(path, 'rb')
        except IOError as error:
            if error.errno != errno.ENOENT:
                raise
        folder = missing_blob_folder(self._storage)
        if folder is not None:
            # Its disk is away, and comes back: followers get the transaction later, with its files.
            raise IOError(errno.ENOENT, 'the folder of blobs is gone', folder)
        # A pack first replaces the data file, then removes blobs of what it has left out.
        if self._storage._file is self._seen:
            self._missing(path)
        return None

    def _open(self):
        # When a server stops, another thread takes the lock for good.
        while not self._storage._lock.acquire(False):
            if self.is_stopped():
                raise Stopped()
            time.sleep(_POLL)
        try:
            self.close()
            self._seen = self._storage._file
            self._data_file = DataFile(self._storage._file_name)
        finally:
            self._storage._lock.release()
        last = self.tid != z64 and self._data_file.find(self.tid)
        self._position = last.end if last else START
