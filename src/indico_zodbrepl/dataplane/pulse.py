"""Notices that the server a ZEO 5 client is connected to answers no more.

ZEO 5.4.1 waits for the answer to a call for as long as the connection stands.
A server that is frozen, or whose host went away without a word, so holds every
thread that needs it, although another server could be read from.
"""
import logging

from ZEO.Exceptions import ClientDisconnected

log = logging.getLogger(__name__)


class Pulse(object):
    """Asks the server for a sign of life and gives up a silent one.

    What was under way then ends in ClientDisconnected and the client looks for
    a server again.  Whether a commit that was waiting for its last answer has
    been saved is unknown, as with any connection lost at that moment.

    Silence is counted in looks, not by the clock: a client that was itself
    suspended must not take the answers it has not read yet for silence.

    Args:
        client: a `ZEO.asyncio.client.ClientIO`; call the pulse in its I/O
            thread only.
        limit: looks without a sign of life after which a server is given up.

    Attributes:
        silent: looks since the last sign of life, 0 when all is well; any
            thread may read it.
    """

    def __init__(self, client, limit):
        self._client = client
        self._limit = limit
        self._protocol = None
        self._ping = None
        self._traffic = None
        self.silent = 0

    def look(self):
        """Looks once; to be called at regular intervals."""
        client = self._client
        protocol = client.protocol if client.operational else None
        if protocol is not self._protocol:
            self._protocol, self._ping, self.silent = protocol, None, 0
        if protocol is None or protocol.closed:
            return
        traffic = _traffic(protocol)
        if self._ping is None or self._ping.done():
            self.silent = 0
            self._ping = protocol.server_call('ping')
        elif traffic != self._traffic:
            self.silent = 0
        else:
            self.silent += 1
        self._traffic = traffic
        if self.silent >= self._limit:
            self._give_up(protocol)

    def _give_up(self, protocol):
        log.warning('%r does not answer; looking for another server',
                    protocol.addr)
        transport = protocol.sm_protocol.transport
        protocol.close(ClientDisconnected('the server does not answer'))
        self._client.disconnected(protocol)
        # Without this it would wait until the server takes what is unsent.
        transport.abort()


def _traffic(protocol):
    """Changes while a long message is sent or received, which delays answers."""
    stream = protocol.sm_protocol
    return stream.transport.get_write_buffer_size(), stream.received_count
