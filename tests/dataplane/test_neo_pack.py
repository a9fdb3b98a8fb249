"""A pack of a NEO cluster succeeds only if every storage has finished it."""
import time

import pytest
import transaction
from ZODB.DB import DB

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


def pack(cluster):
    return cluster.processes.start(
        ['python', '-m', 'indico_zodbrepl.dataplane.programs.pack',
         str(cluster.folder.join('zodb.conf')), '--days', '0'], 'pack')


def test_a_storage_that_is_killed_meanwhile_makes_a_pack_incomplete(cluster):
    cluster.running['s1'].pause()
    packing = pack(cluster)
    time.sleep(2)  # the other storage packs; the frozen one has been asked
    assert packing.is_running()
    cluster.running['s1'].kill()

    assert 9 == packing.wait(20), packing.output()
    assert cluster.written('s1') in packing.output()
    cluster.start('s1')
    wait_for(lambda: cluster.state_of('s1') == 'RUNNING', 'the storage')
    cluster.wait_until_whole()
    again = pack(cluster)
    assert 0 == again.wait(20), again.output()


def test_a_storage_that_has_packed_may_go_before_another_one_has(cluster):
    """NEO's own master ends then."""
    cluster.running['s1'].pause()
    packing = pack(cluster)
    time.sleep(2)  # the other storage has packed
    master = cluster.running['m0']
    cluster.running['s0'].kill()
    cluster.running['s1'].resume()
    packing.wait(20)
    assert master.is_running()
