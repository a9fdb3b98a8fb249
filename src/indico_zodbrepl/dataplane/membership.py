"""Whether a data file's history holds a transaction, not only one later than it."""
from ZODB.utils import z64

from indico_zodbrepl.dataplane.datafs.datafile import DataFile
from indico_zodbrepl.dataplane.datafs.records import digest


def look_up(path, tid, with_digest=False):
    """Reads a data file from its end; quick for recent transactions.

    Any thread may do so while a server writes the file.

    Args:
        path: of the Data.fs.
        tid: 8 bytes; `z64` is the beginning, which every history holds.
        with_digest: whether to identify the transaction's content.

    Returns (known, digest): known is None where a pack may have removed the
    transaction; the digest is None unless the transaction is there whole.
    Raises DataFileError.
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
            return _between(transaction, following), None
        if with_digest and not transaction.packed:
            return True, digest(data_file, transaction)
        return True, None


def _between(before, after):
    """Judges a place between two transactions of the file, or at its ends."""
    if after is None:
        return False
    packed = after.packed or before is not None and before.packed
    return None if packed else False
