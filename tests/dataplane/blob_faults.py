"""Uploads while something fails, and what is there afterwards.

    bin/indico-python tests/dataplane/blob_faults.py [--rounds N] [FAULT...]

runs rounds of faults and prints a table.  In a round several clients upload files of up to 3 MB to
a primary with a follower until a fault comes, and go on afterwards.  Then each node is restarted and
stopped.  `check` raises AssertionError if a node has a transaction without its blob, a blob that is
not what was acknowledged, a blob without a transaction, or a temporary file.
"""
from __future__ import print_function

import argparse
import functools
import hashlib
import os
import random
import sys
import time

if __name__ == '__main__':
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from ZEO.ClientStorage import ClientStorage  # noqa: E402
from ZODB.blob import is_blob_record  # noqa: E402
from ZODB.FileStorage import FileStorage  # noqa: E402
from ZODB.POSException import POSKeyError  # noqa: E402

from fault_rounds import Pair, Reporter, report, rounds  # noqa: E402
from nodes import commit, pickle_of  # noqa: E402
from processes import wait_for  # noqa: E402

CLIENTS = 3
LARGEST = 3 << 20  # bytes
PATIENCE = 3  # seconds that a call of an uploader waits while its server is away


def upload_forever(folder, *ports):
    """Upload random files; report OID, TID and SHA-256 of each that is acknowledged."""
    chance = random.Random()
    while True:
        try:
            client = ClientStorage([('127.0.0.1', int(port)) for port in ports],
                                   blob_dir=folder, wait_timeout=1)
        except Exception:  # the servers are away
            time.sleep(0.05)
            continue
        client._server.timeout = PATIENCE
        try:
            while True:
                content = os.urandom(chance.choice([0, 10, 70000, chance.randrange(LARGEST)]))
                path = os.path.join(folder, 'upload')
                with open(path, 'wb') as upload:
                    upload.write(content)
                oid, tid = commit(client, blob=path)
                report('acknowledged', oid.encode('hex'), tid.encode('hex'),
                       hashlib.sha256(content).hexdigest())
        except Exception:  # the fault; what was not acknowledged does not count
            client.close()


class Round(Pair):
    """A pair with uploaders."""

    def __init__(self, processes, folder):
        Pair.__init__(self, processes, folder)
        self.uploaders, self.ended = [], []

    def acknowledged(self):
        """Return {(oid, tid): SHA-256}."""
        return dict(((oid.decode('hex'), tid.decode('hex')), digest)
                    for each in self.uploaders + self.ended
                    for oid, tid, digest in each.reports('acknowledged'))

    def start_uploaders(self):
        for number in range(CLIENTS):
            folder = self.folder.ensure('uploader-%d-%d' % (len(self.ended), number), dir=True)
            self.uploaders.append(Reporter(
                self.processes, __file__, '--upload', folder, *[node.port for node in self.nodes]))

    def kill_uploaders(self):
        for each in self.uploaders:
            each.kill()
        self.ended += self.uploaders
        self.uploaders = []

    def go_on(self, count=6):
        """Wait for so many more acknowledged uploads."""
        wanted = count + len(self.acknowledged())
        wait_for(lambda: len(self.acknowledged()) >= wanted, '%d more uploads' % count)

    def check(self):
        """Return how many acknowledged uploads there were, and how many a surviving primary lacks."""
        self.kill_uploaders()
        running = [node for node in self.nodes if node.process.is_running()]
        wait_for(lambda: len({node.last_tid() for node in running}) == 1, 'equal nodes')
        for node in running:
            assert 0 == node.process.terminate()
            assert [] == temporary(node), 'after a clean end'
        self.proxy.close()
        acknowledged = self.acknowledged()
        contents = [blobs_of(node) for node in self.nodes]
        for node, (transactions, files) in zip(self.nodes, contents):
            assert [] == temporary(node)
            for (oid, tid), digest in acknowledged.items():
                if tid in transactions:
                    assert files.get((oid, tid)) == digest, (node.name, oid, tid)
        if len(running) == 2:
            assert contents[0] == contents[1]
        transactions, _ = contents[self.nodes.index(self.primary)]
        lost = [tid for _, tid in acknowledged if tid not in transactions]
        return len(acknowledged), len(lost)


def temporary(node):
    return sorted(os.listdir(os.path.join(node.blobs, 'tmp')))


def blobs_of(node):
    """Return a stopped node's tids, and {(oid, tid): SHA-256} of its blobs.

    Raises AssertionError if a record has no file or a file no record.
    """
    storage = FileStorage(node.data, read_only=True, blob_dir=node.blobs)
    tids, files = set(), {}
    try:
        for transaction in storage.iterator():
            tids.add(transaction.tid)
            for record in transaction:
                if record.data and is_blob_record(record.data):
                    try:
                        path = storage.loadBlob(record.oid, record.tid)
                    except POSKeyError:
                        raise AssertionError('%s lacks the blob of transaction %s' % (
                            node.name, record.tid.encode('hex')))
                    with open(path, 'rb') as content:
                        files[record.oid, record.tid] = hashlib.sha256(content.read()).hexdigest()
    finally:
        storage.close()
    assert len(files) == len(node.blob_files()), '%s has blobs without a transaction' % node.name
    return tids, files


def kill_clients(site):
    site.kill_uploaders()
    site.start_uploaders()


def kill_primary(site):
    site.primary.process.kill()
    site.primary.start()


def kill_follower(site):
    site.follower.process.kill()
    site.follower.start()


def kill_both(site):
    site.primary.process.kill()
    site.follower.process.kill()
    site.follower.start()
    site.primary.start()


def cut_link(site):
    site.proxy.cut_all()


def cut_channel(site):
    site.proxy.cut_channels()


def freeze_follower(site):
    site.follower.process.pause()
    time.sleep(random.random())
    site.follower.process.resume()


def switch_over(site):
    old, new = site.primary, site.follower
    last = old.control(do='hold', seconds=60)['last_tid'].decode('hex')
    new.wait_for_tid(last)
    assert old.control(do='epoch', epoch=4)['ok']
    site.promote()
    answer = old.control(do='follow', epoch=4, upstream='127.0.0.1:%d' % new.replication_port)
    assert answer['ok'], answer


def fail_over(site):
    site.primary.process.kill()
    site.promote()
    # Its start, which removes what the kill has left; it stays apart from the new primary.
    site.follower.configure(listens=True)
    site.follower.start()
    assert 0 == site.follower.process.terminate()


FAULTS = [kill_clients, kill_primary, kill_follower, kill_both, cut_link, cut_channel,
          freeze_follower, switch_over, fail_over]
LOSES = [fail_over]
"""After these, what was acknowledged last may be missing on the new primary."""


def run(fault, processes, folder):
    """Run a round; return how many uploads were acknowledged and lost."""
    site = Round(processes, folder)
    try:
        client = site.primary.client()
        commit(client, pickle_of('first'))
        client.close()
        site.start_uploaders()
        site.go_on()
        time.sleep(0.2 * random.random())
        fault(site)
        site.go_on()
        return site.check()
    finally:
        site.kill_uploaders()


def main():
    if sys.argv[1:2] == ['--upload']:
        return upload_forever(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--rounds', type=int, default=10)
    parser.add_argument('faults', nargs='*', metavar='FAULT')
    options = parser.parse_args()
    print('%-16s %6s %12s %8s' % ('fault', 'rounds', 'acknowledged', 'missing'))
    for fault in FAULTS:
        if options.faults and fault.__name__ not in options.faults:
            continue
        acknowledged, missing = map(sum, zip(*rounds(
            options.rounds, functools.partial(run, fault))))
        print('%-16s %6d %12d %8d' % (fault.__name__, options.rounds, acknowledged, missing))


if __name__ == '__main__':
    main()
