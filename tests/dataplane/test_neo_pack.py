"""A pack of a NEO cluster succeeds only if every storage has finished it."""
import contextlib
import time

import pytest
import transaction
from ZODB.Connection import TransactionMetaData
from ZODB.DB import DB
from ZODB.utils import z64

from neo_clusters import NEOCluster
from processes import wait_for


@pytest.fixture
def cluster(tmpdir):
    cluster = NEOCluster(tmpdir)
    try:
        cluster.found()
        database = DB(cluster.open())
        for value in range(3):
            database.open().root()['kept'] = value
            transaction.commit()
        database.close()
        yield cluster
    finally:
        cluster.close()


# The program, which tells when it has opened the storage and gives the order.
PACK = """
import sys
from indico_zodbrepl.dataplane.programs import pack

def ordering(*arguments):
    sys.stderr.write('ordering')
    return original(*arguments)

original, pack.pack = pack.pack, ordering
sys.exit(pack.main(sys.argv[1:]))
"""


def pack(cluster):
    return cluster.processes.start(
        ['python', '-c', PACK, str(cluster.folder.join('zodb.conf')), '--days', '0'], 'pack')


def wait_for_the_order(packing):
    wait_for(lambda: 'ordering' in packing.output(), 'the order')
    time.sleep(2)  # for the order itself
    assert packing.is_running()


def test_a_storage_that_is_killed_meanwhile_makes_a_pack_incomplete(cluster):
    cluster.running['s1'].pause()
    packing = pack(cluster)
    wait_for_the_order(packing)
    cluster.running['s1'].kill()

    assert 9 == packing.wait(), packing.output()
    assert cluster.written('s1') in packing.output()
    cluster.start('s1')
    wait_for(lambda: cluster.state_of('s1') == 'RUNNING', 'the storage')
    cluster.wait_until_whole()
    again = pack(cluster)
    assert 0 == again.wait(), again.output()


def test_a_storage_that_has_packed_may_go_before_another_one_has(cluster):
    """NEO's own master ends then."""
    cluster.running['s1'].pause()
    packing = pack(cluster)
    wait_for_the_order(packing)
    master = cluster.running['m0']
    cluster.running['s0'].kill()
    cluster.running['s1'].resume()
    packing.wait()
    assert master.is_running()


def test_a_pack_goes_beside_a_transaction_that_only_checked_what_is_packed(cluster):
    """NEO's own storages end then, all at once, and with them the service."""
    with contextlib.closing(cluster.open()) as storage:
        data, serial = storage.load(z64)
        checking = TransactionMetaData()
        storage.tpc_begin(checking)
        storage.checkCurrentSerialInTransaction(z64, serial, checking)
        new = storage.new_oid()
        storage.store(new, z64, data, '', checking)
        storage.tpc_vote(checking)
        packing = pack(cluster)
        assert 0 == packing.wait(), packing.output()
        storage.tpc_finish(checking)
        assert data == storage.load(new)[0]
    assert all(cluster.running[each].is_running() for each in cluster.storages)
