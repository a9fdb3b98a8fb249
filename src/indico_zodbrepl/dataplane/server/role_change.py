"""Change the role of an open storage in replication, while it continues to serve reads.

The FileStorage inside stays open: a change takes as long as its sockets do, for
a database of any size.  Each function either does its work or raises RoleError
and leaves the storage as it was.  Do not call them in the thread of an event loop.
"""
from __future__ import absolute_import

import logging
import select
import threading
import time

import zc.zrs.primary
import zc.zrs.secondary
from twisted.internet.error import CannotListenError
from ZODB.utils import p64, u64

from indico_zodbrepl.dataplane.programs.addresses import format_address
from indico_zodbrepl.dataplane.programs.clock import monotonic
from indico_zodbrepl.dataplane.server.shutdown import drain
from indico_zodbrepl.dataplane.zrs.links import followed, require_listening

logger = logging.getLogger('zodbrepl.replication')

# seconds to take what an upstream has already sent; it may continue to send
TAKE_LIMIT = 2.0
# seconds for the reactor to leave an upstream; it may wait for a pack's end
LEAVE_LIMIT = 20.0
# seconds for the followers of a primary that becomes a secondary
DRAIN_LIMIT = 5.0
# seconds between keep-alives of a primary that becomes a secondary
KEEP_ALIVE = 5.0

# More object ids than the last primary can have issued without its followers knowing the objects.
IDS_LEFT_OUT = 1 << 24

_POLL = 0.002


class RoleError(Exception):
    """The role was not changed."""


def primary_from(secondary, address):
    """Turn a storage that follows into one that takes commits.

    A secondary first listens for followers.  Then it takes what its upstream
    has sent so far, and disconnects.  An incomplete transaction is dropped.

    Args:
        secondary: an open zc.zrs Secondary; unusable afterwards.
        address: where to listen for followers; a relay must be listening there already.

    Returns an open zc.zrs Primary.
    """
    base = secondary._storage
    if isinstance(base, zc.zrs.primary.Primary):
        if base._addr != address:
            raise RoleError('it listens for followers on %s' %
                            format_address(base._addr))
        leave(secondary)
        leave_out_ids(base)
        return base
    primary = zc.zrs.primary.Primary(base, address)
    try:
        require_listening(primary)
    except CannotListenError as error:
        raise RoleError('cannot listen for followers on %s: %s' % (
            format_address(address), error.socketError))
    try:
        leave(secondary)
    except RoleError:
        primary._reactor.callFromThread(_stop, primary)
        raise
    # It was not notified of transactions that arrived after it began to listen.
    primary.feed_followers()
    leave_out_ids(primary)
    return primary


def leave_out_ids(primary):
    """Skip the ids of new objects that the last primary may have used.

    Objects lost with that primary are still in the caches of clients, which
    would mistake a new object with the same id for the lost one.

    Args:
        primary: an open zc.zrs Primary that replaces another one.
    """
    storage = primary._storage
    storage.set_max_oid(p64(u64(storage._oid) + IDS_LEFT_OUT))


def secondary_from(primary):
    """Turn a storage that takes commits into one that may follow.

    Followers get what they lack and are disconnected; those that do not take
    it within DRAIN_LIMIT are disconnected too.

    Args:
        primary: an open zc.zrs Primary that commits no more; unusable
            afterwards.

    Returns a zc.zrs Secondary without upstream; see `turn_to`.
    """
    drain(primary, monotonic() + DRAIN_LIMIT)
    # A late follower would wait for more data forever, because the connection stays open.
    primary._reactor.callFromThread(_stop, primary)
    return zc.zrs.secondary.Secondary(
        primary._storage, None, keep_alive_delay=KEEP_ALIVE)


def turn_to(secondary, upstream):
    """Make a secondary follow another upstream; return before it is connected.

    Args:
        secondary: an open zc.zrs Secondary.
        upstream: a replication address.
    """
    if secondary._addr is not None:
        leave(secondary)
    secondary._addr = upstream
    secondary._factory = followed(secondary._factory, secondary)
    secondary._factory.connect()


def leave(secondary):
    """Take what has arrived from the upstream, and disconnect for good."""
    departure = _Departure(secondary._factory)
    secondary._reactor.callFromThread(departure.take, monotonic() + TAKE_LIMIT)
    deadline = monotonic() + LEAVE_LIMIT
    while not departure.is_over():
        if monotonic() > deadline and departure.call_off():
            raise RoleError('could not leave %s within %g s: a pack, or '
                            'something else, keeps replication waiting' % (
                                format_address(secondary._addr), LEAVE_LIMIT))
        time.sleep(_POLL)
    logger.info('left upstream %s', format_address(secondary._addr))


class _Departure(object):
    """The disconnection of a secondary; `take` runs in the reactor's thread."""

    def __init__(self, factory):
        self._factory = factory
        self._lock = threading.Lock()
        self._called_off = self._cut = False

    def is_over(self):
        return self._cut and self._factory.instance is None

    def call_off(self):
        """Stay with the upstream; return False if the link is already closed."""
        with self._lock:
            self._called_off = not self._cut
            return self._called_off

    def take(self, deadline):
        link = self._factory.instance
        if link is not None and monotonic() < deadline and _readable(link):
            self._factory.reactor.callLater(0, self.take, deadline)
            return
        with self._lock:
            if self._called_off:
                return
            self._cut = True
            # `close` would wait until the upstream has received all unsent data.
            if link is not None:
                link.transport.abortConnection()
            self._factory.close(_nothing)


def _readable(link):
    handle = link.transport.getHandle()
    return bool(select.select([handle], [], [], 0)[0])


def _stop(primary):
    primary.cfr_stop_listening()
    for protocol in list(primary._factory.instances):
        protocol.transport.abortConnection()


def _nothing():
    pass
