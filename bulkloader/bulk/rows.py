"""All records of an event as one string, in the format of a FileStorage (pure).

The format of a record is ZODB's, as described in `ZODB/FileStorage/format.py`: the oid, the
transaction, places of other records, the length, and the record itself.
"""
import struct
from operator import itemgetter

from ZODB.FileStorage.format import DATA_HDR_LEN as HEADER

from bulkloader.bulk.holes import Hole

_OID_LENGTH = 8
NO_MIDDLE = '\0' * (HEADER - 2 * 8)    # for who does not want headers


class Row(object):
    """The records of a stencil, one after the other.

    Args:
        records: pieces, as `Stencil` takes them.
        places: {hole: where what fills it is in an event's table}. Object ids come first there,
            then texts.
    """

    def __init__(self, records, places):
        # An event's table is followed by what all its headers have in common, the lengths of its
        # records of no fixed length, and the constant pieces.
        middle = len(records) + len(places)
        self._filled, self._runs, self._constants, order = [], [], [], []
        run, size = [], 0
        for number, pieces in enumerate(records):
            fixed = sum(len(piece) if isinstance(piece, str) else _OID_LENGTH
                        for piece in pieces if not isinstance(piece, Hole))
            holes = [places[piece] - len(records) for piece in pieces if isinstance(piece, Hole)]
            run.append(size)
            size += HEADER + fixed
            order += [number, middle]
            if holes:
                order.append(middle + 1 + len(self._filled))
                self._filled.append((fixed, holes))
                self._runs.append((run, size))
                run, size = [], 0
            else:
                order.append(_length(fixed))
            order.extend(places.get(piece, piece) for piece in pieces)
        self._runs.append((run, size))
        self.size = sum(size for _, size in self._runs)
        first = middle + 1 + len(self._filled)
        numbered = []
        for piece in _joined(order):
            if isinstance(piece, str):
                numbered.append(first + len(self._constants))
                self._constants.append(piece)
            else:
                numbered.append(piece)
        self._pick = itemgetter(*numbered)
        self._lengths = struct.Struct('>%dQ' % len(self._filled))
        self._each_length = struct.Struct('8s' * len(self._filled))

    def lengths(self, texts):
        """Return how much of an event is not of a fixed length: for each such record, the bytes
        that fill it."""
        return [sum([len(texts[place]) for place in holes]) for _, holes in self._filled]

    def written(self, oids, texts, lengths, middle):
        """Return the records as they are in the file.

        Args:
            oids: of the event's objects.
            texts: what fills the holes.
            lengths: of `lengths`.
            middle: what is between oid and length in each header.
        """
        whole = [fixed + length for (fixed, _), length in zip(self._filled, lengths)]
        table = list(oids)
        table.extend(texts)
        table.append(middle)
        table.extend(self._each_length.unpack(self._lengths.pack(*whole)))
        table.extend(self._constants)
        return ''.join(self._pick(table))

    def positions(self, begin, lengths):
        """Return where each record begins when the first one does at `begin`."""
        positions = []
        for (run, size), length in zip(self._runs, lengths + [0]):
            positions.extend([begin + offset for offset in run])
            begin += size + length
        return positions


def _length(number):
    return struct.pack('>Q', number)


def _joined(pieces):
    """Yield pieces with neighbouring bytes joined."""
    constant = []
    for piece in pieces:
        if isinstance(piece, str):
            constant.append(piece)
            continue
        if constant:
            yield ''.join(constant)
            constant = []
        yield piece
    if constant:
        yield ''.join(constant)
