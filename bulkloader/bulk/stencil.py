"""Stamp the records of events out of constant pieces and holes (pure)."""
from itertools import izip
from operator import itemgetter

from bulkloader.bulk.holes import Hole, Part
from bulkloader.bulk.opcodes import text
from bulkloader.bulk.rows import HEADER, NO_MIDDLE, Row


class Stencil(object):
    """Makes the records of any event of a layout; it changes nothing in itself.

    Args:
        classes: names of the classes of an event's objects, in the order of `records`.
        names: of the values that an event has, in their order.
        heads: {name: number} of those objects that others refer to.
        records: for each object its pieces: bytes, the number of the object whose id is there, or
            a `Hole`.

    Attributes: `classes`, `names`, `heads`, and `count`, how many objects an event has.
    """

    def __init__(self, classes, names, heads, records):
        self.classes, self.names, self.heads = classes, tuple(names), dict(heads)
        self.count = len(records)
        holes = set(piece for pieces in records for piece in pieces if isinstance(piece, Hole))
        plain = [hole for hole in holes if hole.is_plain]
        composed = [hole for hole in holes if not hole.is_plain]
        numbers = dict((name, number) for number, name in enumerate(self.names))
        parts = set(part for hole in composed for part in hole.parts)
        changed = [part for part in parts if isinstance(part, Part) and part.change]
        self._constants = [part for part in parts if isinstance(part, str)]
        # values are followed by those that are changed, and these by the constants
        at = dict((part, place) for place, part in enumerate(
            changed + self._constants, len(self.names)))
        at.update((Part(name, None), number) for name, number in numbers.items())
        self._plain = [at[hole.parts[0]] for hole in plain]
        self._changed = [(part.change, numbers[part.name]) for part in changed]
        self._composed = [(hole.encode, itemgetter(*[at[part] for part in hole.parts]))
                          for hole in composed]
        places = dict((hole, self.count + place) for place, hole in enumerate(plain + composed))
        self._row = Row(records, places)

    def stamp(self, oids, values):
        """Return the records of an event as `Stamped`.

        Args:
            oids: `count` object ids that nobody else has.
            values: bytes, in the order of `names`.
        """
        texts = [text(values[number]) for number in self._plain]
        extended = list(values)
        extended.extend([change(values[number]) for change, number in self._changed])
        extended.extend(self._constants)
        texts.extend([encode(''.join(pick(extended))) for encode, pick in self._composed])
        return Stamped(oids, texts, self._row)


class Stamped(object):
    """The records of an event, either as a list or as they are in a file.

    Attributes: `oids` of the objects, and `size` in a file, in bytes.
    """

    __slots__ = 'oids', '_texts', '_row', '_lengths', 'size'

    def __init__(self, oids, texts, row):
        self.oids = oids
        self._texts, self._row = texts, row
        self._lengths = row.lengths(texts)
        self.size = row.size + sum(self._lengths)

    def records(self):
        """Return a list of (oid, record)."""
        written, begins = self.written(NO_MIDDLE), self.positions(0)
        return [(oid, written[begin + HEADER:end])
                for oid, begin, end in izip(self.oids, begins, begins[1:] + [self.size])]

    def written(self, middle):
        """Return all records as a FileStorage has them in its file.

        Args:
            middle: what is between the oid and the length in the header of each record.
        """
        return self._row.written(self.oids, self._texts, self._lengths, middle)

    def positions(self, begin):
        """Return where each of the records is in the file when the first begins at `begin`."""
        return self._row.positions(begin, self._lengths)
