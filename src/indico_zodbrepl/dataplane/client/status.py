"""Describe an open storage without asking its server.

Nothing here waits for the network, so it answers at once if the storage is away.
"""
from __future__ import absolute_import

import json

from ZEO.ClientStorage import ClientStorage
from ZODB.utils import tid_repr, z64

from indico_zodbrepl.dataplane.client.storage import IndicoStorage
from indico_zodbrepl.dataplane.client.views import place_of
from indico_zodbrepl.dataplane.programs.addresses import format_address

NO_STORAGE = {
    'storage': None,
    'server': None,
    'connected': False,
    'read_only': False,
    'writable': False,
    'last_tid': None,
    'cache': {},
    'calls': {'count': 0, 'seconds': 0.0},
    'commits': {'latencies': [], 'conflicts': 0},
}


def storage_status(db):
    """Return the state of the storage of a `ZODB.DB`, as a dict for JSON.

    storage: its class and location; server: the configured 'host:port' that it is
    connected to, or None; connected; read_only (false if not connected); writable;
    last_tid: of the last transaction seen, '0x' and 16 digits, or None; cache: see
    `_cache_figures`; calls: number and seconds of the calls of an `IndicoStorage` in
    all threads so far; commits: see `Commits.figures`.  For storages monitored by
    `liveness` all this is the result of the last check; connected is false if it failed or
    takes too long.
    """
    storage = db.storage
    liveness = getattr(storage, 'liveness', None)
    calls, commits = NO_STORAGE['calls'], NO_STORAGE['commits']
    if isinstance(storage, IndicoStorage):
        calls, commits = storage.calls.figures(), storage.commits.figures()
        storage = storage.base
    remote = isinstance(storage, ClientStorage)
    connected = is_connected(db)
    if liveness is not None:
        server, read_only, last_tid = liveness.sight[:3]
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
        'commits': commits,
    }


def is_connected(db):
    """Return True if the storage of a `ZODB.DB` serves, as far as is known."""
    liveness = getattr(db.storage, 'liveness', None)
    if liveness is not None:
        return liveness.connected
    return getattr(db.storage, 'is_connected', _always)()


def recorded_epoch(path):
    """Return this host's record of the cluster's current epoch.

    Args:
        path: of the record, or None.

    Returns: a dict for JSON with epoch, a number, and epoch_primary, a node's name;
    both None without a usable record.
    """
    nothing = {'epoch': None, 'epoch_primary': None}
    if path is None:
        return nothing
    try:
        with open(path) as stream:
            record = json.load(stream)
    except (IOError, ValueError):
        return nothing
    if not isinstance(record, dict) or record.get('format', 1) != 1:
        return nothing  # what a newer release means by it is unknown
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
    # The client's I/O thread may remove it meanwhile.
    protocol = storage._server.client.protocol
    return None if protocol is None else format_address(protocol.addr)


def _cache_figures(db, client_cache):
    """Return counts of cached objects (all connections) and, for ZEO, cached records.

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
