"""FileStorage's blob files, made as durable as the transactions that refer to them.

ZODB 5.8.1 renames a blob's file to its place and never calls fsync: after a power failure a
transaction may exist without its blob.  It also leaves blob files behind if a commit fails before
its end (a full disk, SIGKILL).  Repaired here, for every way on which a blob enters a FileStorage:

- before the data file's own fsync come those of each blob file and of the directory entries on the
  path to it;
- a transaction that is aborted removes its blob files at whatever point it fails;
- while a transaction is not finished, an empty file in the folder for temporary files names each of
  its blobs.  So a start finds the blobs of a transaction that was cut off, and removes them and
  all temporary files.

The content of a large blob should be on disk before the commit lock is taken (see `incoming`); the
fsync here then has little left to write.
"""
from __future__ import absolute_import

import logging
import os
import re

from ZODB.blob import remove_committed, rename_or_copy_blob
from ZODB.FileStorage import FileStorage

from indico_zodbrepl.dataplane.datafs import disk
from indico_zodbrepl.dataplane.datafs.failures import DataFileError
from indico_zodbrepl.dataplane.datafs.membership import look_up

logger = logging.getLogger('zodbrepl.blobs')

_UNFINISHED = re.compile(r'([0-9a-f]{16})-([0-9a-f]{16})\.unfinished\Z')

_stock = dict((name, getattr(FileStorage, name)) for name in (
    'tpc_vote', '_abort', '_blob_init', '_blob_tpc_finish'))


def install():
    """Repair FileStorage in this process; may be called repeatedly."""
    FileStorage._blob_init = _open
    FileStorage._blob_storeblob = _store
    FileStorage.tpc_vote = _vote
    FileStorage._abort = _abort
    FileStorage._blob_tpc_abort = _remove_blobs
    FileStorage._blob_tpc_finish = _finish


def _open(storage, blob_dir, layout='automatic'):
    storage._unsynced_folders = set()
    existed = os.path.exists(blob_dir)
    _stock['_blob_init'](storage, blob_dir, layout)
    if storage._is_read_only:
        return
    if not existed:
        disk.sync_folder(blob_dir)
        disk.sync_folder(os.path.dirname(os.path.abspath(blob_dir)))
    _clean(storage)


def _store(storage, oid, tid, path):
    helper = storage.fshelper
    target = helper.getBlobFilename(oid, tid)
    folder = os.path.dirname(target)
    # Before the rename: that changes the inode, and an fsync would have to write it.
    disk.sync_file(path)
    written = os.stat(path).st_ino
    with storage._lock:
        open(_mark(helper, oid, tid), 'wb').close()
        storage.dirty_oids.append((oid, tid))
        storage._unsynced_folders.add(folder)
        while not os.path.exists(folder):
            folder = os.path.dirname(folder)
            storage._unsynced_folders.add(folder)
        helper.createPathForOID(oid)
        rename_or_copy_blob(path, target)
    if os.stat(target).st_ino != written:
        disk.sync_file(target)


def _vote(storage, transaction):
    if storage.blob_dir and transaction is storage._transaction:
        # The folders that contain others last: each names what is on disk already.
        for folder in sorted(storage._unsynced_folders, key=len, reverse=True):
            disk.sync_folder(folder)
        storage._unsynced_folders.clear()
    return _stock['tpc_vote'](storage, transaction)


def _abort(storage):
    _stock['_abort'](storage)
    # ZODB does so only if the vote has succeeded.
    storage._blob_tpc_abort()


def _remove_blobs(storage):
    if storage.blob_dir:
        storage._unsynced_folders.clear()
    while storage.dirty_oids:
        oid, tid = storage.dirty_oids[-1]
        _remove(storage.fshelper.getBlobFilename(oid, tid))
        _remove(_mark(storage.fshelper, oid, tid))
        storage.dirty_oids.pop()


def _finish(storage):
    for oid, tid in storage.dirty_oids:
        _remove(_mark(storage.fshelper, oid, tid))
    _stock['_blob_tpc_finish'](storage)


def _mark(helper, oid, tid):
    """Return the path of the file that exists while a blob's transaction is not finished."""
    return os.path.join(helper.temp_dir, '%s-%s.unfinished' % (
        oid.encode('hex'), tid.encode('hex')))


def _remove(path):
    if os.path.exists(path):
        remove_committed(path)


def _clean(storage):
    """Remove what a killed server has left of transactions that it did not finish."""
    folder = storage.fshelper.temp_dir
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        unfinished = _UNFINISHED.match(name)
        if unfinished is not None:
            oid, tid = (each.decode('hex') for each in unfinished.groups())
            if not _is_missing(storage, tid):
                remove_committed(path)
                continue
            _remove(storage.fshelper.getBlobFilename(oid, tid))
            logger.warning('removed a blob of transaction %s, which was never finished',
                           tid.encode('hex'))
        elif not os.path.isfile(path):
            continue
        remove_committed(path)


def _is_missing(storage, tid):
    """Return True if the data file certainly does not have a transaction."""
    try:
        return look_up(storage._file_name, tid)[0] is False
    except DataFileError as error:
        logger.error('cannot tell whether transaction %s was finished: %s', tid.encode('hex'), error)
        return False
