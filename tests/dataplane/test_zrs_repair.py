"""Each defect of zc.zrs 3.1.0 on ZODB 5.8.1, without the repair and with it.

"Stock" nodes are run by ZEO's own runzeo.
"""
import subprocess
import sys

import pytest
from ZODB.POSException import POSKeyError
from ZODB.utils import z64

from indico_zodbrepl.dataplane.zrs import repairs
from nodes import Node, commit, pickle_of
from processes import FORKED, wait_for


class StockNode(Node):
    """A node without the repair, and without what only our server shows."""

    def command(self):
        return [FORKED, '-m', 'ZEO.runzeo', '-C', self.config]


def write_blob(tmpdir, content='what a blob holds'):
    path = tmpdir.join('blob')
    path.write(content)
    return str(path)


def pair(processes, tmpdir, primary, secondary):
    """Starts primary and secondary of these classes; returns them."""
    a = primary(processes, tmpdir, 'a', listens=True)
    a.start()
    b = secondary(processes, tmpdir, 'b', upstream=a)
    b.start()
    return a, b


def commit_on(node, **what):
    client = node.client()
    try:
        return commit(client, pickle_of('x'), **what)
    finally:
        client.close()


def test_a_stock_secondary_never_takes_a_transaction(processes, tmpdir):
    primary, secondary = pair(processes, tmpdir, Node, StockNode)
    commit_on(primary)
    wait_for(lambda: 'extension_bytes' in secondary.process.output(),
             'the error of the secondary')

    assert z64 == secondary.last_tid()


def test_a_stock_primary_stops_at_extension_data(processes, tmpdir):
    primary, secondary = pair(processes, tmpdir, StockNode, Node)
    _, before = commit_on(primary)
    secondary.wait_for_tid(before)
    commit_on(primary, extension={u'request': u'/'})
    commit_on(primary)
    wait_for(lambda: 'unsupported pickle protocol: 3'
             in primary.process.output(), 'the error of the primary')

    assert before == secondary.last_tid()


def test_a_stock_primary_does_not_send_blobs(processes, tmpdir):
    """The last tids are equal all the same."""
    primary, secondary = pair(processes, tmpdir, StockNode, Node)
    oid, tid = commit_on(primary, blob=write_blob(tmpdir))
    secondary.wait_for_tid(tid)

    client = secondary.client(read_only=True)
    with pytest.raises(POSKeyError):
        client.loadBlob(oid, tid)
    client.close()


def test_with_its_own_receiving_an_empty_blob_is_lost(processes, tmpdir):
    """The repair alone does not bring its file to the secondary."""
    class HalfRepaired(Node):

        def command(self):
            return ['python', '-c', """
import zc.zrs.secondary
from indico_zodbrepl.dataplane.server import main as server
from indico_zodbrepl.dataplane.zrs import links
stock = zc.zrs.secondary.SecondaryProtocol
for name in ('messageReceived', 'connectionLost'):
    setattr(links.UpstreamProtocol, name, stock.__dict__[name])
server.main(%r)
""" % (Node.command(self)[3:],)]

    primary, secondary = pair(processes, tmpdir, Node, HalfRepaired)
    oid, tid = commit_on(primary, blob=write_blob(tmpdir, ''))
    secondary.wait_for_tid(tid)
    client = secondary.client(read_only=True)
    with pytest.raises(POSKeyError):
        client.loadBlob(oid, tid)
    client.close()


def test_repaired_nodes_replicate_all_of_it(processes, tmpdir):
    primary, secondary = pair(processes, tmpdir, Node, Node)
    commit_on(primary)
    commit_on(primary, extension={u'request': u'/'})
    commit_on(primary, blob=write_blob(tmpdir, ''))
    oid, tid = commit_on(primary, blob=write_blob(tmpdir))
    commit_on(primary)
    _, last = commit_on(primary, blob=write_blob(tmpdir, ''))
    secondary.wait_for_tid(last)

    client = secondary.client(read_only=True)
    with open(client.loadBlob(oid, tid)) as blob:
        assert 'what a blob holds' == blob.read()
    client.close()
    assert 0 == primary.process.terminate()
    assert 0 == secondary.process.terminate()
    assert primary.bytes() == secondary.bytes()
    assert 3 == len(primary.blob_files())
    assert primary.blob_files() == secondary.blob_files()


def in_a_new_process(script):
    """Runs a script in which `zrs_repair` is imported; returns its output."""
    return subprocess.check_output([
        sys.executable, '-c',
        'import pkg_resources, zc.zrs.secondary\n'
        'from indico_zodbrepl.dataplane.zrs import repairs as zrs_repair\n' + script])


def test_a_second_repair_changes_nothing():
    script = '''
def pieces():
    return zc.zrs.secondary.Transaction
print zrs_repair.is_applied()
zrs_repair.apply()
print zrs_repair.is_applied()
once = pieces()
zrs_repair.apply()
print once == pieces()
'''
    assert ['False', 'True', 'True'] == in_a_new_process(script).split()


def test_another_version_is_refused_and_left_alone():
    script = '''
pkg_resources.get_distribution('zc.zrs')._version = '3.0.0'
try:
    zrs_repair.apply()
except zrs_repair.UnknownVersion as error:
    print error
print zrs_repair.is_applied()
'''
    assert ['zc.zrs 3.0.0 is installed, but this repair was written for '
            '3.1.0: install zc.zrs==3.1.0', 'False'
            ] == in_a_new_process(script).splitlines()


def test_a_zodb_without_extension_bytes_is_refused(monkeypatch):
    class OldTransaction(object):
        pass

    monkeypatch.setattr(repairs, 'TransactionMetaData', OldTransaction)
    with pytest.raises(repairs.UnknownVersion) as error:
        repairs.check_versions()

    assert 'needs 5.6 or later' in str(error.value)
