"""Records of a ZODB as plain values, without the classes of what they hold.

What a pickle calls, builds or names becomes a `Plain`, what it refers to a `Reference`;
numbers, strings, tuples, lists, dicts and sets stay what they are.
"""
import cStringIO
import datetime
from collections import namedtuple

from ZODB._compat import PersistentUnpickler

# `kind` tells a plain reference ('') from others, such as weak ones ('w'); `cls` is the class that
# is named in the reference, None if none is.
Reference = namedtuple('Reference', 'oid cls kind')
Record = namedtuple('Record', 'cls state')

_TREES = ('BTree', 'TreeSet', 'Bucket', 'Set')
# The one class of Indico that is a BTree without saying so in its name.
_TREE_CLASSES = ('indico.core.index.catalog.Catalog',)
_KEPT = {('__builtin__', 'set'): set, ('__builtin__', 'frozenset'): frozenset}


class Plain(object):
    """An instance that a pickle builds: its class by name, arguments, state and contents."""

    cls = ''

    def __new__(cls, *args):
        self = object.__new__(cls)
        self.args, self.state, self.contents = args, None, []
        return self

    def __init__(self, *args):
        pass

    def __setstate__(self, state):
        self.state = state

    def append(self, item):
        self.contents.append(item)

    def __setitem__(self, key, value):
        self.contents.append((key, value))

    def parts(self):
        """All that makes it up besides its class."""
        return self.args, self.state, self.contents


_plain_classes = {}


def _find(module, name):
    if (module, name) in _KEPT:
        return _KEPT[module, name]
    full = '%s.%s' % (module, name)
    if full not in _plain_classes:
        _plain_classes[full] = type(name, (Plain,), {'cls': full})
    return _plain_classes[full]


def class_name(value):
    """The name of a class that was met in a pickle, by which it is a `Plain`."""
    if isinstance(value, type) and issubclass(value, Plain):
        return value.cls
    return getattr(value, '__name__', repr(value))


def _refer(found):
    if isinstance(found, tuple):
        return Reference(found[0], class_name(found[1]), '')
    if isinstance(found, list):
        return Reference(found[1][0], None, found[0])
    return Reference(found, None, '')


def decode(data):
    """Returns the `Record` that is pickled in a record's data."""
    unpickler = PersistentUnpickler(_find, _refer, cStringIO.StringIO(data))
    meta = unpickler.load()
    return Record(class_name(meta[0] if isinstance(meta, tuple) else meta), unpickler.load())


def moment(value):
    """Returns a date-time of UTC as `datetime` without a time zone; None if it is none."""
    if isinstance(value, Plain) and value.cls == 'datetime.datetime':
        stored, zone = value.args[0], value.args[1:]
        if not zone or class_name(type(zone[0])) == 'pytz._UTC':
            return datetime.datetime(stored)
    return None


def is_tree(cls):
    """Whether a class is a BTree, a TreeSet or a part of one."""
    return cls in _TREE_CLASSES or (cls.startswith('BTrees.') and cls.endswith(_TREES))


def is_set(cls):
    """Whether a tree has keys only."""
    return cls.endswith('Set')


class Damage(Exception):
    """A tree whose parts do not fit together; the text says how."""


def items(load, record):
    """Returns a tree's items in their order: (key, value), of a set (key, None).

    Args:
        load: gives the `Record` of an oid, None if there is none.
        record: that of the tree.

    Raises Damage when buckets are chained in another way than the tree holds them, are missing or
    empty, or have keys out of order or not where the tree looks for them.
    """
    if record.cls.endswith(('Bucket', 'Set')) and not record.cls.endswith('TreeSet'):
        return _paired(record, record.state)
    buckets = []
    found = list(_descend(load, record, None, None, buckets))
    for (_, state), (following, _) in zip(buckets, buckets[1:] + [(None, None)]):
        chained = state[1].oid if len(state) > 1 else None
        if chained != following:
            raise Damage('its buckets are chained otherwise than the tree holds them')
    return found


def _descend(load, record, least, limit, buckets):
    state = record.state
    if state is None:
        if least is not None or limit is not None:
            raise Damage('it has an empty part')
        return
    if len(state) == 1:                      # its only bucket lies in the tree's record
        for item in _within(_paired(record, state[0][0]), least, limit):
            yield item
        return
    children, first = state
    before = len(buckets)
    for number, child in enumerate(children[::2]):
        low = children[2 * number - 1] if number else least
        high = children[2 * number + 1] if 2 * number + 1 < len(children) else limit
        inner = load(child.oid)
        if inner is None:
            raise Damage('it lacks a bucket')
        if inner.cls == record.cls:
            found = _descend(load, inner, low, high, buckets)
        else:
            buckets.append((child.oid, inner.state))
            found = _within(_paired(inner, inner.state), low, high)
            if not found:
                raise Damage('it has an empty bucket')
        for item in found:
            yield item
    if len(buckets) == before or buckets[before][0] != first.oid:
        raise Damage('it begins with another bucket than it says')


def _paired(record, state):
    if state is None:
        return []
    flat = state[0]
    if is_set(record.cls):
        return [(key, None) for key in flat]
    return list(zip(flat[::2], flat[1::2]))


def _within(found, least, limit):
    """Checks keys that can be compared without their classes; returns what it was given."""
    keys = [key for key, _ in found]
    if all(isinstance(key, (int, long, basestring)) for key in keys):
        if any(one >= other for one, other in zip(keys, keys[1:])):
            raise Damage('its keys are out of order')
        if keys and ((_comparable(least) and keys[0] < least)
                     or (_comparable(limit) and keys[-1] >= limit)):
            raise Damage('a key is not where the tree looks for it')
    return found


def _comparable(key):
    return isinstance(key, (int, long, basestring))
