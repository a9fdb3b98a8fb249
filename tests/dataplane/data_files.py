"""Data.fs files for tests: made, taken apart and put together again."""
import shutil

import transaction
import ZODB
from persistent.mapping import PersistentMapping
from ZODB.FileStorage import FileStorage
from ZODB.FileStorage.FileStorage import FileIterator
from ZODB.serialize import referencesf
from ZODB.TimeStamp import TimeStamp

from indico_zodbrepl.dataplane.datafs.packs import note_pack

ROUNDING = 1e-6  # seconds; a float may be a bit before the tid that it stands for


class Site(object):
    """A data file that is written as a database with a growing tree of objects.

    Args:
        path: py.path.local of the Data.fs.
        blobs: a folder for blobs, or None.
    """

    def __init__(self, path, blobs=None):
        self.path = str(path)
        self._blobs = blobs and str(blobs)

    def open(self):
        return FileStorage(self.path, blob_dir=self._blobs)

    def commit(self, *names, **more):
        """Commits one transaction for each name; returns their tids.

        Each changes the object of that name (makes it first) and the one named `hot`.
        `text` is what is stored, else the name.
        """
        storage = self.open()
        db = ZODB.DB(storage)
        manager = transaction.TransactionManager()
        connection = db.open(manager)
        root = connection.root()
        tids = []
        for name in names:
            for key in (name, u'hot'):
                if key not in root:
                    root[key] = PersistentMapping()
                root[key][u'text'] = more.get('text', name)
            manager.get().note(u'changed %s' % name)
            manager.get().setUser(u'someone')
            manager.get().setExtendedInfo('name', name)
            manager.commit()
            tids.append(storage.lastTransaction())
        connection.close()
        db.close()
        return tids

    def remove(self, name):
        """Makes an object garbage; returns the transaction's tid."""
        storage = self.open()
        db = ZODB.DB(storage)
        manager = transaction.TransactionManager()
        connection = db.open(manager)
        del connection.root()[name]
        manager.commit()
        connection.close()
        db.close()
        return storage.lastTransaction()

    def undo(self, tid):
        """Undoes the last transaction; returns the tid of the one that does it."""
        storage = self.open()
        db = ZODB.DB(storage)
        manager = transaction.TransactionManager()
        db.undo(tid.encode('base64').rstrip('\n'), manager.get())
        manager.commit()
        db.close()
        return storage.lastTransaction()

    def pack(self, tid, noted=False):
        """Packs up to a transaction, which stays; `noted` as a server notes it."""
        seconds = TimeStamp(tid).timeTime() + ROUNDING
        storage = self.open()
        storage.pack(seconds, referencesf)
        storage.close()
        if noted:
            note_pack(self.path, seconds)

    def copy_to(self, path):
        shutil.copyfile(self.path, str(path))
        return Site(path)

    def fetch(self, other, without=()):
        """Appends what the other site has after the last one here, as zc.zrs does."""
        mine, theirs = self.open(), FileStorage(other.path, read_only=True)
        last = mine.lastTransaction()
        for each in theirs.iterator():
            if each.tid > last and each.tid not in without:
                restore(mine, each)
        theirs.close()
        mine.close()

    def tids(self):
        found = [each.tid for each in FileIterator(self.path)]
        assert found == sorted(set(found))
        return found


def restore(storage, original):
    """Commits a transaction of another storage with its tid."""
    storage.tpc_begin(original, original.tid, original.status)
    for record in original:
        storage.restore(record.oid, record.tid, record.data, '', record.data_txn, original)
    storage.tpc_vote(original)
    storage.tpc_finish(original)
