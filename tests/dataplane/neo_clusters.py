"""Real NEO clusters for tests: each process can be ended, frozen and started again."""
import contextlib

import ZODB.config

from indico_zodbrepl.dataplane.neo import orders
from indico_zodbrepl.dataplane.neo.control import Control, Failed
from indico_zodbrepl.dataplane.neo.state import describe

from processes import PATIENCE, Processes, free_ports, listens, wait_for

NAME = 'tested'
STOCK_MASTER = 'import sys; from neo.scripts.neomaster import main; main(sys.argv[1:])'
CLIENT = '''\
%%import indico_zodbrepl.dataplane
%%import indico_zodbrepl.dataplane.neo
<indicostorage>
  <neo>
%s    cluster tested
    wait-timeout %g
    answer-limit %g
%s  </neo>
</indicostorage>
'''


class NEOCluster(object):
    """A cluster on free ports; nothing runs before `start`.

    Args:
        folder: py.path.local, for data and logs.
        masters, storages, replicas: how many.
        stock_masters: whether the masters are NEO's own, without our repairs.
        quorate: whether they need a majority, as on several hosts.

    Attributes:
        addresses: of each process by name: m0, m1..., s0, s1..., a.
        running: the Process of each name.
    """

    def __init__(self, folder, masters=1, storages=2, replicas=1, stock_masters=False,
                 quorate=False):
        self._stock_masters = stock_masters
        self._majority = ['--majority', str(masters // 2 + 1)] if quorate else []
        self.folder = folder.ensure(dir=True)
        self.processes = Processes(self.folder)
        self.masters = ['m%d' % each for each in range(masters)]
        self.storages = ['s%d' % each for each in range(storages)]
        names = self.masters + self.storages + ['a']
        self.addresses = dict(
            (name, ('127.0.0.1', port))
            for name, port in zip(names, free_ports(len(names))))
        self.running = {}
        self.conf = self.folder.join('neo.conf')
        lines = ['[DEFAULT]', 'cluster: %s' % NAME, 'replicas: %d' % replicas,
                 'partitions: 4']
        for name in names:
            lines += ['[%s]' % name, 'bind: %s' % self.written(name)]
            if name in self.storages:
                lines += ['adapter: SQLite',
                          'database: %s' % self.data(name).join('neo.sqlite')]
        self.conf.write('\n'.join(lines) + '\n')

    def written(self, name):
        return '%s:%d' % self.addresses[name]

    def data(self, name):
        """The data folder of a process."""
        return self.folder.join('data-' + name).ensure(dir=True)

    def start(self, *names):
        """Starts processes, all of them by default, and waits until they listen."""
        roles = {'m': 'master', 's': 'storage', 'a': 'admin'}
        names = names or self.masters + self.storages + ['a']
        for name in names:
            command = ['python', '-m', 'indico_zodbrepl.dataplane.neo.process']
            if name in self.storages:
                command += ['--sqlite', str(self.data(name).join('neo.sqlite'))]
            command += self._majority + [roles[name[0]], str(self.data(name))]
            if self._stock_masters and name in self.masters:
                command = ['python', '-c', STOCK_MASTER]
            self.running[name] = self.processes.start(
                command + ['-f', str(self.conf), '-s', name, '-m',
                           ' '.join(self.written(each) for each in self.masters)],
                name=name)
        for name in names:
            wait_for(lambda name=name: listens(self.addresses[name][1]), name)

    def control(self, limit=10.0):
        return contextlib.closing(Control(self.addresses['a'], limit))

    def found(self):
        """Starts all processes and the cluster."""
        self.start()
        with self.control() as control:
            orders.start(control, [self.addresses[each] for each in self.storages], PATIENCE)

    def state(self):
        """What the cluster says of itself; None while it does not answer."""
        with self.control() as control:
            try:
                return describe(control)
            except Failed:
                return None

    def state_of(self, name):
        """NEO's word for the state of one process; None when the cluster does not know it."""
        for node in (self.state() or {'nodes': ()})['nodes']:
            if node['address'] == self.written(name):
                return node['state']
        return None

    def wait_until_whole(self):
        """Waits until every storage runs and has all that it should."""
        def whole():
            state = self.state()
            return state and state['partitions'] and not any(
                set(cells) - set(['up_to_date'])
                for cells in state['partitions']['cells'].values()) and all(
                    self.state_of(each) == 'RUNNING' for each in self.storages)
        wait_for(whole, 'the whole cluster')

    def primary(self):
        """The name of the primary master."""
        state = self.state()
        return next(name for name in self.masters
                    if self.written(name) == state['primary'])

    def configuration(self, wait=10.0, limit=15.0, more=''):
        """A client's configuration; `more` are further lines of the section."""
        masters = ''.join('    master %s\n' % self.written(each) for each in self.masters)
        return CLIENT % (masters, wait, limit, more)

    def open(self, **options):
        """Opens a client's storage from a file, as Indico does; see `configuration`."""
        conf = self.folder.join('zodb.conf')
        conf.write(self.configuration(**options))
        return ZODB.config.storageFromURL(str(conf))

    def close(self):
        self.processes.close()
