"""A ZEO client with the watchdog finds its way back to a writable server."""
import logging
import socket
import struct
import threading
import time

import pytest
import transaction
from ZEO.Exceptions import ClientDisconnected
from ZODB.DB import DB
from ZODB.POSException import ReadOnlyError

from indico_zodbrepl.dataplane.client import reconnection
from indico_zodbrepl.dataplane.client.reconnection import what_is_missing

from processes import free_ports, wait_for
from zeo_servers import ZEOServer, make_database, open_client

# How long a client is watched that is expected not to get anywhere.
STUCK = 6.0


@pytest.fixture
def servers(processes, tmpdir):
    """Two servers with the same data, not yet started."""
    make_database(tmpdir.join('made.fs'))
    return [ZEOServer(processes, tmpdir.join(name), tmpdir.join('made.fs'))
            for name in 'ab']


@pytest.fixture
def opened():
    """Closes the storages that a test appends."""
    storages = []
    yield storages
    for storage in storages:
        storage.close()


def is_writable(storage):
    return storage.is_connected() and not storage.is_read_only()


def is_read_only(storage):
    return storage.is_connected() and storage.is_read_only()


def write(db, value):
    manager = transaction.TransactionManager()
    connection = db.open(manager)
    try:
        connection.root()['thing']['answer'] = value
        manager.commit()
    finally:
        manager.abort()
        connection.close()


def read(db):
    manager = transaction.TransactionManager()
    connection = db.open(manager)
    try:
        connection.cacheMinimize()
        return connection.root()['thing']['answer']
    finally:
        manager.abort()
        connection.close()


def fall_back(servers, storage):
    """Starts a writable primary and a read-only server, kills the primary."""
    primary, secondary = servers
    wait_for(lambda: is_writable(storage), 'the primary')
    primary.kill()
    wait_for(lambda: is_read_only(storage), 'the fallback')


def test_a_client_reads_on_after_the_primary_is_killed_and_writes_when_it_is_back(
        servers, opened):
    primary, secondary = servers
    primary.start()
    secondary.start(read_only=True)
    storage = open_client(servers)
    db = DB(storage)
    opened.append(db)
    fall_back(servers, storage)
    assert 42 == read(db)
    with pytest.raises(ReadOnlyError):
        write(db, 1)
    primary.start()
    wait_for(lambda: is_writable(storage), 'the primary that is back')
    write(db, 43)
    assert 43 == read(db)


def test_a_client_writes_to_the_secondary_that_becomes_the_primary(
        servers, opened):
    primary, secondary = servers
    primary.start()
    secondary.start(read_only=True)
    storage = open_client(servers)
    db = DB(storage)
    opened.append(db)
    fall_back(servers, storage)
    secondary.kill()
    secondary.start()
    wait_for(lambda: is_writable(storage), 'the promoted secondary')
    write(db, 43)
    assert 43 == read(db)


def lose_the_last_write(servers, storage, opened):
    """Writes on the primary what the other has not, kills the primary; the database."""
    primary, secondary = servers
    secondary.start(read_only=True)
    db = DB(storage)
    opened.append(db)
    wait_for(lambda: is_writable(storage), 'the primary')
    write(db, 43)
    primary.kill()
    return db


def test_a_client_reads_on_from_a_secondary_that_lacks_the_last_write(
        servers, opened):
    """And sees that write again when the primary, which has it, is back."""
    primary, _ = servers
    primary.start()
    storage = open_client(servers)
    db = lose_the_last_write(servers, storage, opened)
    wait_for(lambda: is_read_only(storage), 'the fallback')
    assert 42 == read(db)
    primary.start()
    wait_for(lambda: is_writable(storage), 'the primary that is back')
    assert 43 == read(db)
    write(db, 44)
    assert 44 == read(db)


def test_what_a_promoted_secondary_never_had_is_read_no_more(servers, opened):
    """Not from the client's cache either, when the new primary has newer transactions."""
    primary, secondary = servers
    primary.start()
    storage = open_client(servers)
    db = lose_the_last_write(servers, storage, opened)
    wait_for(lambda: is_read_only(storage), 'the fallback')
    secondary.kill()
    secondary.start()
    wait_for(lambda: is_writable(storage), 'the promoted secondary')
    assert 42 == read(db)
    manager = transaction.TransactionManager()
    connection = db.open(manager)
    connection.root()['other'] = 1
    manager.commit()
    connection.close()
    assert 42 == read(db)


def test_without_the_wrapper_a_secondary_that_lacks_the_last_write_is_refused(
        servers, opened):
    """The behaviour of ZEO 5.4.1 that leaves a client without any server."""
    servers[0].start()
    storage = open_client(servers, wrapped=False)
    lose_the_last_write(servers, storage, opened)
    wait_for(lambda: not storage.is_connected(), 'the loss')
    with pytest.raises(AssertionError):
        wait_for(storage.is_connected, 'nothing', STUCK)


def become_read_only_then_writable(servers, storage, noticed=True):
    """The killed server comes back read-only first, then as the primary.

    Args:
        noticed: whether the client has to notice the first.  One without the
            watchdog mostly does, but may be stuck even before that.
    """
    returning, _ = servers
    fall_back(servers, storage)
    returning.start(read_only=True)
    limit = time.time() + STUCK
    wait_for(lambda: 'received handshake' in returning.process.output() or
             not noticed and time.time() > limit, 'the client')
    time.sleep(1)  # until it knows
    returning.kill()
    returning.start()


def test_without_the_watchdog_a_server_that_was_read_only_is_not_tried_again(
        servers, opened):
    """The fault of ZEO 5.4.1 for which the watchdog is there."""
    primary, secondary = servers
    primary.start()
    secondary.start(read_only=True)
    storage = open_client(servers, wrapped=False)
    opened.append(storage)
    become_read_only_then_writable(servers, storage, noticed=False)
    with pytest.raises(AssertionError):
        wait_for(lambda: is_writable(storage), 'nothing', STUCK)


def test_with_the_watchdog_a_server_that_was_read_only_is_tried_again(
        servers, opened):
    primary, secondary = servers
    primary.start()
    secondary.start(read_only=True)
    storage = open_client(servers)
    opened.append(storage)
    become_read_only_then_writable(servers, storage)
    wait_for(lambda: is_writable(storage), 'the server that is writable now')


def test_the_read_only_connection_stays_while_a_primary_is_looked_for(
        servers, opened):
    """A new connection would drop every object cache and lose calls under way."""
    primary, secondary = servers
    primary.start()
    secondary.start(read_only=True)
    storage = open_client(servers)
    opened.append(storage)
    fall_back(servers, storage)
    primary.start(read_only=True)
    generation = storage._connection_generation
    protocol = storage._server.client.protocol
    time.sleep(6 * reconnection.INTERVAL)
    assert generation == storage._connection_generation
    assert protocol is storage._server.client.protocol


class SilentServer(object):
    """Greets like a ZEO server and then says nothing, as one that is frozen."""

    def __init__(self):
        self.port, = free_ports(1)
        self.accepted = []
        self._listener = socket.socket()

    def start(self):
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(('127.0.0.1', self.port))
        self._listener.listen(5)
        thread = threading.Thread(target=self._serve)
        thread.setDaemon(True)
        thread.start()

    def _serve(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except socket.error:
                return
            connection.sendall(struct.pack('>I', 3) + b'Z50')
            self.accepted.append(connection)

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        for each in [self._listener] + self.accepted:
            each.close()


@pytest.fixture
def silent_server():
    server = SilentServer()
    yield server
    server.close()


def connect_past(silent_server, server, wrapped, opened):
    """Opens a client of both, lets it find the silent one, then the other again."""
    server.start()
    storage = open_client([silent_server, server], wrapped)
    opened.append(storage)
    server.kill()
    silent_server.start()
    wait_for(lambda: silent_server.accepted, 'the silent server')
    server.start()
    return storage


def test_a_server_that_greets_and_then_says_nothing_holds_nobody_up(
        processes, tmpdir, silent_server, opened, monkeypatch):
    monkeypatch.setattr(reconnection, 'ANSWER_LIMIT', 1.0)
    server = ZEOServer(processes, tmpdir.join('a'))
    storage = connect_past(silent_server, server, True, opened)
    wait_for(lambda: is_writable(storage), 'the server that answers')


def test_without_the_watchdog_a_server_that_says_nothing_holds_the_client_up(
        processes, tmpdir, silent_server, opened):
    """The client's lock on registrations is held for ever."""
    server = ZEOServer(processes, tmpdir.join('a'))
    storage = connect_past(silent_server, server, False, opened)
    with pytest.raises(AssertionError):
        wait_for(lambda: is_writable(storage), 'nothing', STUCK)


def in_the_background(function, *arguments):
    """Calls in a daemon thread; the list that gets the result, or the error."""
    results = []

    def run():
        try:
            results.append(function(*arguments))
        except Exception as error:
            results.append(error)
    thread = threading.Thread(target=run)
    thread.setDaemon(True)
    thread.start()
    return results


def freeze(servers, storage):
    """Starts a read-only server, freezes the writable one, which runs."""
    primary, secondary = servers
    secondary.start(read_only=True)
    wait_for(lambda: is_writable(storage), 'the primary')
    primary.process.pause()


def test_a_client_of_a_frozen_primary_reads_from_the_other_and_writes_when_it_is_back(
        servers, opened, monkeypatch):
    monkeypatch.setattr(reconnection, 'ANSWER_LIMIT', 5.0)
    servers[0].start()
    storage = open_client(servers)
    db = DB(storage)
    opened.append(db)
    freeze(servers, storage)
    written = in_the_background(write, db, 43)
    wait_for(lambda: written, 'the end of the write that was under way')
    assert isinstance(written[0], ClientDisconnected)
    wait_for(lambda: is_read_only(storage), 'the fallback')
    assert 42 == read(db)
    servers[0].process.resume()
    wait_for(lambda: is_writable(storage), 'the primary that goes on')
    write(db, 44)
    assert 44 == read(db)


def test_without_the_watchdog_a_frozen_primary_holds_a_call_up(servers, opened):
    """The fault of ZEO 5.4.1 for which the pulse is there."""
    servers[0].start()
    storage = open_client(servers, wrapped=False)
    opened.append(storage)
    freeze(servers, storage)
    called = in_the_background(storage.history, b'\0' * 8)
    try:
        with pytest.raises(AssertionError):
            wait_for(lambda: called, 'nothing', STUCK)
    finally:
        servers[0].process.resume()


def test_a_stall_shorter_than_the_limit_is_waited_for(servers, opened):
    servers[0].start()
    storage = open_client(servers)
    opened.append(storage)
    freeze(servers, storage)
    protocol = storage.base._server.client.protocol
    called = in_the_background(storage.history, b'\0' * 8)
    time.sleep(6 * reconnection.INTERVAL)
    servers[0].process.resume()
    wait_for(lambda: called, 'the answer')
    assert 1 == len(called[0])
    assert protocol is storage.base._server.client.protocol


def test_the_watchdog_ends_when_the_storage_is_closed(servers):
    servers[0].start()
    storage = open_client(servers[:1])
    thread = storage._watchdog._thread
    assert thread.isAlive()
    storage.close()
    assert not thread.isAlive()


def test_what_is_missing_is_said_once_in_the_log(servers, opened, caplog):
    caplog.set_level(logging.INFO)
    primary, secondary = servers
    primary.start()
    secondary.start(read_only=True)
    storage = open_client(servers)
    opened.append(storage)
    wait_for(lambda: what_is_missing(storage) is None, 'the primary')
    fall_back(servers, storage)
    primary.start(read_only=True)
    time.sleep(4 * reconnection.INTERVAL)
    said = [each for each in caplog.records
            if 'read-only server only' in each.getMessage()]
    assert 1 == len(said)
    assert [] == [each.getMessage() for each in caplog.records
                  if each.levelno >= logging.ERROR]
