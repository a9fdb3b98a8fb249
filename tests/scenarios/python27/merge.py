"""Leaves two data files as stock zc.zrs does after a failover that nobody guarded; Python 2.7.

usage: merge.py OLD_PRIMARY_DATA_FS NEW_PRIMARY_DATA_FS NAME

The old primary gets a transaction that the new one never sees; the new one gets one in the middle
and one at the end; the old one, as its secondary, is then sent what is newer than its own last one.
Both end with the same transaction.  Neither file may be open elsewhere.
"""
import sys

import client
import transaction
import ZODB
from persistent.mapping import PersistentMapping
from ZODB.FileStorage import FileStorage


def commit(path, name, number):
    """One record of a writer that has a tree already; the number of its transaction."""
    db = ZODB.DB(FileStorage(path))
    connection = db.open()
    marker = '%s %d' % (name, number)
    connection.root()[client.KEY % name][number] = PersistentMapping(marker=marker)
    transaction.get().note(u'scenario ' + marker)
    transaction.commit()
    last = db.lastTransaction()
    db.close()
    return last


def send(source, target, after):
    """What a zc.zrs primary sends to a secondary whose last transaction is `after`."""
    storage = FileStorage(target)
    upstream = FileStorage(source, read_only=True)
    for each in upstream.iterator(after):
        if each.tid > after:
            storage.tpc_begin(each, each.tid, each.status)
            for record in each:
                storage.restore(record.oid, record.tid, record.data, '', record.data_txn, each)
            storage.tpc_vote(each)
            storage.tpc_finish(each)
    upstream.close()
    storage.close()


def main(old, new, name):
    commit(new, name, 10 ** 6)
    private = commit(old, name, 10 ** 6 + 1)
    commit(new, name, 10 ** 6 + 2)
    send(new, old, private)


if __name__ == '__main__':
    main(*sys.argv[1:])
