"""Lets ZODB 5.8.1 forget a transaction that it has just cut off.

A server that is killed in the middle of a commit leaves an unfinished
transaction at the end of its data file.  The next start cuts it off, but still
gives its id as that of the last transaction.  A follower asks its upstream for
what comes after that id: were the transaction finished there, it would never
be sent, and nobody would notice.

Call `apply()` before the first `FileStorage` is opened.
"""
import struct
import sys

import ZODB.FileStorage
from ZODB.utils import u64, z64

BEGINNING = 4  # bytes of the file's magic number
LENGTH = 8

# The package has a class of the same name.
_module = sys.modules[ZODB.FileStorage.FileStorage.__module__]
_read_index = _module.read_index


def apply():
    """Changes FileStorage in this process; may be called repeatedly."""
    _module.read_index = _read_index_to_what_is_there


def last_tid(stream, end):
    """Returns the id of the transaction that ends where `end` is.

    Args:
        stream: a data file, open for reading; its position is moved.
        end: offset behind a transaction, or of the file's beginning.
    """
    if end <= BEGINNING:
        return z64
    stream.seek(end - LENGTH)
    length = u64(stream.read(LENGTH))
    stream.seek(end - LENGTH - length)
    return struct.unpack('>8s', stream.read(LENGTH))[0]


def _read_index_to_what_is_there(stream, *args, **kwargs):
    end, oid, _ = _read_index(stream, *args, **kwargs)
    return end, oid, last_tid(stream, end)
