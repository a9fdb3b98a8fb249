"""What a client of a database server takes for lost, and for late."""
import pytest
from ZODB.utils import p64

from indico_zodbrepl.dataplane.client import lost_transactions as module
from indico_zodbrepl.dataplane.client.lost_transactions import LostTransactions, NewestSeen
from indico_zodbrepl.dataplane.client.relstorage import READ_ONLY_QUERIES, Behind

from fake_clock import Clock

PATIENCE = 3.0


class Server(object):
    """A connection to a server, its cursor, and as much of RelStorage as the check needs."""

    def __init__(self, keep_history=True):
        self.keep_history = keep_history
        self.tids, self.rows = [0], None
        self.read_only = False
        self.cleared = self.rolled_back = 0
        self.stored = []
        self._adapter = self._cache = self._load_connection = self
        self.driver_options = self.poller = self._tpc_phase = self.shared_state = self
        self.database_type = 'postgresql'

    def poll_invalidations(self, connection, cursor, since):
        newest = self.tids[-1]
        return (None if newest < since else [(1, newest)] if newest > since else ()), newest

    def execute(self, query):
        self._answer = self.read_only
        if query not in READ_ONLY_QUERIES.values():
            assert ('transaction' if self.keep_history else 'object_state') in query
            self._answer = int(query.split()[-1]) in (self.tids if self.rows is None else self.rows)

    def fetchall(self):
        return [(self._answer,)]

    def clear(self, load_persistent):
        self.cleared += 1

    def rollback_quietly(self):
        self.rolled_back += 1

    def get_current_tid(self, cursor):
        return self.tids[-1]

    def has_temp_data(self):
        return self.stored


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, 'monotonic', clock.monotonic)
    return clock


@pytest.fixture(params=[True, False], ids=['history', 'no history'])
def server(request):
    return Server(request.param)


@pytest.fixture
def newest(clock):
    return NewestSeen(PATIENCE, lambda: None)


@pytest.fixture
def poll(server, newest):
    """A function: polls since a transaction, on a connection or the one of before."""
    poller = LostTransactions(server, newest)

    def commit(tid, stored=('an object',)):
        server.stored = list(stored)

        def finish():
            del server.stored[:]  # as RelStorage does
            return p64(tid)
        poller.committing(finish)()

    def call(since, connection='first'):
        if since is None:
            return poller.get_current_tid(server)
        return poller.poll_invalidations(connection, server, since)
    server.commit = commit
    return call


def test_a_read_only_server_is_late_until_patience_ends_and_then_has_lost_transactions(
        server, poll, clock):
    server.tids, server.read_only = [1, 2], True
    for _ in range(3):
        with pytest.raises(Behind):
            poll(3)
        clock.now += PATIENCE / 3
    assert 3 == server.rolled_back
    assert (None, 0) == poll(3)
    assert 1 == server.cleared
    server.tids = [1, 2]
    assert 2 == poll(2)[1]


def test_each_reader_waits_by_a_clock_of_its_own(newest, clock):
    late, good = Server(), Server()
    waiting, other = [LostTransactions(each, newest) for each in (late, good)]
    late.tids, late.read_only = [1, 2], True
    good.tids = [1, 2, 3]
    with pytest.raises(Behind):
        waiting.poll_invalidations('late', late, 3)
    clock.now += PATIENCE
    assert 3 == other.poll_invalidations('good', good, 3)[1]
    assert (None, 0) == waiting.poll_invalidations('late', late, 3)


def test_a_server_that_accepts_writes_is_not_waited_for(server, poll):
    server.tids = [1, 2]
    assert (None, 0) == poll(3)
    assert 1 == server.cleared


def test_a_late_server_that_was_promoted_and_went_on_has_lost_what_was_seen(server, poll):
    server.tids = [1, 2, 3]
    poll(3)
    server.tids, server.read_only = [1, 2], True
    with pytest.raises(Behind):
        poll(3, 'second')
    server.tids, server.read_only = [1, 2, 4], False
    assert (None, 0) == poll(3, 'second')
    assert 1 == server.cleared


def test_an_own_commit_counts_as_seen_before_it_was_polled(server, poll):
    server.tids = [1, 2]
    poll(2)
    server.commit(3)
    server.read_only = True
    with pytest.raises(Behind):
        poll(2)


def test_an_own_commit_that_a_new_primary_lacks_is_lost(server, poll):
    server.tids = [1, 2]
    poll(2)
    server.commit(3)
    server.tids = [1, 2, 4]
    assert (None, 0) == poll(2, 'of the new primary')


def test_a_commit_without_objects_is_not_waited_for_and_not_lost(server, poll):
    server.tids = [1, 2]
    poll(2)
    server.commit(3, stored=())
    assert ((), 2) == poll(2)
    assert 0 == server.cleared


def test_without_history_objects_that_were_stored_again_are_not_lost(newest):
    server = Server(keep_history=False)
    poller = LostTransactions(server, newest)
    server.tids, server.rows = [1, 2], [2]
    poller.poll_invalidations('one', server, 2)
    server.tids, server.rows = [1, 2, 3], [3]
    assert 3 == poller.poll_invalidations('one', server, 2)[1]
    assert 0 == server.cleared


def test_the_first_poll_after_caches_were_emptied_waits_for_a_late_server(server, poll, clock):
    server.tids, server.read_only = [1], True
    server.commit(2)
    with pytest.raises(Behind):
        poll(None)
    assert 1 == server.rolled_back
    clock.now += PATIENCE
    assert 1 == poll(None)
    server.tids = [1, 2]
    assert 2 == poll(None)
