"""How a storage server shuts down: drained on SIGTERM, whatever hangs; killed."""
import signal
import threading
import time

from ZEO.Exceptions import ClientDisconnected
from ZODB.Connection import TransactionMetaData
from ZODB.POSException import ReadOnlyError
from ZODB.utils import z64

from nodes import Node, commit, pickle_of
from processes import FORKED, PATIENCE, wait_for


class Writer(threading.Thread):
    """Commits until the server is gone; knows what was acknowledged."""

    def __init__(self, client, size):
        threading.Thread.__init__(self)
        self.daemon = True
        self.acknowledged = []
        self._client = client
        self._data = pickle_of(size * 'x')

    def run(self):
        try:
            while True:
                self.acknowledged.append(commit(self._client, self._data)[1])
        except (ClientDisconnected, ReadOnlyError):
            pass


def start_writers(node, count, size):
    clients = [node.client(patience=2) for _ in range(count)]
    writers = [Writer(client, size) for client in clients]
    for writer in writers:
        writer.start()
    return clients, writers


def acknowledged(clients, writers):
    """Waits for the writers' end; returns the ids they were told."""
    for writer in writers:
        writer.join(PATIENCE)
        assert not writer.is_alive()
    for client in clients:
        client.close()
    return set(tid for writer in writers for tid in writer.acknowledged)


def pair(processes, tmpdir):
    primary = Node(processes, tmpdir, 'a', listens=True)
    secondary = Node(processes, tmpdir, 'b', upstream=primary)
    primary.start()
    secondary.start()
    primary.wait_for_followers()
    return primary, secondary


def test_sigterm_under_load_loses_nothing(processes, tmpdir):
    primary, secondary = pair(processes, tmpdir)
    clients, writers = start_writers(primary, 3, 20000)
    wait_for(lambda: sum(len(each.acknowledged) for each in writers) > 100,
             '100 commits')
    status = primary.process.terminate()
    told = acknowledged(clients, writers)
    assert 0 == secondary.process.terminate()

    assert 0 == status
    assert 100 < len(told)
    assert set() == told - set(secondary.tids())
    assert primary.bytes() == secondary.bytes()


def test_sigterm_waits_for_a_follower_that_is_behind(processes, tmpdir):
    """What lies in buffers when the primary ends has to arrive as well."""
    primary, secondary = pair(processes, tmpdir)
    secondary.process.pause()
    client = primary.client()
    for _ in range(60):
        commit(client, pickle_of(250000 * 'x'))
    client.close()
    primary.process.signal(signal.SIGTERM)
    wait_for(lambda: 'told to end' in primary.process.output(), 'the signal')
    time.sleep(1)
    assert primary.process.is_running()
    secondary.process.resume()

    assert 0 == primary.process.wait()
    assert 0 == secondary.process.terminate()
    assert 60 == len(secondary.tids())
    assert primary.bytes() == secondary.bytes()


def test_sigterm_drains_through_a_relay(processes, tmpdir):
    primary = Node(processes, tmpdir, 'a', listens=True)
    relay = Node(processes, tmpdir, 'b', upstream=primary, listens=True)
    tertiary = Node(processes, tmpdir, 'c', upstream=relay)
    for node in (primary, relay, tertiary):
        node.start()
    primary.wait_for_followers()
    relay.wait_for_followers()
    clients, writers = start_writers(primary, 2, 5000)
    wait_for(lambda: sum(len(each.acknowledged) for each in writers) > 50,
             '50 commits')

    assert 0 == primary.process.terminate()
    told = acknowledged(clients, writers)
    assert 0 == relay.process.terminate()
    assert 0 == tertiary.process.terminate()
    assert set() == told - set(tertiary.tids())
    assert primary.bytes() == relay.bytes() == tertiary.bytes()


WITH_A_SHORT_DRAIN = '''
import os
from indico_zodbrepl.dataplane.server import main as server
server.DRAIN_LIMIT = 2
os._exit(server.main(%r))
'''


def test_a_frozen_follower_delays_neither_commits_nor_for_long_the_end(
        processes, tmpdir):
    primary = Node(processes, tmpdir, 'a', listens=True)
    secondary = Node(processes, tmpdir, 'b', upstream=primary)
    primary.process = processes.start(
        [FORKED, '-c', WITH_A_SHORT_DRAIN % (primary.command()[3:],)], 'a', primary.port)
    secondary.start()
    primary.wait_for_followers()
    secondary.process.pause()
    client = primary.client()
    # more than the kernel's buffers hold, so that the link is stuck
    for _ in range(200):
        _, tid = commit(client, pickle_of(100000 * 'x'))
    assert tid == primary.last_tid()
    client.close()

    assert 0 == primary.process.terminate()
    assert 'did not take everything in time' in primary.process.output()
    primary.start()
    secondary.process.resume()
    secondary.wait_for_tid(tid)
    assert 0 == primary.process.terminate()
    assert 0 == secondary.process.terminate()
    assert primary.bytes() == secondary.bytes()


def test_sigterm_aborts_a_transaction_that_a_client_never_finishes(
        processes, tmpdir):
    node = Node(processes, tmpdir, 'a', listens=True)
    node.start()
    stuck = node.client(patience=2)
    commit(stuck, pickle_of('x'))
    transaction = TransactionMetaData()
    stuck.tpc_begin(transaction)
    stuck.store(stuck.new_oid(), z64, pickle_of('stuck'), '', transaction)
    stuck.tpc_vote(transaction)

    assert 0 == node.process.terminate()
    stuck.close()
    assert 'Traceback' not in node.process.output()
    assert 1 == len(node.tids())


def test_a_server_whose_threads_hang_still_ends(processes, tmpdir):
    """A thread that keeps the storage's lock stops ZEO's thread for good."""
    node = Node(processes, tmpdir, 'a', listens=True)
    script = '''
import os, socket, threading, time
from indico_zodbrepl.dataplane.server import main as server
server_startup = server
server.END_LIMIT = 2
opened = server_startup.open_storage
def open_and_lock(opener):
    storage = opened(opener)
    def hold():
        while socket.socket().connect_ex(('127.0.0.1', %d)):
            time.sleep(0.1)
        storage._storage._lock.acquire()
        os.write(2, 'held')
        time.sleep(1000)
    thread = threading.Thread(target=hold)
    thread.daemon = True
    thread.start()
    return storage
server_startup.open_storage = open_and_lock
os._exit(server.main(%r))
''' % (node.port, node.command()[3:])
    process = processes.start([FORKED, '-c', script], 'a', node.port)
    wait_for(lambda: 'held' in process.output(), 'the lock')
    client = node.client(wait=False)
    process.signal(signal.SIGTERM)

    assert 8 == process.wait()
    assert 'leaving by force' in process.output()
    client.close()


def test_other_signals_end_it_in_order_as_well(processes, tmpdir):
    node = Node(processes, tmpdir, 'a', listens=True)
    for number in (signal.SIGINT, signal.SIGHUP):
        process = node.start()
        process.signal(number)
        assert 0 == process.wait()


def test_a_secondary_ends_at_once_and_without_noise(processes, tmpdir):
    primary, secondary = pair(processes, tmpdir)
    clients, writers = start_writers(primary, 2, 5000)
    wait_for(lambda: sum(len(each.acknowledged) for each in writers) > 50,
             '50 commits')

    assert 0 == secondary.process.terminate()
    assert 'Traceback' not in secondary.process.output()
    assert 0 == primary.process.terminate()
    acknowledged(clients, writers)
    assert primary.bytes().startswith(secondary.bytes())


def test_after_sigkill_both_nodes_go_on(processes, tmpdir):
    primary, secondary = pair(processes, tmpdir)
    for victim in (primary, secondary, primary):
        clients, writers = start_writers(primary, 2, 5000)
        wait_for(lambda: sum(len(each.acknowledged) for each in writers) > 50,
                 '50 commits')
        victim.process.kill()
        if victim is secondary:
            assert 0 == primary.process.terminate()
            secondary.start()
        told = acknowledged(clients, writers)
        primary.start()
        client = primary.client()
        _, tid = commit(client, pickle_of('after'))
        client.close()
        secondary.wait_for_tid(tid)

    assert 0 == primary.process.terminate()
    assert 0 == secondary.process.terminate()
    assert set() == told - set(primary.tids())
    assert primary.bytes() == secondary.bytes()


def test_a_pack_that_runs_at_sigterm_is_given_up(processes, tmpdir):
    """The end waits neither for the pack nor lets it touch the data file."""
    node = Node(processes, tmpdir, 'a', listens=True)
    script = '''
import os, time
from indico_zodbrepl.dataplane.server import main as server
from ZODB.FileStorage import FileStorage
packer = FileStorage.packer
def slow_packer(storage, *args):
    packed = packer(storage, *args)
    os.write(2, 'packed')
    time.sleep(60)
    return packed
FileStorage.packer = staticmethod(slow_packer)
os._exit(server.main(%r))
''' % (node.command()[3:],)
    process = processes.start([FORKED, '-c', script], 'a', node.port)
    client = node.client(patience=2)
    commit(client, pickle_of('one'))
    commit(client, pickle_of('two'), oid=z64)
    commit(client, pickle_of('three'), oid=z64)
    client.pack(time.time(), wait=False)
    wait_for(lambda: 'packed' in process.output(), 'the pack')
    status = process.terminate()
    client.close()

    assert 0 == status
    assert 'was running and ends unfinished' in process.output()
    assert 3 == len(node.tids())
    node.start()
    assert 0 == node.process.terminate()
    assert 3 == len(node.tids())


def test_sigterm_never_leaves_a_node_without_its_data_file(processes, tmpdir):
    """A pack renames two files; the end must not come between the two."""
    node = Node(processes, tmpdir, 'a', listens=True)
    script = '''
import os, time
from indico_zodbrepl.dataplane.server import main as server
rename = os.rename
def slow_rename(old, new):
    rename(old, new)
    if new.endswith('Data.fs.old'):
        os.write(2, 'renamed')
        time.sleep(3)
os.rename = slow_rename
os._exit(server.main(%r))
''' % (node.command()[3:],)
    process = processes.start([FORKED, '-c', script], 'a', node.port)
    client = node.client(patience=2)
    commit(client, pickle_of('one'), oid=z64)
    _, tid = commit(client, pickle_of('two'), oid=z64)
    client.pack(time.time(), wait=False)
    wait_for(lambda: 'renamed' in process.output(), 'the pack')

    assert 0 == process.terminate()
    client.close()
    assert [tid] == node.tids()
