"""Let a ZEO client use a server with a different history, dropping its cache.

Replication is asynchronous: a primary that dies or freezes may have acknowledged
a commit that its followers never received.  A ZEO 5.4.1 client that knows the
commit refuses such followers and has no server to read from.  After a promotion
it accepts the follower as soon as it has enough new transactions, and then
serves the lost ones from its cache: ZEO compares the ids of the last transactions
only.

Here the client accepts the server, but keeps its cache only if the server proves
that its history contains the newest transaction that the cache knows.  That holds
for each connection, the first one included: the cache may be a file that an
earlier process left.  `snapshots` refuses transactions that began before a drop.
"""
from __future__ import absolute_import

import contextlib
import itertools
import logging
import struct
import threading

import ZEO.asyncio.client
from ZEO.asyncio.client import ClientIO
from ZEO.asyncio.futures import coroutine, return_
from ZEO.cache import magic
from ZEO.Exceptions import ClientDisconnected
from ZODB.utils import tid_repr, z64

from indico_zodbrepl.dataplane.client.blob_cache import Receiver
from indico_zodbrepl.dataplane.client.snapshots import Drops

log = logging.getLogger(__name__)

# Offset in a record of `ZEO.cache`: after status, size and object id.
_TIDS_OFFSET = 13

_opening = threading.RLock()


@contextlib.contextmanager
def opening():
    """Return a context in which each ZEO client that is opened is a `HistoryClient`.

    ZEO offers no other hook: one call opens a client from its configuration and connects it.  Only
    one thread at a time can be in the context.
    """
    with _opening:
        replaced = ZEO.asyncio.client.ClientIO
        ZEO.asyncio.client.ClientIO = HistoryClient
        try:
            yield
        finally:
            ZEO.asyncio.client.ClientIO = replaced


class HistoryClient(ClientIO):
    """A `ClientIO` that verifies its cache against the server's history, and receives blobs whole.

    Attributes:
        drops: its `Drops`.
        replaceable: the Protocol of a server that does not answer, which the next one that accepts
            the client replaces; or None.
    """

    replaceable = None

    def __init__(self, *args, **kwargs):
        self.drops = Drops()
        ClientIO.__init__(self, *args, **kwargs)
        self._contents = CacheContents(self.cache)
        # ZEO calls what its constructor has copied from the storage.
        receiver = Receiver(self.client)
        self.receiveBlobStart = receiver.receiveBlobStart
        self.receiveBlobChunk = receiver.receiveBlobChunk
        self.receiveBlobStop = receiver.receiveBlobStop

    def disconnected(self, protocol=None):
        """Look for a server instead of a lost one, or of the present one.

        ZEO keeps the connection of a server that was not lost.  Its invalidations would come before
        older ones of the next connection, or before the answer to a commit.
        """
        left = self.protocol if protocol in (None, self.protocol) else None
        ClientIO.disconnected(self, protocol)
        if left is not None and not left.closed:
            left.close(ClientDisconnected('another server is looked for'))

    @coroutine
    def register(self, protocol, server_tid):
        """Use a server that has accepted the client, if it has no better one."""
        replaced, self.replaceable = self.replaceable, None
        if replaced is None or replaced is not self.protocol or not self.operational:
            yield ClientIO.register(self, protocol, server_tid)
            return
        log.warning('%r takes the place of %r, which does not answer', protocol.addr, replaced.addr)
        transport = replaced.sm_protocol.transport
        self.client.notify_disconnected()
        self.upgrade(protocol)
        transport.abort()
        yield self.verify(server_tid)

    @coroutine
    def verify(self, server_tid):
        """Drop the cache unless it is proven, then verify it as ZEO does."""
        protocol, known = self.protocol, self._contents.newest()
        try:
            if server_tid is None:
                server_tid = yield protocol.server_call('lastTransaction')
            held = yield _is_held(protocol, known, server_tid)
        except ClientDisconnected as error:
            log.info('%r was lost before the cache was verified: %s', protocol.addr, error)
            return_(None)
        except Exception as error:
            log.warning('%r cannot look into its history: %s: %s',
                        protocol.addr, type(error).__name__, error)
            held = False
        if self.protocol is not protocol:
            return_(None)
        if not held:
            log.warning(
                '%r does not hold transaction %s, the last one known here: '
                'dropping what is cached', protocol.addr, tid_repr(known))
            with self.drops.happening():
                self._contents.drop(server_tid or z64)
                self.client.invalidateCache()
        yield ClientIO.verify(self, server_tid)


@coroutine
def _is_held(protocol, tid, server_tid):
    """Return True if the server proves that its history contains a transaction.

    Raises the server's exception, or ClientDisconnected.
    """
    call = protocol.server_call
    if tid == z64:
        return_(True)
    if not server_tid or tid > server_tid:
        return_(False)
    info = yield call('get_info')
    if info.get('holds'):
        held = yield call('holds', tid)
        return_(bool(held))
    # ZEO's own server: the history is read, but not far back.  ZEO drops the cache
    # as well if there are no invalidations since `tid`.
    invalidations = yield call('getInvalidations', tid)
    if invalidations is None:
        return_(False)
    iterator = yield call('iterator_start', tid, tid)
    found = yield call('iterator_next', iterator)
    if found is None:
        return_(False)
    yield call('iterator_gc', [iterator])
    return_(found[0] == tid)


class CacheContents(object):
    """The transactions that the contents of a `ZEO.cache.ClientCache` stem from.

    A cache may hold records newer than its last transaction: that is set after the
    records, and the client may have died or failed in between.

    Args:
        cache: the cache; its methods `store` and `invalidate` are changed.
    """

    def __init__(self, cache):
        self._cache = cache
        self._newest = _newest_record(cache)
        store, invalidate = cache.store, cache.invalidate

        def noting_store(oid, start_tid, end_tid, data):
            self._newest = max(self._newest, start_tid, end_tid or z64)
            store(oid, start_tid, end_tid, data)

        def noting_invalidate(oid, tid):
            self._newest = max(self._newest, tid or z64)
            invalidate(oid, tid)

        cache.store, cache.invalidate = noting_store, noting_invalidate

    def newest(self):
        """Return the id of the newest transaction that the cache knows; `z64` for none."""
        return max(self._newest, self._cache.getLastTid())

    def drop(self, tid):
        """Empty the cache; `tid` becomes the last transaction that it knows."""
        cache = self._cache
        with cache._lock:
            # In this order: if the process dies in between, the file holds no lost data.
            cache.clear()
            cache.f.seek(len(magic))
            cache.f.write(tid)
            cache.f.flush()
            cache.tid = self._newest = tid


def _newest_record(cache):
    newest = z64
    older = (each.values() for each in cache.noncurrent.values())
    with cache._lock:
        for offset in itertools.chain(cache.current.values(), *older):
            cache.f.seek(offset + _TIDS_OFFSET)
            newest = max(newest, *struct.unpack('8s8s', cache.f.read(16)))
    return newest
