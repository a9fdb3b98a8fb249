"""Give an open storage another role in replication, while it goes on serving reads.

The FileStorage inside stays open: a change takes as long as its sockets do, for
a database of any size.  Each function either does its work or raises RoleError
and leaves the storage as it was.  Call them in no event loop's thread.
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

# seconds to take what an upstream has sent already; it may go on sending
TAKE_LIMIT = 2.0
# seconds for the reactor to leave an upstream; it may wait for a pack's end
LEAVE_LIMIT = 20.0
# seconds for the followers of a primary that becomes a secondary
DRAIN_LIMIT = 5.0
# seconds between keep-alives of a primary that becomes a secondary
KEEP_ALIVE = 5.0

# More object ids than the last primary can have given out without its followers
# being told of the objects.
IDS_LEFT_OUT = 1 << 24

_POLL = 0.002


class RoleError(Exception):
    """The role was not changed."""


def primary_from(secondary, address):
    """Make a storage that takes commits out of one that follows.

    A secondary first listens for followers; then it takes what its upstream has
    sent so far, and leaves it.  Half a transaction is dropped.

    Args:
        secondary: an open zc.zrs Secondary; of no use afterwards.
        address: where to listen for followers; a relay has to listen there.

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
    # It was not told of what arrived after it began to listen.
    primary.feed_followers()
    leave_out_ids(primary)
    return primary


def leave_out_ids(primary):
    """Give new objects no ids that the last primary may have given out.

    Objects that were lost with that one are still in the memory of clients,
    which would take a new object of the same id for the lost one.

    Args:
        primary: an open zc.zrs Primary that succeeds another one.
    """
    storage = primary._storage
    storage.set_max_oid(p64(u64(storage._oid) + IDS_LEFT_OUT))


def secondary_from(primary):
    """Make a storage that may follow out of one that takes commits.

    Followers get what they lack and are cut; those who do not take it within
    DRAIN_LIMIT are cut nevertheless.

    Args:
        primary: an open zc.zrs Primary that commits no more; of no use
            afterwards.

    Returns a zc.zrs Secondary without upstream; see `turn_to`.
    """
    drain(primary, monotonic() + DRAIN_LIMIT)
    # Who was late would wait for more for ever, as the connection goes on.
    primary._reactor.callFromThread(_stop, primary)
    return zc.zrs.secondary.Secondary(
        primary._storage, None, keep_alive_delay=KEEP_ALIVE)


def turn_to(secondary, upstream):
    """Let a secondary follow another upstream; return before it is connected.

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
    """Take what has arrived from the upstream, and disconnects for good."""
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
    """How a secondary leaves; `take` runs in the reactor's thread."""

    def __init__(self, factory):
        self._factory = factory
        self._lock = threading.Lock()
        self._called_off = self._cut = False

    def is_over(self):
        return self._cut and self._factory.instance is None

    def call_off(self):
        """Stays with the upstream; False when the link is cut already."""
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
            # `close` would wait until the upstream has taken what is unsent.
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
