"""Hands every committed transaction to the followers before a server ends."""
import logging
import threading
import time

import zc.zrs.primary
import zc.zrs.secondary
import ZODB.FileStorage

from indico_zodbrepl.dataplane.addresses import format_peer

logger = logging.getLogger('zodbrepl.replication')

_POLL = 0.02


def drain_and_close(storage, deadline):
    """Ends a storage's replication links and closes it, for good.

    Call it when the server commits no more and the process is about to end.
    First a secondary leaves its upstream, then a primary drains.  A pack that
    is running replaces the data file wholly or not at all, because the
    storage's lock is taken and kept.

    Args:
        storage: an open storage, zc.zrs or not.
        deadline: time.time() at which to give up on followers.
    """
    base = storage
    if isinstance(base, zc.zrs.secondary.Secondary):
        leave_upstream(base, deadline)
        base = base._storage
    if isinstance(base, zc.zrs.primary.Primary):
        drain(base, deadline)
        base = base._storage
    if isinstance(base, ZODB.FileStorage.FileStorage):
        base._lock.acquire()
        if base._pack_is_in_progress:
            logger.warning('a pack of %s was running and ends unfinished',
                           base.getName())
    storage.close()


def leave_upstream(secondary, deadline):
    """Disconnects a secondary and waits until its connection is gone."""
    factory = secondary._factory
    closed = threading.Event()
    secondary._reactor.callFromThread(factory.close, closed.set)
    while time.time() < deadline:
        if closed.is_set() and factory.instance is None:
            return
        time.sleep(_POLL)
    logger.warning('the connection to the upstream did not end in time')


def drain(primary, deadline):
    """Waits until all followers have taken everything that is committed.

    A follower closes its connection when it has taken the last byte; that is
    the sign.  Those who have not by the deadline (frozen ones) are left; they
    get the rest from whoever they follow next.

    Args:
        primary: a zc.zrs primary whose storage is still open.
        deadline: time.time() at which to give up.

    Returns the addresses of the followers that did not take everything.
    """
    reactor = primary._reactor
    reactor.callFromThread(primary.cfr_stop_listening)
    connected = primary._factory.instances
    draining = []
    while connected and time.time() < deadline:
        for protocol in list(connected):
            if protocol not in draining:
                draining.append(protocol)
                protocol.close()
        time.sleep(_POLL)
    late = list(connected)
    for protocol in late:
        logger.warning(
            'follower %s did not take everything in time; it lacks the last '
            'transactions until it follows a node that has them',
            format_peer(protocol.transport))
        producer = protocol._PrimaryProtocol__producer
        if producer is not None:
            reactor.callFromThread(producer.stopProducing)
    if draining:
        logger.info('drained to %d of %d followers',
                    len(draining) - len(late), len(draining))
    return [format_peer(protocol.transport) for protocol in late]
