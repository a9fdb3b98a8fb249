"""Count the calls of one connection to its storage, and the hits of the client's cache.

Calls of other connections in the process are not counted.
"""
import contextlib

import thread
import zope.interface
from relstorage.storage import RelStorage
from ZEO.ClientStorage import ClientStorage
from ZODB.mvccadapter import MVCCAdapterInstance

from indico_zodbrepl.dataplane.client.storage import IndicoStorage


class CountingStorage(object):
    """Delegates to the storage of a connection and counts records and their bytes."""

    def __init__(self, storage):
        self._counted = storage
        self.reset()

    def reset(self):
        self.loads = self.loaded_bytes = self.stores = self.stored_bytes = 0

    @property
    def __providedBy__(self):
        return zope.interface.providedBy(self._counted)

    def __getattr__(self, name):
        return getattr(self._counted, name)

    def __len__(self):
        return len(self._counted)

    def load(self, *args):
        found = self._counted.load(*args)
        self.loads += 1
        self.loaded_bytes += len(found[0])
        return found

    def store(self, oid, serial, data, version, transaction):
        result = self._counted.store(oid, serial, data, version, transaction)
        self.stores += 1
        self.stored_bytes += len(data)
        return result

    def storeBlob(self, oid, serial, data, *args):
        result = self._counted.storeBlob(oid, serial, data, *args)
        self.stores += 1
        self.stored_bytes += len(data)
        return result


class NoCache(object):
    """The stand-in for the cache of a storage that has none."""

    misses = None

    def reset(self):
        pass

    def empty(self):
        pass

    def watch(self):
        pass

    def leave(self):
        pass


class ClientCache(object):
    """The cache that a storage's client keeps for all connections of the process.

    Args:
        owner, name: the function that is called for a record; in between it is
            replaced by one that counts the calls of this thread.
        is_miss: returns True if the function's result means a miss.
        empty: drops the cache's content.

    Attributes:
        misses: of this thread, since `reset`.
    """

    def __init__(self, owner, name, is_miss, empty):
        self._owner = owner
        self._name = name
        self._is_miss = is_miss
        self.empty = empty
        self.misses = 0

    def reset(self):
        self.misses = 0

    def watch(self):
        asked, is_miss, mine = getattr(self._owner, self._name), self._is_miss, thread.get_ident()

        def counting(*args, **kwargs):
            result = asked(*args, **kwargs)
            if thread.get_ident() == mine and is_miss(result):
                self.misses += 1
            return result
        setattr(self._owner, self._name, counting)

    def leave(self):
        delattr(self._owner, self._name)


def base_of(storage):
    """Return the innermost storage, without the wrappers of ZODB and of this project."""
    while True:
        if isinstance(storage, IndicoStorage):
            storage = storage.base
        elif isinstance(storage, MVCCAdapterInstance):
            storage = storage._storage
        else:
            return storage


def client_cache_of(base):
    """Return the `ClientCache` of a storage, or a `NoCache`."""
    if isinstance(base, ClientStorage):
        return ClientCache(base._cache, 'loadBefore', _is_nothing, base._cache.clear)
    if isinstance(base, RelStorage):
        cache = base._cache
        return ClientCache(cache.adapter.mover, 'load_current', _always, cache.cache.flush_all)
    app = getattr(base, 'app', None)  # NEO's; it is imported only where it is used
    if app is not None:
        def empty():
            app._cache_lock_acquire()
            try:
                app._cache.clear()
            finally:
                app._cache_lock_release()
        return ClientCache(app, '_loadFromCache', _is_nothing, empty)
    return NoCache()


@contextlib.contextmanager
def counted(connection):
    """Yield (a `CountingStorage`, a cache) of an open connection until the end of the block."""
    storage = connection._storage
    counting = CountingStorage(storage)
    cache = client_cache_of(base_of(storage))
    connection._storage = connection._normal_storage = counting
    cache.watch()
    try:
        yield counting, cache
    finally:
        cache.leave()
        connection._storage = connection._normal_storage = storage


def _is_nothing(result):
    return not result


def _always(result):
    return True
