"""An open Data.fs, read without locks while a server may write it."""
from __future__ import absolute_import

import errno
import os
import time

from zodbpickle import fastpickle

from indico_zodbrepl.dataplane.datafs import disk
from indico_zodbrepl.dataplane.datafs.blobs import Blobs, folder_of
from indico_zodbrepl.dataplane.datafs.failures import Changed, Damaged, Missing
from indico_zodbrepl.dataplane.datafs.records import (
    COMPLETE,
    MAGIC,
    NUMBER,
    RECORD,
    START,
    TRANSACTION,
    UNFINISHED,
    Record,
    Transaction,
)
from indico_zodbrepl.dataplane.programs.clock import monotonic

WINDOW = 65536  # bytes
BEHIND = 1024  # bytes of a window after what is read backwards: the class follows a record's header
PATIENCE = 1.0  # seconds that a pack has to put its result in place
PAUSE = 0.02


def _open(path):
    """Open a Data.fs; a pack moves it away for a moment before it puts the new one there."""
    limit = monotonic() + PATIENCE
    while True:
        try:
            return os.open(path, os.O_RDONLY)
        except OSError as error:
            if error.errno != errno.ENOENT or not os.path.exists(path + '.pack'):
                raise Missing('%s: %s' % (path, error.strerror))
        if monotonic() > limit:
            raise Damaged(path, 0, 'a pack was interrupted; what it left is in %s.old and '
                          '%s.pack' % (os.path.basename(path), os.path.basename(path)))
        time.sleep(PAUSE)


class DataFile(object):
    """The transactions that are complete when the file is opened, in constant memory.

    What was read once does not change: a server only appends, and a pack replaces the file.  Not
    for use by several threads.

    Args:
        path: of the Data.fs.
        damaged: True to read the part before a damaged end instead of raising Damaged.

    Attributes:
        end: position after the last complete transaction; 4 if there is none.
        size: bytes of the file when it was opened; more than `end` while a transaction
            is being written, or after a server was killed in the middle of one.
        damage: the Damaged end that follows; None if there is none.
        blobs: the Blobs in the folder beside it.

    Raises Missing, Damaged.
    """

    by_digests = False  # as it is for a `remote.RemoteFile`

    def __init__(self, path, damaged=False):
        self.path = path
        self.blobs = Blobs(folder_of(path))
        self._file = _open(path)
        self._window = b''
        self._begin = 0
        try:
            self.end, self.size, self.damage = find_end(self)
            if self.damage is not None and not damaged:
                raise self.damage
        except:  # noqa: E722 raised again
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        os.close(self._file)

    @property
    def unreadable(self):
        """Return how many bytes follow the last transaction that can be read, if they are damaged."""
        return 0 if self.damage is None else self.size - self.end

    def present_size(self):
        return os.fstat(self._file).st_size

    def identity(self):
        """Return what distinguishes the file from another one with its path, as after a pack."""
        status = os.fstat(self._file)
        return status.st_dev, status.st_ino

    def replaced(self):
        """Return True if the path now leads to another file, as after a pack, or to none."""
        return disk.identity(self.path) != self.identity()

    def raw(self, position, length):
        """Read from the file itself, up to its present end."""
        os.lseek(self._file, position, os.SEEK_SET)
        parts = []
        while length > 0:
            part = os.read(self._file, length)
            if not part:
                break
            parts.append(part)
            length -= len(part)
        return parts[0] if len(parts) == 1 else b''.join(parts)

    def read(self, position, length):
        """Read from the complete transactions.  Raises Damaged, Changed."""
        at = position - self._begin
        if at >= 0 and at + length <= len(self._window):
            return self._window[at:at + length]
        if position + length > self.end:
            raise Damaged(self.path, position, 'a record goes beyond the last transaction')
        if length > WINDOW // 2:
            return self.whole(position, length)
        backwards = self._window and at < 0
        begin = max(0, position + length + BEHIND - WINDOW) if backwards else position
        self._window = self.whole(begin, min(WINDOW, self.end - begin))
        self._begin = begin
        return self._window[position - begin:position - begin + length]

    def whole(self, position, length):
        """Read from the file itself.  Raises Changed if it ends before."""
        found = self.raw(position, length)
        if len(found) != length:
            raise Changed('%s was cut while it was read' % self.path)
        return found

    def number(self, position):
        return NUMBER.unpack(self.read(position, NUMBER.size))[0]

    def at(self, position):
        """Return the Transaction that begins at a position.  Raises Damaged."""
        tid, length, status, user, description, extension = TRANSACTION.unpack(
            self.read(position, TRANSACTION.size))
        records = position + TRANSACTION.size + user + description + extension
        end = position + length + NUMBER.size
        if status not in COMPLETE:
            raise Damaged(self.path, position, 'a transaction has the status %r' % status)
        if records > position + length or end > self.end:
            raise Damaged(self.path, position, 'a transaction has the length %d' % length)
        if self.number(end - NUMBER.size) != length:
            raise Damaged(self.path, position, 'a transaction has two different lengths')
        texts = self.read(position + TRANSACTION.size, user + description + extension)
        return Transaction(position, records, end, tid, status, texts[:user],
                           texts[user:user + description], texts[user + description:])

    def before(self, position):
        """Return the Transaction that ends at a position; None at the beginning of the file."""
        if position == START:
            return None
        length = self.number(position - NUMBER.size)
        begin = position - NUMBER.size - length
        if begin < START:
            raise Damaged(self.path, position, 'no transaction ends here')
        transaction = self.at(begin)
        if transaction.end != position:
            raise Damaged(self.path, begin, 'a transaction has two different lengths')
        return transaction

    def first(self):
        """Return the first Transaction, or None."""
        return next(self.forward(), None)

    def last(self):
        """Return the last complete Transaction, or None."""
        return self.before(self.end)

    def forward(self, position=START):
        """Yield the transactions from a boundary on, oldest first.  Raises Damaged."""
        tid = b''
        while position < self.end:
            transaction = self.at(position)
            self._check_order(tid, transaction.tid, position)
            yield transaction
            tid, position = transaction.tid, transaction.end

    def backward(self, position=None):
        """Yield the transactions before a boundary, newest first.  Raises Damaged."""
        transaction = self.before(self.end if position is None else position)
        while transaction is not None:
            yield transaction
            older = self.before(transaction.position)
            if older is not None:
                self._check_order(older.tid, transaction.tid, transaction.position)
            transaction = older

    def _check_order(self, older, newer, position):
        if older >= newer:
            raise Damaged(self.path, position, 'transaction %s comes after %s' % (
                newer.encode('hex'), older.encode('hex')))

    def find(self, tid):
        """Return the newest Transaction up to a tid, or None; searches backwards from the end."""
        for transaction in self.backward():
            if transaction.tid <= tid:
                return transaction
        return None

    def tids_at(self, positions):
        """Yield the tids of the transactions that begin at these positions.  Raises Damaged."""
        return (self.at(each).tid for each in positions)

    def oids(self, transaction):
        """Yield the objects of a transaction.  Raises Damaged."""
        return (record.oid for record in self.records(transaction))

    def packed_oids(self, wanted):
        """Yield those of some oids that the packed part of the file has.  Raises Damaged."""
        for transaction in self.forward():
            if not transaction.packed:
                return
            for oid in self.oids(transaction):
                if oid in wanted:
                    yield oid

    def record(self, transaction, position):
        """Return the Record of a transaction that begins at a position.  Raises Damaged."""
        found = next(self.records(transaction, position), None)
        if found is None:
            raise Damaged(self.path, position, 'this is no record of transaction %s'
                          % transaction.tid.encode('hex'))
        return found

    def records(self, transaction, position=None):
        """Yield the Records of a transaction, the first ones or those from a position on.

        Raises Damaged.
        """
        begin, end = transaction.position, transaction.end - NUMBER.size
        position = transaction.records if position is None else position
        new = tuple.__new__
        while position < end:
            # As `read` does: there are millions of records, and a call costs as much as the rest.
            at = position - self._begin
            if 0 <= at <= len(self._window) - RECORD.size:
                fields = RECORD.unpack_from(self._window, at)
            else:
                fields = RECORD.unpack(self.read(position, RECORD.size))
            oid, tid, previous, of, version, length = fields
            data = position + RECORD.size
            following = data + (length or NUMBER.size)
            if of != begin or version or following > end:
                raise Damaged(self.path, position, 'this is no record of transaction %s'
                              % transaction.tid.encode('hex'))
            back = 0 if length else self.number(data)
            yield new(Record, (oid, tid, data, length, back, previous))
            position = following

    def data(self, record):
        """Return a record's data, which may be in an older record; None if it has none."""
        position, length = self.data_at(record)
        return self.read(position, length) if length else None

    def length(self, record):
        """Return the number of bytes of a record's data; 0 if it has none."""
        return self.data_at(record)[1]

    def data_at(self, record):
        """Return the position and the length of a record's data; length 0 if it has none."""
        length, position, back = record.length, record.position, record.back
        while not length and back:
            if back >= position:
                raise Damaged(self.path, position, 'it points forward, to %d' % back)
            length = RECORD.unpack(self.read(back, RECORD.size))[-1]
            position = back + RECORD.size
            back = 0 if length else self.number(position)
        return position, length


STATUS = 16  # its position in the header
PATIENCE_ENDS = 0.5  # seconds that a server has to finish writing


def find_end(data_file):
    """Return (end of the last complete transaction, size of the file, Damaged or None).

    A server first appends a transaction as unfinished and then sets its status, so an unfinished
    one at the end is no error.  This is cheap unless the last one stays incomplete, for example
    because the server was killed. Then all headers are read that follow the server's last saved
    index.

    Args:
        data_file: a DataFile; only its `raw`, `path` and `present_size` are used.

    Damaged is an end that is neither complete nor unfinished.  Raises Damaged if the file is none.
    """
    limit = monotonic() + PATIENCE_ENDS
    while True:
        size = data_file.present_size()
        magic = data_file.raw(0, START)
        if magic != MAGIC[:len(magic)]:
            raise Damaged(data_file.path, 0, 'this is no Data.fs')
        end = START if size <= START else _from_the_end(data_file, size)
        if end is not None:
            return end, size, None
        if monotonic() > limit:
            try:
                return _forward(data_file), size, None
            except Damaged as error:
                return error.position, size, error
        time.sleep(PAUSE)


def _from_the_end(data_file, size):
    """Find the end by the length repeated after each transaction; None if that fails."""
    last = _ending_at(data_file, size)
    if last is None:
        return None
    begin, status = last
    if status != UNFINISHED:
        return size
    if begin == START or _ending_at(data_file, begin) is not None:
        return begin
    return None


def _ending_at(data_file, end):
    """Return (begin, status) of the transaction that ends at a position, or None."""
    number = data_file.raw(end - NUMBER.size, NUMBER.size)
    if len(number) < NUMBER.size:
        return None
    length, = NUMBER.unpack(number)
    begin = end - NUMBER.size - length
    if begin < START or length < TRANSACTION.size:
        return None
    header = data_file.raw(begin, TRANSACTION.size)
    if len(header) < TRANSACTION.size:
        return None
    _tid, again, status, user, description, extension = TRANSACTION.unpack(header)
    texts = TRANSACTION.size + user + description + extension
    if again != length or texts > length or status not in COMPLETE + UNFINISHED:
        return None
    if texts < length:
        record = data_file.raw(begin + texts, RECORD.size)
        # Only records hold the position where their transaction begins.
        if len(record) < RECORD.size or RECORD.unpack(record)[3] != begin:
            return None
    return begin, status


def _forward(data_file):
    position, tid = _indexed(data_file)
    while True:
        header = data_file.raw(position, TRANSACTION.size)
        size = data_file.present_size()
        if len(header) <= STATUS or header[STATUS] == UNFINISHED:
            return position
        end, wrong = _judge(data_file, position, header, size)
        if header[:8] <= tid:
            wrong = 'transaction %s comes in the wrong order' % header[:8].encode('hex')
        if wrong:
            raise Damaged(data_file.path, position, '%s; the last whole one is %s' % (
                wrong, tid.encode('hex') or 'none'))
        tid, position = header[:8], end


def _indexed(data_file):
    """Return the position up to which the file's index reaches, and the last tid before it.

    The position comes first in the index.  An index of another file is ignored.
    """
    try:
        with open(data_file.path + '.index', 'rb') as index:
            unpickler = fastpickle.Unpickler(index)
            unpickler.find_global = None
            position = unpickler.load()
    except Exception:  # the index is only a hint, and a pickle may raise anything
        return START, b''
    if not isinstance(position, (int, long)) or position <= START:
        return START, b''
    last = _ending_at(data_file, position)
    if last is None or last[1] == UNFINISHED:
        return START, b''
    return position, data_file.raw(last[0], 8)


def _judge(data_file, position, header, size):
    """Return the end of the last finished transaction, and the error found there."""
    if header[STATUS] not in COMPLETE:
        return None, 'this is no transaction'
    if len(header) == TRANSACTION.size:
        length = TRANSACTION.unpack(header)[1]
        end = position + length + NUMBER.size
        if end <= size:
            number = data_file.raw(end - NUMBER.size, NUMBER.size)
            if number != NUMBER.pack(length) or length < TRANSACTION.size:
                return None, 'a transaction has two different lengths'
            return end, None
    return None, 'the file was cut off within transaction %s' % header[:8].encode('hex')
