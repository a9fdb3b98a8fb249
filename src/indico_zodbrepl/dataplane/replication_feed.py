"""What followers that are up to date are sent, in the thread that commits."""
import logging
import threading

from indico_zodbrepl.dataplane.replication_stream import PIECE

logger = logging.getLogger('zodbrepl.replication')

# Bytes of the largest piece that a commit waits for; larger is only a large record.
_LARGEST = 2 * PIECE


class Feed(object):
    """Reads and encodes each transaction once, for all followers that wait for it.

    A follower that is behind, or takes data too slowly, reads for itself until
    it is up to date again.  So is everybody when a transaction is large or has
    blobs: a commit waits for no more than one read and one `send` a follower.

    Any thread may call it.

    Attributes:
        lock: held while followers are fed; they use it for what is theirs.
    """

    def __init__(self):
        self.lock = threading.Lock()
        self._followers = []
        self._tail = None

    def advance(self):
        """Sends the followers what has been committed; raises nothing."""
        # Also without followers: one may be about to join.
        with self.lock:
            self._advance()

    def join(self, follower, tail):
        """Feeds a follower from now on, if it is up to date.

        Args:
            follower: a `replication_producer.Producer`.
            tail: what it has read to the end; it belongs to the feed then.

        Returns None, or the Pieces of a transaction that it has to take first.
        """
        with self.lock:
            # Before the follower's own: it may not be ahead of the others.
            self._advance()
            transaction = tail.next()
            if transaction is not None:
                return transaction
            if follower.is_done():
                tail.close()
                return None
            self._followers.append(follower)
            if self._tail is None:
                self._tail = tail
                tail.is_stopped = self._never
            else:
                tail.close()
            return None

    def leave(self, follower):
        """Feeds a follower no longer; returns whether it was fed. Needs the lock."""
        if follower not in self._followers:
            return False
        self._followers.remove(follower)
        if not self._followers:
            self._tail.close()
            self._tail = None
        return True

    @staticmethod
    def _never():
        """Commits are over when somebody takes the storage's lock for good."""
        return False

    def _advance(self):
        try:
            while self._followers and self._send_next():
                pass
        except Exception:  # the transaction is committed, whatever went wrong here
            logger.exception('cannot send followers what was committed')
            for follower in list(self._followers):
                self.leave(follower)
                follower.give_up()

    def _send_next(self):
        """Returns False when there is nothing more."""
        before = self._tail.tid
        transaction = self._tail.next()
        if transaction is None:
            return False
        piece = next(transaction)
        is_whole = (len(piece.messages) <= _LARGEST
                    and next(transaction, None) is None)
        for follower in list(self._followers):
            if not is_whole or not follower.send(piece):
                self.leave(follower)
                follower.catch_up(before)
        return True
