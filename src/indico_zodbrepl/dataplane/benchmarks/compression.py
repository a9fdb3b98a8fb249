"""Write and read records of a real database through a storage, to measure compression.

usage: compression.py sample DATA_FS|CONF RECORDS
       compression.py write CONF RECORDS WRITTEN SECONDS
       compression.py read CONF WRITTEN SECONDS

`sample` takes random records from a data file, or a storage that can be opened, and keeps
them in the file RECORDS.
`write` commits them, ten in a transaction, as new objects that nothing refers to, and keeps their
ids in the file WRITTEN; it ends after SECONDS, or when it has written 20,000.  `read` loads what
was written once, in any order, through a storage that has just been opened.

CONF configures a storage, with or without compression.  Each prints a JSON object: `records`,
`pickle_bytes` before compression, and of writing and reading `operations` (commits, or records
loaded), `seconds`, `cpu_seconds` of this process, `latency_ms`; of writing `stored_bytes`, those
of the records as the storage inside got them.
"""
from __future__ import absolute_import, division

import itertools
import marshal
import os
import random
import resource
import sys
import time
from array import array

import pkg_resources
import ZODB
import ZODB.config
from zc.zlibstorage import ZlibStorage, compress
from ZODB.Connection import TransactionMetaData
from ZODB.FileStorage import FileIterator
from ZODB.utils import z64

from indico_zodbrepl.dataplane.benchmarks.measuring import latency_ms
from indico_zodbrepl.dataplane.benchmarks.programs import Caller

SAMPLE = 2000  # records
IN_A_COMMIT = 10  # records
MOST = 20000  # records that are written
SEED = 1  # the same records in the same order for each storage


def sample(transactions, count=SAMPLE):
    """Return at most `count` records, the same ones on each call."""
    with_data = [record.data for transaction in transactions
                 for record in transaction if record.data]
    random.Random(SEED).shuffle(with_data)
    return with_data[:count]


def write(storage, records, seconds):
    """Write records; return their ids, and a dict for JSON."""
    endless, oids, latencies, pickled = itertools.cycle(records), [], array('d'), 0
    began = at = time.time()
    cpu = _cpu_seconds()
    while at - began < seconds and len(oids) < MOST:
        meta = TransactionMetaData()
        storage.tpc_begin(meta)
        try:
            for data in itertools.islice(endless, IN_A_COMMIT):
                oid = storage.new_oid()
                storage.store(oid, z64, data, '', meta)
                oids.append(oid)
                pickled += len(data)
            storage.tpc_vote(meta)
            storage.tpc_finish(meta)
        except Exception:
            storage.tpc_abort(meta)
            raise
        before, at = at, time.time()
        latencies.append(at - before)
    return oids, _found(len(oids), pickled, latencies, at - began, _cpu_seconds() - cpu)


def read(storage, oids, seconds):
    """Read records; return a dict for JSON."""
    oids, latencies, pickled = list(oids), array('d'), 0
    random.shuffle(oids)
    began = at = time.time()
    cpu = _cpu_seconds()
    for oid in oids:
        pickled += len(storage.load(oid)[0])
        before, at = at, time.time()
        latencies.append(at - before)
        if at - began >= seconds:
            break
    return _found(len(latencies), pickled, latencies, at - began, _cpu_seconds() - cpu)


def stored_bytes(storage, records, count):
    """Return the bytes that `count` records take in the storage inside a compressing one."""
    change = compress if isinstance(storage, ZlibStorage) else str
    return sum(len(change(data)) for data in itertools.islice(itertools.cycle(records), count))


def main(arguments):
    caller, what = Caller(), arguments[0]
    if what == 'sample':
        found = sample(_transactions(arguments[1]))
        _keep(arguments[2], found)
        answer = {'records': len(found), 'pickle_bytes': sum(map(len, found))}
    else:
        storage = ZODB.config.storageFromURL(arguments[1])
        # A compressing storage must be registered with a database first.
        ZODB.DB(storage)
        if what == 'write':
            records = _kept(arguments[2])
            oids, answer = write(storage, records, float(arguments[4]))
            answer['stored_bytes'] = stored_bytes(storage, records, len(oids))
            _keep(arguments[3], oids)
        else:
            answer = read(storage, _kept(arguments[2]), float(arguments[3]))
        storage.close()
    caller.answer(dict(answer, zlibstorage=pkg_resources.get_distribution(
        'zc.zlibstorage').version))
    os._exit(0)


def _transactions(path):
    if path.endswith('.conf'):
        return ZODB.config.storageFromURL(path).iterator()
    return FileIterator(path)  # which another process may have open


def _found(records, pickled, latencies, seconds, cpu_seconds):
    return {'records': records, 'pickle_bytes': pickled, 'operations': len(latencies),
            'seconds': seconds, 'cpu_seconds': cpu_seconds, 'latency_ms': latency_ms(latencies)}


def _cpu_seconds():
    # CPU time of all threads: a ZEO client uses two.
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _keep(path, values):
    with open(path, 'wb') as file:
        marshal.dump(values, file)


def _kept(path):
    with open(path, 'rb') as file:
        return marshal.load(file)


if __name__ == '__main__':
    main(sys.argv[1:])
