"""Keep a ZEO 5 client searching for a server, and for a writable one.

While any other address is still connecting, ZEO 5.4.1 gives up an address whose
registration failed or that answered as read-only.  So a client can stay without
a server, or on a read-only one, for minutes after the primary is back.  The
watchdog retries such addresses.  It does not touch what works: attempts under
way, and the read-only connection that serves reads.  (Setting the addresses
again would close that connection and drop every object cache.)

A heartbeat detects a server that no longer answers.  It has less patience once this host knows of a
later epoch: the cluster has another primary then.  With automatic failover, `switching` is faster.
"""
from __future__ import absolute_import

import json
import logging
import os
import threading
import weakref

from ZEO.asyncio.client import Protocol
from ZEO.Exceptions import ClientDisconnected

from indico_zodbrepl.dataplane.client import leader, switching
from indico_zodbrepl.dataplane.programs.clock import monotonic

log = logging.getLogger(__name__)

INTERVAL = 0.5  # seconds between two checks
# A server that does not answer blocks every thread that needs it.  If it does not answer a
# client's registration, it also blocks all other servers that the client could use.  So give up
# after this time.
ANSWER_LIMIT = 15.0  # seconds
# The same for a server that was connected before a later epoch began.
FORMER_LIMIT = 1.5  # seconds
RECORD = 'ZODBREPL_EPOCH_RECORD'  # the environment variable with the path of this host's record


def quiet_refusals():
    """Filter `ReadOnlyRefusals` out of the log from now on."""
    logger = logging.getLogger('ZEO.asyncio.client')
    if not any(isinstance(each, ReadOnlyRefusals) for each in logger.filters):
        logger.addFilter(ReadOnlyRefusals())


class Watchdog(object):
    """A daemon thread that monitors a `ZEO.ClientStorage.ClientStorage`.

    It belongs to the process that created it.  After a fork the child's storage is
    not monitored, and not usable either: ZEO's own thread is gone as well.

    Args:
        storage: the open client storage.
        interval: seconds between two checks.

    Attributes:
        switching: its `Switching`.
        missing_since: time since which a server has been missing, or None.  Any
            thread may read it.
    """

    missing_since = None

    def __init__(self, storage, interval=INTERVAL):
        self._storage = storage
        self._interval = interval
        self._closing = threading.Event()
        self._pid = os.getpid()
        self._renewal = Renewal(storage._server.client)
        self.switching = switching.Switching(
            storage._server.client, leader.LeaderFile(os.environ.get(leader.VARIABLE)),
            self._renewal.attempt)
        self._pulse = Heartbeat(
            storage._server.client, int(ANSWER_LIMIT / interval),
            max(2, int(FORMER_LIMIT / interval)), EpochRecord(os.environ.get(RECORD)))
        quiet_refusals()
        self._thread = threading.Thread(
            target=self._run, name='ZEO watchdog of %s' % storage.__name__)
        self._thread.setDaemon(True)
        self._thread.start()

    def close(self):
        """Stop the thread; call it before closing the storage."""
        self._closing.set()
        if self._pid == os.getpid():
            self._thread.join()

    def _run(self):
        server = self._storage._server
        name = self._storage.__name__
        missing = None
        steps = max(1, int(self._interval / switching.INTERVAL))
        step = 0
        while not self._closing.wait(self._interval / steps):
            step = (step + 1) % steps
            try:
                if self.switching.is_due():
                    server.io_call(server.apply_co(self.switching.look))
            except ClientDisconnected:
                log.info('%s: closed, watched no longer', name)
                return
            if step:
                continue
            previous, missing = missing, what_is_missing(self._storage)
            if missing is None:
                self.missing_since = None
            elif self.missing_since is None:
                self.missing_since = monotonic()
            if missing != previous:
                log.warning('%s: %s', name, missing or 'all is well again')
            try:
                server.io_call(server.apply_co(self._look))
            except ClientDisconnected:
                log.info('%s: closed, watched no longer', name)
                return

    def _look(self):
        self._pulse.look()
        self._renewal(monotonic())


def what_is_missing(storage):
    """Return why a client storage needs another server, or None."""
    if not storage.is_connected():
        return 'connected to no server'
    if storage._read_only_fallback and storage.is_read_only():
        return 'connected to a read-only server only'
    return None


class ReadOnlyRefusals(logging.Filter):
    """A log filter for refusals of read-only servers to accept writes.

    ZEO logs an ERROR for each attempt; the watchdog logs once what is missing.
    """

    def filter(self, record):
        return not (record.msg == '%s from server: %s:%s' and
                    record.args[1] == 'ZODB.POSException.ReadOnlyError')


class Renewal(object):
    """Renews the failed connection attempts of a `ZEO.asyncio.client.ClientIO`.

    Call it only in the client's I/O thread.
    """

    def __init__(self, client):
        self._client = client
        self._asked_since = weakref.WeakKeyDictionary()
        # seconds, to which ZEO adds up to one at random
        client.connect_poll = 0

    def __call__(self, now):
        """Check every attempt; `now` is the time in seconds."""
        client = self._client
        if client.closed or not client.trying_to_connect():
            return
        for protocol in client.protocols:
            if protocol.futures and not protocol.closed:
                since = self._asked_since.setdefault(protocol, now)
                if now - since > ANSWER_LIMIT:
                    self._give_up(protocol)
        trying = [each for each in client.protocols if not each.closed]
        tried = set(each.addr for each in trying)
        if client.protocol is not None:
            tried.add(client.protocol.addr)
        client.protocols = trying + [
            self.attempt(addr) for addr in client.addrs if addr not in tried]

    def _give_up(self, protocol):
        client = self._client
        if protocol is not client.protocol:
            protocol.close()
        elif not client.operational:
            protocol.close()
            client.disconnected(protocol)

    def attempt(self, addr):
        """Return a new attempt to connect to an address."""
        client = self._client
        return Protocol(
            client.loop, addr, client, client.storage_key, client.read_only,
            client.connect_poll, ssl=client.ssl,
            ssl_server_hostname=client.ssl_server_hostname,
            credentials=client.credentials)


class Heartbeat(object):
    """A heartbeat: pings the server and gives up a silent one.

    Calls under way then end in ClientDisconnected, and the client searches for a
    server again.  As after any lost connection, the outcome of a commit that was
    waiting for its last answer is unknown.

    Silence is counted in checks, not by the clock: a suspended client must not
    mistake unread answers for silence.

    Args:
        client: a `ZEO.asyncio.client.ClientIO`; call the heartbeat only in its I/O
            thread.
        limit: checks without an answer after which a server is given up.
        former_limit: the same for a server to which the client was connected when a
            later epoch began.
        record: an `EpochRecord`.

    Attributes:
        silent: checks since the last answer, 0 if all is well; any thread may read it.
    """

    def __init__(self, client, limit, former_limit, record):
        self._client = client
        self._limit = limit
        self._former_limit = former_limit
        self._record = record
        self._former = None
        self._protocol = None
        self._ping = None
        self._traffic = None
        self.silent = 0

    def look(self):
        """Check once; call it at regular intervals."""
        client = self._client
        protocol = client.protocol if client.operational else None
        if protocol is not self._protocol:
            self._protocol, self._ping, self.silent = protocol, None, 0
        if self._record.has_risen():
            self._former = protocol
        if protocol is None or protocol.closed:
            return
        traffic = switching.traffic_of(protocol)
        if self._ping is None or self._ping.done():
            self.silent = 0
            self._ping = protocol.server_call('ping')
        elif traffic != self._traffic:
            self.silent = 0
        else:
            self.silent += 1
        self._traffic = traffic
        if self.silent >= (
                self._former_limit if protocol is self._former else self._limit):
            self._give_up(protocol)

    def _give_up(self, protocol):
        log.warning('%r does not answer; looking for another server',
                    protocol.addr)
        switching.give_up(self._client, protocol, 'the server does not answer')


class EpochRecord(object):
    """This host's record of the cluster's epoch, which promotions and the host's agent raise.

    Args:
        path: of the file, or None.
    """

    def __init__(self, path):
        self._path = path
        self._changed = None
        self._epoch = self._read()

    def has_risen(self):
        """Return True if the epoch is later than at the last call; cheap while it is not."""
        if self._path is None:
            return False
        try:
            changed = os.stat(self._path).st_mtime
        except OSError:
            return False
        if changed == self._changed:
            return False
        self._changed = changed
        before, self._epoch = self._epoch, max(self._epoch, self._read())
        return self._epoch > before

    def _read(self):
        """Return the epoch; 0 without a usable record, which others report."""
        try:
            with open(self._path or '') as stream:
                return int(json.load(stream)['epoch'])
        except (IOError, ValueError, KeyError, TypeError):
            return 0
