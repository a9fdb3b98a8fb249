"""Let a master lead only with a majority of the masters, and start without a storage if it is safe.

NEO's masters have no quorum: each side of a divided network elects a leader.  Only the missing
storages may keep it from serving, and they also stop a cluster that lost the host of its leader
and of a storage.  Here each master remembers the id of its leader's partition table in a file:

- A change of the table counts once a majority of the masters remembers its id.  Until then the
  leader finishes no transaction.  A master answers only the leader that it follows.
- A leader without a majority stops serving.
- A new leader serves only with a majority, and with a table at least as new as those that they
  remember.  If a majority remembers one, the leader does not wait for a storage whose data others
  have: without these others, no transaction was acknowledged.
- Each start skips to ids that no earlier leader has used, so that a table which an isolated leader
  changed never looks newer than the cluster's.
"""
from __future__ import absolute_import

import errno
import os

from indico_zodbrepl.dataplane.neo.library import import_neo
from indico_zodbrepl.dataplane.neo.recovery import PatientRecovery
from indico_zodbrepl.dataplane.programs.clock import monotonic

import_neo()

from neo.lib.exception import StoppedOperation  # noqa: E402
from neo.lib.handler import AnswerDenied  # noqa: E402
from neo.lib.protocol import ClusterStates, Packets  # noqa: E402
# Import it before its handlers, which import it too.
from neo.master import app as master  # noqa: E402
from neo.master.handlers.administration import AdministrationHandler  # noqa: E402
from neo.master.handlers.master import (  # noqa: E402
    ElectionHandler, PrimaryHandler, SecondaryHandler)
from neo.master.pt import PartitionTable  # noqa: E402
from neo.master.transactions import TransactionManager  # noqa: E402

NAME = 'neo.table'
# Seconds in which storages that are just starting may join, before a start without them.
PATIENCE = 3.0
IDS_OF_A_LEADER = 1 << 16
_SERVING = (ClusterStates.VERIFYING, ClusterStates.RUNNING)


class Memory(object):
    """The id of the newest partition table of which a master was told; kept in a file.

    Attributes:
        id: None if it was told of none, as after its disk was replaced.
    """

    def __init__(self, folder):
        self._folder = folder
        self.id = self._read()

    def set(self, table_id):
        """Remember an id; it is on disk when this returns."""
        if table_id == self.id:
            return
        path = os.path.join(self._folder, NAME)
        with open(path + '.new', 'w') as stream:
            stream.write('%d\n' % table_id)
            stream.flush()
            os.fsync(stream.fileno())
        os.rename(path + '.new', path)
        descriptor = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self.id = table_id

    def _read(self):
        try:
            with open(os.path.join(self._folder, NAME)) as stream:
                return int(stream.read())
        except IOError as error:
            if error.errno == errno.ENOENT:
                return None
            raise


class Quorum(object):
    """The votes of the masters that follow this one.

    Attributes:
        memory: this master's own `Memory`.
        pending: the id of a table that no majority remembers yet, or None.
        ordered: True if an operator ordered to start with the storages that are there.

    Args:
        needed: how many masters are a majority, this one included.
    """

    def __init__(self, memory, needed):
        self.memory = memory
        self.pending = None
        self.ordered = False
        self._needed = needed
        self._answers = {}
        self._complete_since = None

    def is_there(self):
        """Return True if a majority of the masters follows."""
        return 1 + len(self._answers) >= self._needed

    def newest(self):
        """Return the newest id that this master or a follower remembers, or None."""
        return max(self._remembered() or [None])

    def is_known(self):
        """Return True if a majority remembers an id, so that `newest` is the newest that counts."""
        return len(self._remembered()) >= self._needed

    def _remembered(self):
        return [each for each in [self.memory.id] + list(self._answers.values())
                if each is not None]

    def admits(self, table_id):
        """Return True if a cluster may start with the table of this id."""
        return self.is_there() and (self.ordered or table_id >= self.newest())

    def may_start(self, app):
        """Return True if the cluster may start with the storages that are there."""
        if not self.is_there():
            return False
        if self.ordered:
            return True
        if not (app.pt.filled() and self.is_known() and app.pt.getOperationalNodeSet()):
            self._complete_since = None
            return False
        now = monotonic()
        if self._complete_since is None:
            self._complete_since = now
            app.em.setTimeout(now + PATIENCE, lambda: None)
        return now >= self._complete_since + PATIENCE

    def begin(self):
        """Begin a recovery: no table is in use."""
        self.pending = None
        self.ordered = False
        self._complete_since = None

    def register(self, app):
        """Have the present partition table remembered by a majority."""
        self.pending = app.pt.getID()
        self.memory.set(self.pending)
        for uuid in list(self._answers):
            self.ask(app.nm.getByUUID(uuid).getConnection(), app)
        self._count(app)

    def ask(self, connection, app):
        """Ask a follower for what it remembers; while serving, tell it the present table first."""
        if self.pending is not None or app.cluster_state in _SERVING:
            connection.send(Packets.NotifyPartitionChanges(
                app.pt.getID(), app.pt.getReplicas(), ()))
        connection.ask(Packets.AskRecovery())

    def answered(self, app, uuid, table_id):
        """Take a follower's answer: the id that it remembers, or None."""
        self._answers[uuid] = table_id
        self._count(app)

    def lost(self, app, uuid):
        """Take the loss of a follower.  Raises StoppedOperation if that ends a majority."""
        self._answers.pop(uuid, None)
        if app.cluster_state in _SERVING and not self.is_there():
            raise StoppedOperation

    def _count(self, app):
        if self.pending is None:
            return
        votes = 1 + sum(each == self.pending for each in self._answers.values())
        if votes >= self._needed:
            self.pending = None
            self._finish_held(app.tm)

    @staticmethod
    def _finish_held(transactions):
        queue = transactions._queue
        if queue and transactions._ttid_dict[queue[0]].locked():
            transactions._unlockPending()


def install(folder, needed):
    """Patch the master of this process; call it before the master begins.

    Args:
        folder: the master's data folder.
        needed: how many masters are a majority.
    """
    quorum = Quorum(Memory(folder), needed)
    _patch_start(quorum)
    _patch_followers(quorum)
    _patch_changes(quorum)


def _patch_start(quorum):
    class QuorateRecovery(PatientRecovery):
        """A recovery that ends only with a majority of the masters."""

        def run(self):
            quorum.begin()
            PatientRecovery.run(self)
            table = self.app.pt
            table.setID((table.getID() | IDS_OF_A_LEADER - 1) + 1)
            self._notifyAdmins(Packets.SendPartitionTable(
                table.getID(), table.getReplicas(), table.getRowList()))
            quorum.register(self.app)

    operational = PartitionTable.getOperationalNodeSet.__func__
    set_state = AdministrationHandler.setClusterState.__func__
    last_transaction = AdministrationHandler.askLastTransaction.__func__

    def operational_if_admitted(table):
        return operational(table) if quorum.admits(table.getID()) else ()

    def set_state_if_admitted(handler, connection, state):
        if state == ClusterStates.VERIFYING:
            if not quorum.is_there():
                raise AnswerDenied('fewer than a majority of the masters are connected')
            if not handler.app.pt.filled() and quorum.newest() is not None:
                raise AnswerDenied(
                    'all storages are empty, and the cluster is not new: a master remembers data')
        set_state(handler, connection, state)

    def last_transaction_if_registered(handler, connection):
        if quorum.pending is not None:
            raise AnswerDenied(
                'no majority of the masters has confirmed yet which storages take part')
        last_transaction(handler, connection)

    def order(_app, allowed):
        quorum.ordered = allowed

    master.RecoveryManager = QuorateRecovery
    master.Application._startup_allowed = property(quorum.may_start, order)
    PartitionTable.getOperationalNodeSet = operational_if_admitted
    AdministrationHandler.setClusterState = set_state_if_admitted
    AdministrationHandler.askLastTransaction = last_transaction_if_registered


def _patch_followers(quorum):
    def switched(handler, connection, new):
        if connection.isServer():
            quorum.ask(connection, handler.app)

    def answer_recovery(handler, connection, table_id, _backup_tid, _truncate_tid):
        quorum.answered(handler.app, connection.getUUID(), table_id)

    def losing(stock):
        def connection_lost(handler, connection):
            stock(handler, connection)
            if handler.app.primary:
                quorum.lost(handler.app, connection.getUUID())
        return connection_lost

    SecondaryHandler.handlerSwitched = switched
    SecondaryHandler.answerRecovery = answer_recovery
    for each in SecondaryHandler, ElectionHandler:
        each._connectionLost = losing(each._connectionLost.__func__)

    def remember(_handler, _connection, table_id, _replicas, _cells):
        quorum.memory.set(table_id)

    def tell(_handler, connection):
        connection.answer(Packets.AnswerRecovery(quorum.memory.id, None, None))

    PrimaryHandler.notifyPartitionChanges = remember
    PrimaryHandler.askRecovery = tell


def _patch_changes(quorum):
    broadcast = master.Application.broadcastPartitionChanges.__func__
    unlock = TransactionManager._unlockPending.__func__

    def broadcast_and_register(app, *arguments, **named):
        before = app.pt.getID()
        broadcast(app, *arguments, **named)
        if app.pt.getID() != before and app.cluster_state in _SERVING:
            quorum.register(app)

    def unlock_if_registered(transactions):
        if quorum.pending is None:
            unlock(transactions)

    master.Application.broadcastPartitionChanges = broadcast_and_register
    TransactionManager._unlockPending = unlock_if_registered
