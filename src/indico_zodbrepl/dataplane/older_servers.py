"""Lets a ZEO client go over to a server whose history is not the one it knows.

Replication is asynchronous: a primary that dies or freezes may have answered a
commit that its followers never received.  A ZEO 5.4.1 client that knows of it
refuses every such follower for as long as that stays so, and has no server to
read from.  Should the follower be promoted, the client would accept it once it
has as many new transactions, and then serve what was lost from its cache.

Here such a server is taken as it is, and what the client has cached is dropped:
both when the server's last transaction is older than the client's, and when the
server says that its history does not hold the client's last one.
"""
import logging

from ZEO.Exceptions import ClientDisconnected, ServerException
from ZEO.asyncio.futures import coroutine, return_
from ZODB.utils import tid_repr

log = logging.getLogger(__name__)


def accept_older_servers(client):
    """Changes one `ZEO.asyncio.client.ClientIO`, for good."""
    verify = client.verify

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
        yield verify(server_tid)

    client.verify = drop_cache_and_verify


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
