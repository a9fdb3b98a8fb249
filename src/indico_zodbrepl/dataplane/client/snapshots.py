"""Let each transaction of a ZEO client read and commit in one history only.

A client that drops its cache (`older_servers`) switches to another history.  A
transaction that began before may have read lost objects: what it would read from
now on belongs to another moment.  It could also refer to missing objects, and its
new objects could reuse their ids.  So it reads and commits nothing more.

A transaction that begins afterwards reads what the new server held at that moment.
ZODB 5 would read as of the lost transaction, if that has the higher id, and so
mix several moments of the new server.
"""
from __future__ import absolute_import

import contextlib
import threading

from ZEO.Exceptions import ClientDisconnected
from ZODB.mvccadapter import MVCCAdapter, MVCCAdapterInstance


class Drops(object):
    """The number of times that a client dropped its cache.  Thread-safe.

    Attributes:
        count: see above.
        lock: hold it to begin a transaction, which belongs to one history.
    """

    def __init__(self):
        self.count = 0
        self.lock = threading.Lock()

    @contextlib.contextmanager
    def happening(self):
        """Return the context in which a cache is dropped."""
        with self.lock:
            self.count += 1
            yield


def bind_transactions(adapter, drops):
    """Bind the transactions of a database to one history each.

    Args:
        adapter: the `MVCCAdapter` that ZODB registers with its storage; other values
            are left alone.
        drops: the `Drops` of the client.
    """
    def new_instance():
        instance = Snapshot(adapter, drops)
        with adapter._lock:
            adapter._instances.add(instance)
        return instance

    if isinstance(adapter, MVCCAdapter):
        adapter.new_instance = new_instance


def _within(name):
    inherited = getattr(MVCCAdapterInstance, name, None)

    def method(self, *args, **kwargs):
        self._check()
        if inherited is None:
            result = getattr(self._storage, name)(*args, **kwargs)
        else:
            result = inherited(self, *args, **kwargs)
        self._check()
        return result
    method.__name__ = name
    return method


class Snapshot(MVCCAdapterInstance):
    """The storage of one connection.

    Methods raise ClientDisconnected in a transaction that began before the last drop.
    """

    def __init__(self, base, drops):
        MVCCAdapterInstance.__init__(self, base)
        self._drops = drops
        self._begun = drops.count

    def _invalidateCache(self):
        # Called when the client's last transaction is correct.
        with self._lock:
            self._invalidations = None
            self._ltid = b''

    def poll_invalidations(self):
        with self._drops.lock:
            self._begun = self._drops.count
            return MVCCAdapterInstance.poll_invalidations(self)

    def _check(self):
        if self._begun != self._drops.count:
            raise ClientDisconnected('it began before transactions were lost')

    load = _within('load')
    loadBlob = _within('loadBlob')
    openCommittedBlobFile = _within('openCommittedBlobFile')
    new_oid = _within('new_oid')
    tpc_begin = _within('tpc_begin')
    # The server that voted also finishes: ZEO ensures that.
    tpc_vote = _within('tpc_vote')
