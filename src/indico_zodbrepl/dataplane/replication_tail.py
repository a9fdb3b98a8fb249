"""The transactions of a storage's data file, while a server writes and packs it."""
import time

from ZODB.utils import z64

from indico_zodbrepl.dataplane.datafs.datafile import DataFile
from indico_zodbrepl.dataplane.datafs.records import START
from indico_zodbrepl.dataplane.replication_stream import pieces

_UNDONE = b'u'
_POLL = 0.01


class Stopped(Exception):
    """Nobody wants the transactions any more."""


class Tail(object):
    """What a storage has committed after some transaction.

    For one thread at a time.  It takes the storage's lock only to open its
    file: at first, and after a pack.

    Args:
        storage: an open FileStorage.
        tid: id of the transaction after which to begin; `z64` for all.  Where
            a pack has removed it, the next that is there comes first.
        is_stopped: called while it has to wait; when true, Stopped is raised.

    Attributes:
        tid: id of the last transaction that it gave.
        is_stopped: as above; set it when another one uses it from now on.

    Raises DataFileError.
    """

    def __init__(self, storage, tid, is_stopped):
        self.tid = tid
        self._storage = storage
        self.is_stopped = is_stopped
        self._data_file = None
        try:
            self._open()
        except:  # noqa: E722 raised again
            self.close()
            raise

    def close(self):
        if self._data_file is not None:
            self._data_file.close()
            self._data_file = None

    def next(self):
        """Returns the Pieces of the next transaction, or None while there is none.

        Take all pieces before you call it again.  The transaction, with all
        that is before it, is on the disk.
        """
        while True:
            # In this order: a pack sets a new file first, then its end.
            end = self._storage._pos
            if self._storage._file is not self._seen:
                self._open()
                continue
            if self._position >= end:
                return None
            self._data_file.end = end
            transaction = self._data_file.at(self._position)
            self._position = transaction.end
            self.tid = transaction.tid
            if transaction.status != _UNDONE:
                return pieces(self._data_file, transaction,
                              self._storage.loadBlob)

    def _open(self):
        # At a server's end somebody else takes the lock for good.
        while not self._storage._lock.acquire(False):
            if self.is_stopped():
                raise Stopped()
            time.sleep(_POLL)
        try:
            self.close()
            self._seen = self._storage._file
            self._data_file = DataFile(self._storage._file_name)
        finally:
            self._storage._lock.release()
        last = self.tid != z64 and self._data_file.find(self.tid)
        self._position = last.end if last else START
