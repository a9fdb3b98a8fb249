"""A database with the file repositories of Indico, and an archive, for tests of `uploads`."""
import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys

import ZODB.config
from BTrees.OOBTree import OOBTree
from persistent import Persistent
from persistent.mapping import PersistentMapping
from ZODB.blob import Blob
from ZODB.DB import DB

from indico_zodbrepl.dataplane.uploads.entries import FILES

from nodes import Node

CLIENT = '''\
%%import indico_zodbrepl.dataplane
%%import ZEO
<indicostorage>
  <clientstorage>
    server 127.0.0.1:%d
    blob-dir %s
    shared-blob-dir false
    blob-cache-size 1GB
    wait-timeout 30
  </clientstorage>
</indicostorage>
'''
SQLITE = '''\
%%import indico_zodbrepl.dataplane
%%import relstorage
<indicostorage>
  <relstorage>
    <sqlite3>
      data-dir %s
    </sqlite3>
    blob-dir %s
    shared-blob-dir %s
  </relstorage>
</indicostorage>
'''


class Repository(Persistent):
    """Stands for Indico's, whose class the program does not need."""

    def __init__(self):
        setattr(self, FILES, OOBTree())


class UploadSite(object):
    """A storage server with repositories, and a folder with files.

    Args:
        processes: the fixture that starts and ends the server.
        folder: py.path.local.
        count: files in the archive, of 1000 bytes and more.
    """

    def __init__(self, processes, folder, count=10):
        self.folder = folder
        self.archive = folder.ensure('archive', dir=True)
        self.serve(processes)
        self.conf = self.write_conf(folder)
        self.written = {}  # id: content
        with self.root() as root:
            root['rootCategory'] = PersistentMapping()
            root['local_repositories'] = OOBTree(
                {'main': Repository(), 'offline': Repository()})
            for number in range(count):
                self.upload(root, number)

    def serve(self, processes):
        self.node = Node(processes, self.folder, 'a')
        self.node.start()

    def write_conf(self, folder):
        conf = folder.join('zodb.conf')
        conf.write(CLIENT % (self.node.port, folder.ensure('cache', dir=True)))
        return conf

    @contextlib.contextmanager
    def root(self):
        """The root of the database; what the block changes is committed."""
        with contextlib.closing(DB(ZODB.config.storageFromURL(str(self.conf)))) as db:
            with db.transaction() as connection:
                yield connection.root()

    def files(self, root, name='main'):
        return getattr(root['local_repositories'][name], FILES)

    def upload(self, root, number, content=None):
        """Puts a file into the archive and its entry into the database; returns its id."""
        key = str(number)
        content = content or ('%d ' % number) * (1000 + number)
        path = os.path.join('2026', 'C%d' % (number // 5), key, 'talk %s.pdf' % key)
        self.archive.join(path).write(content, 'wb', ensure=True)
        self.files(root)[key] = path
        self.written[key] = content
        return key

    def command(self, name, *options):
        return [sys.executable, '-m', 'indico_zodbrepl.dataplane.uploads', name, str(self.conf),
                '--archive', str(self.archive)] + list(options)

    def run(self, name, *options):
        """Runs the program; returns its exit status, its answer or None, and standard error."""
        program = subprocess.Popen(self.command(name, *options), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        output, error = program.communicate()
        return program.returncode, json.loads(output) if output else None, error

    def done(self, name, *options):
        """Runs the program, which has to succeed; returns its answer."""
        status, said, error = self.run(name, *options)
        assert 0 == status, error
        return said

    def entries(self):
        """{id: path of an archived file, or (path, content, size, sha256) of one in the database}."""
        with self.root() as root:
            return dict((key, value if isinstance(value, str) else _read(value))
                        for key, value in self.files(root).items())

    def assert_right(self, imported=None):
        """Checks that every entry has the content that was uploaded, in its one place or the other."""
        found = self.entries()
        assert sorted(self.written) == sorted(found)
        stored = 0
        for key, value in found.items():
            if isinstance(value, str):
                assert self.written[key] == self.archive.join(value).read('rb'), key
                continue
            stored += 1
            path, content, size, sha256 = value
            assert self.written[key] == content, key
            assert (len(content), hashlib.sha256(content).hexdigest()) == (size, sha256)
        if imported is not None:
            assert imported == stored

    def blob_file(self, key):
        """The path of a stored file on the server."""
        with self.root() as root:
            blob = self.files(root)[key][1]
            blob._p_activate()
            oid, tid = blob._p_oid, blob._p_serial
        names = ['0x%02x' % ord(byte) for byte in oid]
        return os.path.join(self.node.blobs, *(names + ['0x%s.blob' % tid.encode('hex')]))

    def forget_cache(self):
        shutil.rmtree(str(self.folder.join('cache')))
        self.folder.ensure('cache', dir=True)


class SQLiteSite(UploadSite):
    """The same on RelStorage with SQLite.

    Args:
        shared: whether the files are in a folder of all clients, and not in the database.
    """

    def __init__(self, processes, folder, shared):
        self._shared = shared
        super(SQLiteSite, self).__init__(processes, folder)

    def serve(self, processes):
        """SQLite has no server."""

    def write_conf(self, folder):
        conf = folder.join('zodb.conf')
        conf.write(SQLITE % (folder.join('sqlite'), folder.ensure('cache', dir=True),
                             'true' if self._shared else 'false'))
        return conf


def _read(value):
    path, blob, size, sha256, created = value
    assert isinstance(blob, Blob) and isinstance(created, float)
    with blob.open('r') as opened:
        return path, opened.read(), size, sha256
