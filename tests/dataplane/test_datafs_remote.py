"""An upstream on another host gives the same comparison as one here, and little of it is moved."""
import os
import random
import signal
import socket
import subprocess
import sys
import threading

import pytest
import transaction
import ZODB
from BTrees.IOBTree import IOBTree
from persistent.mapping import PersistentMapping
from ZODB.Connection import TransactionMetaData
from ZODB.utils import p64, z64

from data_files import Site
from indico_zodbrepl.dataplane.datafs import __main__ as program
from indico_zodbrepl.dataplane.datafs import compare as module
from indico_zodbrepl.dataplane.datafs.datafile import DataFile
from indico_zodbrepl.dataplane.datafs.failures import DataFileError, Disconnected
from indico_zodbrepl.dataplane.datafs.messages import Connection
from indico_zodbrepl.dataplane.datafs.remote import RemoteFile
from remote_files import compare, compare_remotely, served
from test_datafs_compare import end, grown, writer  # noqa: F401 a fixture

SERVE = [sys.executable, '-m', 'indico_zodbrepl.dataplane.datafs', 'serve']
NAMES = u'abcdefgh'


def some(chance, site):
    """Changes a history at random."""
    number = chance.randrange(10)
    if number < 5:
        site.commit(*[chance.choice(NAMES) for _ in range(chance.randint(1, 4))])
    elif number < 6:
        site.undo(site.commit(chance.choice(NAMES), text=u'%d' % chance.getrandbits(32))[0])
    elif number < 8:
        name = u'passing'
        site.commit(name)
        site.remove(name)
    else:
        site.pack(chance.choice(site.tids()), noted=chance.random() < 0.5)


def garble(chance, site):
    """Changes a byte of a text in one transaction: the same tid has other content."""
    with open(site.path, 'r+b') as data_file:
        content = data_file.read()
        places = [at for at in range(len(content)) if content.startswith(b'someone', at)]
        data_file.seek(chance.choice(places))
        data_file.write(b'anyone!')


@pytest.mark.parametrize('seed', range(60))
def test_any_two_histories_compare_as_if_both_were_here(tmpdir, seed):
    """Equal, behind, ahead, diverged, merged, packed on either side, conflicting."""
    chance = random.Random(seed)
    upstream = Site(tmpdir.join('upstream.fs'))
    upstream.commit(*NAMES[:3])
    for _ in range(chance.randrange(6)):
        some(chance, upstream)
    site = upstream.copy_to(tmpdir.join('site.fs'))
    parted = upstream.tids()[-1]
    for each in (site, upstream):
        for _ in range(chance.choice([0, 0, 1, 5])):
            some(chance, each)
    if chance.random() < 0.3 and site.tids()[-1] < upstream.tids()[-1]:
        site.fetch(upstream)
    if chance.random() < 0.2:
        garble(chance, chance.choice([site, upstream]))

    tids = site.tids()
    for verified in (None, chance.choice(tids), tids[-1]):
        for fork in (None, parted):
            compare(site.path, upstream.path, verified, fork)
            compare(upstream.path, site.path, verified, fork)


def unsynced(monkeypatch):
    """Keeps storages from waiting for the disk."""
    monkeypatch.setattr(sys.modules['ZODB.FileStorage.FileStorage'], 'fsync', lambda number: None)


def many(site, megabytes):
    """Appends transactions of one new object each, and a change of every other one."""
    db = ZODB.DB(site.open(), cache_size=0)
    manager = transaction.TransactionManager()
    connection = db.open(manager)
    tree = connection.root()[u'many'] = IOBTree()
    number = 0
    while os.path.getsize(site.path) < megabytes << 20:
        number += 1
        for each in (number, number - number % 2):
            tree[each] = PersistentMapping(text=os.urandom(500).encode('hex'))
        manager.commit()
        connection.cacheMinimize()
    db.close()


def fill(upstream, megabytes):
    """Appends one record again and again, as changes of one object."""
    storage = upstream.open()
    content = os.urandom(50000).encode('hex')
    serial = z64
    while storage.getSize() < megabytes << 20:
        meta = TransactionMetaData(u'', u'', {})
        storage.tpc_begin(meta)
        storage.store(p64(99), serial, content, '', meta)
        storage.tpc_vote(meta)
        serial = storage.tpc_finish(meta)
    storage.close()


@pytest.fixture
def pair(request, tmpdir, monkeypatch):
    """A file of some megabytes and its replica."""
    unsynced(monkeypatch)
    upstream = Site(tmpdir.join('upstream.fs'))
    upstream.commit(u'a', u'b')
    fill(upstream, request.param)
    yield upstream.copy_to(tmpdir.join('site.fs')), upstream
    tmpdir.remove()


@pytest.mark.parametrize('pair', [100], indirect=True)
def test_of_a_large_file_with_one_transaction_of_its_own_less_than_a_thousandth_is_moved(pair):
    site, upstream = pair
    site.commit(u'a')
    upstream.commit(u'b')
    found, moved = compare_remotely(site.path, upstream.path)

    assert ('diverged', 1, 1) == (found['relation'], found['private'], found['missing'])
    assert moved < os.path.getsize(upstream.path) // 1000


@pytest.mark.parametrize('pair', [10], indirect=True)
def test_from_a_verified_transaction_on_less_is_moved_than_one_transaction_has(pair):
    site, upstream = pair
    verified = site.tids()[-1]
    site.commit(u'a')
    upstream.commit(u'b')
    found, moved = compare_remotely(site.path, upstream.path, verified)

    assert ('diverged', 1, 1) == (found['relation'], found['private'], found['missing'])
    assert moved < 3000


@pytest.mark.parametrize('pair', [20], indirect=True)
def test_of_transactions_that_are_missing_here_only_the_headers_are_moved(pair):
    site, upstream = pair
    with DataFile(site.path) as data_file:
        middle = [each.position for each in data_file.forward()][20]
    with open(site.path, 'r+b') as data_file:
        data_file.truncate(middle)
    found, moved = compare_remotely(site.path, upstream.path)

    assert ('behind', len(upstream.tids()) - 20) == (found['relation'], found['missing'])
    assert moved < os.path.getsize(upstream.path) // 1000


@pytest.mark.parametrize('packed', ['site', 'upstream'])
def test_of_a_packed_file_digests_of_transactions_are_moved(tmpdir, packed, monkeypatch):
    unsynced(monkeypatch)
    upstream = Site(tmpdir.join('upstream.fs'))
    upstream.commit(u'a', u'b')
    many(upstream, 5)
    site = upstream.copy_to(tmpdir.join('site.fs'))
    (site if packed == 'site' else upstream).pack(site.tids()[-1])
    size = os.path.getsize(upstream.path)
    assert size > 2 << 20
    found, moved = compare_remotely(site.path, upstream.path)

    assert module.compare(site.path, upstream.path) == found
    assert moved < size // 10, moved


def test_an_upstream_that_is_written_meanwhile_counts_as_it_was_when_it_was_opened(
        tmpdir, writer):  # noqa: F811
    upstream = Site(tmpdir.join('upstream.fs'))
    upstream.commit(u'a')
    site = upstream.copy_to(tmpdir.join('site.fs'))
    writer(upstream.path, size=100000)
    for _ in range(20):
        found, _ = compare_remotely(site.path, upstream.path)
        assert 'behind' == found['relation']
        assert site.tids()[-1].encode('hex') == found['common']['tid']


def test_a_pack_that_replaces_the_upstreams_file_meanwhile_is_noticed(tmpdir, monkeypatch):
    upstream = Site(tmpdir.join('upstream.fs'))
    upstream.commit(u'x')
    tids = grown(upstream)
    site = upstream.copy_to(tmpdir.join('site.fs'))
    whole, attempts = module._compare, []

    def packed_meanwhile(mine, other, *arguments):
        if not attempts:
            upstream.pack(tids[-2])
            site.commit(u'hot')
        attempts.append(whole(mine, other, *arguments)['relation'])
        return whole(mine, other, *arguments)

    monkeypatch.setattr(module, '_compare', packed_meanwhile)
    found, _ = compare_remotely(site.path, upstream.path)
    assert 'ahead' == found['relation']
    assert ['equal', 'ahead'] == attempts


def test_an_upstream_that_is_truncated_meanwhile_is_noticed(tmpdir):
    upstream = Site(tmpdir.join('upstream.fs'))
    many(upstream, 1)
    with served(upstream.path) as (connection, _):
        opened = RemoteFile(connection, upstream.path)
        with open(upstream.path, 'r+b') as data_file:
            data_file.truncate(300)
        with pytest.raises(DataFileError) as caught:
            list(opened.forward())
        assert 'was cut while it was read' in str(caught.value)
        assert not opened.replaced()


def test_a_lost_connection_is_an_error_of_its_own(tmpdir):
    upstream = Site(tmpdir.join('upstream.fs'))
    upstream.commit(u'a')
    with served(upstream.path) as (connection, counted):
        opened = RemoteFile(connection, 'node b on host two')
        counted._stream.shutdown(socket.SHUT_RDWR)
        with pytest.raises(Disconnected) as caught:
            list(opened.forward())
    assert str(caught.value).startswith(upstream.path)


def test_what_is_no_message_is_an_error(tmpdir):
    site = Site(tmpdir.join('site.fs'))
    site.commit(u'a')
    ours, theirs = socket.socketpair()
    theirs.sendall(b'HTTP/1.1 400 Bad Request\r\n\r\n')
    with pytest.raises(Disconnected):
        module.compare(site.path, 'elsewhere', connection=Connection(ours, 'host two'))


def test_questions_of_another_release_are_refused(tmpdir):
    upstream = Site(tmpdir.join('upstream.fs'))
    upstream.commit(u'a')
    with served(upstream.path) as (connection, _):
        for wrong in [dict(do='open', format=99), dict(do='nothing'), dict(do='raw')]:
            connection.send(wrong)
            with pytest.raises(DataFileError):
                connection.take()
        connection.ask('open', format=1)
        for wrong in [dict(do='raw'), dict(do='list', position='x'), dict(do='raw', wrong=1)]:
            connection.send(wrong)
            with pytest.raises(DataFileError):
                connection.take()


@pytest.fixture
def server(request):
    """Starts the program that serves a file; returns it and our end of the connection."""
    def start(path):
        ours, theirs = socket.socketpair()
        process = subprocess.Popen(SERVE + [path, '--socket', str(theirs.fileno())],
                                   preexec_fn=ours.close)
        theirs.close()
        request.addfinalizer(lambda: end(process))
        request.addfinalizer(ours.close)
        return process, ours
    return start


def test_the_programs_compare_two_files_with_each_other(tmpdir, server, capsys):
    upstream = Site(tmpdir.join('upstream.fs'))
    upstream.commit(u'a', u'b')
    site = upstream.copy_to(tmpdir.join('site.fs'))
    upstream.commit(u'c')
    process, ours = server(upstream.path)
    status = program.main(['compare', site.path, 'node b', '--upstream-socket',
                           str(ours.fileno())])
    assert (0, module.compare(site.path, upstream.path)) == (
        status, program.json.loads(capsys.readouterr()[0]))
    ours.close()
    assert 0 == process.wait()


def test_a_server_that_is_killed_ends_the_comparison(tmpdir, server, capsys):
    upstream = Site(tmpdir.join('upstream.fs'))
    upstream.commit(u'a')
    process, ours = server(upstream.path)
    process.send_signal(signal.SIGSTOP)
    killer = threading.Timer(0.5, process.kill)
    killer.start()
    assert 11 == program.main(['compare', upstream.path, 'node b', '--upstream-socket',
                               str(ours.fileno())])
    killer.join()
    assert capsys.readouterr()[1].startswith('node b: the connection to it was lost: ')
