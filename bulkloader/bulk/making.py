"""The bulk way of making events: stamped records and changed indexes in one transaction."""
import contextlib
import datetime
import gc

from MaKaC.conference import CategoryManager, ConferenceHolder
from pytz import timezone, utc
from ZODB.mvccadapter import MVCCAdapterInstance

from bulkloader.bulk.datafs import DataFile, file_storage_of
from bulkloader.bulk.indexes import TOP, Entry, add_entries
from bulkloader.bulk.names import Names, stand_in
from bulkloader.bulk.records import Records, quick_pickling
from bulkloader.bulk.sets import Sets
from bulkloader.bulk.stamping import Stamping
from bulkloader.bulk.values import Placement
from bulkloader.model import TYPES

CACHED_OBJECTS = 4000      # in memory at a time, most of them parts of indexes

# What a transaction holds at most, in bytes. A server keeps others waiting while it takes one.
_MOST_IN_FILE = 128 << 20
_MOST_IN_SERVER = 16 << 20

# Events in a transaction, unless somebody says how many.
_BATCH_IN_FILE = 2000
_BATCH_IN_SERVER = 1000
_SHARE = 8      # in a file: a transaction has at least one of so many events that are there

_GARBAGE = 100000           # new objects after which Python looks for garbage; usually 700
_COLLECTED = 10             # transactions after which all of it is looked for


class BulkWay(object):
    """Makes events by stamping their records.

    Args:
        specification: a `Specification`.
        manager: Indico's `DBMgr`, open, without a connection.

    One thread at a time. Call `saved` after a transaction was saved, `failed` after a conflict.
    """

    def __init__(self, specification, manager):
        self._specification = specification
        self._stamping = Stamping(specification, manager)
        self._database = manager._db
        self._database.setCacheSize(CACHED_OBJECTS)
        storage = file_storage_of(self._database.storage)
        self._data_file = DataFile(storage) if storage is not None else None
        self._most = _MOST_IN_FILE if self._data_file else _MOST_IN_SERVER
        self._names = Names()
        self._saved = 0
        self.failed()

    @contextlib.contextmanager
    def at_work(self):
        """Make this process quicker in what a bulk load does most."""
        before = gc.get_threshold()
        gc.set_threshold(_GARBAGE, *before[1:])
        try:
            with quick_pickling():
                yield
        finally:
            gc.set_threshold(*before)

    def usual_batch(self, there):
        """Return how many events a transaction has when nobody says it.

        Each transaction rewrites parts of indexes that grow with the events that are `there`. In a
        file of one's own, where nobody waits for a large one, its size grows likewise, so that an
        event's share of this stays the same.
        """
        return max(_BATCH_IN_FILE, there // _SHARE) if self._data_file else _BATCH_IN_SERVER

    def failed(self):
        """Forget what was remembered of a transaction that was not saved."""
        self._remembered = {}
        self._sets = None

    def saved(self):
        """Keep what is of use in the next transaction."""
        if self._data_file is None:
            self._remembered.clear()
        elif self._sets is not None:
            self._sets.saved(self._database.lastTransaction())
            # the next one needs few of the objects, which hold on to thousands of unloaded sets
            self._database.cacheMinimize()
        self._sets = None
        self._database._connectionMap(_catch_up)
        self._saved += 1
        if self._saved % _COLLECTED == 0:
            gc.collect()

    def make(self, connection, run, creator, last, stop):
        """Make the next events of a run.

        Args:
            connection: the open ZODB connection in which Indico works.
            run: a `record.Run`; gets the events.
            creator: the `Avatar` that makes them.
            last: the number of events that are to be done; fewer are when they get large.
            stop: a function that tells whether somebody asked to stop.
        """
        records = Records(connection, self._data_file)
        holder = ConferenceHolder()
        self._names.holder = holder._getIdx()
        self._sets = Sets(connection, self._names, records, self._remembered)
        entries = []
        while run.done < last and records.size < self._most and not stop():
            entry = self._stamp(connection, records, run, creator, holder._newId())
            entries.append(entry)
            run.add(entry.getId())
        if entries:
            add_entries(connection, entries, creator, self._names, self._sets)

    def _stamp(self, connection, records, run, creator, its_id):
        """Make the records of the next event; return its `Entry`."""
        index = run.done
        path = _path(run.categories[self._specification.category_of(index)])
        oids = records.new_oids(self._stamping.count(index))
        records.add(self._stamping.stamp(index, oids, Placement(
            its_id, path[0]._p_oid, creator._p_oid, datetime.datetime.utcnow())))
        heads = self._stamping.heads(index)
        event = self._stamping.event(index)
        offset = timezone(event.timezone).utcoffset(event.start)
        return Entry(
            its_id, stand_in(connection, oids[heads['conference']], its_id),
            oids[heads['display']], oids[heads['pages']], TYPES[event.kind][0],
            bool(event.materials or any(each.materials for each in event.contributions)),
            event.title.encode('utf-8'), utc.localize(event.start - offset),
            utc.localize(event.end - offset), path)


def _catch_up(connection):
    """Have a connection that is not in use forget what it would have to look at again.

    Otherwise it gathers the ids of all that other connections change, those of a whole load.
    """
    if connection.opened is None and isinstance(connection._storage, MVCCAdapterInstance):
        connection.newTransaction(None, False)


def _path(category_id):
    """Return a category and those above it, without the top one."""
    path = [CategoryManager().getById(category_id)]
    while path[-1].getOwner() is not None and path[-1].getOwner().getId() != TOP:
        path.append(path[-1].getOwner())
    return path
