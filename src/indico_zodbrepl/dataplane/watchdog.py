"""Keeps a ZEO 5 client looking for a server, and for a writable one.

ZEO 5.4.1 gives up an address whose registration failed, or that answered as
read-only, for as long as any other of its addresses is still connecting.  A
client can so stay without a server, or on a read-only one, for minutes after
a primary is back.  The watchdog tries such an address again.  It leaves alone
what works: the read-only connection that serves reads meanwhile (giving the
client its addresses anew would cut it and drop every object cache) and
attempts under way.  A server that answers no more is given up, see `pulse`.
"""
import logging
import os
import threading
import time
import weakref

from ZEO.asyncio.client import Protocol
from ZEO.Exceptions import ClientDisconnected

from .pulse import Pulse

log = logging.getLogger(__name__)

INTERVAL = 0.5  # seconds between two looks
# A server that does not answer holds every thread that needs it, and, when it is
# a client's registration, all others that the client could use: give it no
# longer than this.
ANSWER_LIMIT = 15.0  # seconds


def quiet_refusals():
    """Leaves out of the log, from now on, what `ReadOnlyRefusals` filters."""
    logger = logging.getLogger('ZEO.asyncio.client')
    if not any(isinstance(each, ReadOnlyRefusals) for each in logger.filters):
        logger.addFilter(ReadOnlyRefusals())


class Watchdog(object):
    """A daemon thread that watches one `ZEO.ClientStorage.ClientStorage`.

    It lives in the process that made it: after a fork the child's storage is
    not watched (nor usable: ZEO's own thread is gone as well).

    Args:
        storage: the client storage, open.
        interval: seconds between two looks at it.

    Attributes:
        missing_since: time at which it first saw that a server is missing; None
            while none is.  Any thread may read it.
    """

    missing_since = None

    def __init__(self, storage, interval=INTERVAL):
        self._storage = storage
        self._interval = interval
        self._closing = threading.Event()
        self._pid = os.getpid()
        self._renewal = Renewal(storage._server.client)
        self._pulse = Pulse(
            storage._server.client, int(ANSWER_LIMIT / interval))
        quiet_refusals()
        self._thread = threading.Thread(
            target=self._run, name='ZEO watchdog of %s' % storage.__name__)
        self._thread.setDaemon(True)
        self._thread.start()

    def close(self):
        """Ends the thread; call it before the storage is closed."""
        self._closing.set()
        if self._pid == os.getpid():
            self._thread.join()

    def _run(self):
        server = self._storage._server
        name = self._storage.__name__
        missing = None
        while not self._closing.wait(self._interval):
            previous, missing = missing, what_is_missing(self._storage)
            if missing is None:
                self.missing_since = None
            elif self.missing_since is None:
                self.missing_since = time.time()
            if missing != previous:
                log.warning('%s: %s', name, missing or 'all is well again')
            try:
                server.io_call(server.apply_co(self._look))
            except ClientDisconnected:
                log.info('%s: closed, watched no longer', name)
                return

    def _look(self):
        self._pulse.look()
        self._renewal(time.time())


def what_is_missing(storage):
    """Says why a client storage needs another server; None when it does not."""
    if not storage.is_connected():
        return 'connected to no server'
    if storage._read_only_fallback and storage.is_read_only():
        return 'connected to a read-only server only'
    return None


class ReadOnlyRefusals(logging.Filter):
    """Keeps from the log that a read-only server refused to be writable.

    ZEO writes an ERROR for each attempt; the watchdog says once what is missing.
    """

    def filter(self, record):
        return not (record.msg == '%s from server: %s:%s' and
                    record.args[1] == 'ZODB.POSException.ReadOnlyError')


class Renewal(object):
    """Renews those attempts of a `ZEO.asyncio.client.ClientIO` that ended.

    Call it in the client's I/O thread only.
    """

    def __init__(self, client):
        self._client = client
        self._asked_since = weakref.WeakKeyDictionary()
        # seconds, to which ZEO adds up to one at random
        client.connect_poll = 0

    def __call__(self, now):
        """Looks at every attempt; `now` is the time in seconds."""
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
            self._attempt(addr) for addr in client.addrs if addr not in tried]

    def _give_up(self, protocol):
        client = self._client
        if protocol is not client.protocol:
            protocol.close()
        elif not client.operational:
            protocol.close()
            client.disconnected(protocol)

    def _attempt(self, addr):
        client = self._client
        return Protocol(
            client.loop, addr, client, client.storage_key, client.read_only,
            client.connect_poll, ssl=client.ssl,
            ssl_server_hostname=client.ssl_server_hostname,
            credentials=client.credentials)
