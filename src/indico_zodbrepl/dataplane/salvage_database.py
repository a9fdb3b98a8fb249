"""The database into which lost changes are to be salvaged, and the transaction that does it."""
from ZODB.Connection import TransactionMetaData
from ZODB.POSException import POSKeyError
from ZODB.utils import load_current, u64, z64

from .salvage_plan import NOT_YET
from .salvage_records import next_tid, remapped


class Database(object):
    """Records of a storage, each read once.  One thread.

    Args:
        storage: any that keeps history.
    """

    def __init__(self, storage):
        self.storage = storage
        self._current = {}

    def current(self, oid):
        """(data, tid) of an object now; None when there is none."""
        if oid not in self._current:
            try:
                self._current[oid] = load_current(self.storage, oid)
            except POSKeyError:
                self._current[oid] = None
        return self._current[oid]

    def as_of(self, oid, tid):
        """An object's data after a transaction; None when it wasn't there, or was packed away."""
        try:
            found = self.storage.loadBefore(oid, next_tid(tid))
        except POSKeyError:
            return None
        return found[0] if found else None

    def has(self, oid, tid):
        """Whether the database has a record that this transaction wrote."""
        now = self.current(oid)
        if now is None or now[1] <= tid:
            return now is not None and now[1] == tid
        try:
            found = self.storage.loadBefore(oid, next_tid(tid))
        except POSKeyError:
            return False
        return bool(found) and found[1] == tid


def new_oids(storage, plan):
    """{oid of a `salvage_plan.Plan`: one that the storage gives out} of its new objects."""
    return {oid: storage.new_oid() for oid in sorted(plan.writes) if u64(oid) >= NOT_YET}


def write(database, plan, oids, user, description):
    """Writes what a plan took, in one transaction, and returns that one's id.

    Args:
        oids: what `new_oids` returned.
        user, description: unicode.

    Raises ConflictError when somebody changed one of the objects meanwhile; nothing was
    written then.
    """
    storage = database.storage
    meta = TransactionMetaData(user, description)
    storage.tpc_begin(meta)
    try:
        for oid, data in sorted(plan.writes.items()):
            now = None if oid in oids else database.current(oid)
            storage.store(oids.get(oid, oid), now[1] if now else z64, remapped(data, oids), '',
                          meta)
        storage.tpc_vote(meta)
    except:  # noqa: E722 raised again
        storage.tpc_abort(meta)
        raise
    return storage.tpc_finish(meta)
