"""Records of a ZODB, read and rewritten as pickles, without importing or calling any class."""
from __future__ import absolute_import

import datetime

import cStringIO
import zodbpickle.pickletools_2
from ZODB._compat import PersistentUnpickler
from ZODB.utils import p64, u64

from indico_zodbrepl.dataplane.recover.protected import is_protected

TEXT_LIMIT = 300  # maximum characters of a displayed value
DEPTH_LIMIT = 4
FILE_FIELDS = 5  # of a file in Indico's repository: path, blob, size, sha256, created
OID_OPCODES = ('SHORT_BINSTRING', 'BINSTRING', 'SHORT_BINBYTES', 'BINBYTES', 'STRING')


class Stub(object):
    """A stand-in for an instance of a class that a pickle names, or for that class's function."""

    def __init__(self, *args):
        self.args = args
        self.state = None

    def __setstate__(self, state):
        self.state = state

    def append(self, item):
        self.args += (item,)

    def extend(self, items):
        self.args += tuple(items)

    def __setitem__(self, key, value):
        self.args += ((key, value),)


class Reference(object):
    """A persistent reference as a record holds it."""

    def __init__(self, data):
        self.data = data

    @property
    def oid(self):
        """Return the oid within the same database; None for a reference to another one."""
        data = self.data
        if isinstance(data, tuple):
            return data[0]
        if isinstance(data, list):
            return data[1][0] if data[0] == 'w' and len(data[1]) == 1 else (
                data[0] if len(data) == 1 else None)
        return data


_stubs = {}


def _stub(module, name):
    if (module, name) == ('datetime', 'datetime'):
        return _datetime
    if (module, name) == ('copy_reg', '_reconstructor'):
        return lambda cls, base, state: cls() if state is None else cls(state)
    if module == '__builtin__' and name in ('set', 'frozenset', 'object'):
        return {'set': set, 'frozenset': frozenset, 'object': object}[name]
    if (module, name) not in _stubs:
        _stubs[module, name] = type(name, (Stub,), {'__module__': module})
    return _stubs[module, name]


def _datetime(packed, zone=None):
    return datetime.datetime(packed)


def class_of(data):
    """Return the full name of a record's class; 'unknown' if its pickle is unusual."""
    for opcode, argument, _ in zodbpickle.pickletools_2.genops(data):
        if opcode.name in ('GLOBAL', 'INST'):
            return argument.replace(' ', '.')
        if opcode.name == 'STOP':
            break
    return 'unknown'


def references(data):
    """Return the set of oids in the same database that a record refers to, weak references too."""
    found = []
    unpickler = PersistentUnpickler(_stub, found.append, cStringIO.StringIO(data))
    unpickler.noload()
    unpickler.noload()
    return {oid for oid in (Reference(each).oid for each in found) if oid is not None}


def is_readable(data):
    """Return True if a record can be unpickled; a damaged file may hold anything."""
    try:
        references(data or b'')
        state_of(data or b'')
    except Exception:  # a pickle may raise anything
        return False
    return True


def remapped(data, oids):
    """Return a record with its references changed by `oids`, {old: new}, and nothing else.

    Raises ValueError if that is impossible.
    """
    refers = references(data)
    change = {oid: oids[oid] for oid in refers if oids.get(oid, oid) != oid}
    if not change:
        return data
    changed = bytearray(data)
    offset = 0
    for _ in range(2):
        part = data[offset:]
        length = 0
        for opcode, argument, position in zodbpickle.pickletools_2.genops(part):
            length = position + 1
            if opcode.name in OID_OPCODES and str(argument) in change:
                start = part.index(str(argument), position) + offset
                changed[start:start + 8] = change[str(argument)]
        offset += length
    result = bytes(changed)
    if references(result) != {change.get(oid, oid) for oid in refers}:
        raise ValueError('its references are written in an unknown way')
    return result


def state_of(data):
    """Return a record's state as plain values, `Stub`s and `Reference`s, to display it."""
    unpickler = PersistentUnpickler(_stub, Reference, cStringIO.StringIO(data))
    unpickler.load()
    return unpickler.load()


def differences(old, new):
    """Return [{'field', 'old', 'new', 'protected'}] of two records; None for a missing field.

    Of a BTree 'field' is a key; of a set it is 'item' with the item; of a state that is no dict it
    is 'state'.

    Args:
        old: a record, or None.
        new: a record, or None.
    """
    before, after = (_fields(data) if data else {} for data in (old, new))
    found = []
    for name in sorted(set(before) | set(after)):
        sides = [side.get(name) for side in (before, after)]
        texts = [text_of(side[1]) if side else None for side in sides]
        if texts[0] != texts[1]:
            found.append({'field': name, 'old': texts[0], 'new': texts[1],
                          'protected': any(is_protected(*side) for side in sides if side)})
    return found


def _fields(data):
    """Return {text of the name: (name, value)} of a record's state."""
    items = _items(data)
    if items is not None:
        if 'Set' in class_of(data).rpartition('.')[2]:
            return {u'item ' + text_of(item): (item, item) for item in items}
        return {text_of(key): (key, value) for key, value in zip(items[::2], items[1::2])}
    try:
        state = state_of(data)
    except Exception as error:  # any exception: the pickle's classes are not loaded
        return {u'state': (None, u'not readable: %s: %s' % (type(error).__name__, error))}
    if not isinstance(state, dict):
        return {u'state': (None, state)}
    return {_unicode(name): (name, value) for name, value in state.items()}


def _items(data):
    """Return the flat list of a bucket, or of a tree without a bucket of its own; else None."""
    name = class_of(data)
    if not name.startswith('BTrees.') or name.startswith('BTrees.Length.'):
        return None
    state = state_of(data)
    if state is None:
        return []
    if name.endswith(('BTree', 'TreeSet')):
        return list(state[0][0][0]) if len(state) == 1 else None
    return list(state[0])


def stored_files(data):
    """Yield (id, entry) of each file in a record of Indico's file repository, a tree.

    An entry is a path relative to the archive or, for a file in the database, a tuple: that path,
    a `Reference` to the blob, and more.
    """
    if not data or not is_readable(data):
        return
    items = _items(data) or ()
    for number, entry in zip(items[::2], items[1::2]):
        in_database = (isinstance(entry, tuple) and len(entry) == FILE_FIELDS
                       and isinstance(entry[1], Reference))
        path = entry[0] if in_database else entry
        # a path has the id as the name of a folder
        if isinstance(number, str) and isinstance(path, str) and '/%s/' % number in path:
            yield number, entry


def text_of(value, depth=0):
    """Return a value of a record's state as one line for people."""
    text = _full_text(value, depth)
    return text if len(text) <= TEXT_LIMIT else text[:TEXT_LIMIT] + u'...'


def _full_text(value, depth):
    if depth > DEPTH_LIMIT:
        return u'...'
    if isinstance(value, Reference):
        return u'-> %s' % (u'%x' % u64(value.oid) if value.oid else u'another database')
    if isinstance(value, str):
        return _unicode(value)
    if isinstance(value, unicode):
        return value
    if isinstance(value, datetime.datetime):
        return _unicode(value.isoformat(' '))
    if isinstance(value, dict):
        return u'{%s}' % u', '.join(sorted(
            u'%s: %s' % (_full_text(key, depth + 1), _full_text(each, depth + 1))
            for key, each in value.items()))
    if isinstance(value, (list, tuple, set, frozenset)):
        return u'[%s]' % u', '.join(_full_text(each, depth + 1) for each in value)
    if isinstance(value, Stub):
        inside = value.state if value.state is not None else value.args
        return u'%s(%s)' % (type(value).__name__, _full_text(inside, depth + 1) if inside else u'')
    if isinstance(value, type):
        return _unicode('%s.%s' % (value.__module__, value.__name__))
    return _unicode(repr(value))


def _unicode(value):
    return value.decode('utf-8', 'replace') if isinstance(value, str) else unicode(value)


def oid_text(oid):
    """Return an oid as 16 hexadecimal digits."""
    return oid.encode('hex')


def next_tid(tid):
    """Return the next higher transaction id."""
    return p64(u64(tid) + 1)
