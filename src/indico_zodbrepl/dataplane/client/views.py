"""Checks of storages, used by `liveness`."""
from __future__ import absolute_import

import contextlib
import errno
import logging
import os
import socket
import threading
import weakref

from relstorage.storage import RelStorage
from ZODB.FileStorage import FileStorage
from ZODB.utils import p64, z64

from indico_zodbrepl.dataplane.client import commit_waits, relstorage
from indico_zodbrepl.dataplane.client.commit_waits import CommitWaits
from indico_zodbrepl.dataplane.client.liveness import Sight
from indico_zodbrepl.dataplane.client.lost_transactions import NewestSeen
from indico_zodbrepl.dataplane.client.relstorage import READ_ONLY_QUERIES, Only, Replicas

log = logging.getLogger(__name__)


def view_of(storage, patience):
    """Return a view of an open storage; None for a kind that needs none.

    Args:
        patience: seconds for which readers wait for a database server that is late.
    """
    if is_on_sqlite(storage):
        return SQLiteView(storage._adapter, patience)
    if isinstance(storage, RelStorage):
        return SQLView(storage._adapter, patience)
    if isinstance(storage, FileStorage):
        return FileView(storage)
    # NEO's client is its own view; it is imported only if it is used.
    return storage if hasattr(storage, 'look') else None


def place_of(storage):
    """Return where a storage in this process keeps its data, without secrets.

    The name that a RelStorage gives itself holds parameters of the connection.
    """
    if not isinstance(storage, RelStorage):
        return storage.getName()
    adapter = storage._adapter
    return getattr(
        adapter.connmanager, 'path', adapter.driver_options.database_type)


def size_of(storage):
    """Return the size of a database in bytes.

    RelStorage counts SQLite's file without the write-ahead log, which gets new data first.
    """
    size = storage.getSize()
    if is_on_sqlite(storage):
        log = storage._adapter.connmanager.path + '-wal'
        if os.path.exists(log):
            size += os.path.getsize(log)
    return size


def is_on_sqlite(storage):
    return isinstance(storage, RelStorage) and (
        storage._adapter.driver_options.database_type == 'sqlite3')


class SQLView(object):
    """Checks the server of a RelStorage on a connection of its own.

    With several servers, only this thread retries the first one, so that nobody else
    waits for it.

    Args:
        adapter: of the storage.  From now on the servers that any of its instances
            connects to are recorded here, for `cut` and `cut_replaced`.
        patience: seconds for which readers wait for a server that is late.

    Attributes:
        waits: the `CommitWaits` of the storage.
        newest: its `NewestSeen`.
    """

    def __init__(self, adapter, patience):
        self._adapter = adapter
        self._manager = adapter.connmanager
        self._connection = self._cursor = None
        self._shows_nothing = False
        self._retrying = False  # the first server, while another one is used
        self._servers = {}  # address: the server as the file of servers names it, or None
        self._reading = None
        self._readers = weakref.WeakKeyDictionary()  # an open connection: both ends of its socket
        self._lock = threading.Lock()  # for the readers
        self.waits = CommitWaits()
        self.newest = NewestSeen(patience, self._find_the_newest)
        self._open = self._manager.open
        self._manager.open = self._opening
        self._replicas = None
        if self._manager.replica_selector is not None:
            selector = self._manager.replica_selector
            self._replicas = Replicas(selector)
            if self._manager.ro_replica_selector is selector:
                self._reading = self._manager.ro_replica_selector = Replicas(selector)
            self._manager.replica_selector = self._replicas

    def _opening(self, *args, **kwargs):
        connection, cursor = self._open(*args, **kwargs)
        ends = _ends(_descriptor(connection))
        self._servers[ends[1]] = getattr(connection, 'replica', None)
        if self._reading is not None and kwargs.get('replica_selector') is self._reading:
            with self._lock:
                self._readers[connection] = ends
        return connection, cursor

    def look(self):
        """Query the last transaction and whether the server accepts writes.

        If the connection is lost, or belongs to a server that is no longer the preferred
        one, another server is tried at once.
        """
        self._return_to_the_first()
        if self._connection is not None:
            try:
                self._manager.check_replica(self._connection, self._cursor)
                return self._ask()
            except Exception as error:
                self._drop()
                if not relstorage.is_away(error):
                    raise
        self._connection, self._cursor = self._opened()
        try:
            return self._ask()
        except Exception:
            self._drop()
            raise

    def _opened(self, **options):
        if self._adapter.driver_options.database_type in READ_ONLY_QUERIES:
            # A PostgreSQL standby accepts only read-only transactions.
            options['read_only'] = True
        return self._manager.open(**options)

    def _return_to_the_first(self):
        first = self._replicas and self._replicas.due()
        if not first:
            return
        used = self._connection, self._cursor
        self._connection = self._cursor = None
        self._retrying = True
        try:
            self._connection, self._cursor = self._opened(
                replica_selector=Only(first))
            self._ask()
        except Exception as error:
            self._drop()
            self._connection, self._cursor = used
            if not relstorage.is_away(error):
                raise
        else:
            self._replicas.prefer(first)
            self._manager.rollback_and_close(*used)
        finally:
            self._retrying = False

    def _ask(self):
        tid = self._adapter.txncontrol.get_tid(self._cursor)
        read_only = False
        query = READ_ONLY_QUERIES.get(self._adapter.driver_options.database_type)
        if query is not None:
            self._cursor.execute(query)
            read_only = bool(self._cursor.fetchall()[0][0])
        refusal = self._refusal()
        self._connection.rollback()
        if self._reading is not None and self._connection.replica == self._replicas.current():
            self._reading.prefer(self._connection.replica)
        if refusal is not None and self.waits.are_late:
            self._shut(addresses=self._servers)
        return Sight(
            _server(self._connection, self._manager), read_only or refusal is not None,
            p64(tid) if tid else None, refusal)

    def _find_the_newest(self):
        """Read from a follower that has the newest transaction, if there is one; any thread."""
        if self._reading is None:
            return
        for each in self._reading.others(self._reading.current()):
            if self._has_the_newest(each):
                self._reading.prefer(each)
                if self._replicas.current() in self._replicas.others(each):
                    self._replicas.prefer(each)  # so that it is the one that is checked
                return

    def _has_the_newest(self, server):
        connection = cursor = None
        try:
            connection, cursor = self._opened(replica_selector=Only(server))
            return self._adapter.txncontrol.get_tid(cursor) >= self.newest.tid
        except Exception as error:  # any exception means that it cannot be read from
            log.info('%s was not searched: %s: %s', server, type(error).__name__, error)
            return False
        finally:
            self._manager.rollback_and_close(connection, cursor)

    def _refusal(self):
        query = commit_waits.QUERIES.get(self._adapter.driver_options.database_type)
        if query is None or self._shows_nothing:
            return None
        try:
            self._cursor.execute(query)
            rows = self._cursor.fetchall()
        except Exception as error:
            if relstorage.is_away(error) and not relstorage.is_not_there(error):
                raise
            self._shows_nothing = True  # somebody else's server
            return None
        text = rows[0][0] if rows else None
        return commit_waits.refusal_in(text.decode('ascii') if isinstance(text, bytes) else text)

    def _drop(self):
        connection, cursor = self._connection, self._cursor
        self._connection = self._cursor = None
        self._manager.rollback_and_close(connection, cursor)

    def cut(self):
        """Shut down all sockets to the servers, so that waiting calls fail.

        This includes connections being opened, because not every driver limits that time.
        If another server can be read from, it is used.
        """
        connection = self._connection
        if self._replicas is not None and connection is not None:
            for each in self._selectors:
                each.leave(connection.replica)
        self._shut(addresses=self._servers)

    def cut_replaced(self):
        """Shut down the sockets to servers that are not the one to use.

        The file of servers names a new primary while an isolated one leaves calls without an answer.
        """
        if self._replicas is not None:
            used = [each.current() for each in self._selectors]
            self._shut(addresses=[
                address for address, server in self._servers.items() if server not in used])

    def read_elsewhere(self):
        """Read from another server until a look has succeeded; what is being written still waits."""
        if self._reading is None or self._retrying:
            return
        silent = self._replicas.current()
        self._reading.leave(silent)
        if self._reading.current() == silent:
            return  # there is no other one
        with self._lock:
            readers = list(self._readers.items())
        self._shut(sockets=[ends for each, ends in readers if each.replica == silent])

    @property
    def _selectors(self):
        return [each for each in (self._replicas, self._reading) if each is not None]

    def _shut(self, addresses=(), sockets=()):
        for descriptor in map(int, os.listdir('/proc/self/fd')):
            _shut(descriptor, addresses, sockets)

    def close(self):
        self._manager.open = self._open
        self._drop()


class SQLiteView(SQLView):
    """Checks SQLite, and that its file is still in place.

    SQLite continues with a deleted file, and what it saves is lost.
    """

    def __init__(self, adapter, patience):
        SQLView.__init__(self, adapter, patience)
        self._path = self._manager.path
        self._identity = _identity(os.stat(self._path))

    def _ask(self):
        _require_same(self._path, self._identity)
        sight = SQLView._ask(self)
        return sight._replace(
            server=None, read_only=not os.access(self._path, os.W_OK))

    def _opening(self, *args, **kwargs):
        return self._open(*args, **kwargs)

    def cut(self):
        """Do nothing: there is no socket, and SQLite limits its statements."""

    cut_replaced = read_elsewhere = cut


class FileView(object):
    """Checks that the file of a FileStorage is still in place and open."""

    def __init__(self, storage):
        self._storage = storage
        self._path = storage.getName()

    def look(self):
        with self._storage._lock:  # which a pack acquires to replace the file
            opened = _identity(os.fstat(self._storage._file.fileno()))
            _require_same(self._path, opened)
        tid = self._storage.lastTransaction()
        return Sight(
            None,
            self._storage.isReadOnly() or not os.access(self._path, os.W_OK),
            None if tid == z64 else tid)

    def cut(self):
        """Do nothing: a call that waits for a disk cannot be interrupted."""

    cut_replaced = read_elsewhere = cut

    def close(self):
        pass


def _identity(found):
    return found.st_dev, found.st_ino


def _require_same(path, identity):
    if _identity(os.stat(path)) != identity:
        raise EnvironmentError(
            errno.ESTALE, 'another file has taken the place of', path)


def _server(connection, manager):
    """Return 'host:port' as configured; the socket's folder counts as host."""
    replica = getattr(connection, 'replica', None)
    if replica is not None:
        return replica
    info = getattr(connection, 'info', None)
    if info is not None:
        return '%s:%s' % (info.host, info.port)
    parameters = getattr(manager, '_params', {})
    return '%s:%s' % (
        parameters.get('host', 'localhost'), parameters.get('port', 3306))


def _descriptor(connection):
    """Return the number of the socket of a connection that is open."""
    if hasattr(connection, 'fileno'):
        return connection.fileno()
    return connection._sock.fileno()  # PyMySQL


def _ends(descriptor):
    """Return the own address and the peer's of a socket."""
    with contextlib.closing(_copy(descriptor)) as copy:
        return copy.getsockname(), copy.getpeername()


def _shut(descriptor, peers, sockets):
    """Shut down a socket if it is connected to one of the peers, or has one of the pairs of ends."""
    try:
        # The owner of the original may close it meanwhile.
        copy = _copy(descriptor)
    except socket.error as error:
        if error.errno != errno.EBADF:
            raise
        return
    with contextlib.closing(copy):
        try:
            peer = copy.getpeername()
            if peer in peers or (copy.getsockname(), peer) in sockets:
                copy.shutdown(socket.SHUT_RDWR)
        except socket.error as error:
            if error.errno not in (errno.ENOTSOCK, errno.ENOTCONN):
                raise


def _copy(descriptor):
    return socket.fromfd(descriptor, socket.AF_INET, socket.SOCK_STREAM)
