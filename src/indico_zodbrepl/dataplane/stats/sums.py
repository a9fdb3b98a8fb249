"""Sums of a database's objects, by class and in total, in little memory."""
from __future__ import absolute_import

import heapq
import re

from indico_zodbrepl.dataplane.datafs.records import UNKNOWN, describe

# The class at the start of a record, as ZODB writes it: alone, or in a tuple with its arguments.
_CLASS = re.compile(br'(?:\x80[\x02\x03])?\(?c([^\n]*)\n([^\n]*)\n')
HEAD = 256  # bytes of a record that hold the name of its class, nearly always

OBJECTS, BYTES, LARGEST, REVISIONS, REVISION_BYTES = range(5)
_NAMES = ('objects', 'bytes', 'largest', 'revisions', 'revision_bytes')


def class_of(head, read):
    """Return a record's class, `module.Name`, or '?' if unknown; import nothing.

    Args:
        head: the first bytes of its data, at most `HEAD`.
        read: returns all of its data; called for unusual records only.
    """
    found = _CLASS.match(head)
    if found is not None:
        return b'%s.%s' % found.groups()
    return describe(read())[0]


class Sums(object):
    """Sums and the largest objects.

    Args:
        top: how many of the largest objects to keep.

    Attributes:
        objects, bytes: of the objects' current revisions.
        revisions, revision_bytes: of their older revisions.
    """

    def __init__(self, top):
        self._top = top
        self._classes = {}
        self._largest = []  # a heap of (bytes, oid, class, where)
        self.objects = self.bytes = self.revisions = self.revision_bytes = 0

    def add(self, named, oid, size, where=None):
        """Count an object's current revision.

        Args:
            named: its class.
            oid: bytes.
            size: bytes of its data.
            where: locates its data, in case it is one of the largest.
        """
        self.objects += 1
        self.bytes += size
        sums = self._of(named)
        sums[OBJECTS] += 1
        sums[BYTES] += size
        if size > sums[LARGEST]:
            sums[LARGEST] = size
        if len(self._largest) < self._top:
            heapq.heappush(self._largest, (size, oid, named, where))
        elif self._largest and size > self._largest[0][0]:
            heapq.heapreplace(self._largest, (size, oid, named, where))

    def add_revision(self, named, size):
        """Count an older revision of an object."""
        self.revisions += 1
        self.revision_bytes += size
        sums = self._of(named)
        sums[REVISIONS] += 1
        sums[REVISION_BYTES] += size

    def _of(self, named):
        sums = self._classes.get(named)
        if sums is None:
            sums = self._classes[named] = [0] * len(_NAMES)
        return sums

    def classes(self):
        """Return a dict for each class, the one with the most bytes first."""
        return _ordered(self._classes)

    def modules(self):
        """Return a dict for each module, the one with the most bytes first."""
        modules = {}
        for named, sums in self._classes.items():
            module = named.rpartition('.')[0] or UNKNOWN
            total = modules.setdefault(module, [0] * len(_NAMES))
            largest = max(total[LARGEST], sums[LARGEST])
            total[:] = map(sum, zip(total, sums))
            total[LARGEST] = largest
        return _ordered(modules)

    def largest(self, read):
        """Return a dict for each of the largest objects, the largest first.

        Args:
            read: called with oid and `where`; returns the object's data, None
                if it has disappeared.
        """
        return [{'oid': oid.encode('hex'), 'class': named, 'bytes': size,
                 'what': describe(read(oid, where))[1]}
                for size, oid, named, where in sorted(self._largest, reverse=True)]


def _ordered(sums):
    ordered = sorted(sums.items(), key=lambda item: (-item[1][BYTES], -item[1][REVISION_BYTES], item[0]))
    return [dict(zip(_NAMES, numbers), name=name) for name, numbers in ordered]
