"""Read the content of committed blobs back from where it is stored, not from a client's cache."""
from __future__ import absolute_import

import contextlib
import os
import shutil

import ZConfig
import ZODB.config
from ZEO.ClientStorage import ClientStorage
from ZODB.FileStorage import FileStorage
from ZODB.interfaces import IMVCCStorage
from ZODB.POSException import POSKeyError

from indico_zodbrepl.dataplane.client.storage import IndicoStorage
from indico_zodbrepl.dataplane.datafs import disk

PREFIX = '.read-back-'


def unwrapped(storage):
    """Return the storage inside of an `IndicoStorage`."""
    while isinstance(storage, IndicoStorage):
        storage = storage.base
    return storage


@contextlib.contextmanager
def reader_of(storage, conf):
    """Yield a function that returns (size, SHA-256) of a blob, given oid and tid; None if missing.

    Our storage server reads the blob itself and sends the digest.  From any other storage the blob
    is fetched into an empty folder of this process.

    Args:
        storage: open.
        conf: path of its ZODB configuration.
    """
    base = unwrapped(storage)
    if isinstance(base, FileStorage):
        yield lambda oid, tid: _measured(base, oid, tid)
    elif isinstance(base, ClientStorage) and base._info.get('blob_digest'):
        yield lambda oid, tid: base._call('blob_digest', oid, tid)
    elif _is_shared(base):
        yield lambda oid, tid: _measured(storage, oid, tid)
    else:
        with _apart(conf) as other:
            yield lambda oid, tid: _fetched(other, oid, tid)


def _is_shared(base):
    """Return True if a client reads the files of the storage itself."""
    return bool(getattr(base, 'shared_blob_dir', False) or
                getattr(getattr(base, '_options', None), 'shared_blob_dir', False))


def _measured(storage, oid, tid):
    try:
        return disk.size_and_sha256(storage.loadBlob(oid, tid))
    except POSKeyError:
        return None


def _fetched(storage, oid, tid):
    if IMVCCStorage.providedBy(storage):
        storage.poll_invalidations()  # it would read as of an earlier transaction
    try:
        path = storage.loadBlob(oid, tid)
    except POSKeyError:
        return None
    try:
        return disk.size_and_sha256(path)
    finally:
        os.unlink(path)


@contextlib.contextmanager
def _apart(conf):
    """Open the storage of a configuration with an empty blob cache of this process alone."""
    config, _ = ZConfig.loadConfig(ZODB.config.getStorageSchema(), conf)
    section = _with_blobs(config.storage)
    around = os.path.dirname(os.path.abspath(section.blob_dir))
    _remove_left(around)
    folder = os.path.join(around, PREFIX + str(os.getpid()))
    os.mkdir(folder, 0o700)
    try:
        section.blob_dir = folder
        if hasattr(section, 'blob_cache_size'):
            section.blob_cache_size = None
        storage = config.storage.open()
        try:
            yield storage
        finally:
            storage.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _with_blobs(opener):
    """Return the ZConfig section with the blob folder, perhaps inside of another."""
    section = opener.config
    while not getattr(section, 'blob_dir', None):
        section = section.base.config
    return section


def _remove_left(folder):
    """Remove what killed processes left."""
    for name in os.listdir(folder):
        process = name[len(PREFIX):]
        if name.startswith(PREFIX) and not os.path.exists('/proc/%s' % process):
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
