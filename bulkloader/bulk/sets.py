"""The small sets of events in Indico's indexes by day and by date, as records.

An event is in about twenty of them, most of which have few members. Loading the events that are
there already, only to compare ids, and pickling each set would take most of a bulk load's time.
A set's record is its class and its members' references one after the other, so that it can be
written from the members' oids; how ZODB pickles it is described in `ZODB/serialize.py`.
"""
import struct
from bisect import bisect_left

from BTrees.IOBTree import IOTreeSet
from BTrees.OOBTree import OOSet, OOTreeSet
from ZODB.serialize import referencesf

from bulkloader.bulk.names import ghost, stand_in

MOST = 30       # members of a tree set without further buckets (BTrees' own limit)

_FIRST = b'C\x08%scMaKaC.conference\nConference\nq\x02\x86Q'
_BETWEEN = b'h\x02\x86QC\x08'
_FORMS = {OOSet: (b'\x80\x03cBTrees.OOBTree\nOOSet\nq\x01.\x80\x03', b'\x85q\x03.'),
          OOTreeSet: (b'\x80\x03cBTrees.OOBTree\nOOTreeSet\nq\x01.\x80\x03', b'\x85\x85\x85q\x03.')}
_TUPLES = {1: (b'', b'\x85'), 2: (b'', b'\x86'), 3: (b'', b'\x87')}


def events_record(cls, oids):
    """Return the record of an OOSet or OOTreeSet of events.

    Args:
        cls: OOSet, or OOTreeSet for at most MOST members.
        oids: of the members, in ascending order of the events' ids.
    """
    before, after = _FORMS[cls]
    opening, closing = _TUPLES.get(len(oids), (b'(', b't'))
    references = _FIRST % oids[0]
    if len(oids) > 1:
        references += b'C\x08' + _BETWEEN.join(oids[1:]) + b'h\x02\x86Q'
    return b''.join((before, opening, references, closing, after))


def moment_record(moment):
    """Return the record of an IOTreeSet with one member: seconds since 1970, above 65535."""
    return (b'\x80\x03cBTrees.IOBTree\nIOTreeSet\nq\x01.\x80\x03J' + struct.pack('<i', moment)
            + b'\x85\x85\x85\x85q\x02.')


class Sets(object):
    """Sets of events to which many are added in one transaction.

    Args:
        connection: an open ZODB connection.
        names: `Names`.
        records: the `Records` of the transaction, which gets the sets.
        remembered: a dict to keep members in from one transaction to the next, which is of use
            where nobody else writes to the storage; to be cleared after a transaction that failed.
    """

    def __init__(self, connection, names, records, remembered):
        self._connection = connection
        self._names = names
        self._records = records
        self._remembered = remembered
        self._changed = []
        self._loaded = None, None       # the last record that was loaded, and its members
        self._recorded = None, None     # the members of the last record that was made, and it

    def make(self, cls, ids):
        """Return a new set, one of this class with events of these ids, unloaded."""
        oid = self._records.add_one(self._record(cls, sorted(ids)))
        return ghost(self._connection, cls, oid)

    def make_moment(self, moment):
        """Return an IOTreeSet of one number, unloaded."""
        oid = self._records.add_one(moment_record(moment))
        return ghost(self._connection, IOTreeSet, oid)

    def add(self, existing, ids, remember=False):
        """Add events to a set that the storage has.

        Args:
            existing: an OOSet or OOTreeSet.
            ids: of events that it does not have.
            remember: whether further transactions are likely to change it.
        """
        oid = existing._p_oid
        serial, members = self._remembered.get(oid) or self._load(type(existing), oid)
        if members is None or type(existing) is OOTreeSet and len(members) + len(ids) > MOST:
            existing.update([stand_in(self._connection, self._names.oid_of(its_id), its_id)
                             for its_id in ids])
            return
        members = sorted(members + ids)
        self._records.change(oid, serial, self._record(type(existing), members))
        existing._p_deactivate()
        if remember:
            self._remembered[oid] = None, members
            self._changed.append(oid)

    def _load(self, cls, oid):
        """Return a set's serial and its members' ids; None for a set of another form."""
        data, serial = self._connection._storage.load(oid)
        if data != self._loaded[0]:
            self._loaded = data, self._members(cls, data)
        return serial, self._loaded[1]

    def _members(self, cls, data):
        oids = referencesf(data)
        if not oids or events_record(cls, oids) != data:
            return None
        members = [self._names.id_of(each) for each in oids]
        return None if None in members else members

    def _record(self, cls, ids):
        """Return the record of a set; many are followed by one with the same members."""
        if self._recorded[0] != (cls, ids):
            self._recorded = (cls, ids), events_record(cls, map(self._names.oid_of, ids))
        return self._recorded[1]

    def saved(self, tid):
        """Tell that the transaction was saved under this id."""
        for oid in self._changed:
            self._remembered[oid] = tid, self._remembered[oid][1]
