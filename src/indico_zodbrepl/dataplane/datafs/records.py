"""The records of a Data.fs, and what identifies the content of a transaction."""
import collections
import datetime
import hashlib
import struct

from ZODB.TimeStamp import TimeStamp

MAGIC = b'FS21'
START = len(MAGIC)
TRANSACTION = struct.Struct('>8sQcHHH')
RECORD = struct.Struct('>8s8sQQHQ')
NUMBER = struct.Struct('>Q')
PACKED = b'p'
UNFINISHED = b'c'
# 'u' was written by ZODB before 3.3 and is still read.
COMPLETE = b' pu'
NO_DATA = (1 << 64) - 1


class Record(collections.namedtuple('Record', 'oid tid position length back previous')):
    """One data record.

    Attributes:
        oid, tid: bytes.
        position: of its data or, when length is 0, of its back pointer.
        length: of its data, in bytes; 0 when the data is where `back` points to.
        back: position of an older record of the object; 0, with length 0, for none at all.
        previous: position of the object's record before this one; 0 when the object is new,
            and for all that was packed.
    """

    __slots__ = ()


class Transaction(object):
    """The header of a complete transaction.

    Attributes:
        position, end: where it begins, and where the next one does.
        records: where its first data record begins.
        tid, status, user, description, extension: bytes, as they are in the file.
    """

    __slots__ = ('position', 'records', 'end', 'tid', 'status', 'user',
                 'description', 'extension')

    def __init__(self, position, records, end, tid, status, user, description, extension):
        self.position = position
        self.records = records
        self.end = end
        self.tid = tid
        self.status = status
        self.user = user
        self.description = description
        self.extension = extension

    @property
    def packed(self):
        """Whether a pack may have removed records of it."""
        return self.status == PACKED

    @property
    def size(self):
        """Bytes in the file."""
        return self.end - self.position

    @property
    def metadata(self):
        """What was said of it when it was committed."""
        return self.user, self.description, self.extension


def digest(data_file, transaction):
    """Returns the hex digest of a transaction's content.

    It covers who, what, the extension data, and each record's object, tid and data, but no
    positions: replicas have the same, whatever was packed before it.  Not covered are the
    content of blobs and whether it was packed.
    """
    content = hashlib.sha256(transaction.tid)
    for text in transaction.metadata:
        content.update(NUMBER.pack(len(text)))
        content.update(text)
    for record in data_file.records(transaction):
        data = data_file.data(record)
        content.update(record.oid + record.tid)
        content.update(NUMBER.pack(NO_DATA if data is None else len(data)))
        content.update(data or b'')
    return content.hexdigest()


def time_of(tid):
    """Returns the moment of a transaction id, ISO 8601 in UTC."""
    moment = datetime.datetime.utcfromtimestamp(TimeStamp(tid).timeTime())
    return moment.isoformat() + 'Z'
