"""Makes a Data.fs larger by transactions of ten objects of 2 kB; Python 2.7.

usage: grow.py size DATA_FS MEGABYTES        until it has that size
       grow.py count DATA_FS TRANSACTIONS    by so many transactions

Prints the id of its last transaction.  Nothing is synchronised to disk: a file that a crash has left
half-made is of no use anyway.
"""
import os
import sys

import transaction
import ZODB
from persistent.mapping import PersistentMapping
from ZODB.FileStorage import FileStorage

OBJECTS = 10
BYTES = 2000


def main(what, path, number):
    sys.modules[FileStorage.__module__].fsync = lambda descriptor: None
    db = ZODB.DB(FileStorage(path), cache_size=0)
    connection = db.open()
    done = 0
    while (done < int(number) if what == 'count' else
            os.path.getsize(path) < int(number) * 10 ** 6):
        for _ in range(OBJECTS):
            connection.add(PersistentMapping(filler=os.urandom(BYTES // 2).encode('hex')))
        transaction.commit()
        connection.cacheMinimize()
        done += 1
    print(db.lastTransaction().encode('hex'))
    db.close()


if __name__ == '__main__':
    main(*sys.argv[1:])
