"""Lets a ZEO client go over to a server whose history is not the one it knows.

Replication is asynchronous: a primary that dies or freezes may have answered a
commit that its followers never received.  A ZEO 5.4.1 client that knows of it
refuses every such follower for as long as that stays so, and has no server to
read from.  Should the follower be promoted, the client would accept it once it
has as many new transactions, and then serve what was lost from its cache.

Here such a server is taken as it is, and what the client has cached is dropped:
both when the server's last transaction is older than the client's, and when the
server says that its history does not hold the client's last one.  What a
transaction that began before has read may be among the lost, so that it can't
be committed: it could refer to objects that are no more, and an object that it
makes could get the id of one of them.
"""
import functools
import logging
import threading

from ZEO.Exceptions import ClientDisconnected, ServerException
from ZEO.asyncio.futures import coroutine, return_
from ZODB.utils import tid_repr

log = logging.getLogger(__name__)


class Drops(object):
    """How often what a client knew was dropped; which transactions began before.

    Usable from any thread.  A transaction is that of the thread it begins in.
    """

    def __init__(self):
        self._count = 0
        self._begun = threading.local()

    def happened(self):
        """To be called once the caches' owners know of it."""
        self._count += 1

    def beginning(self, method):
        """Returns `method`, which is called where a transaction begins."""
        @functools.wraps(method, assigned=('__name__', '__doc__'), updated=())
        def call(*args, **kwargs):
            self._begun.count = self._count
            return method(*args, **kwargs)
        return call

    def under_way(self, method):
        """Returns `method`, which raises ClientDisconnected in a transaction that began before."""
        @functools.wraps(method, assigned=('__name__', '__doc__'), updated=())
        def call(*args, **kwargs):
            if getattr(self._begun, 'count', self._count) != self._count:
                raise ClientDisconnected('it began before transactions were lost')
            return method(*args, **kwargs)
        return call


def accept_older_servers(client):
    """Changes one `ZEO.asyncio.client.ClientIO`, for good; returns its `Drops`."""
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
    """Whether the server holds a transaction, as far as it can tell.

    A server that has nothing as late does not.  One that is not ours cannot be
    asked; it is believed to hold what is older than its last.
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
