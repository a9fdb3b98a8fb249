"""Kills of a primary that acknowledges commits when its follower has them, and what is missing then.

    bin/indico-python tests/dataplane/ack_faults.py [--rounds N] [--levels LEVEL...] [--seed N]
        [FAULT...]

runs rounds of faults for each level, and as a control without acknowledgements, and prints a table.
In a round several clients commit to a primary with a follower, and others read, until the primary is
killed and the follower promoted.  The table counts transactions:

- acknowledged: a client was told that it was saved;
- missing: of these, the promoted follower lacks it;
- seen, lost: a client had read it or was told of it, and the promoted follower lacks it;
- in doubt: on the killed primary's disk and never acknowledged; the promoted follower has it, or not.

A round fails if the follower's history is no beginning of the primary's.
"""
from __future__ import division, print_function

import argparse
import collections
import functools
import logging
import os
import random
import sys
import time

if __name__ == '__main__':
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from ZEO.ClientStorage import ClientStorage  # noqa: E402
from ZODB.POSException import ConflictError, POSKeyError  # noqa: E402
from ZODB.utils import load_current, p64, z64  # noqa: E402

import synchronous  # noqa: E402
from fault_rounds import Pair, Reporter, report, rounds  # noqa: E402
from nodes import commit, pickle_of  # noqa: E402
from processes import wait_for  # noqa: E402

ASYNCHRONOUS = 'asynchronous'
LEVELS = 'receive', 'write', 'fsync'
WRITERS = 'small', 'small', 'shared', 'shared', 'large'
READERS = 'follow', 'connect'
SHARED = 1
"""The object that the `shared` writers change; the others have objects of their own."""
OBJECTS = 1 + len(WRITERS)
LARGE = 300000  # bytes
CALL = 1  # seconds that a call waits while the server is away
START = 60  # seconds until a client's first connection, on a busy machine
TIMEOUT = 30  # seconds that commits wait for the follower
DELAY = 0.005  # seconds, of the link that dies with its host


def connected(port, folder, patience=START, **options):
    client = ClientStorage(
        ('127.0.0.1', int(port)), blob_dir=folder, wait_timeout=patience, **options)
    client._server.timeout = CALL
    return client


def write(port, folder, kind, number):
    """Commit until the server is gone; report the id of each transaction that is acknowledged."""
    client = connected(port, folder)
    oid = p64(SHARED if kind == 'shared' else SHARED + 1 + int(number))
    count = 0
    while True:
        count += 1
        data = pickle_of('x' * (LARGE if kind == 'large' and count % 10 == 0 else 200))
        try:
            _, tid = commit(client, data, oid=oid)
        except ConflictError:
            time.sleep(0.002)  # until the client is told of the other transaction
            continue
        report('acknowledged', tid.encode('hex'))


class Seen(object):
    """Reports each transaction once that a client sees, and how."""

    def __init__(self):
        self._newest = {}

    def __call__(self, how, tid):
        if tid > self._newest.get(how, z64):
            self._newest[how] = tid
            report('seen', tid.encode('hex'), how)


def follow(port, folder):
    """Read with one client, as an instance of Indico does; report what it sees."""
    client, seen = connected(port, folder, read_only=True), Seen()
    while client.is_connected():
        seen('lastTransaction', client.lastTransaction())
        for number in range(SHARED, SHARED + OBJECTS):
            _, tid = load_current(client, p64(number))
            seen('load', tid)
        client.sync()
        time.sleep(0.001)


def connect(port, folder):
    """Read in each other way, with a client that is new each time; report what it sees."""
    seen, last, patience = Seen(), z64, START
    while True:
        client = connected(port, folder, patience, read_only=True)
        patience = CALL
        try:
            seen('lastTransaction', client.lastTransaction())
            for number in range(SHARED, SHARED + OBJECTS):
                oid = p64(number)
                seen('load', load_current(client, oid)[1])
                seen('getTid', client._call('getTid', oid))
                latest = client.history(oid)[0]['tid']
                seen('history', latest)
                client.loadSerial(oid, latest)
            seen('undoLog', client.undoLog(0, -1)[0]['id'].decode('base64'))
            for each in client.iterator(start=last):
                last = each.tid
                seen('iterator', last)
        finally:
            client.close()


class Round(Pair):
    """A pair whose primary is killed while clients use it."""

    def __init__(self, level, delay, processes, folder):
        options = ()
        if level != ASYNCHRONOUS:
            options = synchronous.options(timeout=TIMEOUT, level=level)
        Pair.__init__(self, processes, folder, options, delay)
        client = self.primary.client()
        for number in range(SHARED, SHARED + OBJECTS):
            _, self._first = commit(client, pickle_of('first'), oid=p64(number))
        client.close()
        self._reporters = []

    def start_clients(self):
        roles = [('write', kind, number) for number, kind in enumerate(WRITERS)]
        for role in roles + [(each,) for each in READERS]:
            folder = self.folder.ensure('client-%d' % len(self._reporters), dir=True)
            self._reporters.append(Reporter(
                self.processes, __file__, '--as', role[0], self.primary.port, folder, *role[1:]))

    def reported(self, kind):
        return [words for each in self._reporters for words in each.reports(kind)]

    def wait_for_commits(self):
        wait_for(lambda: all(each.reports('acknowledged') for each in self._reporters[:len(WRITERS)])
                 and all(each.reports('seen') for each in self._reporters[len(WRITERS):]),
                 'commits of all clients')

    def wait_for_clients(self):
        for each in self._reporters:
            each.wait()

    def found(self, killed):
        """Return the `Found` of the promoted follower.

        Args:
            killed: the former primary.
        """
        # Answers that the killed server has sent may be under way.
        self.wait_for_clients()
        self.primary.process.kill()
        self.proxy.close()
        old, new = killed.tids(), self.primary.tids()
        assert new == old[:len(new)], 'the follower has another history'
        has, beginning = set(new), old.index(self._first) + 1
        acknowledged = set(tid.decode('hex') for tid, in self.reported('acknowledged'))
        assert acknowledged <= set(old)
        seen = [(tid.decode('hex'), how) for tid, how in self.reported('seen')]
        doubtful = set(old[beginning:]) - acknowledged
        return Found(
            len(acknowledged), len(acknowledged - has),
            sorted(set(how for tid, how in seen if tid not in has)),
            len(set(tid for tid, _ in seen if tid not in has)),
            len(doubtful & has), len(doubtful - has))


Found = collections.namedtuple('Found', 'acknowledged missing how seen_lost doubtful doubtful_lost')


def kill_process(site):
    """The server is killed; the kernel delivers what it has sent."""
    site.primary.process.kill()


def kill_host(site):
    """The server and everything under way on its link are lost."""
    site.primary.process.signal(9)
    site.proxy.silence()
    site.primary.process.wait()


def stall_link(site):
    """Nothing passes the link any more; then the host is killed."""
    site.proxy.silence()
    time.sleep(random.uniform(0, 0.6))
    site.primary.process.kill()


def stall_answers(site):
    """The follower receives everything, and is not heard any more; then the host is killed."""
    site.proxy.silence(downstream=False)
    time.sleep(random.uniform(0, 0.6))
    site.primary.process.kill()


def restart_alone(site):
    """The primary is killed behind a stalled link, starts again and serves readers; its host dies."""
    site.proxy.silence()
    site.primary.process.kill()
    site.wait_for_clients()
    site.primary.start()
    wait_for(lambda: site.primary.status()['synchronous']['state'] != 'starting', 'service for readers')
    site.start_clients()
    seen = len(site.reported('seen'))
    wait_for(lambda: len(site.reported('seen')) > seen, 'a reader')
    time.sleep(random.random())
    site.primary.process.kill()


def kill_both(site):
    """Both servers are killed; the follower starts again."""
    for node in site.nodes:
        node.process.signal(9)
    for node in site.nodes:
        node.process.wait()
    site.follower.start()


FAULTS = [kill_process, kill_host, stall_link, stall_answers, restart_alone, kill_both]


def run(level, fault, processes, folder):
    """Run a round; return the `Found`."""
    site = Round(level, DELAY if fault is kill_host else 0, processes, folder)
    site.start_clients()
    site.wait_for_commits()
    time.sleep(random.random())
    fault(site)
    killed = site.primary
    site.promote()
    return site.found(killed)


def main():
    logging.getLogger().addHandler(logging.NullHandler())
    if sys.argv[1:2] == ['--as']:
        try:
            return globals()[sys.argv[2]](*sys.argv[3:])
        except Exception as error:  # the fault
            report('ended', type(error).__name__)
            os._exit(0)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--rounds', type=int, default=25, help='of each fault and level')
    parser.add_argument('--levels', nargs='*', default=(ASYNCHRONOUS,) + LEVELS)
    parser.add_argument('--seed', type=int, default=random.randrange(1 << 30))
    parser.add_argument('faults', nargs='*', metavar='FAULT')
    options = parser.parse_args()
    random.seed(options.seed)
    print('seed %d, load %.1f' % (options.seed, os.getloadavg()[0]))
    print('%-14s %-13s %6s %12s %17s %10s %14s %s' % (
        'fault', 'level', 'rounds', 'acknowledged', 'missing in rounds', 'seen, lost',
        'in doubt: kept', 'lost'))
    for fault in FAULTS:
        if options.faults and fault.__name__ not in options.faults:
            continue
        for level in options.levels:
            found = list(rounds(options.rounds, functools.partial(run, level, fault)))
            total = [sum(values) for values in zip(*(each._replace(how=0) for each in found))]
            print('%-14s %-13s %6d %12d %10d in %3d %10d %14d %4d %s' % (
                fault.__name__, level, len(found), total[0], total[1],
                sum(1 for each in found if each.missing), total[3], total[4], total[5],
                ', '.join(sorted(set(how for each in found for how in each.how)))))
            sys.stdout.flush()
    print('load %.1f' % os.getloadavg()[0])


if __name__ == '__main__':
    main()
