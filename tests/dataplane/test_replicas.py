"""Which of several SQL servers clients use when one does not answer, and who waits for it."""
import contextlib
import os
import socket
import threading

import pytest
import ZODB.config
from relstorage.adapters.interfaces import ReplicaClosedException
from relstorage.adapters.replica import ReplicaSelector

from indico_zodbrepl.dataplane.client import lost_transactions
from indico_zodbrepl.dataplane.client import relstorage as module
from indico_zodbrepl.dataplane.client.relstorage import Only, Replicas
from indico_zodbrepl.dataplane.client.views import SQLView

from fake_clock import Clock
from processes import PATIENCE, wait_for

VIEWS = 'indico_zodbrepl.dataplane.client.views'
TIMEOUT = 5
FROZEN = '''\
%%import indico_zodbrepl.dataplane.mariadb
<relstorage>
  create-schema false
  <mariadb>
    driver PyMySQL
    host 127.0.0.1
    port %d
    connect_timeout 1
    read_timeout 86400
  </mariadb>
</relstorage>
'''


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    for each in (module, lost_transactions):
        monkeypatch.setattr(each, 'monotonic', clock.monotonic)
    return clock


@pytest.fixture
def file(tmpdir):
    return tmpdir.ensure('servers.txt')


@pytest.fixture
def replicas(file, clock):
    return Replicas(selector_of(file, 'a', 'b', 'c'))


def selector_of(file, *servers):
    file.write('# the primary is first\n' + ''.join('%s\n' % each for each in servers))
    return ReplicaSelector(str(file), TIMEOUT)


def in_a_thread(function):
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.setDaemon(True)
    thread.start()
    thread.join(PATIENCE)
    assert results, 'it waits'
    return results[0]


def test_each_server_is_tried_once_and_then_the_first_again(replicas):
    assert ['a', 'b', 'c', None, 'a'] == (
        [replicas.current()] + [replicas.next() for _ in range(3)] + [replicas.current()])


def test_a_thread_that_fails_later_takes_the_server_that_another_one_found(replicas):
    replicas.current()
    in_a_thread(lambda: (replicas.current(), replicas.next()))
    assert ['b', 'c', None] == [replicas.next() for _ in range(3)]


def test_nobody_goes_back_to_the_first_by_the_clock(replicas, clock):
    replicas.leave('a')
    clock.now += 100 * TIMEOUT
    assert 'b' == replicas.current()


def test_the_first_is_due_for_a_try_once_each_timeout(replicas, clock):
    assert replicas.due() is None
    replicas.leave('a')
    assert replicas.due() is None
    clock.now += TIMEOUT
    assert ['a', None] == [replicas.due(), replicas.due()]
    replicas.prefer('a')
    assert 'a' == replicas.current()


def test_only_the_server_in_use_is_left(replicas):
    replicas.leave('b')
    assert 'a' == replicas.current()


def test_a_change_of_the_file_counts_at_once(replicas, file, clock):
    replicas.leave('a')
    selector_of(file, 'c', 'a')
    os.utime(str(file), (1, 1))
    assert 'c' == replicas.current()
    replicas.prefer('b')
    assert 'c' == replicas.current()


def test_what_relstorage_has_chosen_is_taken_over(file, clock):
    selector = selector_of(file, 'a', 'b')
    selector.next()
    assert 'b' == Replicas(selector).current()


class Connection(object):
    """To `replica`; what it is asked fails when that is among `broken`."""

    def __init__(self, replica, broken):
        self.replica, self._broken = replica, broken

    def execute(self, statement):
        if self.replica in self._broken:
            raise ReplicaClosedException(self.replica)

    def fetchall(self):
        return [(True,)]

    def rollback(self):
        pass


class Adapter(object):
    """As much of RelStorage's adapter as a look needs; also its own connmanager."""

    def __init__(self, selector):
        self.connmanager = self.txncontrol = self.driver_options = self
        self.database_type = 'another'
        self.replica_selector = self.ro_replica_selector = selector
        self.broken, self.opened, self.closed = set(), [], []
        self.read_only = []
        self.while_opening, self.chosen = None, []
        self.newest = {}

    def open(self, replica_selector=None, read_only=False):
        self.read_only.append(read_only)
        server = (replica_selector or self.replica_selector).current()
        self.opened.append(server)
        if self.while_opening is not None:
            self.while_opening()
            self.chosen.append(self.ro_replica_selector.current())
        connection = Connection(server, self.broken)
        return connection, connection

    def get_tid(self, cursor):
        cursor.execute('the last transaction')
        return self.newest.get(cursor.replica, 1)

    def check_replica(self, connection, cursor):
        if connection.replica != self.replica_selector.current():
            raise ReplicaClosedException('another one is used')

    def rollback_and_close(self, connection, cursor):
        if connection is not None:
            self.closed.append(connection.replica)


@pytest.fixture
def adapter(file, monkeypatch, clock):
    monkeypatch.setattr(VIEWS + '._descriptor', lambda connection: None)
    monkeypatch.setattr(VIEWS + '._ends', lambda descriptor: (None, None))
    return Adapter(selector_of(file, 'a', 'b'))


@pytest.fixture
def view(adapter):
    return SQLView(adapter, TIMEOUT)


def test_everybody_leaves_a_server_that_hangs_in_a_look(view, adapter, monkeypatch):
    monkeypatch.setattr(VIEWS + '.os.listdir', lambda path: [])
    assert 'a' == view.look().server
    view.cut()
    assert 'b' == adapter.replica_selector.current() == adapter.ro_replica_selector.current()
    assert 'b' == view.look().server


def test_only_connections_to_a_replaced_server_are_ended(file, adapter, view, monkeypatch):
    """An isolated primary leaves calls without an answer, and says nothing."""
    ends = {server: connected() for server in 'ab'}
    monkeypatch.setattr(VIEWS + '._descriptor', lambda connection: connection.replica)
    monkeypatch.setattr(VIEWS + '._ends', lambda server: ends_of(ends[server][0]))
    adapter.replica_selector.leave('a')
    view.look()
    adapter.replica_selector.prefer('a')
    view.look()
    view.cut_replaced()
    assert [b'', 'silent'] == [received(ends[server][1]) for server in 'ba']


def connected():
    """Returns the ends of a connection; the first one is its client's."""
    with contextlib.closing(socket.socket()) as listening:
        listening.bind(('127.0.0.1', 0))
        listening.listen(1)
        return socket.create_connection(listening.getsockname()), listening.accept()[0]


def ends_of(end):
    return end.getsockname(), end.getpeername()


def test_readers_leave_a_silent_server_and_writers_wait_for_it(adapter, view, monkeypatch):
    reader, writer = connected(), connected()
    opening = iter([writer[0], reader[0], writer[0]])
    monkeypatch.setattr(VIEWS + '._ends', lambda descriptor: ends_of(next(opening)))
    view.look()
    connections = [
        adapter.open(replica_selector=each)[0]
        for each in (adapter.ro_replica_selector, adapter.replica_selector)]
    view.read_elsewhere()
    assert ['b', 'a'] == [
        adapter.ro_replica_selector.current(), adapter.replica_selector.current()]
    assert [b'', 'silent'] == [received(reader[1]), received(writer[1])]
    view.cut_replaced()
    assert 'silent' == received(writer[1])
    view.look()
    assert 'a' == adapter.ro_replica_selector.current()
    assert ['a', 'a'] == [each.replica for each in connections]


def test_readers_stay_while_the_look_retries_a_silent_server_that_was_left(view, adapter, clock):
    for each in (adapter.replica_selector, adapter.ro_replica_selector):
        each.leave('a')
    view.look()
    clock.now += TIMEOUT
    adapter.while_opening = view.read_elsewhere
    view.look()
    assert ['b', 'a'] == adapter.opened
    assert ['b'] == adapter.chosen
    view.look()
    assert 'a' == adapter.ro_replica_selector.current()


@pytest.fixture
def late(file, adapter, clock):
    """The view of a cluster that lost `a`: `b` is late, and `c` has what was seen."""
    selector_of(file, 'a', 'b', 'c')
    view = SQLView(adapter, TIMEOUT)
    for each in (adapter.replica_selector, adapter.ro_replica_selector):
        each.prefer('b')
    adapter.database_type = 'postgresql'
    adapter.newest.update(b=1, c=2)
    view.newest.saw(2)
    return view


def test_readers_turn_to_a_follower_that_is_not_late_and_it_is_the_one_that_is_checked(
        late, adapter):
    late._find_the_newest()
    assert 'c' == adapter.ro_replica_selector.current()
    assert 'c' == late.look().server
    assert 'c' == adapter.ro_replica_selector.current()


def test_what_is_written_does_not_leave_a_primary_that_is_silent(late, adapter):
    adapter.replica_selector.prefer('a')
    late._find_the_newest()
    assert ['c', 'a'] == [
        adapter.ro_replica_selector.current(), adapter.replica_selector.current()]


def test_a_look_at_a_server_that_was_left_meanwhile_moves_nobody(late, adapter):
    late.look()
    for each in (adapter.replica_selector, adapter.ro_replica_selector):
        each.prefer('c')
    late._ask()
    assert 'c' == adapter.ro_replica_selector.current()


@pytest.mark.parametrize('error', [ReplicaClosedException, ValueError])
def test_a_follower_that_fails_in_a_search_is_passed_over_and_the_primary_is_not_asked(
        late, adapter, monkeypatch, error):
    def fail(cursor):
        raise error('made up')
    monkeypatch.setattr(adapter, 'get_tid', fail)
    late._find_the_newest()
    assert ['c'] == adapter.opened == adapter.closed
    assert 'b' == adapter.ro_replica_selector.current()


def test_searches_are_repeated_one_at_a_time_and_a_failure_ends_none(clock):
    going, begun = threading.Event(), []

    def search():
        begun.append(clock.now)
        going.wait(PATIENCE)
        raise ValueError('made up')
    newest = lost_transactions.NewestSeen(TIMEOUT, search)
    newest.search()
    newest.search()
    wait_for(lambda: begun, 'the search')
    going.set()
    wait_for(lambda: not newest._searching, 'the end of the search')
    newest.search()
    assert [clock.now] == begun
    clock.now += lost_transactions.SEARCH
    newest.search()
    wait_for(lambda: len(begun) == 2, 'the next search')


def received(end):
    end.settimeout(0.2)
    try:
        return end.recv(1)
    except socket.timeout:
        return 'silent'


def test_only_the_look_tries_a_server_that_was_left(view, adapter, clock):
    view.look()
    adapter.broken.add('a')
    adapter.replica_selector.leave('a')
    assert 'b' == view.look().server
    clock.now += TIMEOUT
    assert 'b' == view.look().server
    assert ['a', 'b', 'a'] == adapter.opened
    assert 'b' == adapter.replica_selector.current()


def test_everybody_goes_back_to_the_first_when_it_answers_a_look(view, adapter, clock):
    adapter.replica_selector.leave('a')
    assert 'b' == view.look().server
    clock.now += TIMEOUT
    assert 'a' == view.look().server
    assert ['b'] == adapter.closed
    assert 'a' == adapter.replica_selector.current()


def test_a_look_at_postgresql_makes_connections_that_a_standby_takes(view, adapter, clock):
    adapter.database_type = 'postgresql'
    adapter.replica_selector.leave('a')
    assert view.look().read_only
    clock.now += TIMEOUT
    view.look()
    assert ([True, True], ['b', 'a']) == (adapter.read_only, adapter.opened)


def test_one_server_alone_has_no_other():
    assert ['a', None] == [Only('a').current(), Only('a').next()]


def test_a_mariadb_that_takes_a_connection_and_says_nothing_is_given_up_in_time():
    """The kernel takes connections to a server that is frozen."""
    with contextlib.closing(socket.socket()) as silent:
        silent.bind(('127.0.0.1', 0))
        silent.listen(5)

        def connect():
            try:
                ZODB.config.storageFromString(FROZEN % silent.getsockname()[1])
            except Exception as error:
                return error
        error = in_a_thread(connect)
    assert 'OperationalError' == type(error).__name__, error
    assert 'timed out' in str(error)
