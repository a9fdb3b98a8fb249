"""The ZConfig section `<indicostorage>`: any ZODB storage, made ready for Indico.

    %import indico_zodbrepl.dataplane
    %import ZEO
    <indicostorage>
      <clientstorage>
        server 127.0.0.1:8111
        server 127.0.0.1:8121
        read-only-fallback true
        wait-timeout 10
      </clientstorage>
    </indicostorage>
"""
from __future__ import absolute_import

import functools
import os
import sys
import time

import six
import zope.interface
from relstorage.blobhelper.cached import CacheBlobHelper
from relstorage.storage import RelStorage
from ZEO.ClientStorage import ClientStorage
from ZODB.config import BaseConfig
from ZODB.config import FileStorage as FileStorageSection
from ZODB.interfaces import IMVCCStorage
from ZODB.POSException import ConflictError, ReadOnlyError

from indico_zodbrepl.dataplane.client import blob_cache, blob_upload, leader, older_servers
from indico_zodbrepl.dataplane.client.commits import Commits
from indico_zodbrepl.dataplane.client.liveness import Liveness
from indico_zodbrepl.dataplane.client.lost_transactions import LostTransactions
from indico_zodbrepl.dataplane.client.reconnection import Watchdog, what_is_missing
from indico_zodbrepl.dataplane.client.snapshots import bind_transactions
from indico_zodbrepl.dataplane.client.sqlite import make_table_at_once
from indico_zodbrepl.dataplane.client.sqlite_blobs import remove_unused_files, sync_blobs
from indico_zodbrepl.dataplane.client.sqlite_packs import let_others_commit
from indico_zodbrepl.dataplane.client.storage_calls import StorageCalls
from indico_zodbrepl.dataplane.client.transactions import (
    AUTOMATIC_PATIENCE,
    PATIENCE,
    CommittedOids,
    Completion,
    FreshOids,
    WriteAccess,
)
from indico_zodbrepl.dataplane.client.translation import (
    StorageAway,
    StorageReadOnly,
    translated,
    translated_at_the_end,
    translated_at_the_end_on_zeo,
)
from indico_zodbrepl.dataplane.client.views import is_on_sqlite, place_of, size_of, view_of
from indico_zodbrepl.dataplane.datafs import blob_files
from indico_zodbrepl.dataplane.programs.clock import install, monotonic

# A client with read-only fallback uses the first server that answers, and the writable one a
# moment later.  A program that opens a storage and writes at once could therefore hit a read-only
# server.
SETTLE_LIMIT = 3.0  # seconds

# methods of a transaction that has begun
IN_A_TRANSACTION = ('store', 'storeBlob', 'deleteObject', 'undo', 'tpc_vote',
                    'checkCurrentSerialInTransaction')


class IndicoStorage(object):
    """A wrapper of another storage that translates the errors of its methods.

    As thread-safe as the wrapped storage.  It provides the same interfaces, which may
    change (ZEO clients learn theirs from the server).

    Args:
        base: the open storage.
        root: the first instance, if there are several of an IMVCCStorage.

    Attributes:
        base: see above.
        liveness: a `Liveness`; None for storages that know whether they are connected,
            and for those that are always.
        calls: `StorageCalls` of all instances of the storage.
        commits: their `Commits`.
    """

    def __init__(self, base, root=None):
        self.base = base
        self.calls = StorageCalls() if root is None else root.calls
        self.commits = Commits() if root is None else root.commits
        self.liveness = None
        self._owns_liveness = False
        self._newest = None if root is None else root._newest
        self._waits = None if root is None else root._waits
        self._watchdog = None
        tpc_finish, translate_at_the_end = base.tpc_finish, translated_at_the_end
        if root is not None:
            self.liveness = root.liveness
        elif isinstance(base, ClientStorage):
            drops = base._server.client.drops
            self._watchdog = Watchdog(base)
            blob_upload.send_in_turn(base)
            access = WriteAccess(base, self._watchdog)
            translate_at_the_end = translated_at_the_end_on_zeo
            oids = FreshOids(base)
            tpc_finish = self._watchdog.switching.finishing(
                oids.ending(blob_cache.without_remains(base, tpc_finish)))
            self.registerDB = functools.partial(_register, base, drops)
            if base.blob_dir:
                self.temporaryDirectory = functools.partial(blob_cache.temporary_directory, base)
                base._update_blob_cache = blob_cache.tolerant(base._update_blob_cache)
                blob_cache.remove_abandoned(base.blob_dir)
            self.new_oid = self._ready(access.beginning(oids.new_oid))
            self._tpc_begin = self._ready(access.beginning(base.tpc_begin))
            self.tpc_abort = self._ready(
                access.aborting(oids.ending(blob_cache.without_remains(base, base.tpc_abort))))
            for name in IN_A_TRANSACTION:
                method = access.under_way(getattr(base, name))
                setattr(self, name, self._ready(method))
        else:
            is_automatic = leader.VARIABLE in os.environ
            view = view_of(base, AUTOMATIC_PATIENCE if is_automatic else PATIENCE)
            if view is not None:
                self.liveness = Liveness(
                    view, place_of(base), self.calls if is_automatic else None)
                self._waits = getattr(view, 'waits', None)
                self._newest = getattr(view, 'newest', None)
                self._owns_liveness = True
            if is_on_sqlite(base):
                make_table_at_once(base._adapter)
                let_others_commit(base._adapter)
                sync_blobs(base)
                self.pack = self._ready(functools.partial(_pack, base))
            elif isinstance(base, RelStorage) and isinstance(base.blobhelper, CacheBlobHelper):
                blob_cache.remove_abandoned(base.blobhelper.blob_dir)
        if isinstance(base, RelStorage):
            tpc_finish = LostTransactions(base, self._newest).committing(tpc_finish)
            if self._waits is not None:
                tpc_finish = self._waits.counted(tpc_finish)
                self.tpc_vote = self._voting
            committed = CommittedOids(base)
            new_oid = committed.new_oid
            if self._waits is not None:
                new_oid = self._waits.counted(new_oid)
            self.new_oid = self._ready(
                new_oid, self._with_patience(translated))
            self.tpc_abort = self._ready(
                committed.tpc_abort, self._with_patience(translated))
        if IMVCCStorage.providedBy(base):
            completion = Completion(base, translated)
            self.sync = self._ready(completion.sync)
            self.poll_invalidations = self._ready(
                completion.poll_invalidations)
            self.afterCompletion = self._ready(completion.after_completion)
        self._tpc_finish = self._ready(
            tpc_finish, self._with_patience(translate_at_the_end))

    def tpc_begin(self, *args, **kwargs):
        """Begin a transaction; see `ZODB.interfaces.IStorage`."""
        self.commits.begin()
        # Those without the attribute may replace their own method at times.
        begin = vars(self).get('_tpc_begin') or self._ready(
            self.base.tpc_begin, self._with_patience(translated))
        return begin(*args, **kwargs)

    def tpc_finish(self, *args, **kwargs):
        """Commit a transaction; see `ZODB.interfaces.IStorage`."""
        tid = self._tpc_finish(*args, **kwargs)
        self.commits.end()
        return tid

    @property
    def __providedBy__(self):
        return zope.interface.providedBy(self.base)

    def __getattr__(self, name):
        value = getattr(self.base, name)
        if name.startswith('_') or not callable(value):
            return value
        return self._ready(value, self._with_patience(translated))

    def __len__(self):
        return len(self.base)

    def __repr__(self):
        return '<IndicoStorage of %r>' % self.base

    def new_instance(self):
        """Return another instance of an IMVCCStorage, for another connection."""
        return IndicoStorage(self._ready(self.base.new_instance)(), self)

    def getSize(self):
        """Return the size of the database in bytes."""
        return self._ready(size_of)(self.base)

    def close(self):
        if self._watchdog is not None:
            self._watchdog.close()
        if self._owns_liveness:
            self.liveness.close()
        self.base.close()

    def _ready(self, method, translate=translated):
        return _translating(method, self.calls, self.commits, translate)

    def _voting(self, transaction):
        """Vote, unless too few secondaries acknowledge commits."""
        refusal = self.liveness.sight.refusal
        if refusal is not None:
            raise StorageReadOnly(ReadOnlyError(refusal))
        # RelStorage replaces its own method at times.
        vote = self._waits.counted(self.base.tpc_vote)
        return self._ready(vote, self._with_patience(translated))(transaction)

    def _with_patience(self, translate):
        """Return `translate` for the moment of a promotion elsewhere.

        Until the promotion, only a read-only server may be left: it counts as away.
        """
        liveness = self.liveness
        if liveness is None:
            return translate

        def translate_patiently(error):
            result = translate(error)
            if isinstance(result, StorageReadOnly):
                since = liveness.read_only_since
                if since is None or monotonic() - since < PATIENCE:
                    return StorageAway(error)
            return result
        return translate_patiently


def _pack(storage, moment, referencesf):
    storage.pack(moment, referencesf)
    remove_unused_files(storage, moment)


def _register(storage, drops, db):
    storage.registerDB(db)
    bind_transactions(db, drops)


def _translating(method, calls, commits, translate=translated):
    # The methods of a stale RelStorage have no name.
    named = [name for name in ('__name__', '__doc__') if hasattr(method, name)]

    @functools.wraps(method, assigned=named, updated=())
    def call(*args, **kwargs):
        begun = monotonic()
        calls.begin()
        try:
            return method(*args, **kwargs)
        except Exception as error:
            raised = translate(error)
            if isinstance(raised, ConflictError):
                commits.conflict()
            six.reraise(type(raised), raised, sys.exc_info()[2])
        finally:
            calls.end(monotonic() - begun)
    return call


class IndicoStorageSection(BaseConfig):
    """The ZConfig section `<indicostorage>`."""

    def open(self):
        """Open the wrapped storage and wait briefly until it is writable.

        Return an `IndicoStorage`, on a read-only server if no other appears within three
        seconds.  Raise ClientDisconnected if no server answers in time.
        """
        install()
        blob_cache.install()
        if isinstance(self.config.base, FileStorageSection):
            blob_files.install()
        with older_servers.opening():
            base = _translating(self.config.base.open, StorageCalls(), Commits())()
        storage = IndicoStorage(base)
        if isinstance(storage.base, ClientStorage):
            deadline = monotonic() + SETTLE_LIMIT
            while what_is_missing(storage.base) and monotonic() < deadline:
                time.sleep(0.02)
        return storage
