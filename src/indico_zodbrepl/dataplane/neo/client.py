"""The storage that Indico opens on a NEO cluster, and its ZConfig section `<neo>`.

    %import indico_zodbrepl.dataplane
    %import indico_zodbrepl.dataplane.neo
    <indicostorage>
      <neo>
        master 127.0.0.1:8160
        cluster demo
      </neo>
    </indicostorage>
"""
from __future__ import absolute_import


import zope.interface
from ZODB import POSException
from ZODB.config import BaseConfig
from ZODB.interfaces import IStorageUndoable

from indico_zodbrepl.dataplane.client.liveness import Sight
from indico_zodbrepl.dataplane.client.translation import StorageAway
from indico_zodbrepl.dataplane.neo import sizes
from indico_zodbrepl.dataplane.neo.errors import pack_failure
from indico_zodbrepl.dataplane.neo.library import import_neo
from indico_zodbrepl.dataplane.neo.liveness import ANSWER_LIMIT, Liveness
from indico_zodbrepl.dataplane.programs.addresses import format_address
from indico_zodbrepl.dataplane.programs.clock import monotonic

import_neo()

from neo.client.app import Application  # noqa: E402
from neo.client.exception import NEOPrimaryMasterLost  # noqa: E402
from neo.client.Storage import Storage  # noqa: E402

CONNECT_LIMIT = 10.0  # seconds
CLOSE_LIMIT = 5.0  # seconds

_NO_UNDO = (
    'NEO 1.12 can not undo safely: it may end its storages, or lose objects '
    'after a pack')


class NotConnected(Exception):
    """The cluster cannot be used at the moment; the text says why."""


class NEOUndoRefused(POSException.UndoError):
    """Nothing was undone; the cluster was not asked."""


class LimitedApplication(Application):
    """NEO's client; it gives up a search for the primary master after `connect_limit` seconds."""

    connect_limit = CONNECT_LIMIT
    _searching_until = float('inf')

    @property
    def max_reconnection_to_master(self):
        # Checked before each attempt; the value is the permitted number of failures.
        return 0 if monotonic() > self._searching_until else float('inf')

    def _connectToPrimaryNode(self):
        self._searching_until = monotonic() + self.connect_limit
        return Application._connectToPrimaryNode(self)


@zope.interface.implementer_only(
    *[each for each in zope.interface.implementedBy(Storage)
      if each is not IStorageUndoable])
class NEOClient(Storage):
    """A NEO storage that answers or fails in limited time.  Thread-safe.

    Args:
        masters: [(host, port)].
        name: the cluster's.
        cache_size: bytes.
        connect_limit: seconds in which a primary master must be found, when it
            is opened and whenever its primary is lost.
        answer_limit: seconds after which a silent server is given up.
        monitor_folder: of the NEO monitor on this host, or None.

    Raises StorageAway if no primary master is found in time.
    """

    def __init__(self, masters, name, cache_size, connect_limit=CONNECT_LIMIT,
                 answer_limit=ANSWER_LIMIT, monitor_folder=None):
        app = LimitedApplication(
            ' '.join(format_address(each) for each in masters), name,
            cache_size=cache_size)
        app.connect_limit = connect_limit
        Storage.__init__(self, None, name, _app=app)
        self.__name__ = '%s at %s' % (
            name, ', '.join(format_address(each) for each in masters))
        self._monitor_folder = monitor_folder
        self._liveness = Liveness(self.app, answer_limit)
        try:
            self.app._getMasterConnection()
        except NEOPrimaryMasterLost as error:
            self.close()
            raise StorageAway(error)

    def close(self):
        if self.app is None:
            return
        # NEO's application has no attributes once its thread has ended.
        thread = self.app.poll_thread
        self._liveness.close()
        Storage.close(self)
        if thread.isAlive():
            # A thread that runs during interpreter shutdown fails noisily.
            thread.join(CLOSE_LIMIT)

    def look(self):
        """Return the state of the cluster without a query; see `client.liveness`.

        Raises NotConnected without a primary master, and if part of the data is on silent storages
        only.
        """
        app = self.app
        connection, table = app.master_conn, app.__dict__.get('pt')
        if connection is None or table is None:
            raise NotConnected('no primary master')
        silent = self._liveness.silent()
        if silent and not _readable_without(table, silent):
            raise NotConnected('no storage answers for a part of the data')
        return Sight(
            format_address(connection.getAddress()), False,
            app.__dict__.get('last_tid'))

    def cut(self):
        """Do nothing: `neo.liveness` interrupts calls that wait for a silent server."""

    cut_replaced = read_elsewhere = cut

    def supportsUndo(self):
        return False

    def undo(self, transaction_id, txn):
        raise NEOUndoRefused(_NO_UNDO)

    def undoLog(self, first=0, last=-20, filter=None):
        """Return nothing: NEO cannot undo."""
        return []

    undoInfo = undoLog

    def pack(self, t, referencesf, gc=False):
        """Pack without garbage collection.

        A pack is not replicated: a storage that missed it differs from the others, and a check
        reports that as damage until all have finished a later pack.

        Raises PackRefused unless every copy is up to date, PackIncomplete if a storage goes away
        before it has packed.
        """
        try:
            Storage.pack(self, t, referencesf, gc)
        except POSException.StorageError as error:
            raise pack_failure(error) or error

    def getSize(self):
        """Return the bytes of one copy in the storages; 0 if unknown on this host."""
        return sizes.of_one_copy(self._monitor_folder)


def _readable_without(table, silent):
    return all(
        any(cell.getAddress() not in silent for cell in table.getCellList(offset, True))
        for offset in range(table.getPartitions()))


class NEOSection(BaseConfig):
    """The ZConfig section `<neo>`."""

    def open(self):
        """Open a `NEOClient`; raise StorageAway if no primary master is found in time."""
        config = self.config
        # ZConfig reads unicode from a file; NEO takes only bytes for text.
        return NEOClient(
            [(str(host), port) for host, port in config.masters], str(config.cluster),
            config.cache_size, config.wait_timeout, config.answer_limit,
            config.warden_folder)
