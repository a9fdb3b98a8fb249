"""The connections between primaries and secondaries, made reliable.

zc.zrs lacks nine things that a service needs:

- A primary that cannot bind its port continues without it.  Here the error is
  kept, and `require_listening()` raises it.
- A dead peer, or a link that swallows packets, is noticed by neither side for
  a quarter of an hour.  Here TCP notices within `DEAD_AFTER` seconds.
- A primary that ends closes its sockets while followers still send
  keep-alives; the kernel then drops what it has not delivered yet.  Here the
  primary ends its own direction only, and the follower closes the connection
  after it has taken everything.
- A follower whose last transaction the primary does not have is accepted as
  soon as the primary has a later one: their histories then differ unnoticed.
  Here it is refused.
- A primary spends more on one follower than on the commits themselves, and a
  small transaction may wait 40 ms for the kernel.  `replication_producer` sends
  in place of zc.zrs's own.
- A large blob holds up all later transactions.  Followers that can take blobs on a connection of
  their own, before their transaction (see `sharing`).
- A follower never says what it has.  Here it confirms transactions, if it is asked (see
  `confirmations`).
- `reconnect_delay` (60 s) has no setting, and reconnecting floods the log.
- Its timers use the system clock.  While that is set back, a follower does not
  reconnect. Here they use the monotonic clock.

`install()` replaces zc.zrs's own classes by these.
"""
from __future__ import absolute_import

import functools
import logging
import socket
import struct

import twisted.internet.threads
import zc.zrs.primary
import zc.zrs.secondary
import zc.zrs.sizedmessage
from twisted.internet.base import ReactorBase
from twisted.internet.error import CannotListenError
from zc.zrs.sizedmessage import LimitExceeded

from indico_zodbrepl.dataplane.programs.addresses import format_address
from indico_zodbrepl.dataplane.programs.clock import MonotonicTime, monotonic
from indico_zodbrepl.dataplane.server.status import MissingBlobs, Refusals
from indico_zodbrepl.dataplane.zrs import confirming
from indico_zodbrepl.dataplane.zrs.channel import CHANNEL, Channel
from indico_zodbrepl.dataplane.zrs.confirmations import BadAnswer, Confirmations
from indico_zodbrepl.dataplane.zrs.loop_reader import LoopReader
from indico_zodbrepl.dataplane.zrs.receiving import ReceivingProtocol
from indico_zodbrepl.dataplane.zrs.repairs import UpstreamLog
from indico_zodbrepl.dataplane.zrs.sending import Feed, Producer
from indico_zodbrepl.dataplane.zrs.sharing import Sharing

logger = logging.getLogger('zodbrepl.replication')

# Seconds until a peer that answers no packet, or takes no data, is given up.
DEAD_AFTER = 30

# Bytes of a follower's message; zc.zrs takes 8, and a confirmation may be longer.
_LONGEST = 1024

# Seconds after which a connection to an upstream that says nothing counts as made.  A tunnel accepts
# one for a host that is lost, and closes it after 2 s.
_SETTLED_AFTER = 5.0

# zc.zrs's own classes, also after `install()`
_Primary = zc.zrs.primary.Primary

# of linux/tcp.h; Python 2.7's socket module does not know its name
_TCP_USER_TIMEOUT = 18


def notice_dead_peer(transport):
    """Make the kernel end a TCP connection whose peer is gone or stuck."""
    handle = transport.getHandle()
    if handle.family not in (socket.AF_INET, socket.AF_INET6):
        return
    handle.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    tcp = socket.IPPROTO_TCP
    handle.setsockopt(tcp, socket.TCP_KEEPIDLE, 10)
    handle.setsockopt(tcp, socket.TCP_KEEPINTVL, 5)
    handle.setsockopt(tcp, socket.TCP_KEEPCNT, 3)
    handle.setsockopt(tcp, _TCP_USER_TIMEOUT, DEAD_AFTER * 1000)


def send_at_once(transport):
    """Make the kernel send small transactions while others are under way."""
    handle = transport.getHandle()
    if handle.family in (socket.AF_INET, socket.AF_INET6):
        handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


# How followers greet: those that store blobs, and others.  The messages are the same.
WITH_BLOBS, WITHOUT_BLOBS = b'zrs2.1', b'zrs2.0'


class FollowerProtocol(zc.zrs.primary.PrimaryProtocol):
    """The primary's side of a link."""

    _closing = _is_channel = _is_lost = False
    _channel = _reader = None
    _host = ''

    def connectionMade(self):
        notice_dead_peer(self.transport)
        send_at_once(self.transport)
        self._host = getattr(self.transport.getPeer(), 'host', '')
        zc.zrs.primary.PrimaryProtocol.connectionMade(self)
        self._PrimaryProtocol__stream = Stream(self.messageReceived, _LONGEST)

    def connectionLost(self, reason):
        self._is_lost = True
        if self._reader is not None:
            self._reader.stop()
        zc.zrs.primary.PrimaryProtocol.connectionLost(self, reason)

    def dataReceived(self, data):
        zc.zrs.primary.PrimaryProtocol.dataReceived(self, data)
        producer, loop = self._PrimaryProtocol__producer, self.factory.confirmations.loop
        if (self._reader is None and loop is not None and producer is not None
                and producer.may_answer and not self._closing):
            self._reader = LoopReader(self.transport, loop)

    def messageReceived(self, data):
        if self._is_channel:
            self._channel_received(data)
            return
        if data == CHANNEL and self._PrimaryProtocol__protocol is None:
            self._is_channel = True
            return
        if data == WITHOUT_BLOBS and self._PrimaryProtocol__protocol is None:
            # A server of the first release has no folder for blobs.  It follows while there are none;
            # a blob ends its link.
            data = WITH_BLOBS
        producer = self._PrimaryProtocol__producer
        if data and producer is not None and producer.may_answer:
            self._confirmed(producer, data)
            return
        zc.zrs.primary.PrimaryProtocol.messageReceived(self, data)
        # A producer that was made meanwhile keeps the connection open.
        if self._closing and self._PrimaryProtocol__producer is not None:
            self._PrimaryProtocol__producer.close()

    def close(self):
        self._closing = True
        if self._channel is not None:
            self._channel.abort()
        if self._reader is not None:
            self._reader.stop()
        zc.zrs.primary.PrimaryProtocol.close(self)

    def _confirmed(self, producer, data):
        try:
            self.factory.confirmations.heard(producer, data, self._host)
        except BadAnswer as error:
            self.error('no confirmation: %s', error)
        if self._is_lost:
            # This may be another thread than that in which the connection ended.
            self.factory.confirmations.left(producer)

    def _channel_received(self, data):
        if self._channel is not None:
            self._channel.answered(data)
            return
        self._channel = Channel(
            self.factory.sharing, data, self.transport, self.factory.threads.run)
        if self._closing or not self._channel.is_open:
            self.transport.abortConnection()


class Primary(_Primary):
    """A primary that feeds its followers, and keeps the error if its port cannot be bound."""

    listen_error = None
    # The `Members` whose confirmations count; None for all.
    members = None

    def __init__(self, *args, **kwargs):
        self.sharing = Sharing()
        self.confirmations = Confirmations(self.members)
        self._feed = Feed(self.sharing)
        _Primary.__init__(self, *args, **kwargs)

    def tpc_finish(self, *args):
        tid = self._storage.tpc_finish(*args)
        self._feed.advance()
        return tid

    def feed_followers(self):
        """Send transactions that did not pass through this storage; any thread may call it."""
        self._feed.advance()

    def ask(self, question):
        """Ask all followers, also later ones, a `confirmations.Question`; any thread may call it."""
        self.confirmations.question = question
        self._feed.ask()

    def cfr_listen(self):
        self._factory.protocol = FollowerProtocol
        self._factory.refusals = Refusals()
        self._factory.missing_blobs = MissingBlobs()
        self._factory.feed = self._feed
        self._factory.sharing = self.sharing
        self._factory.confirmations = self.confirmations
        try:
            _Primary.cfr_listen(self)
        except CannotListenError as error:
            self.listen_error = error


def require_listening(primary):
    """Wait until the primary listens for followers.

    Raises twisted's CannotListenError if it could not bind its port.
    Do not call it in the reactor's thread.
    """
    # Calls into the reactor's thread run in order, so this one runs after the `cfr_listen` of the
    # constructor.
    error = twisted.internet.threads.blockingCallFromThread(
        primary._reactor, getattr, primary, 'listen_error')
    if error is not None:
        raise error


class UpstreamProtocol(ReceivingProtocol):
    """The secondary's side of its link."""

    _has_heard = False

    def connectionMade(self):
        notice_dead_peer(self.transport)
        send_at_once(self.transport)
        ReceivingProtocol.connectionMade(self)
        self.factory.connected()

    def messageReceived(self, message):
        if not self._has_heard:
            self._has_heard = True
            self.factory.answered()
        ReceivingProtocol.messageReceived(self, message)


class UpstreamFactory(zc.zrs.secondary.SecondaryFactory):
    """Keeps a secondary connected.

    Args:
        delay: seconds between two attempts to connect.
        identity: of this node, a `confirming.Identity`.
        reactor, storage: as for zc.zrs's factory.
        reconnect_delay: zc.zrs's own delay, which is not used.
        others: further arguments of zc.zrs's factory.
    """

    protocol = UpstreamProtocol
    noisy = False

    def __init__(self, delay, identity, reactor, storage, reconnect_delay, *others):
        zc.zrs.secondary.SecondaryFactory.__init__(
            self, reactor, storage, delay, *others)
        self.identity = identity
        self._log = UpstreamLog(
            logger, format_address(self.secondary._addr), delay)
        self._settling = None

    # True while the upstream admits this node: it has said something on the present connection, or
    # has kept it open for some seconds, as one does that has nothing to say.
    is_admitted = False

    def connected(self):
        self._settling = self.reactor.callLater(_SETTLED_AFTER, self._settled)

    def answered(self):
        """Note the first message of a connection."""
        self.is_admitted = True

    def _settled(self):
        self._settling = None
        self.is_admitted = True
        self._log.following()

    def clientConnectionFailed(self, connector, reason):
        if not self.closed:
            self._log.unreachable(reason.getErrorMessage())
        zc.zrs.secondary.SecondaryFactory.clientConnectionFailed(
            self, connector, reason)

    def clientConnectionLost(self, connector, reason):
        self.is_admitted = False
        report = self._log.lost
        if self._settling is not None:
            self._settling.cancel()
            self._settling = None
            report = self._log.turned_away
        if not self.closed:
            report(reason.getErrorMessage())
        zc.zrs.secondary.SecondaryFactory.clientConnectionLost(
            self, connector, reason)


def followed(factory, secondary):
    """Return a new factory for a secondary that changes its upstream.

    Args:
        factory: the previous one, which is closed.
        secondary: its address is that of the new upstream.
    """
    new = secondary.factoryClass(
        factory.reactor, factory.storage, factory.reconnect_delay,
        factory.check_checksums, factory.zrs_proto, factory.keep_alive_delay,
        secondary)
    new.db = factory.db
    return new


def install(reconnect_delay, identity, members=None):
    """Make zc.zrs use the classes of this module from now on.

    Args:
        reconnect_delay: seconds that secondaries wait between two attempts.
        identity: of this node, a `confirming.Identity`.
        members: the `Members` whose confirmations count; None for all.
    """
    Primary.members = members
    confirming.install()
    ReactorBase.seconds = staticmethod(monotonic)
    zc.zrs.primary.time = MonotonicTime
    zc.zrs.primary.Primary = Primary
    zc.zrs.primary.PrimaryProducer = Producer
    zc.zrs.sizedmessage.Stream = Stream
    zc.zrs.secondary.Secondary.factoryClass = functools.partial(
        UpstreamFactory, reconnect_delay, identity)


_LENGTH = struct.Struct('>I')


class Stream(object):
    """A substitute for `zc.zrs.sizedmessage.Stream`, which copies its buffer for each message.

    Args:
        callback: called with each message, bytes.
        limit: of a message, in bytes; LimitExceeded is raised for more.
    """

    def __init__(self, callback, limit=1 << 32):
        self._callback = callback
        self._limit = limit
        self._received = []
        self._size = 0
        self._wanted = _LENGTH.size

    def __call__(self, data):
        """Take arrived bytes, in pieces of any size."""
        self._received.append(data)
        self._size += len(data)
        if self._size < self._wanted:
            return
        data = b''.join(self._received)
        position, size = 0, len(data)
        try:
            while True:
                self._wanted = _LENGTH.size
                begin = position + _LENGTH.size
                if begin > size:
                    break
                length, = _LENGTH.unpack_from(data, position)
                if length > self._limit:
                    raise LimitExceeded(self._limit, length)
                if begin + length > size:
                    self._wanted += length
                    break
                position = begin + length
                self._callback(data[begin:position])
        finally:
            self._received = [data[position:]]
            self._size = size - position
