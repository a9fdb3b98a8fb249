"""Run one test at a time in an instance of Indico, in a thread without a database connection."""
from __future__ import absolute_import

import contextlib
import errno
import fcntl
import json
import os
import time
import uuid

import pkg_resources
from indico.core.db import DBMgr, turns
from indico.core.db.retries import STORAGE_ERRORS
from MaKaC.conference import ConferenceHolder
from ZODB.POSException import ConflictError

from indico_zodbrepl.dataplane.benchmarks import measuring, modifications, readings
from indico_zodbrepl.dataplane.benchmarks import readings as loaded
from indico_zodbrepl.dataplane.benchmarks.counting import counted
from indico_zodbrepl.dataplane.benchmarks.measuring import MOST, Caches, Clock, latency_ms
from indico_zodbrepl.dataplane.benchmarks.modifications import KINDS
from indico_zodbrepl.dataplane.benchmarks.parameters import (
    NothingLoaded,
    StorageFailed,
    UnknownTest,
)
from indico_zodbrepl.dataplane.client.status import storage_status

READ = {
    'testReadCategoryThroughput': readings.CategoryNames,
    'testReadConferenceRoomsThroughput': readings.ConferenceRooms,
    'testReadContributionsThroughput': readings.Contributions,
}
WRITE = ('testWriteConferencesLatency', 'testWriteConferencesThroughput')
NAMES = tuple(sorted(READ)) + WRITE
PACKAGES = ('indico', 'ZODB', 'ZEO', 'BTrees', 'persistent', 'zc.zrs', 'RelStorage', 'neoppod')


def require(name):
    """Raise UnknownTest unless there is a test of that name."""
    if name not in NAMES:
        raise UnknownTest('there is no test %r; these are: %s' % (str(name), ', '.join(NAMES)))


def run(name, parameters, instance, began, stop):
    """Run a test and return its result.

    First undo the modifications that an earlier test left.  The test's own modifications are
    undone at its end, also after an error.

    Args:
        name: one of NAMES.  parameters: a `Parameters`.
        instance: the name of this Indico instance; no other test runs in it.
        began: when its turn began, see `alone`.
        stop: called without arguments; True means to end early.

    Returns: a dict for JSON, described in docs/reference/benchmarks/in-app.md.
    Raises BenchmarkError.
    """
    manager = DBMgr.getInstance()
    try:
        manager.startRequest()
        try:
            measuring.begin()
            repaired = modifications.put_back(instance)
            with counted(manager.getDBConnection()) as (counting, cache):
                test = _Test(manager.getDBConnection(), counting, cache, parameters, stop)
                if name in READ:
                    result = test.read(READ[name]())
                else:
                    result = test.write(name == WRITE[0], instance, began)
        finally:
            manager.endRequest(False)
            turns.end()
            measuring.begin()
    except STORAGE_ERRORS as error:
        raise StorageFailed(
            'the storage failed: %s: %s; what was changed is put back before the next test'
            % (type(error).__name__, error))
    status = storage_status(manager._db)
    result.update(
        test=name, began=began, instance=instance, stopped=stop(),
        parameters=dict(parameters._asdict()), put_back_of_earlier=repaired,
        versions=versions(), storage_status=status)
    return result


class _Test(object):
    """One test on an open connection.

    Args:
        connection: that of this thread.
        counting, cache: what `counting.counted` yields for it.
    """

    def __init__(self, connection, counting, cache, parameters, stop):
        self._connection = connection
        self._counting = counting
        self._cache = cache
        self._parameters = parameters
        self._stop = stop
        self._caches = Caches(parameters.caches, connection, counting, cache)
        self._retried = self._given_up = 0

    def read(self, reading):
        things = reading.things(self._parameters.count)
        things = self._caches.fill(
            things, reading.read, self._parameters.seconds, self._stop)
        return self._measure(reading.UNIT, things, reading.read, MOST)

    def write(self, by_count, instance, began):
        """Modify conferences, one per transaction, and undo the modifications."""
        modify = self._parameters.modify
        kind = KINDS[modify]()
        mark = 'zodbrepl-benchmark-%s' % uuid.uuid4().hex[:12]
        found = loaded.conferences(self._connection.root())
        count = self._parameters.count
        if by_count:
            count = min(count, self._parameters.repetitions)
        before = modifications.begin(
            instance, modify, mark, began, loaded.spread(found, count) + found, count)
        if not before:
            raise NothingLoaded(
                'none of the %d events that the bulk loader made can be used: deleted, without '
                'a room, or in use by a test of another instance' % len(found))
        texts = (' [%s %d]' % (mark, number) for number in xrange(2 ** 31))

        def touch(conference_id):
            kind.describe(ConferenceHolder().getById(conference_id))

        def modify_one(conference_id):
            text = next(texts)

            def work():
                conference = ConferenceHolder().getById(conference_id)
                kind.make(conference, before[conference_id], text)
            try:
                self._retried += measuring.committed(work)[1]
            except ConflictError:
                self._given_up += 1
                return 0
            if self._parameters.caches == 'hot':
                self._connection.cacheGC()
            return 1
        try:
            things = self._caches.fill(
                sorted(before), touch, self._parameters.seconds, self._stop)
            most = self._parameters.repetitions if by_count else MOST
            result = self._measure('modifications', things, modify_one, most)
        finally:
            begun = time.time()
            self._connection.cacheGC()
            restored = modifications.put_back(instance)
        result.update(modify=modify, put_back=restored,
                      put_back_seconds=round(time.time() - begun, 3))
        return result

    def _measure(self, unit, things, operate, most):
        clock = Clock(self._parameters.seconds, most, self._stop)
        begun, units = time.time(), 0
        reached = set()

        def reach(thing):
            count = operate(thing)
            reached.add(thing)
            return count
        loads = stores = loaded_bytes = stored_bytes = misses = 0
        while not clock.is_up():
            self._caches.prepare()
            self._caches.reset_counts()
            units += clock.pass_over(things, reach)
            DBMgr.getInstance().raiseFailure()
            loads += self._counting.loads
            loaded_bytes += self._counting.loaded_bytes
            stores += self._counting.stores
            stored_bytes += self._counting.stored_bytes
            misses += self._cache.misses or 0
        has_cache = self._cache.misses is not None
        operations = len(clock.latencies)
        return {
            'caches': self._parameters.caches,
            'unit': unit,
            'operations': operations,
            'units': units,
            'different': len(reached),
            'passes': clock.passes,
            'seconds': round(clock.seconds, 6),
            'seconds_in_all': round(time.time() - begun, 3),
            'cpu_seconds': round(clock.cpu_seconds, 6),
            'rate': round(units / clock.seconds, 3) if clock.seconds else None,
            'latency_ms': latency_ms(clock.latencies),
            'conflicts': {'retried': self._retried, 'given_up': self._given_up},
            'connection_cache': {
                'misses': loads,
                'active': self._connection._cache.cache_non_ghost_count,
                'limit': self._connection.db().getCacheSize()},
            'client_cache': (
                {'hits': max(loads - misses, 0), 'misses': misses} if has_cache else None),
            'storage': {
                'loads': misses if has_cache else loads,
                'loaded_bytes': loaded_bytes,
                'stores': stores,
                'stored_bytes': stored_bytes},
        }


def versions():
    """Return the versions of the installed packages that a test depends on."""
    return dict((each.project_name, each.version) for each in pkg_resources.working_set
                if each.project_name in PACKAGES)


class AtWork(Exception):
    """Another test is running.

    Attributes:
        who: name of the holder, since: ISO 8601 in UTC, test: its name; each
            None while the holder is about to write it.
    """

    def __init__(self, who, since, test):
        Exception.__init__(self, 'a test runs already: %s, since %s' % (test, since))
        self.who, self.since, self.test = who, since, test


@contextlib.contextmanager
def alone(path, who, test):
    """Hold the lock file until the context or the process ends; yield since when.

    Raises AtWork at once if another thread or process has it, EnvironmentError if the file cannot
    be used.
    """
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.fcntl(lock, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except IOError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
            raise _holder(lock)
        os.ftruncate(lock, 0)
        since = now()
        os.write(lock, json.dumps({'who': who, 'since': since, 'test': test}))
        try:
            yield since
        finally:
            os.ftruncate(lock, 0)
    finally:
        os.close(lock)


def now():
    """Return the present time as ISO 8601 in UTC."""
    return time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())


def _holder(lock):
    try:
        told = json.loads(os.read(lock, 4096))
    except ValueError:
        told = {}
    return AtWork(told.get('who'), told.get('since'), told.get('test'))
