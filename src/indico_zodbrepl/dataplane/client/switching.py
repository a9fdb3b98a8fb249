"""Let a ZEO client change its server as soon as it should, in a cluster with automatic failover.

- A new leader: a connection for writing to another server is closed at once, because nothing that is
  committed there counts, and the leader's server is tried until it accepts writes.
- A silent server, whose host is cut off or whose process is stopped: while it is silent, others are
  tried, and the first one that accepts the client takes its place.  The silent one stays until then,
  and if it answers before.  A commit that waits for its last answer is waited for: its outcome would
  be unknown.

Silence is counted in checks, not by the clock: a suspended client must not mistake unread answers for
silence.
"""
from __future__ import absolute_import

import logging
import threading
import weakref

from ZEO.Exceptions import ClientDisconnected

from indico_zodbrepl.dataplane.programs.clock import monotonic

log = logging.getLogger(__name__)

INTERVAL = 0.08  # seconds between two checks
SILENT = 3  # checks until a server counts as silent
STUCK = 20  # checks until a server that does not complete a registration is given up
SEARCH = 10.0  # seconds for which a new leader's server is tried at each check


class Switching(object):
    """Changes the server of a `older_servers.HistoryClient`.

    Args:
        client: the client; call the methods in its I/O thread, unless they say otherwise.
        leader: a `leader.LeaderFile`.
        attempt: called with an address; returns a new ZEO Protocol that connects to it.
    """

    def __init__(self, client, leader, attempt):
        self._client = client
        self._leader = leader
        self._attempt = attempt
        self._search_until = None
        self._watched = None
        self._ping = None
        self._traffic = None
        self._silent = 0
        self._stuck = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()
        self._finishing = 0
        self._changed = False

    @property
    def is_automatic(self):
        """Return True if a lost leader is replaced automatically; any thread may ask."""
        return self._leader.current is not None

    def finishing(self, method):
        """Return `tpc_finish`, during which the server is not replaced; any thread may call it."""
        def tpc_finish(*args, **kwargs):
            with self._lock:
                self._finishing += 1
                self._client.replaceable = None
            try:
                return method(*args, **kwargs)
            finally:
                with self._lock:
                    self._finishing -= 1
        return tpc_finish

    def is_due(self):
        """Return True if `look` has something to do; cheap, for the thread that calls it."""
        self._changed = self._leader.has_changed() or self._changed
        if not self.is_automatic:
            return False
        client, protocol = self._client, self._client.protocol
        return (self._changed or self._silent or self._search_until is not None or
                protocol is None or client.trying_to_connect() or bool(protocol.futures))

    def look(self):
        """Check once; call it at regular intervals."""
        if self._client.closed:
            return
        if self._changed:
            self._changed = False
            self._turn_to_the_leader()
        self._search()
        self._give_up_the_stuck()
        self._listen()

    def _turn_to_the_leader(self):
        client, leader = self._client, self._leader.current
        log.info('node %s is the leader of epoch %d', leader.node, leader.epoch)
        if leader.address not in client.addrs:
            log.warning('%s:%d, the address of the leader, is not in the configuration',
                        *leader.address)
            return
        self._search_until = monotonic() + SEARCH
        protocol = client.protocol
        if protocol is None or not client.operational:
            client.disconnected(protocol)
        elif not protocol.read_only and protocol.addr != leader.address:
            log.warning('%r is not the leader: looking for another server', protocol.addr)
            give_up(client, protocol, 'another server is the leader')
            # The watchdog soon tries it again: the file may be wrong, and this the server to use.
            for each in client.protocols:
                if each.addr == protocol.addr:
                    each.close()

    def _search(self):
        """Try the leader's server again if it did not accept writes yet."""
        client = self._client
        if self._search_until is None:
            return
        if monotonic() > self._search_until or not client.trying_to_connect():
            self._search_until = None
        else:
            self._try([self._leader.current.address])

    def _try(self, addresses):
        client = self._client
        trying = [each for each in client.protocols if not each.closed]
        tried = set(each.addr for each in trying if each is not client.protocol)
        client.protocols = trying + [
            self._attempt(each) for each in addresses if each not in tried]

    def _give_up_the_stuck(self):
        """Close connections that make no progress.

        One that does not complete its registration holds the lock of registrations.  One that is not
        established waits ever longer between two packets, and would be late when its server is back.
        """
        client = self._client
        for protocol in list(client.protocols) + [client.protocol]:
            if protocol is None or protocol.closed or (
                    protocol is client.protocol and client.operational):
                continue
            count, traffic = self._stuck.get(protocol, (0, None))
            count = count + 1 if traffic == traffic_of(protocol) else 0
            self._stuck[protocol] = count, traffic_of(protocol)
            if count >= STUCK:
                log.debug('%r accepts no client', protocol.addr)
                give_up(client, protocol, 'the server does not answer')

    def _listen(self):
        client = self._client
        protocol = client.protocol if client.operational else None
        if protocol is not self._watched:
            self._watched, self._ping, self._silent = protocol, None, 0
        if protocol is None or protocol.closed or not (protocol.futures or self._silent):
            return
        traffic, before = traffic_of(protocol), self._traffic
        self._traffic = traffic
        if self._ping is None or self._ping.done() or traffic != before:
            if self._silent >= SILENT:
                self._keep(protocol)
            self._silent = 0
            if self._ping is None or self._ping.done():
                self._ping = protocol.server_call('ping')
            return
        self._silent += 1
        if self._silent >= SILENT:
            self._replace(protocol)

    def _replace(self, protocol):
        client = self._client
        with self._lock:
            if self._finishing:
                return
            if client.replaceable is not protocol:
                log.warning('%r does not answer: trying the other servers', protocol.addr)
                client.replaceable = protocol
        self._try([each for each in client.addrs if each != protocol.addr])

    def _keep(self, protocol):
        client = self._client
        if client.replaceable is not None:
            log.info('%r answers again', protocol.addr)
        client.replaceable = None
        if not client.trying_to_connect():
            client._clear_protocols(protocol)


def traffic_of(protocol):
    """Return a value that changes while a long message, which delays answers, is transferred."""
    stream = protocol.sm_protocol
    if stream is None or stream.transport is None:  # not established yet
        return None
    return stream.transport.get_write_buffer_size(), stream.received_count


def give_up(client, protocol, reason):
    """Close a connection of a client, which then looks for a server if it has no other."""
    stream = protocol.sm_protocol
    transport = stream and stream.transport  # None before it is established
    protocol.close(ClientDisconnected(reason))
    client.disconnected(protocol)
    # Otherwise it would wait until the server has received all unsent data.
    if transport is not None:
        transport.abort()
