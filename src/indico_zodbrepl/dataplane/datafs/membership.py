"""Look a transaction up in the history of a Data.fs."""
from __future__ import absolute_import

from ZODB.utils import z64

from indico_zodbrepl.dataplane.datafs.datafile import DataFile
from indico_zodbrepl.dataplane.datafs.packs import packed_until
from indico_zodbrepl.dataplane.datafs.records import digest


def look_up(path, tid, with_digest=False):
    """Look a transaction up in a data file from its end; fast for recent ones.

    Any thread may do so while a server writes the file.

    Args:
        path: of the Data.fs.
        tid: 8 bytes; `z64` is the beginning, which every history holds.
        with_digest: True to compute the digest of the transaction's content.

    Returns (known, digest): known is None if a pack may have removed the
    transaction; the digest is None unless the transaction is complete.  Raises
    DataFileError.
    """
    if tid == z64:
        return True, None
    with DataFile(path) as data_file:
        following = None
        for transaction in data_file.backward():
            if transaction.tid <= tid:
                break
            following = transaction
        else:
            transaction = None
        if transaction is None or transaction.tid < tid:
            until = packed_until(data_file)
            if until is not None and tid > until:
                return False, None
            return _between(transaction, following), None
        if with_digest and not transaction.packed:
            return True, digest(data_file, transaction)
        return True, None


def _between(before, after):
    """Judge a gap between two transactions of the file, or at its ends."""
    if after is None:
        return False
    packed = after.packed or before is not None and before.packed
    return None if packed else False
