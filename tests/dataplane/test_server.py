"""The storage server: what it shows, and when it refuses to start."""
import os
import socket
import subprocess
import sys
import threading
import time

import pytest
from ZEO.Exceptions import ClientDisconnected
from ZODB.Connection import TransactionMetaData
from ZODB.utils import z64

from indico_zodbrepl.dataplane.server.status import PROTOCOL
from indico_zodbrepl.dataplane.server.status import __version__ as RELEASE

from nodes import Node, commit, following_tid, pickle_of
from processes import PATIENCE, listens, wait_for

# how the server says the reason why it does not start
BAD_CONFIGURATION = 2
REPLICATION_PORT = 3
STORAGE_PORT = 4
DATA_LOCKED = 5
DATA_UNREADABLE = 6
WRONG_LIBRARY = 7


class Anything(object):
    """Equals everything."""

    def __eq__(self, other):
        return True


def identity(node):
    """The part of the status that does not depend on the role."""
    return {'release': RELEASE, 'protocol': PROTOCOL, 'cluster': 'test', 'node': node.name, 'epoch': 3,
            'pid': node.process.pid, 'size': 4, 'held': None,
            'min_followers': 0, 'refused': [], 'write_failure': None,
            'lease': None, 'synchronous': Anything(),
            'blobs_missing': 0, 'blob_missing': '', 'missing_blob_folder': None}


def address(port):
    return '127.0.0.1:%d' % port


def test_a_plain_filestorage_shows_itself_as_standalone(processes, tmpdir):
    node = Node(processes, tmpdir, 'a')
    node.start()

    assert dict(identity(node), role='standalone', upstream=None, connected=None,
                followers=[], read_only=False) == node.status()


def test_primary_relay_and_secondary_show_their_links(processes, tmpdir):
    primary = Node(processes, tmpdir, 'a', listens=True)
    relay = Node(processes, tmpdir, 'b', upstream=primary, listens=True)
    secondary = Node(processes, tmpdir, 'c', upstream=relay)
    for node in (primary, relay, secondary):
        node.start()
    primary.wait_for_followers()
    relay.wait_for_followers()

    shown = primary.status()
    followers = shown.pop('followers')
    assert dict(identity(primary), role='primary', upstream=None, connected=None,
                read_only=False) == shown
    assert ['127.0.0.1'] == [each.split(':')[0] for each in followers]
    shown = relay.status()
    assert 1 == len(shown.pop('followers'))
    assert dict(identity(relay), role='relay', connected=True, read_only=True,
                upstream=address(primary.replication_port)) == shown
    assert dict(identity(secondary), role='secondary', connected=True,
                upstream=address(relay.replication_port), read_only=True,
                followers=[]) == secondary.status()


def test_a_dead_follower_and_a_dead_upstream_vanish(processes, tmpdir):
    primary = Node(processes, tmpdir, 'a', listens=True)
    first = Node(processes, tmpdir, 'b', upstream=primary)
    second = Node(processes, tmpdir, 'c', upstream=primary)
    for node in (primary, first, second):
        node.start()
    primary.wait_for_followers(2)
    first.process.kill()
    primary.wait_for_followers(1)
    primary.process.kill()

    wait_for(lambda: second.status()['connected'] is False, 'the loss is seen')


def test_who_only_connects_is_no_follower(processes, tmpdir):
    primary = Node(processes, tmpdir, 'a', listens=True)
    primary.start()
    probe = socket.create_connection(('127.0.0.1', primary.replication_port))
    try:
        secondary = Node(processes, tmpdir, 'b', upstream=primary)
        secondary.start()
        primary.wait_for_followers(1)
    finally:
        probe.close()


def test_ruok_keeps_what_zeo_shows(processes, tmpdir):
    """zeo-nagios and other tools go on working."""
    node = Node(processes, tmpdir, 'a', listens=True)
    node.start()
    client = node.client()
    _, tid = commit(client, pickle_of('x'))

    shown = node.ruok()
    client.close()
    assert tid.encode('hex') == shown['last-transaction']
    assert (1, 1) == (shown['commits'], shown['connections'])


def test_since_counts_transactions_on_primary_and_secondary(processes, tmpdir):
    primary = Node(processes, tmpdir, 'a', listens=True)
    secondary = Node(processes, tmpdir, 'b', upstream=primary)
    primary.start()
    client = primary.client()
    tids = [commit(client, pickle_of(str(n)))[1] for n in range(5)]
    secondary.start()
    secondary.wait_for_tid(tids[-1])
    tids += [commit(client, pickle_of(str(n)))[1] for n in range(5)]
    client.close()
    secondary.wait_for_tid(tids[-1])

    expected = [{'transactions': 10 - n, 'exact': True, 'first': first}
                for n, first in enumerate([tid.encode('hex') for tid in tids] + [None])]
    asked = [z64] + tids
    assert expected == [primary.since(tid) for tid in asked]
    wait_for(lambda: secondary.since(z64)['transactions'] == 10,
             'the secondary has counted its last transaction')
    assert expected == [secondary.since(tid) for tid in asked]
    assert {'transactions': 0, 'exact': True, 'first': None} == primary.since(
        following_tid(tids[-1]))


def test_since_survives_a_restart(processes, tmpdir):
    node = Node(processes, tmpdir, 'a', listens=True)
    node.start()
    client = node.client()
    tids = [commit(client, pickle_of(str(n)))[1] for n in range(3)]
    client.close()
    node.process.terminate()
    node.start()

    assert {'transactions': 2, 'exact': True, 'first': tids[1].encode('hex')} == (
        node.since(tids[0]))


def test_since_counts_what_a_pack_has_left(processes, tmpdir):
    node = Node(processes, tmpdir, 'a', listens=True)
    node.start()
    client = node.client()
    for number in range(5):
        commit(client, pickle_of(str(number)), oid=z64)
    client.pack(time.time(), wait=True)
    client.close()

    left = node.since(z64)
    assert (1, True) == (left['transactions'], left['exact'])


def test_a_malformed_since_is_refused(processes, tmpdir):
    node = Node(processes, tmpdir, 'a', listens=True)
    node.start()
    with pytest.raises(Exception) as error:
        node.ask('since123')

    assert 'unpack' in str(error.value)
    assert 'a' == node.status()['node']


def test_a_client_that_times_out_gives_the_commit_lock_back(processes, tmpdir):
    """With ZEO's own server every later commit would wait for ever."""
    node = Node(processes, tmpdir, 'a', listens=True, transaction_timeout=3)
    node.start()
    stuck = node.client()
    transaction = TransactionMetaData()
    stuck.tpc_begin(transaction)
    stuck.store(stuck.new_oid(), z64, pickle_of('stuck'), '', transaction)
    stuck.tpc_vote(transaction)
    wait_for(lambda: 'transaction not ended within 3 s' in node.process.output(), 'a timeout')

    other = node.client()
    committed = []
    committer = threading.Thread(
        target=lambda: committed.append(commit(other, pickle_of('other'))[1]))
    committer.daemon = True
    committer.start()
    committer.join(PATIENCE)
    assert [node.last_tid()] == committed
    with pytest.raises(ClientDisconnected):
        stuck.tpc_finish(transaction)
    stuck.close()
    other.close()


def refused(processes, node, *more):
    """Starts a node that must not start: (exit status, its last log line)."""
    started = processes.start(node.command(*more), node.name)
    status = started.wait()
    lines = started.output().splitlines()
    assert 'Traceback' not in started.output()
    return status, [line for line in lines if 'CRITICAL' in line or
                    line.startswith('zodbrepl server:')]


def occupy(port):
    taken = socket.socket()
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    taken.bind(('127.0.0.1', port))
    taken.listen(1)
    return taken


def test_without_its_replication_port_it_serves_nobody(processes, tmpdir):
    node = Node(processes, tmpdir, 'a', listens=True)
    taken = occupy(node.replication_port)
    started = processes.start(node.command(), node.name)
    served = wait_for(
        lambda: 'served' if listens(node.port)
        else not started.is_running() and 'ended', 'the end')
    taken.close()

    assert 'ended' == served
    assert REPLICATION_PORT == started.wait()
    assert 1 == started.output().count('CRITICAL')
    assert ('cannot listen for followers on %s: [Errno 98] Address already in '
            'use; nothing is served' % address(node.replication_port)
            ) in started.output()
    assert 'Traceback' not in started.output()


def test_a_relay_without_its_replication_port_serves_nobody(processes, tmpdir):
    primary = Node(processes, tmpdir, 'a', listens=True)
    primary.start()
    relay = Node(processes, tmpdir, 'b', upstream=primary, listens=True)
    taken = occupy(relay.replication_port)
    status, lines = refused(processes, relay)
    taken.close()

    assert REPLICATION_PORT == status
    assert not listens(relay.port)
    assert 1 == len(lines)


def test_a_taken_storage_port_is_named(processes, tmpdir):
    node = Node(processes, tmpdir, 'a', listens=True)
    taken = occupy(node.port)
    status, (line,) = refused(processes, node)
    taken.close()

    assert STORAGE_PORT == status
    assert 'cannot serve clients on %s' % address(node.port) in line
    assert not os.path.exists(node.data)


def test_a_data_file_that_another_server_has_open_is_named(processes, tmpdir):
    node = Node(processes, tmpdir, 'a', listens=True)
    node.start()
    again = Node(processes, tmpdir, 'b', listens=True)
    again.data, again.blobs = node.data, node.blobs
    again.configure(listens=True)
    status, (line,) = refused(processes, again)

    assert DATA_LOCKED == status
    assert '%s is locked by another process (process %d)' % (
        node.data, node.process.pid) in line
    assert 'a' == node.status()['node']


@pytest.mark.parametrize('content', [
    'no data file at all, but long enough to look like one',
    'FS30' + 100 * 'x',
], ids=['text', 'magic-of-python-3'])
def test_a_file_that_is_no_data_file_is_named_and_kept(
        processes, tmpdir, content):
    node = Node(processes, tmpdir, 'a', listens=True)
    with open(node.data, 'wb') as data:
        data.write(content)
    status, (line,) = refused(processes, node)

    assert DATA_UNREADABLE == status
    assert node.data + ' is damaged or no ZODB data file' in line
    assert content == node.bytes()


def test_a_damaged_data_file_is_named_and_kept(processes, tmpdir):
    node = Node(processes, tmpdir, 'a', listens=True)
    node.start()
    client = node.client()
    for number in range(20):
        commit(client, pickle_of(str(number)))
    client.close()
    node.process.terminate()
    os.remove(node.data + '.index')
    content = bytearray(node.bytes())
    content[300:340] = 40 * '\xff'
    with open(node.data, 'wb') as data:
        data.write(content)
    status, lines = refused(processes, node)

    assert DATA_UNREADABLE == status
    assert node.data + ' is damaged' in lines[-1]
    assert str(content) == node.bytes()


def test_a_data_folder_that_is_not_there_is_named(processes, tmpdir):
    node = Node(processes, tmpdir, 'a', listens=True)
    node.data = str(tmpdir.join('nowhere', 'Data.fs'))
    node.configure(listens=True)
    status, (line,) = refused(processes, node)

    assert BAD_CONFIGURATION == status
    assert str(tmpdir.join('nowhere')) in line


def test_a_data_file_that_cannot_be_opened_is_named(processes, tmpdir):
    node = Node(processes, tmpdir, 'a', listens=True)
    os.mkdir(node.data)
    status, (line,) = refused(processes, node)

    assert DATA_UNREADABLE == status
    assert 'cannot open %s: Is a directory' % node.data in line


def test_a_configuration_it_does_not_understand_is_named(processes, tmpdir):
    node = Node(processes, tmpdir, 'a', listens=True)
    with open(node.config, 'a') as config:
        config.write('nonsense 1\n')
    status, (line,) = refused(processes, node)

    assert BAD_CONFIGURATION == status
    assert 'nonsense' in line and 'zeo.conf' in line


def test_a_configuration_that_is_not_there_is_named(processes, tmpdir):
    node = Node(processes, tmpdir, 'a', listens=True)
    os.remove(node.config)
    status, (line,) = refused(processes, node)

    assert BAD_CONFIGURATION == status
    assert node.config in line


def test_a_node_that_would_follow_itself_is_refused(processes, tmpdir):
    node = Node(processes, tmpdir, 'a', listens=True)
    node.configure(upstream=node, listens=True)
    status, (line,) = refused(processes, node)

    assert BAD_CONFIGURATION == status
    assert 'replicate-to and replicate-from are the same address' in line


@pytest.mark.parametrize('more, problem', [
    (['--epoch', '0'], 'invalid value for --epoch'),
    (['--epoch', 'one'], 'invalid value for --epoch'),
    (['--reconnect-delay', '-1'], 'invalid value for --reconnect-delay'),
    (['--min-followers', '-1'], 'invalid value for --min-followers'),
    (['--nonsense'], '--nonsense'),
])
def test_a_wrong_command_line_is_named(processes, tmpdir, more, problem):
    node = Node(processes, tmpdir, 'a', listens=True)
    status, (line,) = refused(processes, node, *more)

    assert BAD_CONFIGURATION == status
    assert problem in line


def test_identity_is_required(processes, tmpdir):
    node = Node(processes, tmpdir, 'a', listens=True)
    started = processes.start(node.command()[:5], 'a')

    assert BAD_CONFIGURATION == started.wait()
    assert 'zodbrepl server: give --' in started.output()


def test_another_zc_zrs_is_refused(processes, tmpdir):
    node = Node(processes, tmpdir, 'a', listens=True)
    script = (
        'import os, pkg_resources\n'
        'pkg_resources.get_distribution("zc.zrs")._version = "3.2.0"\n'
        'from indico_zodbrepl.dataplane.server import main as server\n'
        'os._exit(server.main(%r))\n' % (node.command()[3:],))
    started = processes.start(['python', '-c', script], 'a')

    assert WRONG_LIBRARY == started.wait()
    assert ('zc.zrs 3.2.0 is installed, but this repair was written for 3.1.0'
            in started.output())
    assert not os.path.exists(node.data)


def test_help_shows_every_option():
    text = subprocess.check_output([
        sys.executable, '-m', 'indico_zodbrepl.dataplane.server.main', '-h'])

    for option in ('-C', '--cluster', '--node', '--epoch', '--reconnect-delay',
                   '--min-followers'):
        assert option in text


def test_it_starts_without_pkg_resources_which_is_whole_for_others():
    """Importing it would be the longest part of the start."""
    subprocess.check_call([
        sys.executable, '-c',
        'import sys\n'
        'from indico_zodbrepl.dataplane.server import main\n'
        'main.NodeOptions()\n'
        'main.repairs.check_versions()\n'
        'assert "pkg_resources" not in sys.modules\n'
        'import pkg_resources, ZEO.monitor\n'
        'for name in ("zc.zrs", "ZODB"):\n'
        '    assert (pkg_resources.get_distribution(name).version\n'
        '            == main.repairs.version_of(name))\n'])
