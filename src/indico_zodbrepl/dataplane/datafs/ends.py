"""Where the last complete transaction of a Data.fs ends."""
import time

from zodbpickle import fastpickle

from .failures import Damaged
from .records import COMPLETE, MAGIC, NUMBER, RECORD, START, TRANSACTION, UNFINISHED

STATUS = 16  # its place in the header
PATIENCE = 0.5  # seconds that a server gets to finish what it is writing
PAUSE = 0.02


def find_end(data_file, damaged=False):
    """Returns (end of the last complete transaction, size of the file).

    A server first appends a transaction as unfinished and then sets its status, so that
    an unfinished one at the end is no fault.  Cheap unless the last one is only partly
    there for longer, as when its server was killed: then all headers are read that came
    after the server last saved its index.

    Args:
        data_file: a DataFile; only its `raw`, `path` and `present_size` are used.
        damaged: whether what comes before damage counts, rather than that it is raised.

    Raises Damaged when the end is neither complete nor unfinished.
    """
    limit = time.time() + PATIENCE
    while True:
        size = data_file.present_size()
        magic = data_file.raw(0, START)
        if magic != MAGIC[:len(magic)]:
            raise Damaged(data_file.path, 0, 'this is no Data.fs')
        end = START if size <= START else _from_the_end(data_file, size)
        if end is not None:
            return end, size
        if time.time() > limit:
            try:
                return _forward(data_file), size
            except Damaged as error:
                if not damaged:
                    raise
                return error.position, size
        time.sleep(PAUSE)


def _from_the_end(data_file, size):
    """Judges by the length that is repeated after each transaction; None when it is none."""
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
    """Returns (begin, status) of the transaction that ends there, or None."""
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
        # Each record knows where its transaction begins; nothing else in a file does.
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
    """Returns the position up to which the file's index goes, and the last tid before it.

    It is the first thing in the index.  One of another file is not believed.
    """
    try:
        with open(data_file.path + '.index', 'rb') as index:
            unpickler = fastpickle.Unpickler(index)
            unpickler.find_global = None
            position = unpickler.load()
    except Exception:  # the index is no more than a hint, and a pickle may raise anything
        return START, b''
    if not isinstance(position, (int, long)) or position <= START:
        return START, b''
    last = _ending_at(data_file, position)
    if last is None or last[1] == UNFINISHED:
        return START, b''
    return position, data_file.raw(last[0], 8)


def _judge(data_file, position, header, size):
    """Returns where a transaction ends that is not unfinished, and what is wrong with it."""
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
