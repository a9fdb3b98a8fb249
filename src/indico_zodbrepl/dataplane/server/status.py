"""The state of replication as a storage server reports it in its `ruok` answer."""
from __future__ import absolute_import

import logging
import os
import threading
import time

import zc.zrs.primary
import zc.zrs.secondary
from ZODB.blob import LAYOUT_MARKER
from ZODB.utils import tid_repr

from indico_zodbrepl import PROTOCOL, __version__
from indico_zodbrepl.dataplane.programs.addresses import format_address, format_peer


def replication_status(storage):
    """Return role, upstream, connected and followers of an open storage.

    It only reads; the values belong to the reactor's thread, so each is read
    once.  No I/O, no lock.
    """
    status = {'role': 'standalone', 'upstream': None, 'connected': None,
              'followers': []}
    if isinstance(storage, zc.zrs.secondary.Secondary):
        status.update(
            role='secondary',
            upstream=format_address(storage._addr),
            connected=storage._factory.is_admitted)
        storage = storage._storage
    if isinstance(storage, zc.zrs.primary.Primary):
        status.update(
            role='relay' if status['upstream'] else 'primary',
            followers=followers(storage))
    return status


def followers(primary):
    """Return the addresses of the nodes that receive this storage's transactions.

    A peer that has not sent its last transaction (for example a port scan)
    does not count, nor does one whose history has not been accepted.
    """
    return [format_peer(protocol.transport)
            for protocol in list(primary._factory.instances)
            if getattr(protocol._PrimaryProtocol__producer, 'accepted', False)]


def layers(storage):
    """Yield an open storage and those inside it; the last is not zc.zrs's."""
    while isinstance(storage, zc.zrs.primary.Base):
        yield storage
        storage = storage._storage
    yield storage


def inside(storage):
    """Return the storage inside all layers of zc.zrs."""
    for storage in layers(storage):
        pass
    return storage


def _listed(storage, name):
    """Return what an attribute of the outermost factory that has it lists; else nothing."""
    for layer in layers(storage):
        found = getattr(getattr(layer, '_factory', None), name, None)
        if found is not None:
            return found.list()
    return []


def refused_followers(storage):
    """Return the followers that an open storage refused; see `Refusals`."""
    return _listed(storage, 'refusals')


def missing_blob_folder(storage):
    """Return the path of a storage's folder of blobs if it is gone, as after an unmount; else None."""
    folder = getattr(inside(storage), 'blob_dir', None)
    if not folder or os.path.exists(os.path.join(folder, LAYOUT_MARKER)):
        return None
    return os.path.abspath(folder)


def missing_blobs(storage):
    """Return the blob files that an open storage should have and does not; see `MissingBlobs`."""
    return _listed(storage, 'missing_blobs')


def node_status(storage, cluster, node, epoch, read_only):
    """Return the value of the key "zodbrepl" in a `ruok` answer.

    Args:
        storage: the open storage.
        cluster, node, epoch: from the server's command line.
        read_only: True if the whole server refuses writes.
    """
    status = replication_status(storage)
    missing = missing_blobs(storage)
    status.update(
        blobs_missing=len(missing), blob_missing=missing[0] if missing else '',
        cluster=cluster, node=node, epoch=epoch, pid=os.getpid(),
        release=__version__, protocol=PROTOCOL,
        size=storage.getSize(), refused=refused_followers(storage),
        missing_blob_folder=missing_blob_folder(storage),
        read_only=bool(read_only or storage.isReadOnly()))
    return status


logger = logging.getLogger('zodbrepl.replication')

# a refused follower reconnects again and again
_CAPACITY = 100


class Refusals(object):
    """The refused followers, until a follower from the same host is accepted.

    The protocol carries no names; a follower is identified by its host and its
    last transaction.  Any thread may use it.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._found = {}

    def refuse(self, peer, tid):
        """Record a follower (`host:port`) whose last transaction is unknown here."""
        key = _host(peer), tid
        with self._lock:
            is_new = key not in self._found
            if is_new and len(self._found) >= _CAPACITY:
                return
            self._found[key] = {'peer': peer, 'tid': tid.encode('hex'),
                                'at': int(time.time())}
        if is_new:
            logger.critical(
                'REFUSED follower %s: its last transaction, %s, is not in the '
                'history of this node, so it holds what was never replicated '
                'to here; it has to rejoin', peer, tid_repr(tid))

    def accept(self, peer):
        with self._lock:
            for key in [key for key in self._found if key[0] == _host(peer)]:
                del self._found[key]

    def list(self):
        """Return dicts of peer, tid (hex) and at (seconds since 1970)."""
        with self._lock:
            return sorted(self._found.values(), key=lambda each: each['at'])


class MissingBlobs(object):
    """Blob files that were missing when their transaction was sent; any thread may use it."""

    def __init__(self):
        self._lock = threading.Lock()
        self._found = []

    def add(self, path):
        """Record the path of a file, which does not exist."""
        with self._lock:
            if path in self._found or len(self._found) >= _CAPACITY:
                return
            self._found.append(path)
        logger.critical('the file of a blob is missing: %s; followers get its transaction '
                        'without it', path)

    def list(self):
        """Return the paths of those that are still missing."""
        with self._lock:
            self._found = [path for path in self._found if not os.path.exists(path)]
            return list(self._found)


def _host(peer):
    return peer.rsplit(':', 1)[0]
