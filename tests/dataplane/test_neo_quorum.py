"""Masters of several hosts lead with a majority only, and remember the newest partition table."""
import contextlib
import threading

import pytest
import transaction
from ZODB.DB import DB

from indico_zodbrepl.dataplane.neo import orders
from indico_zodbrepl.dataplane.neo.control import Failed
from indico_zodbrepl.dataplane.neo.quorum import IDS_OF_A_TERM, Memory, Quorum

from neo.lib.exception import StoppedOperation
from neo.lib.protocol import ClusterStates
from neo_clusters import NEOCluster
from processes import PATIENCE, wait_for

MASTERS = ('m0', 'm1', 'm2')


@pytest.fixture
def cluster(tmpdir):
    cluster = NEOCluster(tmpdir, masters=3, quorate=True)
    try:
        cluster.found()
        cluster.wait_until_whole()
        wait_for(
            lambda: all(Memory(str(cluster.data(each))).table for each in MASTERS),
            'every master remembers the table')
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


def test_a_commit_waits_until_a_majority_knows_that_a_storage_is_lost(cluster):
    add(cluster)
    leader = cluster.primary()
    others = [each for each in MASTERS if each != leader]
    for name in others:
        cluster.running[name].pause()
    kill(cluster, 's0')
    counts = []
    commit = threading.Thread(target=lambda: counts.append(add(cluster)))
    commit.start()
    wait_for(lambda: 'no majority' in (cluster.state()['silent_primary'] or ''),
             'the leader asks the others')
    assert [] == counts
    for name in others:
        cluster.running[name].resume()
    commit.join(PATIENCE)
    assert [2] == counts


def test_storages_that_end_before_they_get_a_table_start_without_it(cluster):
    """No transaction was acknowledged under a table that no storage has."""
    add(cluster)
    before = cluster.state()['partitions']['table']
    cluster.running['s1'].pause()
    kill(cluster, 's0')
    wait_for(
        lambda: all(Memory(str(cluster.data(each))).table > before for each in MASTERS),
        'every master remembers a table without the lost storage')
    kill(cluster, 's1')
    cluster.start('s0', 's1')
    assert 2 == add(cluster)


def test_masters_that_remember_data_found_no_cluster_of_empty_storages(cluster):
    add(cluster)
    # NEO's admin node fails if empty storages come back in another order: they swap their ids.
    kill(cluster, 's0', 's1', 'a', *MASTERS)
    for name in ('s0', 's1'):
        for path in cluster.data(name).listdir('neo.sqlite*'):
            path.remove()
    cluster.start('s0', 's1', 'a', *MASTERS)
    with cluster.control() as control:
        def refusal():
            with pytest.raises(Failed) as failure:
                orders.start(control, [cluster.addresses[each] for each in ('s0', 's1')], 2.0)
            return str(failure.value)
        wait_for(lambda: 'a master remembers data' in refusal(), 'the reason')


def test_the_tables_of_each_leader_have_ids_of_its_own(cluster):
    before = cluster.state()['partitions']['table']
    kill(cluster, cluster.primary())
    add(cluster)
    assert cluster.state()['partitions']['table'] // IDS_OF_A_TERM > before // IDS_OF_A_TERM


def test_a_memory_outlives_its_process(tmpdir):
    memory = Memory(str(tmpdir))
    assert (None, 0) == (memory.table, memory.term)
    memory.reserve(IDS_OF_A_TERM)
    again = Memory(str(tmpdir))
    assert (None, IDS_OF_A_TERM) == (again.table, again.term)
    again.remember(IDS_OF_A_TERM + 1)
    assert IDS_OF_A_TERM + 1 == Memory(str(tmpdir)).table


def test_a_table_of_an_earlier_term_is_not_remembered(tmpdir):
    memory = Memory(str(tmpdir))
    memory.reserve(2 * IDS_OF_A_TERM)
    memory.remember(IDS_OF_A_TERM)
    memory.reserve(IDS_OF_A_TERM)
    assert (None, 2 * IDS_OF_A_TERM) == (memory.table, memory.term)


class Follower(object):
    """The connection of a master that follows a leader; it answers when it is told to.

    Attributes:
        told: the packets that it got.
    """

    def __init__(self):
        self.told = []

    def send(self, packet):
        self.told.append(packet)

    ask = send


class App(object):
    """What a `Quorum` uses of a leading master, in a recovery."""

    primary = True
    cluster_state = ClusterStates.RECOVERING

    def __init__(self):
        self.m2, self.m3 = Follower(), Follower()


@pytest.fixture
def quorum(tmpdir):
    """Of the first of three masters; its table has the id 7."""
    memory = Memory(str(tmpdir))
    memory.remember(7)
    return Quorum(memory, 2)


def test_a_leader_reserves_a_higher_term_than_all_that_a_majority_knows(quorum):
    app = App()
    quorum.begin(app)
    assert quorum.term is None, 'no master follows'
    quorum.answered(app, app.m2, None, 3 * IDS_OF_A_TERM)
    assert 4 * IDS_OF_A_TERM == quorum.term == quorum.memory.term
    assert not quorum.is_reserved(), 'the follower has not confirmed it'
    assert app.m2.told
    quorum.answered(app, app.m2, None, quorum.term)
    assert quorum.is_reserved()
    quorum.answered(app, app.m3, None, 9 * IDS_OF_A_TERM)
    assert 10 * IDS_OF_A_TERM == quorum.term
    assert not quorum.is_reserved()


def test_a_follower_that_answered_before_the_term_was_chosen_can_replace_another(quorum):
    app = App()
    quorum.begin(app)
    quorum.answered(app, app.m2, None, 0)
    quorum.answered(app, app.m3, None, 0)
    quorum.lost(app, app.m2)
    assert not quorum.is_reserved()
    assert app.m3.told, 'it was asked to reserve the term'
    quorum.answered(app, app.m3, None, quorum.term)
    assert quorum.is_reserved()
    assert 2 == len(app.m3.told), 'once'


def test_a_table_is_admitted_if_a_majority_remembers_none_that_is_newer(quorum):
    app = App()
    quorum.begin(app)
    assert not quorum.admits(7)
    quorum.answered(app, app.m2, None, 0)
    assert not quorum.admits(7)
    quorum.answered(app, app.m2, None, quorum.term)
    assert quorum.admits(7)
    assert not quorum.is_known()
    quorum.answered(app, app.m3, 8, quorum.term)
    assert quorum.is_known()
    assert not quorum.admits(7)
    assert quorum.admits(8)


@pytest.mark.parametrize(('remembered', 'admitted'), [(8, True), (IDS_OF_A_TERM + 7, False)])
def test_a_table_that_no_storage_has_is_not_waited_for_if_it_is_of_the_same_term(
        quorum, remembered, admitted):
    """Else all storages may have been restored from older copies, which is for an operator."""
    app = App()
    quorum.begin(app)
    quorum.answered(app, app.m2, None, 0)
    quorum.answered(app, app.m2, remembered, quorum.term)
    assert quorum.is_reserved()
    assert not quorum.admits(7)
    assert admitted == quorum.admits(7, newest_of_all=True)


def test_a_leader_stops_when_a_later_one_has_reserved_a_term(quorum):
    app = App()
    quorum.begin(app)
    for _ in range(2):
        quorum.answered(app, app.m2, 7, quorum.term or 0)
    app.cluster_state = ClusterStates.RUNNING
    quorum.answered(app, app.m3, 7, quorum.term)
    with pytest.raises(StoppedOperation):
        quorum.answered(app, app.m3, 7, quorum.term + IDS_OF_A_TERM)


def test_a_leader_stops_when_it_loses_its_majority(quorum):
    app = App()
    quorum.begin(app)
    quorum.answered(app, app.m2, 7, 0)
    quorum.answered(app, app.m3, 7, 0)
    app.cluster_state = ClusterStates.RUNNING
    quorum.lost(app, app.m2)
    with pytest.raises(StoppedOperation):
        quorum.lost(app, app.m3)
