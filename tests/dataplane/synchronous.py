"""Nodes whose commits are acknowledged by followers, for tests."""
import contextlib
import threading

from ZODB.Connection import TransactionMetaData
from ZODB.utils import maxtid, z64

from indico_zodbrepl.dataplane.client.translation import OutcomeUnknown, translated_at_the_end
from nodes import Node, commit, pickle_of
from processes import PATIENCE, wait_for


def options(count=1, timeout=60, **others):
    """The command line's options of a primary, for example `alone='degrade'`."""
    found = ['--synchronous', str(count), '--synchronous-timeout', str(timeout)]
    for name, value in sorted(others.items()):
        found += ['--synchronous-' + name, value]
    return found


def start_primary(processes, folder, name='p', more=(), **others):
    primary = Node(processes, folder, name, listens=True, options=options(**others) + list(more))
    primary.start()
    return primary


def start_follower(processes, folder, upstream, name='f', **others):
    follower = Node(processes, folder, name, upstream=upstream, **others)
    follower.start()
    return follower


def state(node):
    return node.status()['synchronous']['state']


def wait_for_state(node, wanted):
    wait_for(lambda: state(node) == wanted, 'state %s of %s' % (wanted, node.name))


def wait_for_confirmation(node, *names):
    """Waits until these, and no other nodes, confirm what the node commits."""
    wait_for(lambda: set(node.status()['synchronous']['confirming']) == set(names),
             'confirmations of %r' % (names,))


@contextlib.contextmanager
def client_of(node, **others):
    client = node.client(blob_dir=None, **others)
    try:
        yield client
    finally:
        client.close()


def seen(client, oid):
    """The tid and data of an object as the server shows them now; None if it shows none."""
    found = client._call('loadBefore', oid, maxtid)
    return found and (found[1], found[0])


class Commit(threading.Thread):
    """One commit in a thread of its own; `outcome` is its tid or its error."""

    def __init__(self, client, oid=None, text='x'):
        threading.Thread.__init__(self)
        self.daemon = True
        self.outcome = None
        self._arguments = client, pickle_of(text), oid
        self.start()

    def run(self):
        try:
            self.outcome = commit(*self._arguments)[1]
        except Exception as error:
            self.outcome = error

    def wait(self):
        self.join(PATIENCE)
        assert not self.is_alive()
        return self.outcome


def vote(client, oid=None, serial=z64, text='x'):
    """Takes a commit up to its vote; returns its transaction."""
    transaction = TransactionMetaData()
    client.tpc_begin(transaction)
    client.store(oid or client.new_oid(), serial, pickle_of(text), '', transaction)
    client.tpc_vote(transaction)
    return transaction


def is_unknown(error):
    """Tells whether Indico's storage reports that the outcome of a commit is unknown."""
    return isinstance(error, Exception) and isinstance(translated_at_the_end(error), OutcomeUnknown)
