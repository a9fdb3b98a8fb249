"""Importing this makes every FileStorage of the process one whose commits can be refused."""
import ZODB.FileStorage
from ZEO.Exceptions import ClientDisconnected
from ZODB.POSException import ConflictError

LOST = ClientDisconnected()
LOST.outcome_unknown = True


class RefusingStorage(ZODB.FileStorage.FileStorage):
    """A FileStorage whose next commits fail when they are voted on, or when they are saved already."""
    error = ConflictError()
    passes = refusals = 0

    def tpc_vote(self, transaction):
        if RefusingStorage.passes:
            RefusingStorage.passes -= 1
        elif RefusingStorage.error is not LOST:
            self._refuse()
        return super(RefusingStorage, self).tpc_vote(transaction)

    def tpc_finish(self, *args):
        tid = super(RefusingStorage, self).tpc_finish(*args)
        if RefusingStorage.error is LOST:
            self._refuse()
        return tid

    @staticmethod
    def _refuse():
        if RefusingStorage.refusals:
            RefusingStorage.refusals -= 1
            raise RefusingStorage.error


ZODB.FileStorage.FileStorage = RefusingStorage
