"""Record when each transaction arrives at servers that follow another one.

usage: python -m indico_zodbrepl.dataplane.benchmarks.lag PAUSE NAME=CONF...

Each CONF is the configuration of a storage that reads from one server.  A ZEO server tells
its clients of each transaction, which costs almost nothing; a database is polled for its last
transaction every PAUSE seconds.

Prints "ready" once all answer.  A line "TID SECONDS" on standard input, the TID in decimals,
ends it: it waits at most that long until each server has that transaction, and prints one line of
JSON: `arrivals`, by name, each a list of [tid, when], and `gaps_ms`, by name, the times between
two questions.  It is an error if a server does not have it in time.
"""
import json
import os
import sys
import threading
import time

import ZODB.config
from relstorage.storage import RelStorage
from ZEO.ClientStorage import ClientStorage
from ZODB.utils import u64

POLL = 0.01  # seconds between checks if everything has arrived
MOST_GAPS = 200000


class Told(object):
    """Arrivals as a ZEO server reports them; ClientStorage takes it for its database.

    Attributes:
        arrivals: (tid, when), appended in a thread of the client.
        gaps: empty, because nothing is polled.
        failure: always None.
    """
    gaps = ()
    failure = None

    def __init__(self, storage):
        self._storage = storage
        self.arrivals = []
        storage.registerDB(self)
        self.arrivals.append((u64(storage.lastTransaction()), time.time()))

    def invalidate(self, tid, oids):
        self.arrivals.append((u64(tid), time.time()))

    def invalidateCache(self):
        # After a lost connection only its last transaction is known.
        self.arrivals.append((u64(self._storage.lastTransaction()), time.time()))

    def transform_record_data(self, data):
        return data

    untransform_record_data = transform_record_data


class Asked(object):
    """Arrivals found by polling a database, in a thread of its own.

    Attributes:
        arrivals, gaps: see `main`; the gaps in seconds.
        failure: the error that ended the thread.
    """

    def __init__(self, storage, pause):
        self._adapter = storage._adapter
        self._pause = pause
        self.arrivals = []
        self.gaps = []
        self.failure = None
        self._session = self._adapter.connmanager.open_for_load()
        self.arrivals.append((self._last(), time.time()))
        thread = threading.Thread(target=self._run)
        thread.daemon = True
        thread.start()

    def _last(self):
        connection, cursor = self._session
        tid = self._adapter.txncontrol.get_tid(cursor) or 0
        self._adapter.connmanager.rollback(connection, cursor)
        return tid

    def _run(self):
        last, before = self.arrivals[-1]
        try:
            while True:
                time.sleep(self._pause)
                tid, at = self._last(), time.time()
                if tid > last:
                    self.arrivals.append((tid, at))
                    last = tid
                if len(self.gaps) < MOST_GAPS:
                    self.gaps.append(at - before)
                before = at
        except Exception as error:  # reported by the main thread
            self.failure = error


def observer_of(storage, pause):
    """Return the recorder of arrivals at a storage's server."""
    if isinstance(storage, RelStorage):
        return Asked(storage, pause)
    if isinstance(storage, ClientStorage):
        return Told(storage)
    raise TypeError('nobody knows how to watch %r' % storage)


def wait_for(observers, tid, seconds):
    """Wait until all servers have the transaction; raise SystemExit if one does not in time."""
    deadline = time.time() + seconds
    for name in sorted(observers):
        observer = observers[name]
        while observer.arrivals[-1][0] < tid:
            if observer.failure is not None:
                sys.exit('%s does not answer: %s' % (name, observer.failure))
            if time.time() > deadline:
                sys.exit('after %g s %s has transaction %016x, and not yet %016x' % (
                    seconds, name, observer.arrivals[-1][0], tid))
            time.sleep(POLL)


def main(pause, *servers):
    told = os.dup(1)
    os.dup2(2, 1)  # libraries print too
    observers = {}
    for each in servers:
        name, _, conf = each.partition('=')
        observers[name] = observer_of(ZODB.config.storageFromURL(conf), float(pause))
    os.write(told, 'ready\n')
    line = sys.stdin.readline()
    if not line:
        sys.exit('nobody waits for the result')
    tid, seconds = line.split()
    wait_for(observers, int(tid), float(seconds))
    result = {'arrivals': {}, 'gaps_ms': {}}
    for name, observer in observers.items():
        result['arrivals'][name] = list(observer.arrivals)
        result['gaps_ms'][name] = [round(1000 * gap, 3) for gap in list(observer.gaps)]
    with os.fdopen(told, 'w') as output:
        output.write(json.dumps(result) + '\n')
    os._exit(0)  # threads of storages may take their time


if __name__ == '__main__':
    main(*sys.argv[1:])
