"""Plain ZEO servers on copies of one small database, for tests of clients."""
import shutil

import transaction
import ZODB.config
from persistent.mapping import PersistentMapping
from ZODB.DB import DB
from ZODB.FileStorage import FileStorage

from processes import FORKED, free_ports

CONFIG = '''\
<zeo>
  address 127.0.0.1:%(port)d
</zeo>
<filestorage 1>
  path %(data)s
  read-only %(read_only)s
</filestorage>
'''

IMPORTS = '%import ZEO\n%import indico_zodbrepl.dataplane\n'
CLIENT = '''\
<clientstorage>
%s  read-only-fallback true
  wait-timeout %d
</clientstorage>
'''


def make_database(path):
    """Makes a Data.fs with a root and one more object, `thing`."""
    db = DB(FileStorage(str(path)))
    connection = db.open()
    connection.root()['thing'] = PersistentMapping(answer=42)
    transaction.commit()
    connection.close()
    db.close()


class ZEOServer(object):
    """A runzeo process that can be killed and started again.

    Args:
        processes: the fixture that starts and ends it.
        folder: py.path.local for its data.
        data: a Data.fs to copy; without it the server makes its own.
    """

    def __init__(self, processes, folder, data=None):
        self.folder = folder.ensure(dir=True)
        self.data = str(self.folder.join('Data.fs'))
        if data is not None:
            shutil.copy(str(data), self.data)
        self.port, = free_ports(1)
        self.process = None
        self._processes = processes

    def start(self, read_only=False):
        config = self.folder.join('zeo.conf')
        config.write(CONFIG % {
            'port': self.port, 'data': self.data,
            'read_only': 'true' if read_only else 'false'})
        self.process = self._processes.start(
            [FORKED, '-m', 'ZEO.runzeo', '-C', str(config)],
            name='zeo', port=self.port)

    def kill(self):
        self.process.kill()


def client_config(servers, wrapped=True, wait=30, **options):
    """The storage configuration of a client with read-only fallback.

    Args:
        servers: ZEOServers or other objects with a `port`.
        wrapped: whether `<indicostorage>` is around it.
        wait: seconds to wait for a server.
        options: further keys of `<clientstorage>`, `_` for `-`.
    """
    lines = ''.join('  server 127.0.0.1:%d\n' % each.port
                    for each in servers)
    lines += ''.join('  %s %s\n' % (key.replace('_', '-'), value)
                     for key, value in sorted(options.items()))
    client = CLIENT % (lines, wait)
    if wrapped:
        client = '<indicostorage>\n%s</indicostorage>\n' % client
    return IMPORTS + client


def open_client(servers, wrapped=True, **options):
    """Opens the storage of `client_config`."""
    return ZODB.config.storageFromString(
        client_config(servers, wrapped, **options))
