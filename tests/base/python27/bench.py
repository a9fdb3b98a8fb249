"""Commits or reads for some seconds as a client of a cluster does, and counts; Python 2.7.

usage: bench.py ZODB_CONF WHAT NAME SECONDS

WHAT is
  commit-1     transactions that change one object
  commit-100   transactions that change a hundred objects
  fill         makes the objects that `read` reads
  read         loads objects that this process has never had; SECONDS is of no account

Prints "ready", waits for a line, works, and prints as JSON: `count` of commits or objects, the
`seconds` that they took, and `failures`, how many by the name of their error.  Each NAME has
objects of its own, so that writers are not in each other's way.
"""
import collections
import json
import os
import random
import sys
import time

import transaction
import ZODB
import ZODB.config
from persistent.list import PersistentList
from persistent.mapping import PersistentMapping
from ZEO.Exceptions import ClientDisconnected
from ZODB.POSException import ConflictError

OBJECTS = 1000  # that are read
COMMITTED = 100  # the most that a transaction changes
BYTES = {'read': 1000, 'commit': 200}  # of an object, about
ATTEMPTS = 100  # at beginning


TOLD = os.dup(1)
os.dup2(2, 1)  # libraries print, too


def main(configuration, what, name, seconds):
    db = insist(lambda: ZODB.DB(ZODB.config.storageFromURL(configuration)))
    root = db.open().root()
    if what == 'fill':
        insist(lambda: make(root, 'read', OBJECTS, BYTES['read']))
        work = dict
    elif what == 'read':
        objects = list(root['bench read'])
        random.shuffle(objects)
        work = lambda: read(objects)
    else:
        insist(lambda: make(root, name, COMMITTED, BYTES['commit']))
        objects = root['bench ' + name][:int(what.rpartition('-')[2])]
        work = lambda: commit(objects, float(seconds))
    tell('ready')
    sys.stdin.readline()
    tell(json.dumps(work()))
    os._exit(0)


def tell(line):
    os.write(TOLD, line + '\n')


def insist(attempt):
    """Calls `attempt` until nobody else was in its way; what it returned."""
    for _ in range(ATTEMPTS):
        try:
            return attempt()
        except (ConflictError, ClientDisconnected) as error:
            transaction.abort()
            time.sleep(random.uniform(0, 0.2))
    raise error


def make(root, name, count, size):
    """A list of objects in the root, unless it is there."""
    transaction.begin()
    if 'bench ' + name not in root:
        root['bench ' + name] = PersistentList(
            PersistentMapping(filler=filler(size)) for _ in range(count))
        transaction.commit()


def filler(size):
    return os.urandom(size // 2).encode('hex')


def commit(objects, seconds):
    failures = collections.Counter()
    count, began = 0, time.time()
    while time.time() - began < seconds:
        transaction.begin()
        try:
            for each in objects:
                each['filler'] = filler(BYTES['commit'])
            transaction.commit()
        except Exception as error:
            transaction.abort()
            failures[type(error).__name__] += 1
        else:
            count += 1
    return {'count': count, 'seconds': time.time() - began, 'failures': failures}


def read(objects):
    began = time.time()
    for each in objects:
        each._p_activate()
    return {'count': len(objects), 'seconds': time.time() - began, 'failures': {}}


if __name__ == '__main__':
    main(*sys.argv[1:])
