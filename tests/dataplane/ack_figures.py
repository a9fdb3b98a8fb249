"""What acknowledged commits cost: their rate, latency and CPU time beside asynchronous ones.

    bin/indico-python tests/dataplane/ack_figures.py [--rounds N] [--seconds S]
        [--clients N...] [--delays MS...] [--modes MODE...] [--away N]

It is no test.  For each delay of the network between primary and follower, each way, it starts a pair
of servers for each mode and client processes that are connected to all of them.  A round measures
each number of clients on each pair, in random order.  Ratios and differences are those to the
asynchronous pair in the same round; the table has medians and, in brackets, quartiles.  SIGINT or
SIGTERM ends the rounds of a delay; the table then has those that are complete.

At last it takes the follower away, --away times, and measures when commits are refused and when they
are accepted again.
"""
from __future__ import division, print_function

import argparse
import contextlib
import itertools
import json
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import py.path
import ZODB
import ZODB.config

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from indico_zodbrepl.dataplane.benchmarks.replication import (  # noqa: E402
    Commits, insist, measured)
import synchronous  # noqa: E402
from nodes import Node, commit, pickle_of  # noqa: E402
from processes import Processes, wait_for  # noqa: E402

ASYNCHRONOUS = 'asynchronous'
LEVELS = 'receive', 'write', 'fsync'
WARM_UP = 0.1  # seconds
TIMEOUT = 2  # seconds that commits wait for a follower that is away
FOLDER = os.path.dirname(os.path.abspath(__file__))

CLIENT = '''\
%%import ZEO
<clientstorage>
  server 127.0.0.1:%d
  wait-timeout 20
</clientstorage>
'''


def committing(name, paths):
    """Commit for seconds, to one of the storages, for each line of JSON: [path, seconds]."""
    told = os.dup(1)
    os.dup2(2, 1)  # libraries print too
    databases = dict((path, insist(lambda: ZODB.DB(ZODB.config.storageFromURL(path))))
                     for path in paths)
    os.write(told, 'ready\n')
    for line in iter(sys.stdin.readline, ''):
        path, seconds = json.loads(line)
        with contextlib.closing(databases[path].open()) as connection:
            work, warm_up = Commits(connection, 'small', name), itertools.count()
            work.pass_over(time.time() + WARM_UP, lambda begun, at, tid: next(warm_up))
            found = measured(work, seconds)
        del found['acknowledged']
        os.write(told, json.dumps(dict(found, warm_up=next(warm_up))) + '\n')
    os._exit(0)  # threads of storages may take their time


class Client(object):
    """A process with `committing`."""

    def __init__(self, name, paths):
        self._process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), '--as', name] + paths,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def wait(self):
        assert 'ready\n' == self._process.stdout.readline()

    def start(self, path, seconds):
        self._process.stdin.write(json.dumps([path, seconds]) + '\n')
        self._process.stdin.flush()

    def answer(self):
        return json.loads(self._process.stdout.readline())

    def close(self):
        self._process.stdin.close()
        self._process.wait()


class Pair(object):
    """A primary and a follower of one mode.

    Args:
        delay: seconds that the network takes, each way.
    """

    def __init__(self, processes, folder, mode, delay=0):
        folder = folder.ensure(mode, dir=True)
        options = ()
        if mode != ASYNCHRONOUS:
            options = synchronous.options(timeout=TIMEOUT, level=mode)
        self.primary = Node(processes, folder, 'a', listens=True, options=options)
        self.primary.start()
        self._proxy, upstream = None, self.primary
        if delay:
            self._proxy = subprocess.Popen(
                [sys.executable, os.path.join(FOLDER, 'link_proxy.py'),
                 str(self.primary.replication_port), str(delay)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            upstream = int(self._proxy.stdout.readline())
        self.follower = Node(processes, folder, 'b', upstream=upstream, options=options)
        self.follower.start()
        self.primary.wait_for_followers()
        self.path = str(folder.join('zodb.conf'))
        with open(self.path, 'w') as conf:
            conf.write(CLIENT % self.primary.port)

    def cpu(self):
        return [cpu_seconds(node.process.pid) for node in (self.primary, self.follower)]

    def close(self):
        if self._proxy is not None:
            self._proxy.stdin.close()
            self._proxy.wait()


def cpu_seconds(pid):
    """Return the CPU time of a process's threads, to the nanosecond; threads that ended don't count."""
    total, folder = 0, '/proc/%d/task' % pid
    for thread in os.listdir(folder):
        try:
            with open('%s/%s/schedstat' % (folder, thread)) as stat:
                total += int(stat.read().split()[0])
        except IOError:  # it has just ended
            pass
    return total / 1e9


def measure(pair, clients, seconds):
    """Return the figures of some seconds of commits."""
    before = pair.cpu()
    for each in clients:
        each.start(pair.path, seconds)
    answers = [each.answer() for each in clients]
    used = [after - at for after, at in zip(pair.cpu(), before)]
    operations = sum(each['operations'] for each in answers)
    commits = operations + sum(each['warm_up'] for each in answers)
    duration = max(each['ended'] for each in answers) - min(each['began'] for each in answers)
    latencies = sorted(each / 1000 for answer in answers for each in answer['latencies_us'])
    found = dict(('p%d' % part, latencies[part * len(latencies) // 100]) for part in (50, 90, 99))
    return dict(found, rate=operations / duration, primary=1000 * used[0] / commits,
                follower=1000 * used[1] / commits)


def run(options, delay):
    """Return the figures of all rounds with a delay: {(clients, mode): [figures of each round]}."""
    folder = py.path.local(tempfile.mkdtemp(prefix='ack-figures-'))
    processes, pairs, clients = Processes(folder), {}, []
    figures = dict(((count, mode), []) for count in options.clients for mode in options.modes)
    try:
        for mode in options.modes:
            pairs[mode] = Pair(processes, folder, mode, delay / 1000)
        paths = [pair.path for pair in pairs.values()]
        clients = [Client(str(number), paths) for number in range(max(options.clients))]
        for each in clients:
            each.wait()
        for _ in range(options.rounds):
            for count in random.sample(options.clients, len(options.clients)):
                for mode in random.sample(options.modes, len(options.modes)):
                    figures[count, mode].append(
                        measure(pairs[mode], clients[:count], options.seconds))
            print('.', end='', file=sys.stderr)
    except KeyboardInterrupt:
        complete = min(len(each) for each in figures.values())
        figures = dict((key, each[:complete]) for key, each in figures.items())
    finally:
        for each in clients:
            each.close()
        for pair in pairs.values():
            pair.close()
        processes.close()
        shutil.rmtree(str(folder))
    return figures


def quartiles(values, form='%.2f'):
    """Return text: median [first quartile, third quartile]."""
    ordered = sorted(values)
    return '%s [%s, %s]' % tuple(form % ordered[min(len(ordered) - 1, part * len(ordered) // 4)]
                                 for part in (2, 1, 3))


def show(figures, options, delay):
    if not all(figures.values()):
        return
    print('\nnetwork delay %g ms each way; %d rounds of %g s; load %.1f' % (
        delay, len(figures[options.clients[0], options.modes[0]]), options.seconds,
        os.getloadavg()[0]))
    print('%7s %-12s %9s %-19s %-19s %s %s %s %-20s %s' % (
        'clients', 'mode', 'commits/s', 'ratio', 'ratio of p50', ' p50 ms', ' p90 ms', ' p99 ms',
        'CPU of primary: +ms', 'of follower: ms'))
    for count in options.clients:
        control = figures[count, options.modes[0]]
        for mode in options.modes:
            found = figures[count, mode]

            def ratio(name):
                return quartiles(mine[name] / other[name] for mine, other in zip(found, control))

            def middle(name):
                return sorted(each[name] for each in found)[len(found) // 2]

            more = quartiles((mine['primary'] - other['primary']
                              for mine, other in zip(found, control)), '%+.3f')
            if mode == options.modes[0]:
                more = '%.3f in all' % middle('primary')
            print('%7d %-12s %9.1f %-19s %-19s %7.2f %7.2f %7.2f %-23s %.3f' % (
                count, mode, middle('rate'), ratio('rate'), ratio('p50'), middle('p50'),
                middle('p90'), middle('p99'), more, middle('follower')))
    sys.stdout.flush()


def away(level, times, take, bring):
    """Measure how soon commits are refused without a follower, and accepted with one again.

    Args:
        take, bring: called with the follower.
    """
    folder = py.path.local(tempfile.mkdtemp(prefix='ack-figures-'))
    processes = Processes(folder)
    refused, accepted = [], []
    try:
        pair = Pair(processes, folder, level)
        client = pair.primary.client()
        oid, _ = commit(client, pickle_of('first'))
        for _ in range(times):
            take(pair.follower)
            begun = time.time()
            while _commits(client, oid):
                pass
            refused.append(time.time() - begun)
            bring(pair.follower)
            wait_for(lambda: pair.primary.status()['followers'] and
                     pair.primary.last_tid() == pair.follower.last_tid(), 'the follower')
            begun = time.time()
            while not _commits(client, oid):
                time.sleep(0.01)
            accepted.append(time.time() - begun)
        client.close()
        pair.close()
    finally:
        processes.close()
        shutil.rmtree(str(folder))
    print('%-8s the last commit failed after %s s, at most %.2f (timeout %d s); commits were accepted '
          '%s s, at most %.2f, after it had caught up' % (
              level, quartiles(refused), max(refused), TIMEOUT, quartiles(accepted), max(accepted)))


def _commits(client, oid):
    try:
        commit(client, pickle_of(repr(time.time())), oid=oid)
        return True
    except Exception:  # refused, or its outcome is unknown
        return False


def main():
    if sys.argv[1:2] == ['--as']:
        return committing(sys.argv[2], sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--rounds', type=int, default=20)
    parser.add_argument('--seconds', type=float, default=1.0)
    parser.add_argument('--clients', type=int, nargs='+', default=[1, 4, 8, 16])
    parser.add_argument('--delays', type=float, nargs='*', default=[0, 1, 5], help='milliseconds')
    parser.add_argument('--modes', nargs='+', default=(ASYNCHRONOUS,) + LEVELS,
                        help='the first is compared to')
    parser.add_argument('--away', type=int, default=5, help='times')
    options = parser.parse_args()
    logging.getLogger().addHandler(logging.NullHandler())
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    for delay in options.delays:
        show(run(options, delay), options, delay)
    for what, take, bring in (
            ('killed', lambda node: node.process.kill(), lambda node: node.start()),
            ('frozen', lambda node: node.process.pause(), lambda node: node.process.resume())):
        if options.away:
            print('\nfollower %s' % what)
        for level in [each for each in LEVELS if each in options.modes and options.away]:
            away(level, options.away, take, bring)


if __name__ == '__main__':
    main()
