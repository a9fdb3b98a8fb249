"""Find the holes of a stencil: where two events of a layout differ, and why (pure).

The two were made with values that have nothing in common, so they differ only where their own
values are: object ids, texts, dates, ids. `prove` compares what a stencil makes with a further
event that Indico made. Whatever is not understood is an error, and never a wrong record.
"""
from collections import namedtuple
from itertools import izip

from bulkloader.bulk import opcodes
from bulkloader.bulk.holes import NOW, Hole, Part
from bulkloader.bulk.stencil import Stencil

# An event that Indico made from known values.
# classes, records, oids: of each object of the event, in the order in which Indico meets them.
# heads: {name: number} of those objects that others refer to.
# values: {name: bytes}; ids of objects outside of the event are among them, and NOW.
# clock: the first and the last moment of its making, in the form of `values.moment`.
Sample = namedtuple('Sample', 'classes records oids heads values clock')

_SHORTEST = 4    # bytes; shorter values are parts of others by accident


class Unexplained(Exception):
    """Two events of a layout differ, and not by their values.

    Args:
        where: class and attribute of the object.
        found: what Indico's event has there.
        other: what the other event has, or what the stencil made.
    """

    def __init__(self, where, found, other):
        Exception.__init__(self, '%s: %r and %r' % (where, found, other))


def cut(names, one, other):
    """Return the `Stencil` of two `Sample`s that have no value in common, or raises Unexplained.

    Args:
        names: of the values of an event, in the order in which the stencil will be given them.
    """
    _same(one, other.classes, other.heads)
    explain = _Explanations(one, other)
    return Stencil(one.classes, names, one.heads, [
        _pieces(name, mine, others, explain)
        for name, mine, others in izip(one.classes, one.records, other.records)])


def prove(stencil, sample):
    """Raise Unexplained when the stencil makes other records than those of this `Sample`."""
    _same(sample, stencil.classes, stencil.heads)
    made = stencil.stamp(sample.oids, [sample.values[name] for name in stencil.names]).records()
    for name, record, (_, stamped) in izip(stencil.classes, sample.records, made):
        if record != stamped:
            _compare(name, opcodes.parse(record), opcodes.parse(stamped), sample)


def _same(sample, classes, heads):
    if sample.classes != classes:
        for number, (mine, others) in enumerate(izip(sample.classes, classes)):
            if mine != others:
                raise Unexplained('object %d' % number, mine, others)
        raise Unexplained('number of objects', len(sample.classes), len(classes))
    if sample.heads != heads:
        raise Unexplained('places of objects', sample.heads, heads)


def _pieces(class_name, record, other, explain):
    """Return the pieces that a record of a stencil is made of, as `Stencil` takes them."""
    if record == other and opcodes.oid('') not in record:
        return [record]
    first, second = opcodes.parse(record), opcodes.parse(other)
    pieces, constant = [], []
    for mine, others in izip(first, second):
        if mine.raw == others.raw and mine.name != opcodes.OID:
            constant.append(mine.raw)
            continue
        found = explain(mine, others)
        if found is None:
            raise Unexplained(_where(class_name, mine), _shown(mine), _shown(others))
        if isinstance(found, int):
            constant.append(opcodes.oid(''))
        pieces += ''.join(constant), found
        constant = []
    if len(first) != len(second):
        raise Unexplained(class_name, '%d opcodes' % len(first), '%d' % len(second))
    return pieces + [''.join(constant)]


def _where(class_name, operation):
    return '%s.%s' % (class_name, operation.attribute)


def _shown(operation):
    return operation.argument if operation.name in _ENCODERS else operation.raw


_ENCODERS = {opcodes.OID: opcodes.oid, opcodes.UNICODE: opcodes.unicode_text,
             'SHORT_BINSTRING': opcodes.text, 'BINSTRING': opcodes.text}


def _is_now(argument, sample):
    first, last = sample.clock
    return len(argument) == len(first) and first <= argument <= last


class _Explanations(object):
    """Says where the difference of two opcodes comes from: an object's number, a `Hole` or None.

    Args:
        one, other: the `Sample`s that the opcodes are of.
    """

    def __init__(self, one, other):
        self._one, self._other = one, other
        self._numbers = [dict((oid, number) for number, oid in enumerate(sample.oids))
                         for sample in (one, other)]
        self._whole, self._inside = {}, {}
        for name, value in sorted(one.values.items()):
            self._whole.setdefault(value, []).append(Part(name, None))
            if len(value) >= _SHORTEST:
                self._inside.setdefault(value.lower(), Part(name, str.lower))
        for value, parts in self._whole.items():
            if len(value) >= _SHORTEST:
                self._inside[value] = parts[0]
        self._lengths = sorted(set(len(value) for value in self._inside), reverse=True)

    def __call__(self, mine, others):
        encode = _ENCODERS.get(mine.name)
        if encode is None or encode is not _ENCODERS.get(others.name):
            return None
        if mine.name == opcodes.OID:
            number = self._numbers[0].get(mine.argument)
            if number is not None:
                return number if number == self._numbers[1].get(others.argument) else None
        for parts in self._ways(mine.argument):
            if _explains(parts, others.argument, self._other):
                return Hole(encode, parts)
        return None

    def _ways(self, argument):
        """Yield the ways in which an argument may come from the values, as `Hole.parts`."""
        if _is_now(argument, self._one):
            yield (Part(NOW, None),)
        for part in self._whole.get(argument, ()):
            yield (part,)
        yield tuple(self._composed(argument))

    def _composed(self, argument):
        """Yield the parts of an argument that holds other text too, or several values."""
        constant = begin = 0
        while begin < len(argument):
            for length in self._lengths:
                part = self._inside.get(argument[begin:begin + length])
                if part is not None:
                    break
            else:
                begin += 1
                continue
            if constant < begin:
                yield argument[constant:begin]
            yield part
            constant = begin = begin + length
        if constant < begin:
            yield argument[constant:]


def _explains(parts, argument, sample):
    if parts == (Part(NOW, None),):
        return _is_now(argument, sample)
    return argument == ''.join(
        part if isinstance(part, str) else _changed(sample.values[part.name], part.change)
        for part in parts)


def _changed(value, change):
    return change(value) if change else value


def _compare(class_name, found, stamped, sample):
    found = [_at_one_moment(operation, sample) for operation in found]
    if [each.raw for each in found] == [each.raw for each in stamped]:
        return
    if (any(len(value) < 2 for value in sample.values.values())
            and opcodes.without_memo(found) == opcodes.without_memo(stamped)):
        return
    for mine, others in izip(found, stamped):
        if mine.raw != others.raw:
            raise Unexplained(_where(class_name, mine), _shown(mine), _shown(others))
    raise Unexplained(class_name, '%d opcodes' % len(found), '%d' % len(stamped))


def _at_one_moment(operation, sample):
    if operation.name in opcodes.BYTES and _is_now(operation.argument, sample):
        now = sample.values[NOW]
        return operation._replace(argument=now, raw=opcodes.text(now))
    return operation
