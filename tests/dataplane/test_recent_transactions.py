"""The ring of recent transaction ids, and how it follows a FileStorage."""
import threading
import time

import pytest
import transaction
import ZODB
from ZODB.FileStorage import FileStorage
from ZODB.serialize import referencesf
from ZODB.utils import p64, z64

from indico_zodbrepl.dataplane.server import recent_transactions
from indico_zodbrepl.dataplane.server.recent_transactions import RecentTransactions
from indico_zodbrepl.dataplane.server.recent_transactions import record


def ring(capacity, tids, complete):
    recent = RecentTransactions(capacity)
    recent.refill([p64(tid) for tid in tids], complete,
                  p64(tids[-1]) if tids else z64)
    return recent


def test_it_counts_what_is_newer():
    recent = ring(5, [10, 20, 30], complete=True)

    assert [(3, True), (2, True), (2, True), (0, True), (0, True)] == [
        recent.count_after(p64(tid)) for tid in (0, 10, 15, 30, 99)]


def test_a_ring_that_does_not_reach_back_says_at_least():
    recent = ring(5, [10, 20, 30], complete=False)

    assert (3, False) == recent.count_after(p64(9))
    assert (2, True) == recent.count_after(p64(10))


def test_it_names_the_first_that_is_newer():
    recent = ring(5, [10, 20, 30], complete=False)

    assert [p64(20), p64(20), p64(30), None, None] == [
        recent.first_after(p64(tid)) for tid in (10, 15, 20, 30, 99)]


def test_the_first_is_unknown_where_the_ring_does_not_reach_back():
    assert ring(5, [10, 20], complete=False).first_after(p64(9)) is None
    assert p64(10) == ring(5, [10, 20], complete=True).first_after(p64(9))


def test_a_full_ring_forgets_the_oldest_and_is_complete_no_more():
    recent = ring(3, [10, 20, 30], complete=True)
    recent.append(p64(40))

    assert (3, False) == recent.count_after(z64)
    assert (2, True) == recent.count_after(p64(20))


def test_an_empty_storage_has_nothing_and_knows_it():
    assert (0, True) == ring(3, [], complete=True).count_after(z64)


def test_a_refill_keeps_what_was_finished_after_the_file_was_read():
    recent = ring(9, [10, 20, 30], complete=True)
    recent.append(p64(40))
    recent.refill([p64(20), p64(30)], True, p64(30))

    assert (3, True) == recent.count_after(z64)


@pytest.fixture
def storage(tmpdir):
    opened = FileStorage(str(tmpdir.join('Data.fs')))
    yield opened
    opened.close()


def commit_often(storage, count):
    """Returns all transaction ids of the storage, oldest first."""
    db = ZODB.DB(storage)
    connection = db.open()
    for number in range(count):
        connection.root()['n'] = number
        transaction.commit()
    connection.close()
    return [each.tid for each in storage.iterator()]


def test_the_recorder_reads_the_end_of_the_file(storage):
    tids = commit_often(storage, 5)
    recorder = record(storage, capacity=3)

    assert [(3, False), (2, True), (0, True)] == [
        recorder.recent.count_after(tid) for tid in (tids[0], tids[-3], tids[-1])]


def test_the_recorder_follows_commits(storage):
    recorder = record(storage)
    tids = commit_often(storage, 5)

    assert [(len(tids) - at - 1, True) for at in range(len(tids))] == [
        recorder.recent.count_after(tid) for tid in tids]


def test_after_a_pack_the_recorder_counts_what_is_left(storage):
    recorder = record(storage)
    tids = commit_often(storage, 5)
    storage.pack(time.time(), referencesf)
    recorder.reread()
    left = len([each for each in storage.iterator()])

    assert left < len(tids)
    assert (left, True) == recorder.recent.count_after(z64)


def test_of_several_threads_that_want_the_same_digest_one_computes_it(tmpdir, monkeypatch):
    """A status is asked for each second, and a large transaction takes longer."""
    storage = FileStorage(str(tmpdir.join('Data.fs')))
    recorder = recent_transactions.record(storage)
    computed, answers, begun, go_on = [], [], threading.Event(), threading.Event()

    def slow(path, tid, with_digest=False, landmarks=None):
        computed.append(tid)
        begun.set()
        go_on.wait(60)
        return True, tid.encode('hex')
    monkeypatch.setattr(recent_transactions, 'look_up', slow)

    def ask(tid):
        thread = threading.Thread(target=lambda: answers.append(recorder.look_up(tid, True)))
        thread.start()
        return thread
    threads = [ask(b'\1' * 8)]
    assert begun.wait(60)
    threads += [ask(b'\1' * 8) for _ in range(4)] + [ask(b'\2' * 8)]
    while len(computed) < 2:
        time.sleep(0.01)
    go_on.set()
    for thread in threads:
        thread.join(60)

    assert 6 == len(answers)
    assert {(True, b'01' * 8), (True, b'02' * 8)} == set(answers)
    assert [b'\1' * 8, b'\2' * 8] == sorted(set(computed))
    assert len(computed) <= 3  # again if the other one came in between
    storage.close()
