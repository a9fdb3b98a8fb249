"""Close connections of a NEO client whose other end is silent.

NEO's client waits for each answer without a limit, so a frozen storage or
master would freeze every thread of Indico that needs it, forever.  Once its
connection is closed, NEO continues: reads go to another storage, a write
leaves the silent one out if the others suffice, and NEO searches for a new
primary.  A storage that waits for a lock still answers pings, and is left
alone; so is one that is busy with many messages sent before the ping, as long
as it answers some of them.
"""
from __future__ import absolute_import

import logging
import threading
import weakref

from indico_zodbrepl.dataplane.neo.library import import_neo

import_neo()

from neo.client.exception import NEOPrimaryMasterLost  # noqa: E402
from neo.lib.connection import ConnectionClosed, MTClientConnection  # noqa: E402
from neo.lib.protocol import Packets  # noqa: E402

from indico_zodbrepl.dataplane.neo.pings import ANSWERS, Pinger  # noqa: E402

log = logging.getLogger(__name__)

INTERVAL = 0.5  # seconds between two checks
ANSWER_LIMIT = 15.0  # seconds
# For a connection that was given up before, and has not answered since.
AGAIN_LOOKS = 2


class Liveness(object):
    """A daemon thread that monitors the connections of a `neo.client.app.Application`.

    It also reconnects when the connection to the primary master is lost, so
    that a process that refuses requests meanwhile finds the master again.

    Args:
        app: the application.
        limit: seconds after which a silent connection is closed.
    """

    def __init__(self, app, limit=ANSWER_LIMIT):
        self._app = app
        self._looks = max(1, int(limit / INTERVAL))
        self._closing = threading.Event()
        self._asked = weakref.WeakKeyDictionary()
        self._silent = {}
        self._connecting = None
        self._thread = _daemon(self._run, 'NEO liveness of %s' % app.name)

    def close(self):
        """Stop the thread; call it before the application is closed."""
        self._closing.set()
        self._thread.join()
        for greeting in list(self._silent.values()):
            greeting.close()

    def silent(self):
        """Return the addresses, (host, port), that were given up and have not answered since."""
        return set(self._silent)

    def connect(self):
        """Connect to the primary master in a thread of its own, unless one is connecting."""
        if self._connecting is None or not self._connecting.isAlive():
            self._connecting = _daemon(self._connect, 'connecting to NEO')

    def _connect(self):
        try:
            self._app._getMasterConnection()
        except NEOPrimaryMasterLost as error:
            log.info('no primary master yet: %s', error)
        except Exception:
            # An application that was closed meanwhile cannot be used any more.
            if not self._closing.is_set():
                raise

    def _run(self):
        while not self._closing.wait(INTERVAL):
            try:
                self._look_at_all()
            except Exception:  # without this thread, a frozen server freezes all others
                log.exception('%s: this look failed', self._app.name)

    def _look_at_all(self):
        if self._app.master_conn is None:
            self.connect()
        for connection in self._app.em.getConnectionList():
            if isinstance(connection, MTClientConnection):
                self._look(connection)
        for address, greeting in list(self._silent.items()):
            if greeting.state == ANSWERS:
                greeting.close()
                del self._silent[address]

    def _look(self, connection):
        """Check once; silence is counted in checks, because the clock runs while suspended."""
        ping, before, looks = self._asked.get(connection, (None, frozenset(), 0))
        waiting = _waiting(connection)
        if connection.connecting or before and before <= waiting:
            looks += 1
            known = connection.getAddress() in self._silent
            if looks >= (AGAIN_LOOKS if known else self._looks):
                self._give_up(connection)
                return
        else:
            looks = 0
            if ping not in waiting:
                try:
                    ping = connection.ask(Packets.Ping())
                except ConnectionClosed:
                    return
            waiting |= {ping}
        self._asked[connection] = ping, waiting, looks

    def _give_up(self, connection):
        address = connection.getAddress()
        log.warning('%s:%d is silent: its connection is closed', *address)
        if address not in self._silent:
            self._silent[address] = Pinger(address)
            self._silent[address].start()
        connection.close()


def _waiting(connection):
    """Return the ids of the messages that have not been answered yet."""
    try:
        pending = list(connection._handlers._pending)
    except AttributeError:  # closed meanwhile
        return frozenset()
    return frozenset(each for requests, _ in pending for each in requests.keys())


def _daemon(target, name):
    thread = threading.Thread(target=target, name=name)
    thread.setDaemon(True)
    thread.start()
    return thread
