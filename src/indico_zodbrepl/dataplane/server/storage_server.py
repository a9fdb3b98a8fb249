"""ZEO's storage server with replication status, history queries and a commit gate.

It adds to ZEO 5.4.1:

- the key "zodbrepl" in each storage's part of the `ruok` answer;
- the request `since<16 hex digits of a tid>`, answered like `ruok`, which
  returns how many transactions each storage holds after that one;
- the request `history<16 hex digits of a tid>`, which returns whether each
  storage's history holds that one, and the digest of its content;
- the method `holds`, by which clients ask for the former;
- a connection that the server itself closes gives its commit lock back.
  ZEO's own protocol forgets it, so one client that votes and then runs into
  `transaction-timeout` would block every later commit for good;
- a gate (`commit_gate`) that lets commits wait or refuses them.
"""
from __future__ import absolute_import

import json
import logging
import re
import threading

from ZEO.asyncio.server import Acceptor, ServerProtocol
from ZEO.StorageServer import (
    StorageServer,
    StorageServerDB,
    ZEOStorage,
    registered_methods,
)
from ZODB.POSException import ReadOnlyError

from indico_zodbrepl.dataplane.datafs.failures import DataFileError
from indico_zodbrepl.dataplane.server.commit_gate import (
    CommitGate,
    FollowerWatch,
    GatedLockManager,
    TransactionTimeout,
)
from indico_zodbrepl.dataplane.server.control import Refused
from indico_zodbrepl.dataplane.server.recent_transactions import record
from indico_zodbrepl.dataplane.server.status import node_status, replication_status
from indico_zodbrepl.dataplane.server.write_failures import WriteFailures

logger = logging.getLogger('zodbrepl.server')

_HISTORY = re.compile(br'history([0-9a-fA-F]{16})\Z')
_SINCE = re.compile(br'since([0-9a-fA-F]{16})\Z')
_PROMOTED = 2.0  # seconds until a new primary takes commits, once others know of its epoch


METHODS = registered_methods | {'holds'}


class NodeProtocol(ServerProtocol):

    unlogged_exception_types = (
        ServerProtocol.unlogged_exception_types + (ReadOnlyError,))

    def connection_made(self, transport):
        ServerProtocol.connection_made(self, transport)
        self.zeo_storage.server.protocols.add(self)

    def finish_connection(self, protocol_version):
        server = self.zeo_storage.server
        since = _SINCE.match(protocol_version)
        history = _HISTORY.match(protocol_version)
        if since is not None:
            self._answer(server.since(since.group(1).decode('hex')))
        elif history is not None:
            reader = threading.Thread(
                target=server.history, name='history',
                args=(history.group(1).decode('hex'), self._answer_later))
            reader.daemon = True
            reader.start()
        else:
            ServerProtocol.finish_connection(self, protocol_version)

    def _answer_later(self, answer):
        self.call_soon_threadsafe(self._answer, answer)

    def _answer(self, answer):
        if not self.closed:
            self.write_message(json.dumps(answer))
            self.close()

    def connection_lost(self, exc):
        if self.zeo_storage is not None:
            self.zeo_storage.server.protocols.discard(self)
        ServerProtocol.connection_lost(self, exc)

    def close(self):
        zeo_storage = self.zeo_storage
        ServerProtocol.close(self)
        if zeo_storage is not None:
            zeo_storage.server.protocols.discard(self)
        if zeo_storage is not None and zeo_storage.connected:
            zeo_storage.notify_disconnected()


class NodeAcceptor(Acceptor):

    def factory(self):
        return NodeProtocol(
            self.event_loop, self.addr,
            self.storage_server.create_client_handler(), self.msgpack)


class NodeZEOStorage(ZEOStorage):

    refused_to_write = False

    def register(self, storage_id, read_only):
        if not read_only and self.server.gate.closed_to_writers:
            self.refused_to_write = True
            raise ReadOnlyError()
        return ZEOStorage.register(self, storage_id, read_only)

    def setup_delegation(self):
        ZEOStorage.setup_delegation(self)
        self.connection.methods = METHODS

    def get_info(self):
        return dict(ZEOStorage.get_info(self),
                    holds=self.storage_id in self.server.recorders)

    def holds(self, tid):
        """Return True if the history holds a transaction as one of its last.

        A client that knows only older ones drops its cache in any case.
        """
        return self.server.recorders[self.storage_id].recent.holds(tid)

    def _pack_impl(self, time):
        ZEOStorage._pack_impl(self, time)
        self.server.packed(self.storage_id, time)


class NodeStorageServer(StorageServer):
    """The server of one node's storages.

    Args:
        address, storages: as for ZEO's StorageServer.
        cluster, node, epoch: what `ruok` shows of this node.
        min_followers: minimum number of followers for commits on a primary.
        transaction_timeout: seconds from a client's vote to its end; None for no limit.
        options: further keyword arguments of ZEO's StorageServer.
    """

    def __init__(self, address, storages, cluster, node, epoch,
                 min_followers, transaction_timeout=None, **options):
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
                               self.disconnect_refused_writers)
        for name, ungated in self.lock_managers.items():
            timeout = ungated.timeout
            if transaction_timeout is not None:
                timeout = TransactionTimeout(transaction_timeout)
                timeout.start()
            self.lock_managers[name] = GatedLockManager(
                self.gate, name, ungated.stats, timeout)
        self.gate.lock_managers = self.lock_managers
        self.min_followers = min_followers
        FollowerWatch(self, min_followers).start()

    def create_client_handler(self):
        return NodeZEOStorage(self, self.read_only)

    def server_status(self, storage_id):
        status = StorageServer.server_status(self, storage_id)
        status['zodbrepl'] = node_status(
            self.storages[storage_id], self.cluster, self.node, self.epoch,
            self.read_only)
        status['zodbrepl'].update(
            held=self.gate.held, min_followers=self.min_followers,
            write_failure=self.write_failures[storage_id].last())
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

    def replace_storage(self, storage, epoch):
        """Serve the only storage in another role; its clients reconnect.

        Call it in the thread that runs `loop()`.

        Args:
            storage: a storage on the same FileStorage.
            epoch: of this server from now on.
        """
        name = next(iter(self.storages))
        storage.registerDB(StorageServerDB(self, name))
        self.storages[name] = storage
        self.disconnect_clients()
        self.lead(epoch)

    def lead(self, epoch):
        """Serve in this epoch, and let commits begin."""
        self.epoch = self.known_epoch = epoch
        self.gate.reopen()

    def disconnect_clients(self):
        """Close every connection that has completed its handshake."""
        for protocol in list(self.protocols):
            if protocol.zeo_storage.connected:
                protocol.close()

    def release_writers(self):
        """Close connections for writing soon, if this server is then still of an earlier epoch.

        Their clients look for another server.  Its promotion may just have begun: a client that
        finds no server for writing waits longer before it looks again.
        """
        self.acceptor.event_loop.call_later(_PROMOTED, self._disconnect_writers)

    def _disconnect_writers(self):
        if self.known_epoch <= self.epoch:
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
        aborted; none is interrupted in the middle.
        """
        try:
            self.disconnect_clients()
        finally:
            self.acceptor.close()
