"""Commit or read at full speed, and record when each operation ended.

usage: python -m indico_zodbrepl.dataplane.benchmarks.replication CONF WHAT NAME WARM_UP SECONDS

WHAT is
  small   transactions that change one object, in a record of 200 bytes
  large   the same with a hundred objects
  indico  transactions of 171 records, nearly all new, 45 KB in all, like Indico's own for a new,
          empty conference
  read    loads of objects that neither the connection nor the storage's client has

After WARM_UP seconds it prints "ready"; a line on standard input starts the measurement for
SECONDS.  Then one line of JSON: `began` and `ended` (seconds since 1970), `operations`, `retried`
(conflicts), `latencies_us` (of the first million), and of commits `acknowledged`: each one's tid
and when its commit had returned. Processes with different NAMEs have objects of their own.
"""
import itertools
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
from ZODB.utils import u64

from indico_zodbrepl.dataplane.benchmarks.counting import base_of, client_cache_of
from indico_zodbrepl.dataplane.benchmarks.programs import versions

RECORD = 200  # bytes of the record of an object that is changed
NEW_RECORD = 251  # bytes of a new object's, so that an indico transaction has 45 KB
OVERHEAD = 76  # bytes of a record besides its filler
CHANGED = {'small': 1, 'large': 100}
NEW_OBJECTS = 169  # with their list and what holds that: 171 records
READ = 1000  # objects in a pass
READ_RECORD = 1000  # bytes
FILLER = os.urandom(READ_RECORD).encode('hex')
ATTEMPTS = 100
PATIENCE = 30.0  # seconds beyond the measured ones that a commit is tried again
MOST = 1000000  # number of latencies that are kept


class Commits(object):
    """Transactions of one kind.

    Args:
        connection: open, in this thread.
        name: key in the root; nobody else writes there.
    """

    def __init__(self, connection, what, name):
        self._home = insist(lambda: home_in(connection.root(), 'replication ' + name))
        self._numbers = 0
        if what == 'indico':
            self._change = self._replace
        else:
            self._objects = list(self._home['objects'])[:CHANGED[what]]
            self._change = self._update

    def pass_over(self, deadline, done):
        """Commit until a time of `time.time()`; call `done(begun, at, tid)` after each commit."""
        at, retried = time.time(), 0
        while at < deadline:
            begun = at
            while True:
                transaction.begin()
                try:
                    changed = self._change()
                    transaction.commit()
                    break
                except ConflictError:
                    transaction.abort()
                    if time.time() > deadline + PATIENCE:
                        raise
                    retried += 1
                    time.sleep(random.uniform(0, 0.01))
            at = time.time()
            done(begun, at, u64(changed._p_serial))
        return retried

    def _update(self):
        for each in self._objects:
            each['filler'] = self._filler(RECORD)
        return each

    def _replace(self):
        self._home['conference'] = PersistentList(
            PersistentMapping(filler=self._filler(NEW_RECORD)) for _ in range(NEW_OBJECTS))
        return self._home

    def _filler(self, size):
        self._numbers += 1
        return filler(self._numbers, size)


class Reads(object):
    """Cold loads of the same objects, in a different order in each pass."""

    def __init__(self, connection, what, name):
        self._connection = connection
        self._cache = client_cache_of(base_of(connection._storage))
        self._objects = list(insist(lambda: read_in(connection.root())))

    def pass_over(self, deadline, done):
        """Load until a time of `time.time()`; call `done(begun, at, None)` after each load."""
        while time.time() < deadline:
            transaction.abort()
            self._connection.cacheMinimize()
            self._cache.empty()
            random.shuffle(self._objects)
            at = time.time()
            for each in self._objects:
                begun = at
                each._p_activate()
                at = time.time()
                done(begun, at, None)
                if at >= deadline:
                    break
        return 0


def home_in(root, key):
    if key not in root:
        transaction.begin()
        root[key] = PersistentMapping(objects=PersistentList(
            PersistentMapping(filler=filler(0, RECORD)) for _ in range(max(CHANGED.values()))))
        transaction.commit()
    return root[key]


def read_in(root):
    key = 'replication read'
    if key not in root:
        transaction.begin()
        root[key] = PersistentList(
            PersistentMapping(filler=filler(0, READ_RECORD)) for _ in range(READ))
        transaction.commit()
    return root[key]


def filler(number, size):
    """Return text that gives an object's record about this length, different for each number."""
    return '%016x%s' % (number, FILLER[:size - OVERHEAD - 16])


def insist(attempt):
    """Call `attempt` until no conflict occurs; return its result."""
    for _ in range(ATTEMPTS):
        try:
            return attempt()
        except (ConflictError, ClientDisconnected) as error:
            transaction.abort()
            time.sleep(random.uniform(0, 0.2))
    raise error


def measured(work, seconds):
    """Return the report of that many seconds of work."""
    acknowledged, latencies, counted = [], [], itertools.count()

    def done(begun, at, tid):
        if next(counted) < MOST:
            latencies.append(int(1e6 * max(at - begun, 0)))
        if tid is not None:
            acknowledged.append((tid, at))
    began = time.time()
    retried = work.pass_over(began + seconds, done)
    return {'began': began, 'ended': time.time(), 'operations': next(counted), 'retried': retried,
            'latencies_us': latencies, 'acknowledged': acknowledged}


def main(conf, what, name, warm_up, seconds):
    told = os.dup(1)
    os.dup2(2, 1)  # libraries print too
    db = insist(lambda: ZODB.DB(ZODB.config.storageFromURL(conf)))
    work = (Reads if what == 'read' else Commits)(db.open(), what, name)
    work.pass_over(time.time() + float(warm_up), lambda begun, at, tid: None)
    result = {'versions': versions()}
    os.write(told, 'ready\n')
    if not sys.stdin.readline():
        sys.exit('nobody waits for the result')
    result.update(measured(work, float(seconds)))
    with os.fdopen(told, 'w') as output:
        output.write(json.dumps(result) + '\n')
    os._exit(0)  # threads of storages may take their time


if __name__ == '__main__':
    main(*sys.argv[1:])
