"""Repair zc.zrs 3.1.0 for ZODB 5.6 and later on Python 2.7.

zc.zrs 3.1.0 is the last release.  Its secondary's transaction has no
`extension_bytes`, which `BaseStorage.tpc_begin` reads since ZODB 5.6: nothing
is ever replicated, and the secondary's commit lock stays taken.

Its secondary also mistakes an empty blob for an ordinary record, and its
primary's sending broke when ZODB moved to pickle protocol 3; here `receiving`
and `sending` replace them.

Call `apply()` before the first `zc.zrs` storage is opened.
"""
from __future__ import absolute_import

import struct
import sys

import zc.zrs.secondary
import ZODB.FileStorage
from ZODB.Connection import TransactionMetaData
from ZODB.utils import u64, z64

from indico_zodbrepl.dataplane.programs.distributions import version_of

WRITTEN_FOR = '3.1.0'


class UnknownVersion(Exception):
    """An installed library is not the version that this repair was written for."""


class ReplicatedTransaction(TransactionMetaData):
    """The transaction that a secondary passes to its storage.

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


def check_versions():
    """Raise UnknownVersion unless the installed libraries can be repaired."""
    found = version_of('zc.zrs')
    if found != WRITTEN_FOR:
        raise UnknownVersion(
            'zc.zrs %s is installed, but this repair was written for %s: '
            'install zc.zrs==%s' % (found, WRITTEN_FOR, WRITTEN_FOR))
    if not hasattr(TransactionMetaData, 'extension_bytes'):
        raise UnknownVersion(
            'ZODB %s is installed, but this repair needs 5.6 or later'
            % version_of('ZODB'))


def is_applied():
    """Return True if zc.zrs is repaired in this process."""
    return zc.zrs.secondary.Transaction is ReplicatedTransaction


def apply():
    """Repair zc.zrs in this process; a second call changes nothing.

    Raises UnknownVersion, without a change, if another version of zc.zrs or
    too old a ZODB is installed.
    """
    check_versions()
    zc.zrs.secondary.Transaction = ReplicatedTransaction


BEGINNING = 4  # bytes of the file's magic number
LENGTH = 8

# The package has a class of the same name.
_module = sys.modules[ZODB.FileStorage.FileStorage.__module__]
_read_index = _module.read_index


def repair_last_tid():
    """Repair FileStorage in this process; may be called repeatedly."""
    _module.read_index = _read_index_to_what_is_there


def beginning_of(stream, end):
    """Return the offset at which the transaction begins that ends at another one.

    Args:
        stream: a data file, open for reading; its position is moved.
        end: offset behind a transaction.
    """
    stream.seek(end - LENGTH)
    return end - LENGTH - u64(stream.read(LENGTH))


def last_tid(stream, end):
    """Return the id of the transaction that ends at an offset.

    Args:
        stream: a data file, open for reading; its position is moved.
        end: offset behind a transaction, or of the file's beginning.
    """
    if end <= BEGINNING:
        return z64
    stream.seek(beginning_of(stream, end))
    return struct.unpack('>8s', stream.read(LENGTH))[0]


def _read_index_to_what_is_there(stream, *args, **kwargs):
    end, oid, _ = _read_index(stream, *args, **kwargs)
    return end, oid, last_tid(stream, end)


class UpstreamLog(object):
    """A log of a link that reconnects forever.

    Not thread-safe: all events come from the reactor's thread.

    Args:
        logger: gets the lines.
        upstream: the upstream's address as text.
        delay: seconds between two attempts to connect.
    """

    def __init__(self, logger, upstream, delay):
        self._logger = logger
        self._upstream = upstream
        self._delay = delay
        self._said = None

    def unreachable(self, reason):
        """Log that an attempt to connect failed."""
        self._say('unreachable', 'cannot reach upstream %s: %s; trying again '
                  'every %g s', self._upstream, reason, self._delay)

    def following(self):
        """Log that a connection has lasted long enough to count."""
        self._said = None
        self._logger.info('following upstream %s', self._upstream)

    def lost(self, reason):
        """Log that a connection that counted has ended."""
        self._say('lost', 'lost upstream %s: %s; trying again every %g s',
                  self._upstream, reason, self._delay)

    def turned_away(self, reason):
        """Log that a connection ended before it counted."""
        self._say('turned away', 'upstream %s ended the connection at once: '
                  '%s; if it stays so, see its log: it turns away a node that '
                  'holds a later transaction than itself', self._upstream,
                  reason)

    def _say(self, what, message, *args):
        if self._said != what:
            self._said = what
            self._logger.warning(message, *args)
