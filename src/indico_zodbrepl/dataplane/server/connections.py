"""The server's end of a connection, of a client or of one that only asks a question.

It adds to ZEO 5.4.1:

- the request `since<16 hex digits of a tid>`, answered like `ruok`, which
  returns how many transactions each storage holds after that one;
- the request `history<16 hex digits of a tid>`, which returns whether each
  storage's history holds that one, and the digest of its content;
- a connection that the server itself closes gives its commit lock back.
  ZEO's own protocol forgets it, so one client that votes and then runs into
  `transaction-timeout` would block every later commit for good;
- a connection that is lost at once leaves no trace that would silence a later one.

Use everything here in the thread of the server's event loop.
"""
from __future__ import absolute_import

import json
import re
import threading

from ZEO.asyncio.server import Acceptor, ServerProtocol
from ZODB.POSException import ReadOnlyError

_HISTORY = re.compile(br'history([0-9a-fA-F]{16})\Z')
_SINCE = re.compile(br'since([0-9a-fA-F]{16})\Z')


class NodeProtocol(ServerProtocol):
    """A connection."""

    unlogged_exception_types = (
        ServerProtocol.unlogged_exception_types + (ReadOnlyError,))

    def connection_made(self, transport):
        self._socket = transport.get_extra_info('socket')
        ServerProtocol.connection_made(self, transport)
        self.zeo_storage.server.protocols.add(self)

    def finish_connection(self, protocol_version):
        server = self.zeo_storage.server
        since = _SINCE.match(protocol_version)
        history = _HISTORY.match(protocol_version)
        if since is not None:
            self._answer(server.since(since.group(1).decode('hex')))
        elif history is not None:
            reader = threading.Thread(
                target=server.history, name='history',
                args=(history.group(1).decode('hex'), self._answer_later))
            reader.daemon = True
            reader.start()
        else:
            ServerProtocol.finish_connection(self, protocol_version)

    def _answer_later(self, answer):
        self.call_soon_threadsafe(self._answer, answer)

    def _answer(self, answer):
        if not self.closed:
            self.write_message(json.dumps(answer))
            self.close()

    def connection_lost(self, exc):
        if self.zeo_storage is not None:
            self.zeo_storage.server.protocols.discard(self)
        ServerProtocol.connection_lost(self, exc)
        # If the first write failed, trollius 2.2 began to read afterwards.  The number of this socket
        # would stay among those that are read, and the next connection with that number would not be.
        self.loop.remove_reader(self._socket)

    def close(self):
        zeo_storage = self.zeo_storage
        ServerProtocol.close(self)
        if zeo_storage is not None:
            zeo_storage.server.protocols.discard(self)
        if zeo_storage is not None and zeo_storage.connected:
            zeo_storage.notify_disconnected()


class NodeAcceptor(Acceptor):
    """Accepts connections as `NodeProtocol`s."""

    def factory(self):
        return NodeProtocol(
            self.event_loop, self.addr,
            self.storage_server.create_client_handler(), self.msgpack)
