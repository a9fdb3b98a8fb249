"""Repair the cache of blobs of a ZEO client, and what a loss of power leaves in RelStorage's.

ZEO 5.4.1 receives the content of a blob in a file with the suffix `.dl` and renames it at the end.
A process that is killed meanwhile, or loses its server, leaves that file.  The next transfer of the
same blob, by any process of the host, then appends to it and takes the sum for the content.  A part
that could not be written, because the disk was full, is left out, and the rest is taken for the
content for as long as it is in the cache.

A cache whose folder is removed under a running client is created again.  ZEO would fail until the client
is restarted.

ZEO copies a blob that is stored into the cache, and leaves the copy there if the transaction does not
succeed: each attempt of an upload that meets conflicts.  It does not count these files as the cache's.
They are removed at the end of the transaction, and those of killed processes a day later.  (What is
in the folder for temporary files is removed by `indico.uploaded`.)

After a loss of power, a file of the cache may be empty that was not on the disk yet.  What is stored is
on the disk before it is in the cache; other empty files are removed when the cache is opened, and are
then fetched again.  (Indico takes no file of another length than the one it saved.)

ZODB creates the folder of a cache, the one for temporary files and a mark one after the other.  It fails if
another process of the host does so at the same moment, as when several workers start for the first time.
"""
from __future__ import absolute_import

import errno
import fcntl
import functools
import logging
import os
import re
import time

from zc.lockfile import LockError
from ZODB.blob import FilesystemHelper

log = logging.getLogger(__name__)

RECEIVED = '.dl'
# In a folder of the cache: what is not content yet.
PARTIAL = re.compile(r'.*\.(tmp-?|dl)$')
FOLDER = re.compile(r'\d+$')
CONTENT = '.blob'
ABANDONED = 86400  # seconds after which no transaction uses a file any more


_create = FilesystemHelper.create


def install():
    """Let one process at a time create the folder of a cache; may be called repeatedly."""
    FilesystemHelper.create = _create_alone


def _create_alone(helper):
    parent = os.path.dirname(os.path.abspath(helper.base_dir))
    try:
        os.makedirs(parent)
    except OSError as error:
        if error.errno != errno.EEXIST:
            raise
    descriptor = os.open(parent, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        _create(helper)
    finally:
        os.close(descriptor)


def temporary_directory(storage):
    """Return the folder of a `ClientStorage` for temporary files, which exists then."""
    folder = storage.temporaryDirectory()
    if not os.path.isdir(folder):
        storage.fshelper.create()
    return folder


def remove_abandoned(cache):
    """Remove what killed processes and losses of power have left in the folder of a cache."""
    for name in os.listdir(cache):
        if not FOLDER.match(name):
            continue
        folder = os.path.join(cache, name)
        for path in [os.path.join(folder, each) for each in os.listdir(folder)
                     if PARTIAL.match(each) or each.endswith(CONTENT)]:
            try:
                if _is_abandoned(path):
                    os.unlink(path)
            except OSError as error:  # another process of the host does the same
                if error.errno != errno.ENOENT:
                    raise


def _is_abandoned(path):
    status = os.stat(path)
    if path.endswith(CONTENT):
        return not status.st_size
    return status.st_mtime < time.time() - ABANDONED


def without_remains(storage, end):
    """Return a method that ends a transaction, which then removes what is not in the cache by then.

    Args:
        storage: the `ClientStorage`.
        end: its `tpc_finish` or `tpc_abort`.
    """
    @functools.wraps(end, assigned=('__name__', '__doc__'), updated=())
    def call(transaction, *args, **kwargs):
        try:
            blobs = list(transaction.data(storage).blobs)
        except (KeyError, AttributeError):  # it has not begun, or has ended
            blobs = ()
        try:
            return end(transaction, *args, **kwargs)
        finally:
            for _, path in blobs:
                if os.path.exists(path):
                    os.unlink(path)
    return call


def tolerant(update):
    """Return ZEO's method that puts committed blobs into the cache: it may fail, they are saved."""
    @functools.wraps(update)
    def call(committed, tid):
        try:
            for _, path in committed.blobs:
                _synchronise(path)
            update(committed, tid)
        except (EnvironmentError, LockError) as error:
            log.error('a committed blob is not put into the cache: %s', error)
    return call


def _synchronise(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Receiver(object):
    """ZEO's methods for the content of blobs, made to keep nothing but whole contents.

    The thread that asked for a blob holds the lock of its folder: no other transfer uses its file.
    If the file does not appear, that thread gets a POSKeyError, and the next one asks again.

    Args:
        storage: the `ZEO.ClientStorage.ClientStorage`.
    """

    def __init__(self, storage):
        self._storage = storage
        self._failed = set()  # (oid, serial) of transfers under way

    def receiveBlobStart(self, oid, serial):
        self._failed.discard((oid, serial))
        self._remove(oid, serial)
        self._write(self._storage.receiveBlobStart, oid, serial)

    def receiveBlobChunk(self, oid, serial, chunk):
        if (oid, serial) not in self._failed:
            self._write(self._storage.receiveBlobChunk, oid, serial, chunk)

    def receiveBlobStop(self, oid, serial):
        if (oid, serial) in self._failed:
            self._failed.discard((oid, serial))
            self._remove(oid, serial)
        else:
            self._storage.receiveBlobStop(oid, serial)

    def _write(self, receive, oid, serial, *chunk):
        try:
            receive(oid, serial, *chunk)
        except EnvironmentError as error:
            log.error('cannot keep a blob in %s: %s', self._storage.blob_dir, error)
            self._failed.add((oid, serial))

    def _remove(self, oid, serial):
        try:
            os.unlink(self._storage.fshelper.getBlobFilename(oid, serial) + RECEIVED)
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise
