"""The state of replication as a storage server reports it in its `ruok` answer."""
from __future__ import absolute_import

import logging
import os
import threading
import time

import zc.zrs.primary
import zc.zrs.secondary
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
            connected=storage._factory.instance is not None)
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


def refused_followers(storage):
    """Return the followers that an open storage refused; see `Refusals`."""
    while isinstance(storage, zc.zrs.primary.Base):
        refusals = getattr(storage._factory, 'refusals', None)
        if refusals is not None:
            return refusals.list()
        storage = storage._storage
    return []


def node_status(storage, cluster, node, epoch, read_only):
    """Return the value of the key "zodbrepl" in a `ruok` answer.

    Args:
        storage: the open storage.
        cluster, node, epoch: from the server's command line.
        read_only: True if the whole server refuses writes.
    """
    status = replication_status(storage)
    status.update(
        cluster=cluster, node=node, epoch=epoch, pid=os.getpid(),
        release=__version__, protocol=PROTOCOL,
        size=storage.getSize(), refused=refused_followers(storage),
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


def _host(peer):
    return peer.rsplit(':', 1)[0]
