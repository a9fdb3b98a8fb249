"""Commit some objects of 1 KB, each in a transaction of its own; Python 2.7.

usage: few_commits.py ZODB_CONF NAME COUNT
"""
import os
import sys

import transaction
import ZODB.config
from persistent.mapping import PersistentMapping
from ZODB.DB import DB


def main(conf, name, count):
    root = DB(ZODB.config.storageFromURL(conf)).open().root()
    root[name] = home = PersistentMapping()
    transaction.commit()
    for number in range(count - 1):
        home['object'] = PersistentMapping(number=number, filler='x' * 1024)
        transaction.commit()
    os._exit(0)


if __name__ == '__main__':
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
