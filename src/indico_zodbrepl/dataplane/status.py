"""What can be said of an open storage without a question to its server.

Nothing here waits for the network, so it answers at once when the storage is
away.
"""
import json

from ZEO.ClientStorage import ClientStorage
from ZODB.utils import tid_repr, z64

from .addresses import format_address
from .storage import IndicoStorage
from .views import place_of

NO_STORAGE = {
    'storage': None,
    'server': None,
    'connected': False,
    'read_only': False,
    'writable': False,
    'last_tid': None,
    'cache': {},
    'calls': {'count': 0, 'seconds': 0.0},
}


def storage_status(db):
    """Describes the storage of a `ZODB.DB`.

    Returns: a dict for JSON.  storage: its class and where it is; server: the
    'host:port', as configured, that the storage is connected to, or None;
    connected; read_only (false when not connected); writable; last_tid: of the
    last transaction seen, '0x' and 16 digits, or None; cache: see
    `_cache_figures`; calls: count and seconds of those of an `IndicoStorage` in
    all threads so far.  Of storages without a
    connection of their own to watch, all this is what the last look found, see
    `liveness`; connected is false when it failed or takes too long.
    """
    storage = db.storage
    liveness = getattr(storage, 'liveness', None)
    calls = NO_STORAGE['calls']
    if isinstance(storage, IndicoStorage):
        calls = storage.calls.figures()
        storage = storage.base
    remote = isinstance(storage, ClientStorage)
    connected = is_connected(db)
    if liveness is not None:
        server, read_only, last_tid = liveness.sight
    else:
        server = _server(storage) if remote and connected else None
        read_only = connected and bool(storage.isReadOnly())
        last_tid = storage.lastTransaction()
    return {
        'storage': '%s(%s)' % (type(storage).__name__, _place(storage)),
        'server': server,
        'connected': connected,
        'read_only': read_only,
        'writable': connected and not read_only,
        'last_tid': (
            None if last_tid in (None, b'', z64) else tid_repr(last_tid)),
        'cache': _cache_figures(db, storage._cache if remote else None),
        'calls': calls,
    }


def is_connected(db):
    """Tells whether the storage of a `ZODB.DB` serves, as far as is known."""
    liveness = getattr(db.storage, 'liveness', None)
    if liveness is not None:
        return liveness.connected
    return getattr(db.storage, 'is_connected', _always)()


def recorded_epoch(path):
    """What this host knows of the cluster's current epoch.

    Args:
        path: of the record, or None.

    Returns: a dict for JSON.  epoch, a number, and epoch_primary, a node's
    name; both None without a record, or with one that cannot be used.
    """
    nothing = {'epoch': None, 'epoch_primary': None}
    if path is None:
        return nothing
    try:
        with open(path) as stream:
            record = json.load(stream)
    except (IOError, ValueError):
        return nothing
    if not isinstance(record, dict):
        return nothing
    epoch, primary = record.get('epoch'), record.get('primary')
    if type(epoch) is not int or not isinstance(primary, unicode):
        return nothing
    return {'epoch': epoch, 'epoch_primary': primary}


def _always():
    return True


def _place(storage):
    if isinstance(storage, ClientStorage):
        return ', '.join(format_address(each) for each in storage._addr)
    return place_of(storage)


def _server(storage):
    # The client's I/O thread may take it away meanwhile.
    protocol = storage._server.client.protocol
    return None if protocol is None else format_address(protocol.addr)


def _cache_figures(db, client_cache):
    """Counts of cached objects (all connections) and, for ZEO, cached records.

    Args:
        db: a `ZODB.DB`.
        client_cache: a `ZEO.cache.ClientCache`, or None.

    Returns: connections; objects, and of these active (not ghosts); limit of
    active objects a connection; for ZEO: client_bytes (size of the cache's
    file), client_records, and counts since the start: client_stores,
    client_evictions, client_hits.
    """
    connections = db.cacheDetailSize()
    figures = {
        'connections': len(connections),
        'objects': sum(each['size'] for each in connections),
        'active': sum(each['ngsize'] for each in connections),
        'limit': db.getCacheSize(),
    }
    if client_cache is not None:
        stores, _, evictions, _, hits = client_cache.getStats()
        figures.update(
            client_bytes=client_cache.maxsize,
            client_records=len(client_cache),
            client_stores=stores,
            client_evictions=evictions,
            client_hits=hits)
    return figures
