"""The records of a Data.fs, and the digest that identifies a transaction's content."""
from __future__ import absolute_import

import collections
import datetime
import hashlib
import struct
import unicodedata

import cStringIO
from ZODB.TimeStamp import TimeStamp
from zodbpickle import fastpickle

MAGIC = b'FS21'
START = len(MAGIC)
TRANSACTION = struct.Struct('>8sQcHHH')
RECORD = struct.Struct('>8s8sQQHQ')
NUMBER = struct.Struct('>Q')
PACKED = b'p'
UNFINISHED = b'c'
UNDONE = b'u'  # written by ZODB before 3.3, and still read
COMPLETE = b' ' + PACKED + UNDONE
NO_DATA = (1 << 64) - 1


class Record(collections.namedtuple('Record', 'oid tid position length back previous')):
    """One data record.

    Attributes:
        oid, tid: bytes.
        position: of its data or, if length is 0, of its back pointer.
        length: of its data, in bytes; 0 if the data is where `back` points.
        back: position of an older record of the object; 0, with length 0, for none at all.
        previous: position of the object's previous record; 0 for a new object and after a pack.
    """

    __slots__ = ()


class Transaction(object):
    """The header of a complete transaction.

    Attributes:
        position, end: where it begins, and where the next one begins.
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
        """Return True if a pack may have removed some of its records."""
        return self.status == PACKED

    @property
    def size(self):
        """Return its number of bytes in the file."""
        return self.end - self.position

    @property
    def metadata(self):
        """Return the metadata of its commit."""
        return self.user, self.description, self.extension


def digest(data_file, transaction):
    """Return the hex digest of a transaction's content.

    It covers user, description, extension data, and each record's object, tid and data, but no
    positions: replicas have the same digest, whatever was packed before it.  It does not cover the
    content of blobs, or whether the transaction was packed.
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
    """Return the time in a transaction id, as ISO 8601 in UTC."""
    moment = datetime.datetime.utcfromtimestamp(TimeStamp(tid).timeTime())
    return moment.isoformat() + 'Z'


OURS = ('MaKaC.', 'indico.')
IDS = ('id', '_id')
TITLES = ('title', '_title', 'name', '_name', 'fileName', '_fileName')
FAMILY_NAMES = ('surName', '_surName', 'familyName')
FIRST_NAMES = ('name', 'firstName', '_firstName')
UNKNOWN = '?'
LONGEST = 120  # characters of a title


class _Placeholder(object):
    """A stand-in for an object whose class is not imported."""

    def __new__(cls, *args, **kwargs):
        made = object.__new__(cls)
        made.state = None
        return made

    def __init__(self, *args, **kwargs):
        pass

    def __setstate__(self, state):
        self.state = state

    def __hash__(self):
        return id(self)

    def append(self, item):
        pass

    def extend(self, items):
        pass

    def __setitem__(self, key, value):
        pass


_placeholders = {}


def _placeholder(module, name):
    named = '%s.%s' % (module, name)
    if named not in _placeholders:
        _placeholders[named] = type('Placeholder', (_Placeholder,), {'named': named})
    return _placeholders[named]


def describe(data):
    """Return an object's class and, for one of Indico's, its name for people.

    Args:
        data: the record's two pickles; None for an object whose creation was undone.

    Returns: the class, `module.Name` or '?' if the record cannot be read, and a text like
        `Conference 12 "Title"`, or None.
    """
    if not data:
        return UNKNOWN, None
    unpickler = fastpickle.Unpickler(cStringIO.StringIO(data))
    unpickler.find_global = _placeholder
    unpickler.persistent_load = lambda reference: None
    named = UNKNOWN
    try:
        named = _class_name(unpickler.load())
        if not named.startswith(OURS):
            return named, None
        state = unpickler.load()
    except Exception:  # a pickle may raise anything
        return named, None
    return named, _text(named.rpartition('.')[2], state)


def _class_name(value):
    if isinstance(value, tuple) and value:
        value = value[0]
        if isinstance(value, tuple) and len(value) == 2:
            return '%s.%s' % value
    return value.named if isinstance(value, type) else UNKNOWN


def _text(name, state):
    if isinstance(state, tuple) and state:
        state = state[0]
    if not isinstance(state, dict):
        return None
    words = [_first(state, IDS), _title(state)]
    if not any(words):
        return None
    return printable(u' '.join([name] + [word for word in words if word]))


def printable(text):
    """Return a unicode with ? in place of control characters, which a terminal would obey."""
    return u''.join(u'?' if unicodedata.category(each) == 'Cc' else each for each in text)


def _title(state):
    family = _first(state, FAMILY_NAMES)
    if family:
        title = u' '.join(word for word in (_first(state, FIRST_NAMES), family) if word)
    else:
        title = _first(state, TITLES)
    if not title:
        return None
    if len(title) > LONGEST:
        title = title[:LONGEST - 1] + u'\u2026'
    return u'"%s"' % u' '.join(title.split())


def _first(state, keys):
    for key in keys:
        value = state.get(key)
        if isinstance(value, (int, long)) and not isinstance(value, bool):
            return unicode(value)
        if isinstance(value, str) and value:
            return value.decode('utf-8', 'replace')
        if isinstance(value, unicode) and value:
            return value
    return None
