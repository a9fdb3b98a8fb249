"""How small commits fare beside a large upload: latency on the primary, lag of a follower.

    bin/indico-python tests/dataplane/blob_figures.py [--rounds N] [--megabytes N] [--rate RATE]
        [NAME=SOURCE...]

It is no test.  Each SOURCE is the folder `src` of a checkout whose servers are measured under that
NAME; without one, those of this checkout.  Rounds of all are interleaved.  With --rate (such as
1gbit; needs root), primary and follower are in network namespaces of their own, with a line of that
rate between them.

A client commits one small object after the other.  A round measures its commits for some seconds
(`quiet`), then from the beginning of an upload until the follower has it (`upload`).  The lag of a
commit is the time from its acknowledgement until a client of the follower hears of it; 0 if it hears
earlier.
"""
from __future__ import division, print_function

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import py.path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from nodes import BLOB_RECORD, Node, commit, pickle_of  # noqa: E402
from processes import Processes, wait_for  # noqa: E402
from ZEO.ClientStorage import ClientStorage  # noqa: E402
from ZODB.utils import u64  # noqa: E402

QUIET = 3.0  # seconds
PAUSE = 0.005  # seconds between two small commits
PRIMARY, FOLLOWER = '10.213.7.1', '10.213.7.2'
NEVER = 60.0  # seconds in which everything arrives
OUR_OWN = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'src')


class Told(object):
    """What a client hears of; ClientStorage takes it for its database."""

    def __init__(self):
        self.arrivals = {}

    def invalidate(self, tid, oids):
        self.arrivals[u64(tid)] = time.time()

    def invalidateCache(self):
        pass

    def transform_record_data(self, data):
        return data

    untransform_record_data = transform_record_data


def committing(address, folder):
    """Commit until standard input ends; print [tid, begun, ended] of each commit."""
    client = ClientStorage(_parsed(address), blob_dir=folder)
    stopped = threading.Event()
    reader = threading.Thread(target=lambda: (sys.stdin.read(), stopped.set()))
    reader.daemon = True
    reader.start()
    oid, _ = commit(client, pickle_of('x'))
    print('ready')
    sys.stdout.flush()
    found = []
    while not stopped.is_set():
        begun = time.time()
        _, tid = commit(client, pickle_of(str(begun)), oid=oid)
        found.append((u64(tid), begun, time.time()))
        time.sleep(PAUSE)
    print(json.dumps(found))
    sys.stdout.flush()
    os._exit(0)


def watching(address, folder):
    """Print {tid: when it was heard of} for each line on standard input."""
    told = Told()
    client = ClientStorage(_parsed(address), read_only=True, blob_dir=folder)
    client.registerDB(told)
    print('ready')
    sys.stdout.flush()
    for _ in iter(sys.stdin.readline, ''):
        print(json.dumps(dict(told.arrivals)))
        sys.stdout.flush()
    os._exit(0)


def uploading(address, folder, path):
    """Upload a file when a line comes; print [tid, begun, ended]."""
    client = ClientStorage(_parsed(address), blob_dir=folder)
    print('ready')
    sys.stdout.flush()
    sys.stdin.readline()
    begun = time.time()
    _, tid = commit(client, BLOB_RECORD, blob=path)
    print(json.dumps((u64(tid), begun, time.time())))
    sys.stdout.flush()
    os._exit(0)


def _parsed(address):
    host, _, port = address.rpartition(':')
    return host, int(port)


class Line(object):
    """Two network namespaces with a line between them, or none at all without a rate."""

    def __init__(self, rate):
        self.names = rate and ['blobs%d%s' % (os.getpid(), end) for end in 'pf']
        if rate:
            self._connect(rate, *self.names)

    def _connect(self, rate, here, there):
        for name in self.names:
            _run('ip netns add %s' % name)
        _run('ip link add %s netns %s type veth peer name %s netns %s' % (
            'line0', here, 'line0', there))
        for name, address in zip(self.names, (PRIMARY, FOLLOWER)):
            for command in ('ip link set lo up', 'ip addr add %s/24 dev line0' % address,
                            'ip link set line0 up',
                            'tc qdisc add dev line0 root tbf rate %s burst 128k latency 50ms' % rate):
                _run('ip netns exec %s %s' % (name, command))

    def close(self):
        for name in self.names or ():
            subprocess.call(['ip', 'netns', 'del', name])

    def command(self, end, command):
        """Return a command that runs at an end: 0 the primary's, 1 the follower's."""
        if not self.names:
            return command
        return ['ip', 'netns', 'exec', self.names[end], sys.executable] + command[1:]

    def address(self, end, port):
        return '%s:%d' % ((PRIMARY, FOLLOWER)[end] if self.names else '127.0.0.1', port)


def _run(command):
    subprocess.check_call(command.split())


class Site(object):
    """A primary and a follower of one checkout, and what is measured on them."""

    def __init__(self, source, line, folder, processes):
        self._line, self._folder = line, folder
        environment = {'PYTHONPATH': os.path.abspath(source)}
        self._source = source
        self._children = []
        self.primary = self._node(processes, 'a', 0, environment, listens=True)
        self.follower = self._node(processes, 'b', 1, environment, upstream=self.primary)

    def _node(self, processes, name, end, environment, **options):
        node = Node(processes, self._folder, name, environment=environment, **options)
        with open(node.config) as config:
            text = config.read()
        if self._line.names:
            text = text.replace('replicate-from 127.0.0.1', 'replicate-from ' + PRIMARY)
            text = text.replace('127.0.0.1', (PRIMARY, FOLLOWER)[end])
        with open(node.config, 'w') as config:
            config.write(text)
        node.process = processes.start(
            self._line.command(end, node.command()), name, env=environment)
        wait_for(lambda: self._answers(name, end, node.port), name)
        return node

    def _answers(self, name, end, port):
        script = ('import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 1)')
        host, port = _parsed(self._line.address(end, port))
        with open(os.devnull, 'w') as nothing:
            return 0 == subprocess.call(self._line.command(end, [
                sys.executable, '-c', script, host, str(port)]), stderr=nothing)

    def child(self, role, end, node, *more):
        folder = str(self._folder.ensure('client-%s' % role, dir=True))
        child = subprocess.Popen(
            self._line.command(end, [sys.executable, os.path.abspath(__file__), '--as', role,
                                     self._line.address(end, node.port), folder] + list(more)),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._children.append(child)
        assert 'ready\n' == child.stdout.readline()
        return child

    def close(self):
        for child in self._children:
            if child.poll() is None:
                child.kill()
            child.wait()


def measured(source, line, megabytes):
    """Run one round; return {situation: {figure: value}}."""
    folder = py.path.local(tempfile.mkdtemp(prefix='blob-figures-'))
    processes = Processes(folder)
    try:
        path = str(folder.join('upload'))
        block = os.urandom(1 << 20)
        with open(path, 'wb') as upload:
            for _ in range(megabytes):
                upload.write(block)
        with contextlib.closing(Site(source, line, folder, processes)) as site:
            watcher = site.child('watching', 1, site.follower)
            committer = site.child('committing', 0, site.primary)
            uploader = site.child('uploading', 0, site.primary, path)
            time.sleep(QUIET)
            uploader.stdin.write('\n')
            tid, begun, ended = json.loads(uploader.stdout.readline())
            wait_for(lambda: str(tid) in _arrivals(watcher), 'the upload on the follower', NEVER)
            commits = json.loads(committer.communicate()[0])
            last = str(commits[-1][0])
            arrivals = wait_for(lambda: last in _arrivals(watcher) and _arrivals(watcher),
                                'the last commit on the follower', NEVER)
    finally:
        processes.close()
        shutil.rmtree(str(folder))
    arrived = arrivals[str(tid)]
    lags = [(at, 1000 * max(0, arrivals[str(each)] - end), 1000 * (end - at))
            for each, at, end in commits]
    quiet = [each for each in lags if each[0] < begun][len(lags) // 50:]
    upload = [each for each in lags if begun <= each[0] <= max(ended, arrived)]
    found = dict((name, _summary(values)) for name, values in (('quiet', quiet), ('upload', upload)))
    found['upload'].update({'upload s': ended - begun, 'upload lag ms': 1000 * max(0, arrived - ended)})
    return found


def _arrivals(watcher):
    watcher.stdin.write('\n')
    return json.loads(watcher.stdout.readline())


def _summary(values):
    found = {'commits': len(values)}
    for name, index in (('lag', 1), ('commit', 2)):
        ordered = sorted(each[index] for each in values)
        for percent in (50, 99, 100):
            found['%s p%d ms' % (name, percent)] = (
                ordered[min(len(ordered) - 1, percent * len(ordered) // 100)] if ordered else 0.0)
    return found


def median(values):
    return sorted(values)[len(values) // 2]


def main():
    if sys.argv[1:2] == ['--as']:
        return globals()[sys.argv[2]](*sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--megabytes', type=int, default=100)
    parser.add_argument('--rate')
    parser.add_argument('sources', nargs='*', metavar='NAME=SOURCE')
    options = parser.parse_args()
    sources = [each.partition('=')[::2] for each in options.sources] or [('this', OUR_OWN)]
    rounds = dict((name, []) for name, _ in sources)
    line = Line(options.rate)
    try:
        for number in range(options.rounds):
            for name, source in sources[::1 if number % 2 else -1]:
                rounds[name].append(measured(source, line, options.megabytes))
                print('.', end='', file=sys.stderr)
    finally:
        line.close()
    print('\n%d rounds, %d MB, load %.1f; median [least, most]' % (
        options.rounds, options.megabytes, os.getloadavg()[0]))
    first = sources[0][0]
    for situation in ('quiet', 'upload'):
        for figure in sorted(rounds[first][0][situation]):
            cells = []
            for name, _ in sources:
                values = [each[situation][figure] for each in rounds[name]]
                cell = '%s %.2f [%.2f, %.2f]' % (name, median(values), min(values), max(values))
                if name != first:
                    ratios = [mine[situation][figure] / other[situation][figure]
                              for mine, other in zip(rounds[name], rounds[first])
                              if other[situation][figure]]
                    cell += ' ratio %.2f' % median(ratios) if ratios else ''
                cells.append(cell)
            print('%-7s %-14s %s' % (situation, figure, '; '.join(cells)))


if __name__ == '__main__':
    main()
