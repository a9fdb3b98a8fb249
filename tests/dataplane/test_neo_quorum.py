"""Masters of several hosts lead with a majority only, and remember the newest partition table."""
import contextlib

import pytest
import transaction
from ZODB.DB import DB

from indico_zodbrepl.dataplane.neo import orders
from indico_zodbrepl.dataplane.neo.control import Failed
from indico_zodbrepl.dataplane.neo.quorum import IDS_OF_A_LEADER, Memory, Quorum

from neo_clusters import NEOCluster
from processes import PATIENCE, wait_for

MASTERS = ('m0', 'm1', 'm2')


@pytest.fixture
def cluster(tmpdir):
    cluster = NEOCluster(tmpdir, masters=3, quorate=True)
    try:
        cluster.found()
        cluster.wait_until_whole()
        yield cluster
    finally:
        cluster.close()


def add(cluster):
    """Commits one more number; returns how many there are."""
    with contextlib.closing(DB(cluster.open(wait=PATIENCE))) as database:
        root = database.open().root()
        root['count'] = root.get('count', 0) + 1
        transaction.commit()
        return root['count']


def is_running(cluster):
    state = cluster.state()
    return state is not None and state['cluster_state'] == 'RUNNING'


def kill(cluster, *names):
    for name in names:
        cluster.running[name].kill()


def test_the_loss_of_the_leader_and_a_storage_at_once_is_survived(cluster):
    assert 1 == add(cluster)
    kill(cluster, cluster.primary(), 's0')
    assert 2 == add(cluster)


def test_a_storage_that_missed_transactions_does_not_serve_alone(cluster):
    add(cluster)
    kill(cluster, 's0')
    assert 2 == add(cluster)
    kill(cluster, 's1', *MASTERS)
    cluster.start('s0', *MASTERS)
    with cluster.control() as control, pytest.raises(Failed):
        orders.start(control, [cluster.addresses['s0']], 8.0, new=False)
    assert not is_running(cluster)
    cluster.start('s1')
    assert 3 == add(cluster)


def test_without_a_majority_nothing_is_served_until_a_master_is_back(cluster):
    add(cluster)
    leader = cluster.primary()
    others = [each for each in MASTERS if each != leader]
    kill(cluster, *others)
    wait_for(lambda: not is_running(cluster), 'the leader stops')
    with cluster.control() as control, pytest.raises(Failed) as failure:
        orders.start_with_what_is_there(control, 1.0)
    assert 'fewer than a majority' in str(failure.value)
    cluster.start(others[0])
    assert 2 == add(cluster)


def test_masters_that_remember_data_found_no_cluster_of_empty_storages(cluster):
    add(cluster)
    kill(cluster, 's0', 's1', *MASTERS)
    for name in ('s0', 's1'):
        for path in cluster.data(name).listdir('neo.sqlite*'):
            path.remove()
    cluster.start('s0', 's1', *MASTERS)
    with cluster.control() as control, pytest.raises(Failed) as failure:
        orders.start(control, [cluster.addresses[each] for each in ('s0', 's1')], 8.0)
    assert 'a master remembers data' in str(failure.value)


def test_each_leader_uses_new_ids_of_tables(cluster):
    before = cluster.state()['partitions']['table']
    kill(cluster, cluster.primary())
    add(cluster)
    assert cluster.state()['partitions']['table'] // IDS_OF_A_LEADER > before // IDS_OF_A_LEADER


def test_a_memory_outlives_its_process(tmpdir):
    memory = Memory(str(tmpdir))
    assert memory.id is None
    memory.set(7)
    assert 7 == Memory(str(tmpdir)).id


def test_a_table_is_admitted_if_a_majority_follows_and_remembers_none_that_is_newer(tmpdir):
    memory = Memory(str(tmpdir))
    quorum = Quorum(memory, 2)
    assert not quorum.admits(7), 'no master follows'
    quorum.answered(None, 'M2', None)
    assert quorum.admits(7)
    assert not quorum.is_known()
    memory.set(7)
    quorum.answered(None, 'M3', 8)
    assert quorum.is_known()
    assert not quorum.admits(7)
    assert quorum.admits(8)
