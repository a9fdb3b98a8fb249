"""Compares the object graphs of two databases, from the root, without loading any of their classes.

Two databases are equal when their objects can be paired so that everything is: classes, attributes
and their types, what containers hold and in which order, which object each reference leads to.
Object ids may differ, and where a BTree divides its buckets. The clock's values are the only ones
that are not compared: those of `CLOCKS`, as long as they lie within the time in which the database
was filled.
"""
import datetime
from collections import Counter, deque, namedtuple

from decoding import Damage, Plain, Reference, class_name, decode, is_tree, items, moment
from ZODB.serialize import referencesf
from ZODB.utils import z64

# What says when something was made or changed: attributes of events and what is in them, that of a
# contribution's state, and a key of the loader's own record.
CLOCKS = frozenset(['_creationDS', '_modificationDS', '_date', 'begun'])
SHOWN = 100              # characters of a value in a difference

Difference = namedtuple('Difference', 'path cls attribute what')


class Database(object):
    """One of the databases that are compared.

    Args:
        storage: a ZODB storage; only read.
        began, ended: naive date-times of UTC between which the clock's values have to lie.
    """

    def __init__(self, storage, began, ended):
        self.storage, self.began, self.ended = storage, began, ended

    def record(self, oid):
        """The `Record` of an object; None if it is missing."""
        try:
            return decode(self.storage.load(oid, '')[0])
        except KeyError:
            return None

    def tells_its_time(self, value):
        """Whether a value is a moment at which this database was being filled."""
        when = moment(value) or _moment_in_words(value)
        return when is not None and self.began <= when <= self.ended


def _moment_in_words(value):
    try:
        return datetime.datetime.strptime(value, '%Y-%m-%dT%H:%M:%SZ')
    except (TypeError, ValueError):
        return None


def describe(difference):
    """Returns a difference as a line."""
    return '%s (%s, %s): %s' % difference


def differences(one, other, clocks=CLOCKS):
    """Yields each `Difference` between two `Database`s; what cannot be paired is not looked into."""
    return _Comparison(one, other, clocks).run()


def unreachable(storage):
    """Returns of which class how many records of a storage cannot be reached from its root."""
    seen, to_do = set([z64]), [z64]
    while to_do:
        for oid in referencesf(storage.load(to_do.pop(), '')[0]):
            if oid not in seen:
                seen.add(oid)
                to_do.append(oid)
    return Counter(decode(data).cls for oid, data in _records(storage) if oid not in seen)


def _records(storage):
    following, more = None, True
    while more:
        oid, _, data, following = storage.record_iternext(following)
        yield oid, data
        more = following is not None


def _shown(value):
    text = value.cls + repr(value.args) if isinstance(value, Plain) else repr(value)
    return text if len(text) <= SHOWN else text[:SHOWN] + '...'


def _type(value):
    return value.cls if isinstance(value, Plain) else type(value).__name__


class _Comparison(object):
    def __init__(self, one, other, clocks):
        self._one, self._other, self._clocks = one, other, clocks
        self._partner, self._taken = {z64: z64}, {z64: z64}
        self._to_do = deque([(z64, z64, 'root')])
        self._found = []
        self._cls = ''

    def run(self):
        while self._to_do:
            oids = self._to_do.popleft()
            self._records(*oids)
            for difference in self._found:
                yield difference
            self._found = []

    def _differ(self, path, attribute, what):
        self._found.append(Difference(path, self._cls, attribute, what))

    def _records(self, oid, other_oid, path):
        one, other = self._one.record(oid), self._other.record(other_oid)
        if one is None and other is None:
            return
        self._cls = (one or other).cls
        if one is None or other is None:
            self._differ(path, '', 'the object is missing in the %s'
                         % ('one' if one is None else 'other'))
        elif one.cls != other.cls:
            self._differ(path, '', 'in the other it is a %s' % other.cls)
        elif is_tree(one.cls):
            self._trees(one, other, path)
        elif isinstance(one.state, dict) and isinstance(other.state, dict):
            self._attributes(one.state, other.state, path)
        else:
            self._values(one.state, other.state, path, '')

    def _attributes(self, one, other, path):
        """The attributes of an instance, of which each may be the clock's."""
        for name in sorted(set(one) | set(other), key=repr):
            inner = '%s.%s' % (path, name)
            if name not in one or name not in other:
                where = ('other', other) if name not in one else ('one', one)
                self._differ(inner, name, 'only the %s has it: %s'
                             % (where[0], _shown(where[1][name])))
            else:
                self._values(one[name], other[name], inner, name)

    def _trees(self, one, other, path):
        found = []
        for database, record, name in (self._one, one, 'one'), (self._other, other, 'other'):
            try:
                found.append(items(database.record, record))
            except Damage as error:
                self._differ(path, '', 'the tree of the %s is damaged: %s' % (name, error))
        if len(found) == 2:
            self._sequences([self._labelled(self._one, found[0]),
                             self._labelled(self._other, found[1])], path, '')

    def _labelled(self, database, found):
        return [(self._label(database, key), key, value) for key, value in found]

    def _label(self, database, key):
        """What tells a key from the others of its tree, the same in both databases if possible."""
        if isinstance(key, Reference):
            record = database.record(key.oid)
            if record is None:
                return 'a missing object'
            its_id = record.state.get('id') if isinstance(record.state, dict) else None
            return '%s %r' % (record.cls.rpartition('.')[2], its_id)
        return repr(key)

    def _sequences(self, both, path, attribute):
        """Items with labels: of which some are missing, more than wanted, or in another order."""
        labels = [[label for label, _, _ in each] for each in both]
        counted = [Counter(each) for each in labels]
        for number, name in enumerate(('one', 'other')):
            for label in sorted((counted[number] - counted[1 - number]).elements()):
                self._differ('%s[%s]' % (path, label), attribute, 'only the %s has it' % name)
        shared = counted[0] & counted[1]
        matching = [[each for each in part if shared[each[0]] == counted[0][each[0]]
                     == counted[1][each[0]]] for part in both]
        if [each[0] for each in matching[0]] != [each[0] for each in matching[1]]:
            self._differ(path, attribute, 'the order is %s in the one and %s in the other'
                         % tuple(_shown([each[0] for each in part]) for part in matching))
            matching = [sorted(part, key=lambda each: each[0]) for part in matching]
        for (label, key, value), (_, other_key, other_value) in zip(*matching):
            inner = '%s[%s]' % (path, label)
            if key in self._clocks and self._are_the_clocks(value, other_value):
                continue
            self._values(key, other_key, inner, attribute)
            self._values(value, other_value, inner, attribute)

    def _values(self, one, other, path, attribute):
        if attribute in self._clocks and self._are_the_clocks(one, other):
            return
        if _type(one) != _type(other):
            self._differ(path, attribute, 'a %s in the one, a %s in the other: %s and %s' % (
                _type(one), _type(other), _shown(one), _shown(other)))
        elif isinstance(one, Reference):
            self._references(one, other, path, attribute)
        elif isinstance(one, Plain):
            self._instances(one, other, path, attribute)
        elif isinstance(one, dict):
            self._mappings(one, other, path, attribute)
        elif isinstance(one, (tuple, list)):
            if len(one) != len(other):
                self._differ(path, attribute, '%d items in the one, %d in the other: %s and %s' % (
                    len(one), len(other), _shown(one), _shown(other)))
            for number, (part, other_part) in enumerate(zip(one, other)):
                self._values(part, other_part, '%s[%d]' % (path, number), attribute)
        elif isinstance(one, type) and class_name(one) == class_name(other):
            pass
        elif one != other:
            self._differ(path, attribute, '%s in the one, %s in the other' % (
                _shown(one), _shown(other)))

    def _are_the_clocks(self, one, other):
        return self._one.tells_its_time(one) and self._other.tells_its_time(other)

    def _instances(self, one, other, path, attribute):
        if isinstance(one.state, dict) and isinstance(other.state, dict):
            self._values(one.args, other.args, path, attribute)
            self._attributes(one.state, other.state, path)
            self._values(one.contents, other.contents, path, attribute)
        elif moment(one) != moment(other):
            self._differ(path, attribute, '%s in the one, %s in the other' % (
                moment(one), moment(other)))
        else:
            self._values(one.parts(), other.parts(), path, attribute)

    def _mappings(self, one, other, path, attribute):
        """Dictionaries; their order means nothing."""
        found = [sorted((self._label(database, key), key, value) for key, value in each.items())
                 for database, each in ((self._one, one), (self._other, other))]
        self._sequences(found, path, attribute)

    def _references(self, one, other, path, attribute):
        if one[1:] != other[1:]:
            self._differ(path, attribute, 'another reference: %r in the one, %r in the other' % (
                one[1:], other[1:]))
        partner = self._partner.get(one.oid)
        if partner is None and other.oid not in self._taken:
            self._partner[one.oid], self._taken[other.oid] = other.oid, one.oid
            self._to_do.append((one.oid, other.oid, path))
        elif partner != other.oid:
            self._differ(path, attribute, 'it leads to another object than where that was met first')
