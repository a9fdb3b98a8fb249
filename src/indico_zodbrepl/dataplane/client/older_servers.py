"""Let a ZEO client use a server with a different history, dropping its cache.

Replication is asynchronous: a primary that dies or freezes may have acknowledged
a commit that its followers never received.  A ZEO 5.4.1 client that knows the
commit refuses such followers and has no server to read from.  After a promotion
it would accept the follower as soon as it has enough new transactions, and then
serve the lost ones from its cache.

Here the client accepts the server and drops its cache: if the server's last
transaction is older than the client's, and if the server reports that its
history does not contain the client's last one.  A transaction that began before
may have read lost objects.  It cannot be committed: it could refer to missing
objects, and its new objects could reuse their ids.
"""
from __future__ import absolute_import

import functools
import logging
import threading

from ZEO.asyncio.futures import coroutine, return_
from ZEO.Exceptions import ClientDisconnected, ServerException
from ZODB.utils import tid_repr

log = logging.getLogger(__name__)


class Drops(object):
    """The number of dropped caches, and which transactions began before the last drop.

    Thread-safe.  A transaction belongs to the thread in which it begins.
    """

    def __init__(self):
        self._count = 0
        self._begun = threading.local()

    def happened(self):
        """Record a drop; call it once the owners of the caches know."""
        self._count += 1

    def beginning(self, method):
        """Return `method`, wrapped for the beginning of a transaction."""
        @functools.wraps(method, assigned=('__name__', '__doc__'), updated=())
        def call(*args, **kwargs):
            self._begun.count = self._count
            return method(*args, **kwargs)
        return call

    def under_way(self, method):
        """Return `method`, which raises ClientDisconnected if a drop happened since the begin."""
        @functools.wraps(method, assigned=('__name__', '__doc__'), updated=())
        def call(*args, **kwargs):
            if getattr(self._begun, 'count', self._count) != self._count:
                raise ClientDisconnected('it began before transactions were lost')
            return method(*args, **kwargs)
        return call


def accept_older_servers(client):
    """Change a `ZEO.asyncio.client.ClientIO` permanently; return its `Drops`."""
    verify = client.verify
    drops = Drops()

    @coroutine
    def drop_cache_and_verify(server_tid):
        known, protocol = client.cache.getLastTid(), client.protocol
        if known:
            held = yield _is_held(client, known, server_tid)
            if not held:
                log.warning(
                    '%r does not hold transaction %s, the last one known here: '
                    'dropping what is cached',
                    protocol.addr, tid_repr(known))
                client.cache.clear()
                client.client.invalidateCache()
                drops.happened()
        yield verify(server_tid)

    client.verify = drop_cache_and_verify
    return drops


@coroutine
def _is_held(client, tid, server_tid):
    """Return True if the server's history contains a transaction, as far as known.

    A server without any later transaction does not.  A server that is not ours cannot
    be asked; it is assumed to contain everything older than its last transaction.
    """
    if server_tid and tid > server_tid:
        return_(False)
    protocol = client.protocol
    try:
        info = yield protocol.server_call('get_info')
        if not info.get('holds'):
            return_(True)
        held = yield protocol.server_call('holds', tid)
    except ClientDisconnected:
        # `verify` meets the same and knows what to do.
        return_(True)
    except ServerException as error:
        log.warning('%r cannot look into its history: %s', protocol.addr, error)
        return_(False)
    return_(bool(held))
