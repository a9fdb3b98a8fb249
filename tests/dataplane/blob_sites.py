"""Data.fs files with blobs for tests, each in a folder of its own, as a node has them."""
import os
import shutil

import transaction
import ZODB
from ZODB.blob import Blob
from ZODB.Connection import TransactionMetaData
from ZODB.FileStorage import FileStorage

from data_files import Site

LARGE = os.urandom(1 << 20) * 20  # bytes


class BlobSite(Site):
    """A data file with blobs in the folder `blobs` beside it.

    Args:
        parent: py.path.local of the folder.

    Attributes:
        folder: path of the blobs' folder.
    """

    def __init__(self, parent):
        self.parent = parent.dirpath()
        self.folder = str(parent.join('blobs'))
        Site.__init__(self, parent.join('Data.fs'), self.folder)

    def upload(self, **contents):
        """Commits one transaction that creates or changes blobs; returns its tid."""
        storage = self.open()
        db = ZODB.DB(storage)
        manager = transaction.TransactionManager()
        connection = db.open(manager)
        root = connection.root()
        for name, content in sorted(contents.items()):
            blob = root.setdefault(name, Blob())
            with blob.open('w') as target:
                target.write(content)
        manager.get().note(u'uploaded %s' % u', '.join(sorted(contents)))
        manager.commit()
        connection.close()
        db.close()
        return storage.lastTransaction()

    def revision(self, name):
        """Returns oid and tid of a blob's current revision, in hexadecimal digits."""
        storage = FileStorage(self.path, read_only=True)
        db = ZODB.DB(storage)
        connection = db.open()
        oid = connection.root()[name]._p_oid
        found = oid.encode('hex'), storage.getTid(oid).encode('hex')
        connection.close()
        db.close()
        return found

    def blob(self, name):
        """Returns the path of the file of a blob's current revision."""
        oid, tid = self.revision(name)
        parts = ['0x' + oid[at:at + 2] for at in range(0, 16, 2)]
        return os.path.join(self.folder, *(parts + ['0x%s.blob' % tid]))

    def replace_as(self, leader, **contents):
        """Commits what the leader commits now, if this is the leader, or fetches it with blobs."""
        if self is not leader:
            leader.upload(**contents)
            self.follow(leader)

    def follow(self, other):
        """Appends what the other site has after the last one here, with its blobs."""
        mine, theirs = self.open(), other.open()
        last = mine.lastTransaction()
        for each in theirs.iterator():
            if each.tid > last:
                meta = TransactionMetaData(each.user, each.description, each.extension)
                mine.tpc_begin(meta, each.tid, each.status)
                for record in each:
                    self._restore(mine, theirs, record, meta)
                mine.tpc_vote(meta)
                mine.tpc_finish(meta)
        theirs.close()
        mine.close()

    def _restore(self, mine, theirs, record, meta):
        if not theirs.is_blob_record(record.data):
            mine.restore(record.oid, record.tid, record.data, '', record.data_txn, meta)
            return
        copied = os.path.join(mine.temporaryDirectory(), 'copied')
        shutil.copyfile(theirs.loadBlob(record.oid, record.tid), copied)
        mine.restoreBlob(record.oid, record.tid, record.data, copied, record.data_txn, meta)

    def copy_to(self, folder):
        shutil.copytree(os.path.dirname(self.path), str(folder))
        return BlobSite(folder)
