"""The primary's side of replication: send transactions to each follower."""
from __future__ import absolute_import

import logging
import socket
import threading
from hashlib import md5

from twisted.internet.interfaces import IPullProducer
from ZODB.interfaces import IBlobStorage
from zope.interface import implementer

from indico_zodbrepl.dataplane.datafs.failures import DataFileError
from indico_zodbrepl.dataplane.programs.addresses import format_peer
from indico_zodbrepl.dataplane.datafs.membership import look_up
from indico_zodbrepl.dataplane.zrs import confirmations
from indico_zodbrepl.dataplane.zrs.stream import BLOBS, PIECE, WHOLE, Stopped, Tail, checksum, notice

logger = logging.getLogger('zodbrepl.replication')

# Bytes buffered for a follower that takes no data at the moment.  If it needs more, the data file
# is read later.
BACKLOG = 1 << 20


@implementer(IPullProducer)
class Producer(object):
    """A producer that sends one follower its transactions, if their histories agree.

    A thread of its own compares the histories, and sends what the follower
    lacks, piece by piece as the follower takes it.  Then the thread ends, and
    the feed calls `send` for each transaction; see `Feed`.

    Called by zc.zrs, in the reactor's thread, with the arguments of its own
    PrimaryProducer.

    Attributes:
        accepted: True if the histories agree, as soon as that is known.
        may_answer: True if the follower was asked for confirmations.
    """

    accepted = may_answer = False
    _asked = confirmations.NONE
    _closed = _stopped = False

    def __init__(self, arguments, transport, peer, run):
        self._storage, _, self._start_tid = arguments
        self._transport = transport
        self._peer = peer
        self._run = run
        self._factory = transport.protocol.factory
        self._feed = self._factory.feed
        self._sharing = self._factory.sharing
        self._confirmations = self._factory.confirmations
        self._link = self._sharing.open_link()
        self._call = transport.reactor.callFromThread
        self._md5 = md5(self._start_tid)
        self._backlog = []
        self._backlog_size = 0
        # Set while the transport has nothing to send.
        self._drained = threading.Event()
        transport.registerProducer(self, False)
        self._start_thread(self._admit)

    # Called in the reactor's thread:

    def resumeProducing(self):
        with self._feed.lock:
            waiting = self._take_backlog()
            if not waiting:
                self._drained.set()
        self._transport.writeSequence(waiting)

    def stopProducing(self):
        # First: the holder of the lock may wait for just that, see `Tail`.
        self._stopped = True
        with self._feed.lock:
            self._feed.leave(self)
        self._drained.set()
        self._sharing.close_link(self._link)
        self._confirmations.left(self)

    def _write(self, data):
        if not self._stopped:
            self._transport.write(data)

    def _close(self):
        if self._stopped:
            return
        with self._feed.lock:
            waiting = self._take_backlog()
        self._transport.writeSequence(waiting)
        self._transport.unregisterProducer()
        self.stopProducing()
        if self._closed:
            # The follower ends the connection when it has taken everything.
            self._transport.loseWriteConnection()
        else:
            self._transport.loseConnection()

    # Called in any thread:

    def close(self):
        """Send what is committed, and end this direction of the connection."""
        self._feed.advance()
        with self._feed.lock:
            self._closed = True
            if self._feed.leave(self):
                self.give_up()

    def give_up(self):
        """Close the connection after everything sent so far."""
        self._call(self._close)

    # Called by the feed, with its lock:

    def is_done(self):
        """Return True if the follower needs no more than it has, so that this is its end."""
        if self._closed:
            self.give_up()
        return self._closed or self._stopped

    def send(self, piece):
        """Send a whole transaction.

        Return False if too much data is waiting to be sent, or the follower
        lacks a blob that the transaction only names.
        """
        if any(self._link not in upload.holders for upload in piece.uploads):
            return False
        is_drained = self._drained.is_set()
        if not is_drained and self._backlog_size > BACKLOG:
            return False
        self._md5.update(piece.content)
        self._send_in_turn(is_drained, piece.messages, checksum(self._md5))
        self._named(piece)
        return True

    def ask(self):
        """Ask the follower for confirmations, unless it was asked already."""
        question = self._new_question()
        if question is not None:
            self._md5.update(question.content)
            self._send_in_turn(self._drained.is_set(), question.messages)

    def _send_in_turn(self, is_drained, *parts):
        if is_drained:
            self._send_now(b''.join(parts))
        else:
            # All followers' backlogs share the bytes of a transaction.
            self._backlog += parts
            self._backlog_size += len(parts[0])

    def _new_question(self):
        """Return the Piece that asks for confirmations; None if it was sent already."""
        question = self._confirmations.question
        if question == self._asked:
            return None
        self._asked = question
        self.may_answer = True
        return confirmations.ask(question)

    def upload_of(self, oid, tid):
        """Return the `Upload` that became a blob, if the follower has it, or None."""
        return self._link.held(oid, tid)

    def _named(self, piece):
        for upload in piece.uploads:
            self._sharing.sent(upload, self._link)

    def catch_up(self, tid):
        """Send what follows a transaction, in a thread of its own."""
        try:
            self._start_thread(self._send_after, tid)
        except threading.ThreadError:
            # The system has no more threads; without one the follower would never get anything.
            logger.exception('cannot go on sending to follower %s', self._peer)
            self.give_up()

    def _send_now(self, data):
        try:
            sent = self._transport.getHandle().send(data)
        except socket.error:
            # It would block, or is broken: the reactor finds out.
            sent = 0
        if sent < len(data):
            self._drained.clear()
            self._call(self._write, data[sent:])

    def _take_backlog(self):
        waiting, self._backlog, self._backlog_size = self._backlog, [], 0
        return waiting

    # Called in the follower's own thread:

    def _start_thread(self, target, *args):
        thread = threading.Thread(
            target=self._run, args=(self._guard, target) + args,
            name='Producer(%s)' % self._peer)
        thread.daemon = True
        thread.start()

    def _guard(self, target, *args):
        try:
            target(*args)
        except Stopped:
            pass
        except Exception:  # the follower reconnects, to a new producer
            logger.exception('cannot go on sending to follower %s', self._peer)
            self.give_up()

    def _admit(self):
        peer = format_peer(self._transport)
        try:
            known, _ = look_up(self._storage.getName(), self._start_tid)
        except DataFileError as error:
            logger.critical('cannot compare follower %s: %s', peer, error)
            self.give_up()
            return
        if known is False:
            self._factory.refusals.refuse(peer, self._start_tid)
            self.give_up()
            return
        self._factory.refusals.accept(peer)
        self.accepted = True
        first = ()
        if IBlobStorage.providedBy(self._storage):
            first = [notice(BLOBS + self._link.token)]
        self._send_after(self._start_tid, first)

    def _send_after(self, tid, first=()):
        tail = Tail(self._storage, tid, lambda: self._stopped, self._factory.missing_blobs.add)
        try:
            self._send_all(tail, first)
        except:  # noqa: E722 raised again
            tail.close()
            raise

    def _send_all(self, tail, first):
        collected, size = [], 0
        for piece in first:
            self._md5.update(piece.content)
            collected.append(piece.messages)
        while True:
            question = self._new_question()
            if question is not None:
                self._md5.update(question.content)
                collected.append(question.messages)
            transaction = tail.next(self.upload_of)
            if transaction is None:
                self._send_when_drained(collected)
                collected, size = [], 0
                transaction = self._feed.join(self, tail)
                if transaction is None:
                    return
            for piece in transaction:
                self._md5.update(piece.content)
                collected.append(piece.messages)
                self._named(piece)
                size += len(piece.messages)
                if size > PIECE:
                    self._send_when_drained(collected)
                    collected, size = [], 0
            collected.append(checksum(self._md5))

    def _send_when_drained(self, collected):
        self._drained.wait()
        if self._stopped:
            raise Stopped()
        if collected:
            self._drained.clear()
            self._call(self._write, b''.join(collected))


class Feed(object):
    """Reads and encodes each transaction once, for all followers that are up to date.

    A follower that is behind, or takes data too slowly, is served by its own
    thread until it is up to date again.  So are all followers if a transaction
    is large or has blobs that do not have their own channel: a commit waits for no more than one read, and one
    `send` per follower.

    Any thread may call it.

    Args:
        sharing: the uploads that followers may have already.

    Attributes:
        lock: held while followers are fed; they use it for their own state too.
    """

    def __init__(self, sharing):
        self.lock = threading.Lock()
        self._sharing = sharing
        self._followers = []
        self._tail = None

    def advance(self):
        """Send committed transactions to the followers; raise nothing."""
        # Also without followers: one may be about to join.
        with self.lock:
            self._advance()

    def join(self, follower, tail):
        """Feed a follower from now on, if it is up to date.

        Args:
            follower: a `Producer`.
            tail: its `Tail`, read to the end; it belongs to the feed then.

        Returns None, or the Pieces of a transaction that it must take first.
        """
        with self.lock:
            # Before the follower's own: it must not get ahead of the others.
            self._advance()
            transaction = tail.next(follower.upload_of)
            if transaction is not None:
                return transaction
            if follower.is_done():
                tail.close()
                return None
            self._followers.append(follower)
            follower.ask()
            if self._tail is None:
                self._tail = tail
                tail.is_stopped = self._never
            else:
                tail.close()
            return None

    def ask(self):
        """Ask the followers for confirmations; each that is not fed yet is asked by its thread."""
        with self.lock:
            for follower in self._followers:
                follower.ask()

    def leave(self, follower):
        """Stop feeding a follower; return True if it was fed.  Needs the lock."""
        if follower not in self._followers:
            return False
        self._followers.remove(follower)
        if not self._followers:
            self._tail.close()
            self._tail = None
        return True

    @staticmethod
    def _never():
        """Return False: commits are over once somebody takes the storage's lock for good."""
        return False

    def _advance(self):
        try:
            while self._followers and self._send_next():
                pass
        except Exception:  # the transaction is committed, whatever fails here
            logger.exception('cannot send followers what was committed')
            for follower in list(self._followers):
                self.leave(follower)
                follower.give_up()

    def _send_next(self):
        """Send the next transaction; return False if there is none."""
        before = self._tail.tid
        transaction = self._tail.next(self._sharing.reference)
        if transaction is None:
            return False
        piece = next(transaction)
        is_whole = (len(piece.messages) <= WHOLE
                    and next(transaction, None) is None)
        for follower in list(self._followers):
            if not is_whole or not follower.send(piece):
                self.leave(follower)
                follower.catch_up(before)
        return True
