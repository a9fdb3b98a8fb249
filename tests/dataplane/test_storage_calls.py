"""How long a process was in calls of its storage is counted, whichever thread made them."""
import contextlib
import threading
import time

import pytest
from ZODB.DB import DB
from ZODB.POSException import POSKeyError

from indico_zodbrepl.dataplane.client.status import storage_status
from indico_zodbrepl.dataplane.client.storage_calls import StorageCalls

from sqlite_storages import open_sqlite
from zeo_servers import ZEOServer, make_database, open_client

FROZEN = 0.5  # seconds


@pytest.fixture
def server(processes, tmpdir):
    make_database(tmpdir.join('made.fs'))
    server = ZEOServer(processes, tmpdir.join('a'), tmpdir.join('made.fs'))
    server.start()
    return server


def test_the_time_in_which_a_server_does_not_answer_is_counted(server):
    with contextlib.closing(DB(open_client([server]))) as db:
        before = storage_status(db)['calls']
        server.process.pause()
        thawing = threading.Timer(FROZEN, server.process.resume)
        thawing.start()
        begun = time.time()
        with db.transaction() as connection:
            assert 42 == connection.root()['thing']['answer']
        waited = time.time() - begun
        thawing.join()
        after = storage_status(db)['calls']
    assert after['count'] > before['count']
    assert FROZEN / 2 < after['seconds'] - before['seconds'] <= waited


def test_a_call_that_fails_is_counted(server):
    with contextlib.closing(open_client([server])) as storage:
        before = storage.calls.figures()['count']
        with pytest.raises(POSKeyError):
            storage.loadBefore(8 * b'\7', 8 * b'\x7f')
        assert before + 1 == storage.calls.figures()['count']


def test_calls_of_all_connections_are_counted_together(tmpdir):
    with contextlib.closing(open_sqlite(tmpdir)) as storage:
        with contextlib.closing(storage.new_instance()) as other:
            before = storage.calls.figures()['count']
            other.poll_invalidations()
            assert before + 1 == storage.calls.figures()['count']


def test_no_thread_takes_a_count_away_from_another():
    calls = StorageCalls()

    def count():
        for _ in range(5000):
            calls.begin()
            calls.end(0.001)
    threads = [threading.Thread(target=count) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    figures = calls.figures()
    assert 40000 == figures['count']
    assert abs(40 - figures['seconds']) < 0.001
    assert not calls.are_under_way()


def test_it_tells_whether_a_thread_waits_for_the_storage():
    calls = StorageCalls()
    thread = threading.Thread(target=calls.begin)
    thread.start()
    thread.join()
    assert calls.are_under_way()
    calls.begin()
    calls.begin()
    calls.end(0.001)
    calls.end(0.001)
    assert calls.are_under_way()
