"""What NEO 1.12 does to data; each trap springs here, so that its cure is known to be needed.

The cures are tested beside the parts that are theirs: `test_neo_client`,
`test_neo_orders`.
"""
import sqlite3
import threading

import pytest
import transaction
from BTrees.OOBTree import OOBTree
from ZODB.DB import DB

from indico_zodbrepl.dataplane.neo import orders
from indico_zodbrepl.dataplane.neo.library import import_neo

from neo_clusters import NEOCluster
from processes import wait_for


@pytest.fixture
def cluster(tmpdir, request):
    cluster = NEOCluster(tmpdir, stock_masters=getattr(request, 'param', False))
    try:
        cluster.found()
        cluster.wait_until_whole()
        yield cluster
    finally:
        cluster.close()


def stock_database(cluster):
    neo = import_neo()
    return DB(neo.client.Storage.Storage(cluster.written('m0'), 'tested'))


def fill(database):
    """Saves a tree of several buckets, then a transaction that uses readCurrent, as trees do."""
    connection = database.open()
    tree = connection.root()['tree'] = OOBTree()
    for key in range(200):
        tree[key] = key
    transaction.commit()
    tree[0] = 'again'
    transaction.commit()
    connection.close()


def test_stock_undo_of_a_transaction_that_read_a_current_object_ends_storages(cluster):
    database = stock_database(cluster)
    fill(database)
    last = database.lastTransaction()  # `undoInfo` may ask a storage that has not unlocked it yet
    # The client waits for ever for the storages that are gone.
    undoing = threading.Thread(target=_undo, args=(database, last))
    undoing.setDaemon(True)
    undoing.start()
    wait_for(lambda: not all(cluster.running[each].is_running() for each in cluster.storages),
             'the end of a storage')


def _undo(database, last):
    database.undo(last)
    try:
        transaction.commit()
    except Exception:
        transaction.abort()


def damage(cluster, name):
    """Removes some objects from one storage's disk, as a bad disk may, while nothing runs.

    What happens to one storage alone is repaired when it comes back.
    """
    for each in cluster.running.values():
        each.kill()
    connection = sqlite3.connect(str(cluster.data(name).join('neo.sqlite')))
    connection.execute('DELETE FROM obj WHERE partition = 0 AND oid BETWEEN 1 AND 8')
    connection.commit()
    connection.close()
    cluster.start()
    cluster.wait_until_whole()


def corrupted(cluster):
    """The addresses of storages with a corrupted cell."""
    state = cluster.state()
    return [] if state is None or state['partitions'] is None else sorted(
        address for address, cells in state['partitions']['cells'].items()
        if 'corrupted' in cells)


def test_a_check_without_a_reference_condemns_the_good_copy_with_the_bad_one(cluster):
    database = stock_database(cluster)
    fill(database)
    database.close()
    damage(cluster, 's1')
    with cluster.control() as ask:
        ask.ask('checkReplicas', dict.fromkeys(range(4)), '\0' * 8, None)
    wait_for(lambda: len(corrupted(cluster)) == 2 or
             (cluster.state() or {}).get('cluster_state') != 'RUNNING',
             'what becomes of both copies')


def test_a_check_with_a_reference_condemns_the_bad_copy_alone(cluster):
    database = stock_database(cluster)
    fill(database)
    database.close()
    damage(cluster, 's1')
    with cluster.control() as ask:
        orders.check(ask, cluster.addresses['s0'])
    wait_for(lambda: corrupted(cluster), 'the end of the check')
    assert [cluster.written('s1')] == corrupted(cluster)
    assert 'RUNNING' == cluster.state()['cluster_state']


@pytest.mark.parametrize('cluster', [True], indirect=True, ids=['stock masters'])
def test_a_stock_pack_while_a_storage_is_down_leaves_copies_that_differ(cluster):
    database = stock_database(cluster)
    fill(database)
    cluster.running['s1'].kill()
    wait_for(lambda: cluster.state_of('s1') == 'DOWN', 'the end of the storage')
    database.pack()
    database.close()
    cluster.start('s1')
    cluster.wait_until_whole()
    with cluster.control() as ask:
        orders.check(ask, cluster.addresses['s0'])
    wait_for(lambda: corrupted(cluster), 'the end of the check')
    assert [cluster.written('s1')] == corrupted(cluster)
