"""Let a master lead only with a majority of the masters, and start without a storage if it is safe.

NEO's masters have no quorum: each side of a divided network elects a leader.  Only the missing
storages may keep it from serving, and they also stop a cluster that lost the host of its leader
and of a storage.  Here the masters agree as in Paxos; what they agree on is the id of the newest
partition table, which says which storages have the data:

- Each leader has a term, a number that no other leader has: a new one reserves a higher term than
  any that a majority of the masters knows, before it starts.  A master answers only the leader
  that it follows, and refuses tables of earlier terms.
- The ids of a leader's tables begin at its term.  A change of the table counts once a majority of
  the masters remembers its id; until then the leader finishes no transaction.
- A leader starts only with a table at least as new as those that its majority remembers.  If the
  majority remembers one, the leader does not wait for a storage whose data others have: without
  these others, no transaction was acknowledged.
- A table that no storage got is not waited for: all storages of the newest one that they have are
  there, so no transaction was acknowledged under a later one.  Only the same leader's tables count;
  with tables of an earlier leader alone, all storages may have been restored from older copies,
  and an operator has to decide.
- A leader without a majority, or that learns of a later term, stops serving.
"""
from __future__ import absolute_import

import errno
import os
import struct

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
IDS_OF_A_TERM = 1 << 16
_SERVING = (ClusterStates.VERIFYING, ClusterStates.RUNNING)


class Memory(object):
    """What a master knows of leaders; kept in a file.

    Attributes:
        table: the id of the newest partition table of which a leader told it; None if none did,
            as after its disk was replaced.
        term: the highest term that a leader reserved; 0 if none did.
    """

    def __init__(self, folder):
        self._folder = folder
        self.table, self.term = self._read()

    def reserve(self, term):
        """Refuse tables of earlier terms from now on; on disk when this returns."""
        if term > self.term:
            self._write(self.table, term)

    def remember(self, table):
        """Remember a table's id unless its term is over; on disk when this returns."""
        if table >= self.term and table != self.table:
            self._write(table, self.term)

    def _write(self, table, term):
        path = os.path.join(self._folder, NAME)
        with open(path + '.new', 'w') as stream:
            stream.write('%d %d\n' % (table or 0, term))
            stream.flush()
            os.fsync(stream.fileno())
        os.rename(path + '.new', path)
        descriptor = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self.table, self.term = table, term

    def _read(self):
        try:
            with open(os.path.join(self._folder, NAME)) as stream:
                table, term = map(int, stream.read().split())
                return table or None, term
        except IOError as error:
            if error.errno == errno.ENOENT:
                return None, 0
            raise


class Quorum(object):
    """The votes of the masters that follow this one.

    Attributes:
        memory: this master's own `Memory`.
        term: of this leader; None before it has reserved one.
        pending: the id of a table that no majority remembers yet, or None.
        ordered: True if an operator ordered to start with the storages that are there.

    Args:
        needed: how many masters are a majority, this one included.
    """

    def __init__(self, memory, needed):
        self.memory = memory
        self.term = None
        self.pending = None
        self.ordered = False
        self._needed = needed
        self._answers = {}
        self._complete_since = None

    def is_there(self):
        """Return True if a majority of the masters follows."""
        return 1 + len(self._answers) >= self._needed

    def is_reserved(self):
        """Return True if a majority of the masters refuses leaders of earlier terms."""
        return self.term is not None and 1 + sum(
            term == self.term for _, term in self._answers.values()) >= self._needed

    def newest(self):
        """Return the newest id of a table that this master or a follower remembers, or None."""
        return max(self._remembered() or [None])

    def is_known(self):
        """Return True if a majority remembers a table, so that `newest` is the newest of all."""
        return len(self._remembered()) >= self._needed

    def _remembered(self):
        tables = [self.memory.table] + [table for table, _ in self._answers.values()]
        return [each for each in tables if each is not None]

    def admits(self, table, newest_of_all=False):
        """Return True if the cluster may start with the table of this id.

        Args:
            newest_of_all: True if all storages of this table are there, and none has a later one.
        """
        newest = self.newest()
        return self.is_reserved() and (
            self.ordered or table >= newest
            or (newest_of_all and table // IDS_OF_A_TERM == newest // IDS_OF_A_TERM))

    def may_start(self, app):
        """Return True if the cluster may start with the storages that are there."""
        if not self.is_reserved():
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

    def begin(self, app):
        """Begin a recovery: no table is in use, and a start needs a new term."""
        self.term = None
        self.pending = None
        self.ordered = False
        self._complete_since = None
        self._reserve(app)

    def first_table(self, table):
        """Return the id of this leader's first table, after the one that it starts from."""
        return max(self.term, _term_after(table))

    def register(self, app):
        """Have the present partition table remembered by a majority."""
        self.pending = app.pt.getID()
        self.memory.remember(self.pending)
        self._ask_all(app)
        self._count(app)

    def ask(self, connection, app):
        """Tell a follower the term, while serving also the table, and ask what it knows."""
        if self.term is not None:
            # NEO has no packets for that; no master uses these between masters.
            connection.send(Packets.Truncate(_encoded(self.term)))
        if self.pending is not None or app.cluster_state in _SERVING:
            connection.send(Packets.NotifyPartitionChanges(
                app.pt.getID(), app.pt.getReplicas(), ()))
        connection.ask(Packets.AskRecovery())

    def answered(self, app, connection, table, term):
        """Take a follower's answer.  Raises StoppedOperation while serving in an earlier term."""
        self._answers[connection] = table, term
        if app.cluster_state in _SERVING:
            if term > self.term:
                raise StoppedOperation
            self._count(app)
        else:
            asked = self.term
            self._reserve(app)
            if asked is not None and self.term == asked and term < asked:
                # It was asked before the term was chosen, and may be the one that is needed.
                self.ask(connection, app)

    def lost(self, app, connection):
        """Take the loss of a follower.  Raises StoppedOperation if that ends a majority."""
        self._answers.pop(connection, None)
        if app.primary and app.cluster_state in _SERVING and not self.is_there():
            raise StoppedOperation

    def _reserve(self, app):
        """Choose a term that is higher than all that a majority knows, and have it reserved."""
        if not self.is_there() or self.pending is not None:
            return
        highest = max([self.memory.term] + [term for _, term in self._answers.values()])
        if self.term is None or highest > self.term:
            self.term = _term_after(max(highest, self.newest()))
            self.memory.reserve(self.term)
            self._ask_all(app)

    def _ask_all(self, app):
        for connection in list(self._answers):
            self.ask(connection, app)

    def _count(self, app):
        if self.pending is None:
            return
        votes = 1 + sum(table == self.pending for table, _ in self._answers.values())
        if votes >= self._needed:
            self.pending = None
            self._finish_held(app.tm)

    @staticmethod
    def _finish_held(transactions):
        queue = transactions._queue
        if queue and transactions._ttid_dict[queue[0]].locked():
            transactions._unlockPending()


def _term_after(number):
    """Return the lowest term that is higher than a term or the id of a table."""
    return ((number or 0) | IDS_OF_A_TERM - 1) + 1


def _encoded(term):
    return struct.pack('!Q', term)


def _decoded(packed):
    return struct.unpack('!Q', packed)[0]


def install(folder, needed):
    """Patch the master of this process; call it before the master begins.

    Args:
        folder: the master's data folder.
        needed: how many masters are a majority.
    """
    quorum = Quorum(Memory(folder), needed)
    _patch_start(quorum)
    _patch_orders(quorum)
    _patch_followers(quorum)
    _patch_changes(quorum)


def _patch_start(quorum):
    class QuorateRecovery(PatientRecovery):
        """A recovery that ends only with a majority of the masters."""

        def run(self):
            quorum.begin(self.app)
            PatientRecovery.run(self)
            table = self.app.pt
            table.setID(quorum.first_table(table.getID()))
            self._notifyAdmins(Packets.SendPartitionTable(
                table.getID(), table.getReplicas(), table.getRowList()))
            quorum.register(self.app)

    operational = PartitionTable.getOperationalNodeSet.__func__

    def operational_if_admitted(table):
        admitted = quorum.admits(table.getID(), _is_newest_of_all(table))
        return operational(table) if admitted else ()

    def order(_app, allowed):
        quorum.ordered = allowed

    master.RecoveryManager = QuorateRecovery
    master.Application._startup_allowed = property(quorum.may_start, order)
    PartitionTable.getOperationalNodeSet = operational_if_admitted


def _is_newest_of_all(table):
    """Return True in a recovery if all storages of a table are there and have answered.

    One with a later table would be asked for that.
    """
    return all(node.isPending() and not node.getConnection().isPending()
               for node in table.getNodeSet())


def _patch_orders(quorum):
    set_state = AdministrationHandler.setClusterState.__func__
    last_transaction = AdministrationHandler.askLastTransaction.__func__

    def set_state_if_admitted(handler, connection, state):
        if state == ClusterStates.VERIFYING:
            if not quorum.is_reserved():
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

    AdministrationHandler.setClusterState = set_state_if_admitted
    AdministrationHandler.askLastTransaction = last_transaction_if_registered


def _patch_followers(quorum):
    def switched(handler, connection, new):
        if connection.isServer():
            quorum.ask(connection, handler.app)

    def answer_recovery(handler, connection, table, term, _unused):
        quorum.answered(handler.app, connection, table, _decoded(term))

    def losing(stock):
        def connection_lost(handler, connection):
            stock(handler, connection)
            quorum.lost(handler.app, connection)
        return connection_lost

    SecondaryHandler.handlerSwitched = switched
    SecondaryHandler.answerRecovery = answer_recovery
    for each in SecondaryHandler, ElectionHandler:
        each._connectionLost = losing(each._connectionLost.__func__)

    def reserve(_handler, _connection, term):
        quorum.memory.reserve(_decoded(term))

    def remember(_handler, _connection, table, _replicas, _cells):
        quorum.memory.remember(table)

    def tell(_handler, connection):
        memory = quorum.memory
        connection.answer(Packets.AnswerRecovery(memory.table, _encoded(memory.term), None))

    PrimaryHandler.truncate = reserve
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
