"""Repairs zc.zrs 3.1.0 for ZODB 5.6 and later on Python 2.7.

zc.zrs 3.1.0 is the last release.  Three places in it stopped working when
ZODB moved to pickle protocol 3 and to `extension_bytes`:

1. A secondary's transaction has no `extension_bytes`, which
   `BaseStorage.tpc_begin` reads: nothing is ever replicated, and the
   secondary's commit lock stays taken.
2. A primary reads extension data with cPickle, which cannot read protocol 3:
   replication ends at the first transaction that carries such data.  Here the
   bytes pass unread, so copies are exact.
3. A primary recognises blob records with cPickle: it sends them as ordinary
   records, without the blob's file.

One more defect is as old as zc.zrs's blobs:

4. A secondary takes a blob of no bytes for an ordinary record: the blob's file
   is missing there.

Call `apply()` before the first `zc.zrs` storage is opened.  Primaries and
secondaries need it alike.
"""
import cPickle

import pkg_resources
import zc.zrs.primary
import zc.zrs.secondary
import ZODB.blob
from ZODB.Connection import TransactionMetaData

WRITTEN_FOR = '3.1.0'

_receive = zc.zrs.secondary.SecondaryProtocol.__dict__['messageReceived']


class UnknownVersion(Exception):
    """An installed library is not the one this repair was written for."""


class ReplicatedTransaction(TransactionMetaData):
    """What a secondary passes to its storage for one received transaction.

    Args:
        tid: transaction id, 8 bytes.
        status: one byte, as in the data file.
        user, description: bytes.
        extension: the bytes of the primary's file, or a dict.
    """

    def __init__(self, tid, status, user, description, extension):
        TransactionMetaData.__init__(self, user, description, extension)
        self.id = tid
        self.status = status


class _Pickle(object):
    """What `zc.zrs.primary` uses of cPickle, with extension data unread."""

    Pickler = cPickle.Pickler

    @staticmethod
    def loads(data):
        return data


def _receive_with_empty_blobs(protocol, message):
    """`SecondaryProtocol.messageReceived` that knows a blob of no bytes.

    A blob's header says how many blocks follow its record; an ordinary
    record's header leaves that number as it was.  So the number is cleared
    before each header, and 0 after it means an empty blob.  That gets one
    block of no bytes, which changes neither the blob's file nor the stream's
    checksum.
    """
    if not protocol._SecondaryProtocol__record:
        if not protocol._SecondaryProtocol__blob_record:
            protocol._SecondaryProtocol__blob_file_blocks = None
        _receive(protocol, message)
    elif protocol._SecondaryProtocol__blob_file_blocks == 0:
        protocol._SecondaryProtocol__blob_file_blocks = 1
        _receive(protocol, message)
        _receive(protocol, b'')
    else:
        _receive(protocol, message)


def check_versions():
    """Raises UnknownVersion unless the installed libraries can be repaired."""
    found = pkg_resources.get_distribution('zc.zrs').version
    if found != WRITTEN_FOR:
        raise UnknownVersion(
            'zc.zrs %s is installed, but this repair was written for %s: '
            'install zc.zrs==%s' % (found, WRITTEN_FOR, WRITTEN_FOR))
    if not hasattr(TransactionMetaData, 'extension_bytes'):
        raise UnknownVersion(
            'ZODB %s is installed, but this repair needs 5.6 or later'
            % pkg_resources.get_distribution('ZODB').version)


def is_applied():
    """Tells whether zc.zrs is repaired in this process."""
    return zc.zrs.secondary.Transaction is ReplicatedTransaction


def apply():
    """Repairs zc.zrs in this process; a second call changes nothing.

    Raises UnknownVersion, and then changes nothing, when another zc.zrs or a
    too old ZODB is installed.
    """
    check_versions()
    zc.zrs.secondary.Transaction = ReplicatedTransaction
    zc.zrs.secondary.SecondaryProtocol.messageReceived = (
        _receive_with_empty_blobs)
    zc.zrs.primary.cPickle = _Pickle
    zc.zrs.primary.is_blob_record = ZODB.blob.is_blob_record
