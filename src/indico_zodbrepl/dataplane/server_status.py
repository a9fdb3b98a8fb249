"""What a storage server knows about replication, for its `ruok` answer."""
import os

import zc.zrs.primary
import zc.zrs.secondary

from indico_zodbrepl.dataplane.addresses import format_address, format_peer


def replication_status(storage):
    """Returns role, upstream, connected and followers of an open storage.

    Only reads; the values belong to the reactor's thread, so each is taken
    once.  Costs no I/O and takes no lock.
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
    """Returns the addresses of those who receive this storage's transactions.

    Who has connected but not said which transaction it has last (a port
    scan, say) is none, nor is one whose history has not been accepted.
    """
    return [format_peer(protocol.transport)
            for protocol in list(primary._factory.instances)
            if getattr(protocol._PrimaryProtocol__producer, 'accepted', False)]


def refused_followers(storage):
    """Returns whom an open storage turned away; see `refusals`."""
    while isinstance(storage, zc.zrs.primary.Base):
        refusals = getattr(storage._factory, 'refusals', None)
        if refusals is not None:
            return refusals.list()
        storage = storage._storage
    return []


def node_status(storage, cluster, node, epoch, read_only):
    """Returns the value of the key "zodbrepl" in a `ruok` answer.

    Args:
        storage: the open storage.
        cluster, node, epoch: as the server was told when it started.
        read_only: whether the server as a whole refuses writes.
    """
    status = replication_status(storage)
    status.update(
        cluster=cluster, node=node, epoch=epoch, pid=os.getpid(),
        size=storage.getSize(), refused=refused_followers(storage),
        read_only=bool(read_only or storage.isReadOnly()))
    return status
