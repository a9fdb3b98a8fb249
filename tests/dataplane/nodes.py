"""ZRS nodes for tests: real servers, clients that commit, ways to compare."""
import contextlib
import json
import os
import socket
import struct

import transaction
import ZODB
import ZODB.blob
from persistent.mapping import PersistentMapping
from ZEO.ClientStorage import ClientStorage
from ZODB.Connection import TransactionMetaData
from ZODB.FileStorage import FileStorage
from ZODB.POSException import POSKeyError
from ZODB.serialize import ObjectWriter
from ZODB.utils import load_current, p64, u64, z64

from processes import FORKED, PATIENCE, free_ports, wait_for

SERVER = [FORKED, '-m', 'indico_zodbrepl.dataplane.server.main']

CONFIG = '''\
%%import zc.zrs
<zeo>
  address 127.0.0.1:%(port)d
  invalidation-queue-size 1000
  transaction-timeout %(transaction_timeout)d
</zeo>
%(storage)s
'''

FILESTORAGE = '''\
  <filestorage %(name)s>
    path %(data)s
    blob-dir %(blobs)s
  </filestorage>
'''


class Node(object):
    """One storage server with its folder.

    Args:
        processes: the fixture that starts and ends it.
        folder: py.path.local of its data.
        name: its name.
        upstream: the Node it follows, if any.
        listens: whether others may follow it.
        transaction_timeout: seconds.
        environment: dict, added to that of its server.
        options: added to its server's command line; may be changed before a start.
    """

    def __init__(self, processes, folder, name, upstream=None, listens=False,
                 transaction_timeout=60, environment=None, options=()):
        self.folder = folder.ensure(name, dir=True)
        self.name = name
        self.port, self.replication_port = free_ports(2)
        self.data = str(self.folder.join('Data.fs'))
        self.blobs = str(self.folder.join('blobs'))
        self.config = str(self.folder.join('zeo.conf'))
        self.process = None
        self._processes = processes
        self._transaction_timeout = transaction_timeout
        self._environment = environment
        self.options = list(options)
        self.configure(upstream, listens)

    def configure(self, upstream=None, listens=False):
        """Writes zeo.conf; neither upstream nor listens: no zc.zrs at all."""
        lines = []
        if listens:
            lines.append('  replicate-to 127.0.0.1:%d' % self.replication_port)
        if upstream is not None:
            lines.append('  replicate-from 127.0.0.1:%d'
                         % getattr(upstream, 'replication_port', upstream))
            lines.append('  keep-alive-delay 1')
        name = '' if lines else '1'
        storage = FILESTORAGE % dict(
            name=name, data=self.data, blobs=self.blobs)
        if lines:
            storage = '<zrs 1>\n%s\n%s</zrs>' % ('\n'.join(lines), storage)
        with open(self.config, 'w') as config:
            config.write(CONFIG % dict(
                port=self.port, storage=storage,
                transaction_timeout=self._transaction_timeout))

    def command(self, *more):
        return SERVER + ['-C', self.config, '--cluster', 'test', '--node',
                         self.name, '--epoch', '3', '--reconnect-delay', '0.2'
                         ] + self.options + list(more)

    def start(self, wait=True):
        self.process = self._processes.start(
            self.command(), self.name, self.port if wait else None, self._environment)
        if wait:
            self.ruok()  # its port is open before its control socket is there
        return self.process

    def ask(self, request):
        """Sends one status request; returns the JSON of storage "1"."""
        with contextlib.closing(self.connected(PATIENCE)) as connection:
            return answer_to(connection, request)

    def connected(self, seconds):
        """A connection to the storage port; what waits there for longer fails."""
        return socket.create_connection(('127.0.0.1', self.port), seconds)

    def control(self, **request):
        """Sends one request to the control socket; returns the answer."""
        peer = self.control_connection()
        try:
            peer.sendall(json.dumps(request) + '\n')
            return json.loads(peer.makefile('rb').readline())
        finally:
            peer.close()

    def control_connection(self):
        """A socket connected to the control socket, however long its path."""
        peer = socket.socket(socket.AF_UNIX)
        peer.settimeout(60)
        folder = os.open(str(self.folder), os.O_RDONLY)
        try:
            peer.connect('/proc/self/fd/%d/control.sock' % folder)
        finally:
            os.close(folder)
        return peer

    def ruok(self):
        return self.ask('ruok')

    def status(self):
        return self.ruok()['zodbrepl']

    def since(self, tid):
        return self.ask('since' + tid.encode('hex'))

    def history(self, tid):
        return self.ask('history' + tid.encode('hex'))

    def last_tid(self):
        return self.ruok()['last-transaction'].decode('hex')

    def wait_for_followers(self, count=1):
        wait_for(lambda: len(self.status()['followers']) == count,
                 '%d followers of %s' % (count, self.name))

    def wait_for_tid(self, tid):
        wait_for(lambda: self.last_tid() == tid,
                 'tid %s on %s' % (tid.encode('hex'), self.name))

    def client(self, patience=PATIENCE, **options):
        """A client storage.

        Args:
            patience: seconds that a call waits when the server is away later.
        """
        options.setdefault('blob_dir',
                           str(self.folder.ensure('client-blobs', dir=True)))
        client = ClientStorage(
            ('127.0.0.1', self.port), wait_timeout=PATIENCE, **options)
        client._server.timeout = patience
        return client

    def bytes(self):
        with open(self.data, 'rb') as data:
            return data.read()

    def tids(self):
        """The ids in the data file; the server must not be running."""
        storage = FileStorage(self.data, read_only=True)
        try:
            return [each.tid for each in storage.iterator()]
        finally:
            storage.close()

    def objects(self):
        """{oid: (tid, data, blob)}, current state of the data file."""
        storage = FileStorage(
            self.data, read_only=True, blob_dir=self.blobs)
        try:
            return object_states(storage)
        finally:
            storage.close()

    def blob_files(self):
        """{relative path: content} of the committed blobs."""
        found = {}
        for folder, _, names in os.walk(self.blobs):
            for name in names:
                if name.endswith('.blob'):
                    path = os.path.join(folder, name)
                    with open(path, 'rb') as blob:
                        found[os.path.relpath(path, self.blobs)] = blob.read()
        return found


def answer_to(connection, request):
    """Sends one status request; returns the JSON of storage "1"."""
    connection.sendall(struct.pack('>I', len(request)) + request)
    answer = connection.makefile('rb')
    protocol, status = [
        answer.read(struct.unpack('>I', answer.read(4))[0]) for _ in range(2)]
    assert 'Z5' == protocol
    return json.loads(status)['1']


def object_states(storage):
    """{oid: (tid, data, blob's content or None)} of a FileStorage.

    The state of an object whose creation was undone is None.
    """
    states = {}
    for oid in storage._index:
        try:
            data, tid = load_current(storage, oid)
        except POSKeyError:
            states[oid] = None
            continue
        blob = None
        if ZODB.blob.is_blob_record(data):
            with open(storage.loadBlob(oid, tid), 'rb') as content:
                blob = content.read()
        states[oid] = tid, data, blob
    return states


def commit(storage, data='', oid=None, extension=None, blob=None):
    """Commits one object, raw; returns its oid and its transaction's id.

    Args:
        oid: the object to replace, or to make; a new one unless given.
        extension: dict of extended information.
        blob: path of a file that becomes the object's blob.
    """
    serial = z64
    if oid is None:
        oid = storage.new_oid()
    else:
        try:
            serial = storage.getTid(oid)
        except POSKeyError:
            pass
    meta = TransactionMetaData(u'user', u'description', extension)
    storage.tpc_begin(meta)
    try:
        if blob is None:
            storage.store(oid, serial, data, '', meta)
        else:
            storage.storeBlob(oid, serial, BLOB_RECORD, blob, '', meta)
        storage.tpc_vote(meta)
        return oid, storage.tpc_finish(meta)
    except:  # noqa: E722 raised again
        storage.tpc_abort(meta)
        raise


def undo(db, manager, tid):
    """Undoes one transaction and returns the id of the one that undoes it."""
    db.undo(tid.encode('base64').rstrip('\n'), manager.get())
    manager.commit()
    return db.lastTransaction()


def write_everything(node, key=u'first'):
    """Commits of each kind through ZODB; returns the last transaction's id.

    Objects that are reachable and objects that are not, extension data, blobs
    (an empty one too), an undo, the undo of the undo, the undo of a creation.

    Args:
        key: where in the root the objects go; use each once.
    """
    db = ZODB.DB(node.client())
    manager = transaction.TransactionManager()
    connection = db.open(manager)
    try:
        root = connection.root()
        root[key] = PersistentMapping(text=u'one')
        manager.commit()
        root[key][u'text'] = u'G\xe4ste'
        manager.get().setExtendedInfo('request', key)
        manager.get().note(u'changed by %s' % key)
        manager.commit()
        root[key][u'gone'] = PersistentMapping()
        manager.commit()
        del root[key][u'gone']
        manager.commit()
        for size in (0, 1, 65536, 0, 200001):
            root[key][size] = blob = ZODB.blob.Blob()
            with blob.open('w') as opened:
                opened.write(size * 'b')
            manager.commit()
        root[key][u'text'] = u'a mistake'
        manager.commit()
        undo(db, manager, undo(db, manager, db.lastTransaction()))
        root[key][u'child'] = PersistentMapping(text=u'never was')
        manager.commit()
        undo(db, manager, db.lastTransaction())
        root[key][u'text'] = u'last'
        manager.commit()
        return db.lastTransaction()
    finally:
        connection.close()
        db.close()


def pickle_of(text):
    """A record as ZODB writes it: an object of class PersistentMapping."""
    mapping = PersistentMapping(text=text)
    mapping._p_oid = p64(1)
    return ObjectWriter().serialize(mapping)


def following_tid(tid):
    return p64(u64(tid) + 1)


def _blob_record():
    blob = ZODB.blob.Blob()
    blob._p_oid = p64(1)
    return ObjectWriter().serialize(blob)


BLOB_RECORD = _blob_record()
