"""No client reads what its new server never had, nor a mixture of two histories.

Server a acknowledges transactions that b never receives, and dies; b takes over.
"""
import shutil
import time

import pytest
import transaction
import ZODB.blob
from persistent.mapping import PersistentMapping
from persistent.TimeStamp import TimeStamp
from ZEO.Exceptions import ClientDisconnected
from ZODB.DB import DB
from ZODB.FileStorage import FileStorage

from nodes import Node
from processes import wait_for
from zeo_servers import ZEOServer, open_client

AHEAD = 3600  # seconds, of a's clock


def stock_server(processes, folder, name):
    return ZEOServer(processes, folder.join(name))


def our_server(processes, folder, name):
    server = Node(processes, folder, name, listens=True)
    server.kill = lambda: server.process.kill()
    return server


each_kind = pytest.mark.parametrize(
    'pair', [pytest.param(stock_server, marks=pytest.mark.exhaustive), our_server], indirect=True)


@pytest.fixture
def pair(request, processes, tmpdir):
    """Two servers that hold the same pair, x and y; neither runs."""
    make = getattr(request, 'param', our_server)
    a, b = [make(processes, tmpdir, name) for name in 'ab']
    db = DB(FileStorage(a.data))
    with db.transaction() as connection:
        connection.root()['x'] = PersistentMapping(value=0)
        connection.root()['y'] = PersistentMapping(value=0)
    db.close()
    shutil.copy(a.data, b.data)
    return a, b


@pytest.fixture
def servers(pair):
    """As `pair`, and a runs."""
    pair[0].start()
    return pair


class Client(object):
    """A database on some servers, with a transaction manager of its own."""

    def __init__(self, servers, **options):
        self.storage = open_client(servers, **options)
        self.db = DB(self.storage)
        self.manager = transaction.TransactionManager()
        self.connection = self.db.open(self.manager)

    def begin(self):
        self.manager.begin()
        return self.connection.root()

    def set(self, value, *names):
        """Commits a value of x and y, or of some of them."""
        root = self.begin()
        for name in names or 'xy':
            root[name]['value'] = value
        self.manager.commit()

    def values(self):
        root = self.begin()
        return root['x']['value'], root['y']['value']

    def close(self):
        self.manager.abort()
        self.connection.close()
        self.db.close()

    def wait_for_reconnection(self, since):
        wait_for(lambda: self.storage._connection_generation >= since + 2
                 and self.storage.is_connected(), 'the reconnection')


@pytest.fixture
def client():
    """Opens `Client`s that are closed with the test."""
    opened = []

    def call(*args, **options):
        opened.append(Client(*args, **options))
        return opened[-1]
    yield call
    for each in opened:
        if hasattr(each.db, 'storage'):
            each.close()


@each_kind
def test_a_cache_on_disk_is_dropped_if_its_last_transaction_is_lost(
        servers, client, tmpdir):
    a, b = servers
    path = str(tmpdir.join('reader.zec'))
    client([a]).set('lost')
    reader = client([a], cache_path=path)
    assert ('lost', 'lost') == reader.values()
    reader.close()
    a.kill()
    b.start()
    client([b]).set('newer', 'x')
    assert ('newer', 0) == client([b], cache_path=path).values()


@each_kind
def test_a_cache_on_disk_is_kept_if_its_last_transaction_is_not_lost(
        servers, client, tmpdir):
    a, _ = servers
    path = str(tmpdir.join('reader.zec'))
    client([a]).set(1)
    reader = client([a], cache_path=path)
    assert (1, 1) == reader.values()
    reader.close()
    a.kill()
    a.start()
    client([a]).set(2, 'x')
    reader = client([a], cache_path=path)
    reader.begin()
    loads = []
    protocol = reader.storage.base._server.client.protocol
    load_before = protocol.load_before
    protocol.load_before = lambda oid, tid: loads.append(oid) or load_before(oid, tid)
    assert (2, 1) == reader.values()
    assert [reader.connection.root()['x']._p_oid] == loads


@each_kind
def test_a_client_that_stays_drops_its_cache_if_a_backup_took_the_place_of_its_server(
        servers, client, tmpdir):
    """It meets newer transactions there, so that it cannot tell by the last one."""
    a, b = servers
    reader = client([a])
    generation = reader.storage._connection_generation
    reader.set('lost')
    a.kill()
    for left in tmpdir.join('a').listdir('Data.fs*'):
        left.remove()
    db = DB(FileStorage(b.data))
    with db.transaction() as connection:
        connection.root()['x']['value'] = 'newer'
    db.close()
    shutil.copy(b.data, a.data)
    a.start()
    reader.wait_for_reconnection(generation)
    assert ('newer', 0) == reader.values()


def test_a_record_newer_than_the_last_transaction_of_a_cache_is_not_kept(
        servers, client, tmpdir):
    """A client that is killed while it saves may leave such a record."""
    a, b = servers
    path = str(tmpdir.join('reader.zec'))
    reader = client([a], cache_path=path)
    reader.values()
    known = reader.storage.lastTransaction()
    client([a]).set('lost')
    wait_for(lambda: ('lost', 'lost') == reader.values(), 'what is lost later')
    reader.close()
    with open(path, 'r+b') as cache:
        cache.seek(4)
        cache.write(known)
    a.kill()
    b.start()
    client([b]).set('newer', 'x')
    assert ('newer', 0) == client([b], cache_path=path).values()


def test_a_lost_file_in_the_blob_cache_is_not_read(processes, client, tmpdir):
    a, b = [our_server(processes, tmpdir, name) for name in 'ab']
    a.start()
    options = dict(blob_dir=str(tmpdir.join('cached')), cache_path=str(tmpdir.join('c.zec')))

    def save(server, content):
        writer = client([server], blob_dir=str(tmpdir.mkdir(content)))
        writer.begin()['file'] = PersistentMapping(blob=ZODB.blob.Blob(content))
        writer.manager.commit()
        writer.close()

    def read(server):
        reader = client([server], **options)
        with reader.begin()['file']['blob'].open() as content:
            found = content.read()
        reader.close()
        return found

    save(a, 'shared')
    shutil.copy(a.data, b.data)
    shutil.copytree(a.blobs, b.blobs)
    save(a, 'lost')
    assert 'lost' == read(a)
    a.kill()
    b.start()
    save(b, 'newer')
    assert 'newer' == read(b)


@pytest.fixture
def taken_over(pair, client):
    """A client that saved 1 on a, whose clock is ahead; on b x and y are 0."""
    a, b = pair
    storage = FileStorage(a.data)
    begin = storage.tpc_begin
    tid = TimeStamp(*time.gmtime(time.time() + AHEAD)[:6]).raw()
    storage.tpc_begin = lambda meta: begin(meta, tid)
    db = DB(storage)
    with db.transaction() as connection:
        connection.root()['clock'] = AHEAD
    db.close()
    a.start()
    reader = client([a, b])
    reader.set(1)
    return reader


def take_over(reader, a, b):
    generation = reader.storage._connection_generation
    a.kill()
    b.start()
    reader.wait_for_reconnection(generation)


def test_transactions_after_a_loss_read_one_moment_each(pair, client, taken_over):
    take_over(taken_over, *pair)
    writer = client([pair[1]])
    for value in range(2, 5):
        root = taken_over.begin()
        x = root['x']['value']
        writer.set(value)
        wait_for(lambda: taken_over.storage.lastTransaction()
                 == writer.storage.lastTransaction(), 'what is new')
        assert x == root['y']['value']
        assert (value, value) == taken_over.values()


@pytest.mark.parametrize('begins', ['connected', 'without a server'])
def test_a_transaction_that_began_before_a_loss_reads_nothing_more(
        pair, client, taken_over, begins):
    a, b = pair
    generation = taken_over.storage._connection_generation
    root = taken_over.begin()
    root['y']._p_deactivate()
    a.kill()
    if begins != 'connected':
        wait_for(lambda: not taken_over.storage.is_connected(), 'the loss')
        root = taken_over.begin()
        root['y']._p_deactivate()
    assert 1 == root['x']['value']
    b.start()
    taken_over.wait_for_reconnection(generation)
    client([b]).set(3)
    with pytest.raises(ClientDisconnected, match='before transactions were lost'):
        root['y']['value']
    wait_for(lambda: (3, 3) == taken_over.values(), 'what is new')


def test_a_commit_that_meets_the_new_server_is_refused_and_blocks_no_other(
        pair, taken_over):
    """It waited for a writable server, where it would be the first transaction."""
    storage = taken_over.storage
    taken_over.begin()['x']['value'] = 'of the lost y'
    begin = storage.tpc_begin

    def begin_on_the_new_server(meta):
        storage.tpc_begin = begin
        take_over(taken_over, *pair)
        begin(meta)

    storage.tpc_begin = begin_on_the_new_server
    with pytest.raises(ClientDisconnected, match='before transactions were lost'):
        taken_over.manager.commit()
    taken_over.manager.abort()
    taken_over.set(2)
    assert (2, 2) == taken_over.values()
