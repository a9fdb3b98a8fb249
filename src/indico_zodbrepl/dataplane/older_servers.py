"""Lets a ZEO client go over to a server that lacks its latest transactions.

Replication is asynchronous: a primary that dies or freezes may have answered a
commit that its followers never received.  A ZEO 5.4.1 client that knows of it
refuses every such follower for as long as that stays so, and has no server to
read from.  Should the follower be promoted, the client would accept it once it
has as many new transactions, and then serve what was lost from its cache.

Here such a server is taken as it is, and what the client has cached is dropped.
"""
import logging

from ZODB.utils import tid_repr

log = logging.getLogger(__name__)


def accept_older_servers(client):
    """Changes one `ZEO.asyncio.client.ClientIO`, for good."""
    verify = client.verify

    def drop_cache_and_verify(server_tid):
        known = client.cache.getLastTid()
        if server_tid and known and known > server_tid:
            log.warning(
                '%r has no transaction after %s, %s is known here: '
                'dropping what is cached',
                client.protocol.addr, tid_repr(server_tid), tid_repr(known))
            client.cache.clear()
            client.client.invalidateCache()
        return verify(server_tid)

    client.verify = drop_cache_and_verify
