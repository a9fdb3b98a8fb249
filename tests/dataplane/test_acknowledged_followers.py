"""Which followers confirm commits, and whose confirmations count."""
import socket
import struct

import pytest
import ZODB.POSException
from ZODB.utils import p64, z64

from indico_zodbrepl.dataplane.datafs.datafile import DataFile
from indico_zodbrepl.dataplane.zrs import confirmations
from indico_zodbrepl.dataplane.zrs.confirmations import (
    FSYNC,
    NONE,
    WRITE,
    BadAnswer,
    Confirmations,
    Question,
    answer,
)
from indico_zodbrepl.dataplane.zrs.stream import NOTICE
from link_proxy import Proxy
from nodes import Node, commit, pickle_of, write_everything
from processes import FORKED, PATIENCE, wait_for
from synchronous import (
    Commit,
    client_of,
    is_unknown,
    options,
    start_follower,
    start_primary,
    state,
    wait_for_confirmation,
    wait_for_state,
)
from test_blob_channel import STOCK_RECEIVING, assert_equal
from test_server_uploads import a_file

ASKED = Question(FSYNC, 3)


@pytest.fixture
def asked():
    found = Confirmations()
    found.question = ASKED
    return found


def test_a_follower_confirms_everything_up_to_its_last_answer(asked):
    asked.heard('link', answer('b', ASKED, p64(1)))
    assert {'b': p64(1)} == asked.confirmed()
    asked.heard('link', p64(5))
    assert {'b': p64(5)} == asked.confirmed()
    asked.left('link')
    assert {} == asked.confirmed()


def test_a_node_that_is_connected_twice_counts_once_as_it_is_now(asked):
    asked.heard('old', answer('b', ASKED, p64(9)))
    asked.heard('new', answer('b', ASKED, p64(2)))
    asked.heard('old', p64(10))
    assert {'b': p64(2)} == asked.confirmed()
    asked.left('old')
    assert {'b': p64(2)} == asked.confirmed()
    asked.left('new')
    assert {} == asked.confirmed()


@pytest.mark.parametrize('other', [Question(WRITE, 3), Question(FSYNC, 2)])
def test_answers_to_another_question_do_not_count(asked, other):
    asked.heard('link', answer('b', other, p64(1)))
    asked.heard('link', p64(2))
    assert {} == asked.confirmed()
    asked.heard('link', answer('b', ASKED, p64(2)))
    assert {'b': p64(2)} == asked.confirmed()
    asked.question = other
    assert {} == asked.confirmed()


def test_a_relay_confirms_for_others_by_name(asked):
    asked.heard('relay', answer('b', ASKED, p64(3)))
    asked.heard('relay', answer('c', ASKED, p64(1)))
    asked.heard('relay', p64(4))
    asked.heard('relay', answer('c', ASKED, p64(2)))
    assert {'b': p64(4), 'c': p64(2)} == asked.confirmed()
    asked.heard('direct', answer('c', ASKED, p64(1)))
    asked.heard('relay', answer('c', ASKED, None))
    assert {'b': p64(4), 'c': p64(1)} == asked.confirmed()
    asked.left('relay')
    assert {'c': p64(1)} == asked.confirmed()


@pytest.mark.parametrize('message', [
    b'x', b'123456789', b'{}', b'[1, 2, 3, 4]', b'{"node": "b", "level": "fsync", "epoch": 3, "tid": "00"}'])
def test_other_messages_are_no_answers(asked, message):
    with pytest.raises(BadAnswer):
        asked.heard('link', message)
    assert {} == asked.confirmed()


def test_a_question_is_read_as_it_was_asked():
    for question in (ASKED, NONE):
        assert question == confirmations.asked(confirmations.ask(question).content[len(NOTICE):])
    assert confirmations.asked(b'blobs1.0') is None


def test_two_secondaries_are_two_nodes(processes, tmpdir):
    primary = start_primary(processes, tmpdir, count=2)
    first = start_follower(processes, tmpdir, primary, 'b')
    wait_for_confirmation(primary, 'b')
    assert state(primary) in ('starting', 'waiting')
    second = start_follower(processes, tmpdir, primary, 'c')
    wait_for_state(primary, 'synchronous')
    with client_of(primary) as client:
        _, tid = commit(client, pickle_of('x'))
        first.process.pause()
        under_way = Commit(client)
        wait_for(lambda: second.last_tid() > tid, 'the commit on one of them')
        assert tid.encode('hex') == primary.status()['synchronous']['acknowledged']
        first.process.resume()
        assert under_way.wait() > tid


def test_one_of_two_secondaries_is_enough(processes, tmpdir):
    primary = start_primary(processes, tmpdir)
    first = start_follower(processes, tmpdir, primary, 'b')
    start_follower(processes, tmpdir, primary, 'c')
    wait_for_confirmation(primary, 'b', 'c')
    with client_of(primary) as client:
        commit(client, pickle_of('x'))
        first.process.pause()
        commit(client, pickle_of('x'))
        first.process.kill()
        commit(client, pickle_of('x'))
        assert 'synchronous' == state(primary)


def test_a_half_dead_connection_of_a_node_does_not_count(processes, tmpdir):
    primary = start_primary(processes, tmpdir, count=2)
    proxy = Proxy(primary)
    follower = start_follower(processes, tmpdir, proxy, 'b')
    wait_for_confirmation(primary, 'b')
    proxy.silence()
    follower.process.kill()
    follower.configure(primary)
    follower.start()
    wait_for(lambda: len(primary.status()['followers']) == 2, 'both connections')
    wait_for_confirmation(primary, 'b')
    assert 'synchronous' != state(primary)
    start_follower(processes, tmpdir, primary, 'c')
    wait_for_state(primary, 'synchronous')
    proxy.close()


def test_a_stalled_link_acknowledges_nothing(processes, tmpdir):
    primary = start_primary(processes, tmpdir, timeout=1)
    proxy = Proxy(primary)
    follower = start_follower(processes, tmpdir, proxy)
    with client_of(primary) as client:
        _, tid = commit(client, pickle_of('x'))
        proxy.silence()
        assert isinstance(Commit(client).wait(), Exception)
        assert 'refusing' == state(primary)
        assert tid == follower.last_tid()
    proxy.close()


def test_a_lost_answer_acknowledges_nothing(processes, tmpdir):
    primary = start_primary(processes, tmpdir, timeout=1)
    proxy = Proxy(primary)
    follower = start_follower(processes, tmpdir, proxy)
    with client_of(primary) as client:
        commit(client, pickle_of('x'))
        proxy.silence(downstream=False)
        assert isinstance(Commit(client).wait(), Exception)
        assert follower.last_tid() == primary.last_tid()
        assert 1 == primary.status()['synchronous']['in_doubt']
    proxy.close()


def test_a_follower_that_catches_up_from_nothing_confirms_only_what_it_has(processes, tmpdir):
    primary = start_primary(processes, tmpdir, timeout=1)
    follower = start_follower(processes, tmpdir, primary)
    wait_for_state(primary, 'synchronous')
    with client_of(primary) as client:
        tids = [commit(client, pickle_of(20000 * 'x'))[1] for _ in range(50)]
        follower.process.kill()
        for path in follower.folder.listdir('Data.fs*'):
            path.remove()
        proxy = Proxy(primary)
        proxy.damages = False

        def damage(data):
            if proxy.stream_bytes > 400000:
                proxy.silence(answers=False)
            return data

        proxy.damage = damage
        follower.configure(proxy)
        follower.start()
        wait_for(lambda: follower.last_tid() in tids[2:], 'the first of them')
        wait_for_confirmation(primary, 'f')
        wait_for(lambda: follower_tid(primary) == follower.last_tid(), 'what it has')
        assert follower.last_tid() < tids[-1]
        assert isinstance(Commit(client).wait(), Exception)
        assert 'synchronous' != state(primary)
        assert tids[-1].encode('hex') == primary.status()['synchronous']['acknowledged']
    proxy.close()


def test_a_stock_follower_follows_and_confirms_nothing(processes, tmpdir):
    primary = start_primary(processes, tmpdir, timeout=1, alone='degrade')
    stock = Node(processes, tmpdir, 'b', upstream=primary)
    processes.start([FORKED, '-c', STOCK_RECEIVING % stock.command()[3:]], 'b', stock.port)
    primary.wait_for_followers()
    with client_of(primary) as client:
        for _ in range(10):
            _, tid = commit(client, pickle_of('x'))
        stock.wait_for_tid(tid)
        assert ('alone', {}) == (state(primary), primary.status()['synchronous']['confirming'])
        start_follower(processes, tmpdir, primary, 'c')
        wait_for_state(primary, 'synchronous')
        _, tid = commit(client, pickle_of('x'))
        stock.wait_for_tid(tid)


def test_a_follower_of_the_first_release_counts_as_asynchronous(processes, tmpdir):
    """It stores no blobs and says so; it must get what others get, and is not waited for."""
    primary = start_primary(processes, tmpdir)
    start_follower(processes, tmpdir, primary)
    wait_for_state(primary, 'synchronous')
    old = socket.create_connection(('127.0.0.1', primary.replication_port))
    for message in (b'zrs2.0', z64):
        old.sendall(struct.pack('>I', len(message)) + message)
    wait_for(lambda: len(primary.status()['followers']) == 2, 'both')
    with client_of(primary) as client:
        commit(client, pickle_of('x'))
    assert {'f'} == set(primary.status()['synchronous']['confirming'])
    old.close()


def test_a_follower_that_answers_nonsense_is_disconnected(processes, tmpdir):
    primary = start_primary(processes, tmpdir)
    start_follower(processes, tmpdir, primary)
    wait_for_state(primary, 'synchronous')
    odd = socket.create_connection(('127.0.0.1', primary.replication_port), PATIENCE)
    for message in (b'zrs2.1', z64):
        odd.sendall(struct.pack('>I', len(message)) + message)
    odd.recv(10, socket.MSG_WAITALL)  # it is asked
    odd.sendall(struct.pack('>I', 8) + z64 + struct.pack('>I', 7) + b'garbage')
    while odd.recv(1 << 16):
        pass
    odd.close()
    assert 'no confirmation' in primary.process.output()
    with client_of(primary) as client:
        commit(client, pickle_of('x'))
    assert {'f'} == set(primary.status()['synchronous']['confirming'])


def test_a_follower_that_nobody_asks_sends_no_answers(processes, tmpdir):
    primary = Node(processes, tmpdir, 'p', listens=True)
    primary.start()
    follower = start_follower(processes, tmpdir, primary)
    primary.wait_for_followers()
    with client_of(primary) as client:
        for data in (b'(U\x01SNt.acks1.0{"level": "fsync", "epoch": 3}', b'(U\x01C(U\x10' + 16 * b'x' + b'tt.',
                     b'(U\x01SNt.', b'x'):
            commit(client, data)
        _, tid = commit(client, pickle_of('x'))
        follower.wait_for_tid(tid)
    # The protocol allows no other message, and its violation ends the connection.
    assert 'Too many messages' not in primary.process.output()
    assert 'lost upstream' not in follower.process.output()


def test_data_that_look_like_messages_confirm_nothing(processes, tmpdir):
    primary = start_primary(processes, tmpdir)
    follower = start_follower(processes, tmpdir, primary)
    with client_of(primary) as client:
        for data in (b'(U\x01SNt.acks1.0{"level": "receive", "epoch": 3}', b'(U\x01C(U\x10' + 16 * b'x' + b'tt.'):
            commit(client, data)
        follower.process.pause()
        under_way = Commit(client)
        wait_for(lambda: primary.last_tid() > follower_tid(primary), 'the commit')
        assert 'fsync' == primary.status()['synchronous']['level']
        follower.process.resume()
        under_way.wait()


def follower_tid(primary):
    return primary.status()['synchronous']['confirming']['f'].decode('hex')


def test_a_follower_that_knows_a_later_epoch_confirms_nothing(processes, tmpdir):
    primary = start_primary(processes, tmpdir, timeout=1)
    follower = start_follower(processes, tmpdir, primary)
    with client_of(primary) as client:
        commit(client, pickle_of('x'))
        assert follower.control(do='epoch', epoch=4)['ok']
        assert isinstance(Commit(client).wait(), Exception)
        assert 'refusing' == state(primary)


def relayed(processes, folder, forwards, **others):
    primary = start_primary(processes, folder, **others)
    relay = Node(processes, folder, 'b', upstream=primary, listens=True,
                 options=['--forward-acknowledgements'] if forwards else [])
    relay.start()
    return primary, relay, start_follower(processes, folder, relay, 'c')


def test_a_relay_confirms_its_own_disk(processes, tmpdir):
    primary, relay, secondary = relayed(processes, tmpdir, False)
    wait_for_state(primary, 'synchronous')
    relay.wait_for_followers()
    with client_of(primary) as client:
        secondary.process.pause()
        _, tid = commit(client, pickle_of('x'))
        assert {'b': tid.encode('hex')} == primary.status()['synchronous']['confirming']


def test_a_relay_forwards_confirmations_if_it_shall(processes, tmpdir):
    primary, relay, secondary = relayed(processes, tmpdir, True, count=2)
    wait_for_confirmation(primary, 'b', 'c')
    wait_for_state(primary, 'synchronous')
    with client_of(primary) as client:
        for _ in range(10):
            _, tid = commit(client, pickle_of('x'))
        assert dict.fromkeys('bc', tid.encode('hex')) == primary.status()['synchronous']['confirming']

        secondary.process.pause()
        under_way = Commit(client)
        wait_for(lambda: relay.last_tid() > tid, 'the commit on the relay')
        assert tid.encode('hex') == primary.status()['synchronous']['acknowledged']
        secondary.process.kill()
        wait_for_confirmation(primary, 'b')
        secondary.start()
        assert under_way.wait() > tid

        relay.process.kill()
        wait_for_confirmation(primary)
        relay.start()
        wait_for_confirmation(primary, 'b', 'c')
        commit(client, pickle_of('x'))


@pytest.mark.parametrize('level', ['receive', 'write', 'fsync'])
def test_transactions_of_all_kinds_and_blobs_are_acknowledged(processes, tmpdir, level):
    primary = start_primary(processes, tmpdir, level=level)
    follower = start_follower(processes, tmpdir, primary)
    tid = write_everything(primary)
    assert tid.encode('hex') == primary.status()['synchronous']['acknowledged']
    follower.wait_for_tid(tid)
    for node in (primary, follower):
        assert 0 == node.process.terminate()
    assert primary.bytes() == follower.bytes()
    assert primary.blob_files() == follower.blob_files()


def test_a_large_blob_is_acknowledged_when_the_follower_has_it(processes, tmpdir):
    primary = start_primary(processes, tmpdir)
    follower = start_follower(processes, tmpdir, primary)
    client = primary.client()
    tid = commit(client, blob=a_file(tmpdir, 5 << 20))[1]
    assert follower.last_tid() == tid
    assert_equal(primary, follower)
    client.close()


def test_a_blob_in_doubt_is_shown_when_the_follower_has_it(processes, tmpdir):
    primary = start_primary(processes, tmpdir, timeout=1)
    proxy = Proxy(primary)
    follower = start_follower(processes, tmpdir, proxy)
    writer = primary.client()
    with client_of(primary) as reader:
        _, tid = commit(writer, pickle_of('x'))
        proxy.silence(downstream=False)
        with pytest.raises(Exception) as unknown:
            commit(writer, blob=a_file(tmpdir, 100000))
        assert is_unknown(unknown.value)
        hidden = primary.last_tid()
        oid = oid_of(primary, hidden)
        for call in ('sendBlob', 'blob_digest', 'loadSerial'):
            with pytest.raises(ZODB.POSException.POSKeyError):
                reader._call(call, oid, hidden)
        assert tid == reader.lastTransaction()

        follower.process.kill()
        follower.configure(primary)
        follower.start()
        wait_for_state(primary, 'synchronous')
        assert 100000 == reader._call('blob_digest', oid, hidden)[0]
        assert_equal(primary, follower)
    writer.close()
    proxy.close()


def oid_of(node, tid):
    """The id of the only object that a transaction wrote."""
    with DataFile(node.data) as data:
        oid, = data.oids(data.find(tid))
        return oid


def test_an_option_that_nobody_can_satisfy_is_refused(processes, tmpdir):
    node = Node(processes, tmpdir, 'a', options=options())
    assert 2 == node.start(wait=False).wait()
    assert 'nobody can follow it' in node.process.output()
