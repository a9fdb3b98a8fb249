"""ZEO's storage server with replication status, history queries and a commit gate.

It adds to ZEO 5.4.1:

- the key "zodbrepl" in each storage's part of the `ruok` answer;
- requests about its history (see `connections`);
- the method `holds`, by which clients ask for the former;
- the method `blob_digest`, by which clients compare a blob without fetching it;
- blobs that are on disk before their transaction (`uploads`);
- a gate (`commit_gate`) that lets commits wait or refuses them;
- commits that are acknowledged when followers have them (`acknowledgements`).
"""
from __future__ import absolute_import

import logging
import os
import threading
import time

from ZEO.StorageServer import (
    StorageServer,
    StorageServerDB,
    registered_methods,
    run_in_thread,
)
from zc.zrs.primary import Primary
from ZODB.FileStorage import FileStorage
from ZODB.POSException import POSKeyError, ReadOnlyError
from ZODB.TimeStamp import TimeStamp
from ZODB.utils import p64, u64

from indico_zodbrepl.dataplane.datafs import disk
from indico_zodbrepl.dataplane.datafs.failures import DataFileError
from indico_zodbrepl.dataplane.programs.clock import monotonic
from indico_zodbrepl.dataplane.server import acknowledgements, invalidations
from indico_zodbrepl.dataplane.server.acknowledged_storage import AcknowledgedZEOStorage
from indico_zodbrepl.dataplane.server.commit_gate import (
    CommitGate,
    FollowerWatch,
    GatedLockManager,
    TransactionTimeout,
)
from indico_zodbrepl.dataplane.server.connections import NodeAcceptor
from indico_zodbrepl.dataplane.server.control_socket import Refused
from indico_zodbrepl.dataplane.server.downloads import DownloadingZEOStorage
from indico_zodbrepl.dataplane.server.lease import LeasedZEOStorage
from indico_zodbrepl.dataplane.server.recent_transactions import record
from indico_zodbrepl.dataplane.server.status import inside, node_status, replication_status
from indico_zodbrepl.dataplane.server.write_failures import WriteFailures

logger = logging.getLogger('zodbrepl.server')

_CONFIRMED = 2.0  # seconds for followers to confirm what is committed when the server stops
_POLL = 0.01
_PROMOTED = 2.0  # seconds until a new primary takes commits, once others know of its epoch


METHODS = registered_methods | {'holds', 'blob_digest'}


class NodeZEOStorage(LeasedZEOStorage, AcknowledgedZEOStorage, DownloadingZEOStorage):

    refused_to_write = False

    def register(self, storage_id, read_only):
        if not read_only and self.server.gate.closed_to_writers:
            self.refused_to_write = True
            raise ReadOnlyError()
        return AcknowledgedZEOStorage.register(self, storage_id, read_only)

    def setup_delegation(self):
        AcknowledgedZEOStorage.setup_delegation(self)
        self.connection.methods = METHODS

    def get_info(self):
        return dict(AcknowledgedZEOStorage.get_info(self),
                    holds=self.storage_id in self.server.recorders, blob_digest=True)

    def holds(self, tid):
        """Return True if the history holds a transaction as one of its last.

        A client that knows only older ones drops its cache in any case.
        """
        return self.server.recorders[self.storage_id].recent.holds(tid)

    def blob_digest(self, oid, tid):
        """Return size and SHA-256 of a blob's file, read in another thread; None if it is missing.

        Args:
            tid: of the transaction that wrote the blob.
        """
        self._require_shown(oid, tid)
        return run_in_thread(self._blob_digest, oid, tid)

    def _blob_digest(self, oid, tid):
        try:
            return disk.size_and_sha256(self.storage.loadBlob(oid, tid))
        except POSKeyError:
            return None

    def _pack_impl(self, time):
        AcknowledgedZEOStorage._pack_impl(self, time)
        self.server.packed(self.storage_id, time)


class NodeStorageServer(StorageServer):
    """The server of one node's storages.

    Args:
        address, storages: as for ZEO's StorageServer.
        cluster, node, epoch: what `ruok` shows of this node.
        min_followers: minimum number of followers for commits on a primary.
        synchronous: `acknowledgement_states.Settings` for a primary.
        alone_when_told: see `Acknowledgements`.
        transaction_timeout: seconds from a client's vote to its end; None for no limit.
        is_leased: True if commits need a lease (see `lease`).
        options: further keyword arguments of ZEO's StorageServer.
    """

    def __init__(self, address, storages, cluster, node, epoch,
                 min_followers, synchronous, alone_when_told=False, transaction_timeout=None,
                 is_leased=False, **options):
        self.cluster = cluster
        self.node = node
        self.epoch = self.known_epoch = epoch
        self.protocols = set()
        self.recorders = {}
        self.write_failures = {}
        for name, storage in storages.items():
            self.write_failures[name] = WriteFailures(storage)
            recorder = record(storage)
            if recorder is not None:
                self.recorders[name] = recorder
        StorageServer.__init__(
            self, address, storages, Acceptor=NodeAcceptor, **options)
        self.gate = CommitGate(self.acceptor.event_loop.call_later,
                               self.disconnect_refused_writers,
                               self.release_writers, is_leased)
        for name, ungated in self.lock_managers.items():
            timeout = ungated.timeout
            if transaction_timeout is not None:
                timeout = TransactionTimeout(transaction_timeout)
                timeout.start()
            self.lock_managers[name] = GatedLockManager(
                self.gate, name, ungated.stats, timeout)
        self.gate.lock_managers = self.lock_managers
        self.acknowledgements = self.gate.acknowledgements = acknowledgements.Acknowledgements(
            synchronous, alone_when_told, self._data_folder(), node, self.acceptor.event_loop,
            self.gate.acknowledgements_changed, self._reveal)
        self._acknowledge(is_settled=False)
        self.min_followers = min_followers
        FollowerWatch(self, min_followers).start()

    def _setup_invq(self, name, storage):
        data = inside(storage)
        if isinstance(data, FileStorage):
            items = invalidations.read(data, self.invq_bound)
        else:
            StorageServer._setup_invq(self, name, storage)
            items = self.invq[name]
        self.invq[name] = invalidations.Invalidations(items, self.invq_bound)

    def _data_folder(self):
        data = inside(next(iter(self.storages.values()))).getName()
        return os.path.dirname(os.path.abspath(data))

    def _reveal(self, tid, oids):
        """Tell clients of a transaction of an earlier process."""
        self.invalidate_now(None, next(iter(self.storages)), tid, oids)

    def _acknowledge(self, is_settled):
        """Acknowledge commits from now on as the role of the only storage demands."""
        for name, storage in self.storages.items():
            if len(self.storages) == 1 and isinstance(storage, Primary):
                self.acknowledgements.serve(storage, self.epoch, is_settled)
                if self.acknowledgements.horizon is not None:
                    # Clients that connect hear of no later transaction; see `_reveal`.
                    self.invq[name].forget_after(self.acknowledgements.horizon)
            else:
                self.acknowledgements.stop()

    def create_client_handler(self):
        return NodeZEOStorage(self, self.read_only)

    def server_status(self, storage_id):
        status = StorageServer.server_status(self, storage_id)
        status['zodbrepl'] = node_status(
            self.storages[storage_id], self.cluster, self.node, self.epoch,
            self.read_only)
        is_follower = status['zodbrepl']['role'] in ('secondary', 'relay')
        status['zodbrepl'].update(
            held=None if is_follower else self.gate.held, lease=self.gate.lease.status,
            min_followers=self.min_followers,
            write_failure=self.write_failures[storage_id].last(),
            synchronous=self.acknowledgements.status())
        return status

    def control_status(self):
        """Return the status for the control socket."""
        name = next(iter(self.storages))
        status = self.server_status(name)
        return dict(status['zodbrepl'], last_tid=status['last-transaction'],
                    clients=status['connections'],
                    known_epoch=self.known_epoch,
                    held_for=self.gate.seconds_left)

    def only_storage(self):
        """Return the only storage it serves; raise Refused if there are more."""
        if len(self.storages) != 1:
            raise Refused('this server has %d storages' % len(self.storages),
                          'it can be controlled when it has one')
        return next(iter(self.storages.values()))

    def enter_epoch(self, epoch):
        """Record the cluster's epoch: a primary of a lower one commits no more."""
        self.known_epoch = epoch
        if replication_status(self.only_storage())['role'] != 'primary':
            self.epoch = epoch
        elif epoch > self.epoch:
            self.gate.supersede(epoch)

    def since(self, tid):
        """Return the number of transactions after `tid` for each storage.

        That is {"transactions": count, "exact": whether it is not "at least",
        "first": hex of the oldest of them, null if unknown}.  Without a
        FileStorage inside, the answer is always "at least none".
        """
        answer = {}
        for name in self.storages:
            count, exact, first = 0, False, None
            if name in self.recorders:
                recent = self.recorders[name].recent
                count, exact = recent.count_after(tid)
                first = recent.first_after(tid) if count else None
            answer[name] = {'transactions': count, 'exact': exact,
                            'first': first and first.encode('hex')}
        return answer

    def history(self, tid, answer):
        """Call `answer` with each storage's knowledge of a transaction.

        That is {"known": true, false or null, "digest": hex or null}; null if
        a pack may have removed it.  Reads files.
        """
        found = {}
        for name in self.storages:
            known = digest = None
            if name in self.recorders:
                try:
                    known, digest = self.recorders[name].look_up(tid, True)
                except DataFileError as error:
                    logger.error('cannot look up a transaction: %s', error)
            found[name] = {'known': known, 'digest': digest}
        answer(found)

    def invalidate_now(self, zeo_storage, storage_id, tid, invalidated):
        """Invalidate objects as `invalidate` does, before anything that clients are sent later.

        Call it in the thread that runs `loop()`.
        """
        self.invq[storage_id].add(tid, invalidated)
        for each in self._others(zeo_storage, storage_id):
            each.async_('invalidateTransaction', tid, invalidated)

    def invalidate(self, zeo_storage, storage_id, tid, invalidated):
        """Tell clients of changed objects; any thread may call it."""
        self.invq[storage_id].add(tid, invalidated)
        for each in self._others(zeo_storage, storage_id):
            each.async_threadsafe('invalidateTransaction', tid, invalidated)

    def _others(self, zeo_storage, storage_id):
        return [each for each in self.zeo_storages_by_storage_id[storage_id]
                if each is not zeo_storage]

    def get_invalidations(self, storage_id, tid):
        horizon = self.acknowledgements.horizon
        queue = self.invq[storage_id]
        is_young = self.invalidation_age and (
            time.time() - TimeStamp(tid).timeTime() < self.invalidation_age)
        if horizon is None or not is_young or queue and queue[-1][0] <= tid:
            return StorageServer.get_invalidations(self, storage_id, tid)
        latest, oids = None, set()
        for transaction in self.storages[storage_id].iterator(p64(u64(tid) + 1), horizon):
            oids.update(record.oid for record in transaction)
            latest = transaction.tid
        return latest, list(oids)

    def replace_storage(self, storage, epoch, until=None):
        """Serve the only storage in another role; its clients reconnect.

        Call it in the thread that runs `loop()`.

        Args:
            storage: a storage on the same FileStorage.
            epoch: of this server from now on.
            until: end of its lease in this epoch, if that begins now.
        """
        name = next(iter(self.storages))
        storage.registerDB(StorageServerDB(self, name))
        self.storages[name] = storage
        self.disconnect_clients()
        self.epoch = epoch
        self._acknowledge(is_settled=True)
        self.lead(epoch, until)

    def lead(self, epoch, until=None):
        """Serve in this epoch, and let commits begin, until the end of a new lease if it is given."""
        self.epoch = self.known_epoch = epoch
        self.acknowledgements.enter(epoch)
        self.gate.lease.end_before(epoch)
        if until is not None:
            self.gate.lease.extend(epoch, until)
        self.gate.reopen()
        self.gate.lease.check()

    def disconnect_clients(self):
        """Close every connection that has completed its handshake."""
        for protocol in list(self.protocols):
            if protocol.zeo_storage.connected:
                protocol.close()

    def release_writers(self):
        """Close connections for writing soon, if another node may be the primary even then.

        Their clients look for another server.  Its promotion may just have begun: a client that
        finds no server for writing waits longer before it looks again.
        """
        self.acceptor.event_loop.call_later(_PROMOTED, self._disconnect_writers)

    def _disconnect_writers(self):
        if not self.gate.is_role_lost:
            return
        for protocol in list(self.protocols):
            if protocol.zeo_storage.connected and not protocol.zeo_storage.read_only:
                protocol.close()

    def disconnect_refused_writers(self):
        """Close connections that accepted a read-only server for want of another.

        A client does not ask the server that it is connected to again.
        """
        for protocol in list(self.protocols):
            if protocol.zeo_storage.refused_to_write:
                protocol.close()

    def packed(self, storage_id, seconds):
        """Record a pack up to a time; called in the packing thread when it has ended."""
        if storage_id in self.recorders:
            self.recorders[storage_id].packed(seconds)

    def stop_serving(self):
        """End `loop()`; close the port and every client's connection.

        Call it in the thread that runs `loop()`.  Unfinished transactions are
        aborted; none is interrupted in the middle.  Followers get a moment to
        confirm finished ones, so that their clients are answered.
        """
        if not self.acknowledgements.idle:
            self.gate.hold(_CONFIRMED)
        self._stop_when_answered(monotonic() + _CONFIRMED)

    def _stop_when_answered(self, deadline):
        if not self.acknowledgements.idle and monotonic() < deadline:
            self.acceptor.event_loop.call_later(_POLL, self._stop_when_answered, deadline)
            return
        try:
            self.disconnect_clients()
        finally:
            self.acceptor.close()
