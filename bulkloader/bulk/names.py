"""Which event has which object id, without loading events."""
from MaKaC.conference import Conference


class Names(object):
    """The ids of events by oid and the oids by id, of all that Indico holds.

    Attributes:
        holder: Indico's BTree of events in the connection that is open. It is read when an unknown
            event comes up.
    """

    def __init__(self):
        self.holder = {}
        self._ids = {}
        self._oids = {}

    def add(self, its_id, oid):
        self._ids[oid] = its_id
        self._oids[its_id] = oid

    def id_of(self, oid):
        """Return the id of an event; None if Indico's BTree does not have it."""
        if oid not in self._ids:
            self._read()
        return self._ids.get(oid)

    def oid_of(self, its_id):
        return self._oids[its_id]

    def _read(self):
        for its_id, event in self.holder.items():
            self.add(its_id, event._p_oid)


def ghost(connection, cls, oid):
    """Return the object of a new record, unloaded, so that others can refer to it."""
    new = cls.__new__(cls)
    connection._cache.new_ghost(oid, new)
    return new


def stand_in(connection, oid, its_id):
    """Return an object to stand for an event in holders and sets, which sort events by id.

    It has nothing but the id; it is neither loaded nor stored, and the connection's cache does not
    know it.
    """
    event = Conference.__new__(Conference)
    event.id = its_id
    event._p_oid = oid
    event._p_jar = connection
    return event
