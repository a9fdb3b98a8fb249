"""One open Data.fs, read without locks while a server may write it."""
import errno
import os
import time

from .ends import find_end
from .failures import Changed, Damaged, Missing
from .records import COMPLETE, NUMBER, RECORD, START, TRANSACTION, Record, Transaction

WINDOW = 65536  # bytes
PATIENCE = 1.0  # seconds that a pack gets to put its result in place
PAUSE = 0.02


def _open(path):
    """Opens a Data.fs; a pack takes it away for a moment before it puts the new one there."""
    limit = time.time() + PATIENCE
    while True:
        try:
            return os.open(path, os.O_RDONLY)
        except OSError as error:
            if error.errno != errno.ENOENT or not os.path.exists(path + '.pack'):
                raise Missing('%s: %s' % (path, error.strerror))
        if time.time() > limit:
            raise Damaged(path, 0, 'a pack was interrupted; what it left is in %s.old and '
                          '%s.pack' % (os.path.basename(path), os.path.basename(path)))
        time.sleep(PAUSE)


class DataFile(object):
    """The transactions that are complete when it is opened, in constant memory.

    What it has seen once does not change: a server appends, and a pack puts another file
    in its place.  Not for use by several threads.

    Args:
        path: of the Data.fs.
        damaged: whether to read what comes before a damaged end, too.

    Attributes:
        end: position after the last complete transaction; 4 when there is none.
        size: bytes of the file when it was opened; more than `end` while a transaction
            is being written, or after a server was killed in the middle of one.

    Raises Missing, Damaged.
    """

    def __init__(self, path, damaged=False):
        self.path = path
        self._file = _open(path)
        self._window = b''
        self._begin = 0
        try:
            self.end, self.size = find_end(self, damaged)
        except:  # noqa: E722 raised again
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        os.close(self._file)

    def present_size(self):
        return os.fstat(self._file).st_size

    def replaced(self):
        """Whether the path leads to another file by now, as after a pack, or to none."""
        try:
            there = os.stat(self.path)
        except OSError:
            return True
        mine = os.fstat(self._file)
        return (there.st_dev, there.st_ino) != (mine.st_dev, mine.st_ino)

    def raw(self, position, length):
        """Reads from the file itself, up to its end."""
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
        """Reads from the complete transactions.  Raises Damaged, Changed."""
        at = position - self._begin
        if at >= 0 and at + length <= len(self._window):
            return self._window[at:at + length]
        if position + length > self.end:
            raise Damaged(self.path, position, 'a record goes beyond the last transaction')
        if length > WINDOW // 2:
            return self._whole(position, length)
        backwards = self._window and at < 0
        begin = max(0, position + length - WINDOW) if backwards else position
        self._window = self._whole(begin, min(WINDOW, self.end - begin))
        self._begin = begin
        return self._window[position - begin:position - begin + length]

    def _whole(self, position, length):
        found = self.raw(position, length)
        if len(found) != length:
            raise Changed('%s was cut while it was read' % self.path)
        return found

    def number(self, position):
        return NUMBER.unpack(self.read(position, NUMBER.size))[0]

    def at(self, position):
        """Returns the Transaction that begins there.  Raises Damaged."""
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
        """Returns the Transaction that ends there; None at the beginning of the file."""
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

    def last(self):
        """Returns the last complete Transaction, or None."""
        return self.before(self.end)

    def forward(self, position=START):
        """Yields the transactions from a boundary on, oldest first.  Raises Damaged."""
        tid = b''
        while position < self.end:
            transaction = self.at(position)
            self._check_order(tid, transaction.tid, position)
            yield transaction
            tid, position = transaction.tid, transaction.end

    def backward(self, position=None):
        """Yields the transactions before a boundary, newest first.  Raises Damaged."""
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
        """Returns the newest Transaction up to a tid, or None; reads from the end back."""
        for transaction in self.backward():
            if transaction.tid <= tid:
                return transaction
        return None

    def records(self, transaction):
        """Yields the Records of a transaction.  Raises Damaged."""
        position, end = transaction.records, transaction.end - NUMBER.size
        while position < end:
            record = self.record(transaction, position)
            yield record
            position = record.position + (record.length or NUMBER.size)

    def record(self, transaction, position):
        """Returns the Record of a transaction that begins there.  Raises Damaged."""
        oid, tid, previous, begin, version, length = RECORD.unpack(
            self.read(position, RECORD.size))
        data = position + RECORD.size
        if (begin != transaction.position or version
                or data + (length or NUMBER.size) > transaction.end - NUMBER.size):
            raise Damaged(self.path, position, 'this is no record of transaction %s'
                          % transaction.tid.encode('hex'))
        back = 0 if length else self.number(data)
        return Record(oid, tid, data, length, back, previous)

    def data(self, record):
        """Returns a record's data, which may be in an older one; None when it has none."""
        position, length = self.data_at(record)
        return self.read(position, length) if length else None

    def length(self, record):
        """Returns the number of bytes of a record's data, 0 when it has none."""
        return self.data_at(record)[1]

    def data_at(self, record):
        """Returns where a record's data begins, and its length, 0 when it has none."""
        length, position, back = record.length, record.position, record.back
        while not length and back:
            if back >= position:
                raise Damaged(self.path, position, 'it points forward, to %d' % back)
            length = RECORD.unpack(self.read(back, RECORD.size))[-1]
            position = back + RECORD.size
            back = 0 if length else self.number(position)
        return position, length
