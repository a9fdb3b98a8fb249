"""Timers keep their pace while the system's clock is put back or forward."""
import py
import pytest
from ZODB.Connection import TransactionMetaData
from ZODB.utils import z64

from indico_zodbrepl import dataplane

from changed_clock import ChangedClock
from nodes import Node, commit, pickle_of
from processes import wait_for

HOUR = 3600


@pytest.fixture
def clock(tmpdir):
    return ChangedClock(tmpdir.join('clock'))


@pytest.fixture
def pair(processes, tmpdir, clock):
    """A primary, and a secondary on a host of its own clock."""
    primary = Node(processes, tmpdir, 'a', listens=True)
    return primary, Node(
        processes, tmpdir, 'b', upstream=primary, environment=clock.environment)


def test_a_secondary_whose_clock_is_put_back_reconnects(pair, clock):
    primary, secondary = pair
    primary.start()
    secondary.start()
    primary.wait_for_followers()
    primary.process.kill()
    wait_for(lambda: not secondary.status()['connected'], 'the lost link')
    clock.put(-HOUR)

    primary.start()
    client = primary.client()
    try:
        _, tid = commit(client, 'after it')
    finally:
        client.close()

    wait_for(lambda: secondary.last_tid() == tid, 'the secondary follows again', 15)


def test_waits_of_threads_last_as_long_as_they_should(clock, processes, tmpdir):
    program = processes.start(['python', '-c', WAIT], 'waiting', env=clock.environment)
    wait_for(lambda: 'waiting' in program.output(), 'the wait')
    clock.put(-HOUR)
    assert 0 == program.wait(15)


def test_a_client_that_hangs_is_cut_off_while_the_clock_is_put_back(processes, tmpdir, clock):
    """Else nobody could commit until the clock has caught up."""
    node = Node(processes, tmpdir, 'a', listens=True, transaction_timeout=3,
                environment=clock.environment)
    node.start()
    hanging = node.client()
    try:
        hang(hanging)
        assert node.ruok()['lock_time'] is not None
        clock.put(-HOUR)
        wait_for(lambda: node.ruok()['lock_time'] is None, 'the commit lock is free', 15)
    finally:
        hanging.close()


def test_commits_without_followers_are_refused_while_the_clock_is_put_back(
        processes, tmpdir, clock):
    node = Node(processes, tmpdir, 'a', listens=True, environment=clock.environment)
    node.process = processes.start(
        node.command('--min-followers', '1'), 'a', node.port, clock.environment)
    clock.put(-HOUR)
    wait_for(lambda: node.status()['held'] == 'followers', 'the refusal', 15)


def test_ids_increase_on_a_primary_whose_clock_is_put_back(processes, tmpdir, clock):
    node = Node(processes, tmpdir, 'a', listens=True, environment=clock.environment)
    node.start()
    client = node.client()
    try:
        _, before = commit(client, 'before it')
        clock.put(-HOUR)
        _, first = commit(client, 'after it')
        _, second = commit(client, 'after that')
    finally:
        client.close()
    assert before < first < second


def test_ids_increase_on_a_new_primary_whose_clock_is_behind(pair, clock):
    primary, secondary = pair
    clock.put(-HOUR)
    primary.start()
    secondary.start()
    primary.wait_for_followers()
    client = primary.client()
    try:
        _, before = commit(client, 'the old primary')
    finally:
        client.close()
    wait_for(lambda: secondary.last_tid() == before, 'the secondary has it')
    primary.process.kill()
    promoted = secondary.control(
        do='promote', epoch=4, replicate_to='127.0.0.1:%d' % secondary.replication_port)
    assert 'error' not in promoted
    client = secondary.client()
    try:
        _, after = commit(client, 'the new primary')
    finally:
        client.close()
    assert before < after


def test_the_systems_clock_is_for_time_stamps_only():
    """Deadlines, intervals and durations are of `clock.monotonic`."""
    folder = py.path.local(dataplane.__file__).dirpath()
    users = set(
        each.relto(folder) for each in folder.visit('*.py')
        if 'time.time' in each.read() and not each.relto(folder).startswith('benchmarks'))
    assert users == STAMPS


STAMPS = set([
    'client/blob_cache.py',  # how old a file is
    'indico/uploaded.py',    # how old a file is
    'neo/monitor.py',      # when it looked, and when it acted
    'neo/packing.py',      # what is packed
    'programs/clock.py',   # how it begins
    'programs/pack.py',    # what is packed
    'server/storage_server.py',      # how old a transaction is
    'server/synchronous_record.py',  # when the state began
    'server/status.py',    # when a follower was refused
    'server/write_failures.py',  # when a write failed
])

WAIT = '''
import sys, threading
from indico_zodbrepl.dataplane.programs import clock
clock.install()
print('waiting')
sys.stdout.flush()
threading.Event().wait(2.0)
'''


def hang(storage):
    """Votes, and leaves it at that."""
    meta = TransactionMetaData()
    storage.tpc_begin(meta)
    storage.store(storage.new_oid(), z64, pickle_of('hangs'), '', meta)
    storage.tpc_vote(meta)
