"""The database to recover into, and the record of recovered transactions."""
from __future__ import absolute_import

import filecmp
import json
import os
import tempfile

from ZODB.Connection import TransactionMetaData
from ZODB.POSException import POSKeyError, Unsupported
from ZODB.utils import load_current, u64, z64

from indico_zodbrepl.dataplane.datafs import disk
from indico_zodbrepl.dataplane.formats import refuse_newer
from indico_zodbrepl.dataplane.recover.plan import NOT_YET
from indico_zodbrepl.dataplane.recover.records import next_tid, remapped


class Database(object):
    """Records of a storage, each read once.  One thread.

    Args:
        storage: any that keeps history.
    """

    def __init__(self, storage):
        self.storage = storage
        self._current = {}

    def current(self, oid):
        """Return the present (data, tid) of an object, or None."""
        if oid not in self._current:
            try:
                self._current[oid] = load_current(self.storage, oid)
            except POSKeyError:
                self._current[oid] = None
        return self._current[oid]

    def keeps_blobs(self):
        """Return True if the storage has a folder for blobs."""
        try:
            self.storage.temporaryDirectory()
        except (AttributeError, TypeError, Unsupported):  # as each storage says no
            return False
        return True

    def has_content(self, oid, path):
        """Return True if an object is a blob whose present content is that of a file."""
        now = self.current(oid)
        try:
            present = self.storage.loadBlob(oid, now[1])
        except POSKeyError:
            return False
        return filecmp.cmp(present, path, shallow=False)

    def as_of(self, oid, tid):
        """Return an object's data after a transaction; None if it was missing or packed away."""
        try:
            found = self.storage.loadBefore(oid, next_tid(tid))
        except POSKeyError:
            return None
        return found[0] if found else None

    def has(self, oid, tid):
        """Return True if the database has a record that this transaction wrote."""
        now = self.current(oid)
        if now is None or now[1] <= tid:
            return now is not None and now[1] == tid
        try:
            found = self.storage.loadBefore(oid, next_tid(tid))
        except POSKeyError:
            return False
        return bool(found) and found[1] == tid


def new_oids(storage, plan):
    """Return the new oid of each new object of a plan, by its oid in the export."""
    return {oid: storage.new_oid() for oid in sorted(plan.writes) if u64(oid) >= NOT_YET}


def write(database, plan, oids, user, description):
    """Write the changes of a plan in one transaction; return its id.

    Args:
        oids: what `new_oids` returned.
        user, description: unicode.

    Raises ConflictError if one of the objects was changed meanwhile; nothing was written then.
    """
    storage = database.storage
    meta = TransactionMetaData(user, description)
    storage.tpc_begin(meta)
    try:
        for oid, data in sorted(plan.writes.items()):
            now = None if oid in oids else database.current(oid)
            serial = now[1] if now else z64
            if oid in plan.blobs:
                storage.storeBlob(oids.get(oid, oid), serial, data,
                                  _copied(storage, plan.blobs[oid]), '', meta)
            else:
                storage.store(oids.get(oid, oid), serial, remapped(data, oids), '', meta)
        storage.tpc_vote(meta)
    except:  # noqa: E722 raised again
        storage.tpc_abort(meta)
        raise
    return storage.tpc_finish(meta)


def _copied(storage, path):
    """Return a copy of a file, which the storage takes away."""
    handle, copied = tempfile.mkstemp(dir=storage.temporaryDirectory())
    with os.fdopen(handle, 'wb') as target:
        for block in disk.blocks(path):
            target.write(block)
    return copied


FORMAT = 1


class Notes(object):
    """The recoveries from one export; each is noted before it is written, and again afterwards.

    Args:
        folder: the export's folder.
        database: a `Database`; it shows if an interrupted recovery was written: its new objects
            exist then.

    Attributes:
        done: {(lost tid, lost oid)} of the recovered records.
        oids: {lost oid: oid} of the recovered new objects.
    """

    def __init__(self, folder, database):
        self._path = os.path.join(folder, 'salvaged.json')
        self._recoveries = self._read()
        for recovery in self._recoveries:
            if recovery['tid'] is None:
                there = [now for now in (database.current(oid.decode('hex'))
                                         for oid in sorted(recovery['oids'].values())) if now]
                recovery['tid'] = there[0][1].encode('hex') if there else None
        self._recoveries = [recovery for recovery in self._recoveries if recovery['tid']]
        self.done = {tuple(part.decode('hex') for part in record.split(':'))
                     for recovery in self._recoveries for record in recovery['records']}
        self.oids = {lost.decode('hex'): oid.decode('hex')
                     for recovery in self._recoveries for lost, oid in recovery['oids'].items()}

    def begin(self, records, oids):
        """Note that (lost tid, lost oid) are about to be recovered, with these {lost oid: oid}."""
        self._recoveries.append({
            'tid': None,
            'records': sorted('%s:%s' % (tid.encode('hex'), oid.encode('hex'))
                              for tid, oid in records),
            'oids': {lost.encode('hex'): oid.encode('hex') for lost, oid in oids.items()}})
        self._write()

    def finish(self, tid):
        """Note that the last recovery has been written."""
        self._recoveries[-1]['tid'] = tid.encode('hex')
        self._write()

    def forget(self):
        """Note that the last recovery was not written."""
        self._recoveries.pop()
        self._write()

    def _read(self):
        if not os.path.exists(self._path):
            return []
        with open(self._path) as notes:
            values = json.load(notes)
        refuse_newer(self._path, values, FORMAT)
        return values['salvages']

    def _write(self):
        disk.write_file(self._path, [json.dumps(
            {'format': FORMAT, 'salvages': self._recoveries}, indent=1, sort_keys=True)])
