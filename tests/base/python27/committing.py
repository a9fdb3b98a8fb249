"""Commit to an object of its own as fast as possible; Python 2.7.

usage: committing.py ZODB_CONF NAME SECONDS

Writes a line when it is ready, and begins when its input has one.  Prints commits and seconds of
CPU as JSON.
"""
import json
import os
import sys

import transaction
import ZODB.config
from persistent.mapping import PersistentMapping
from ZODB.DB import DB
from ZODB.POSException import ConflictError

from indico_zodbrepl.dataplane.programs.clock import monotonic


def own(root, name):
    """Return an object that nobody else writes."""
    while True:
        try:
            root._p_jar.sync()
            root[name] = PersistentMapping(count=0)
            transaction.commit()
            return root[name]
        except ConflictError:
            transaction.abort()


def main(conf, name, seconds):
    database = DB(ZODB.config.storageFromURL(conf))
    mine = own(database.open().root(), name)
    sys.stdout.write('ready\n')
    sys.stdout.flush()
    sys.stdin.readline()
    before, began = os.times(), monotonic()
    while monotonic() < began + seconds:
        mine['count'] += 1
        transaction.commit()
    after = os.times()
    print(json.dumps({'commits': mine['count'], 'seconds': monotonic() - began,
                      'cpu': sum(after[:2]) - sum(before[:2])}))
    sys.stdout.flush()
    os._exit(0)


if __name__ == '__main__':
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
