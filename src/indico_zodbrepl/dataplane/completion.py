"""Keeps what follows a transaction's end from being told as its failure."""
import logging

from ZEO.Exceptions import ClientDisconnected
from ZODB.POSException import ConflictError

log = logging.getLogger(__name__)


class Completion(object):
    """The methods of an IMVCCStorage that ZODB calls when a transaction has ended.

    ZODB asks for invalidations at once then, so that objects are released
    early.  A server that is lost at that moment would make a commit that
    succeeded look failed, and hide that the outcome of another one is
    unknown: Indico would do again what may be saved.  Nothing is lost by
    silence: whoever uses the storage next is told.

    Not thread-safe, as the storage itself.

    Args:
        storage: an IMVCCStorage.
        translate: see `translation.translated`.
    """

    def __init__(self, storage, translate):
        self._storage = storage
        self._translate = translate
        self._at_the_end = False

    def sync(self, force=True):
        """Called before each poll; `force` is false where a transaction has ended."""
        self._at_the_end = not force
        self._storage.sync(force)

    def poll_invalidations(self):
        """Returns the ids of changed objects; None when all of them count as changed."""
        try:
            return self._storage.poll_invalidations()
        except Exception as error:
            if not self._at_the_end:
                raise
            self._silence(error)
            return None

    def after_completion(self):
        """Gives back what the transaction used."""
        try:
            self._storage.afterCompletion()
        except Exception as error:
            self._silence(error)

    def _silence(self, error):
        if not isinstance(
                self._translate(error), (ClientDisconnected, ConflictError)):
            raise
        log.info('after the end of a transaction: %s: %s',
                 type(error).__name__, error)
