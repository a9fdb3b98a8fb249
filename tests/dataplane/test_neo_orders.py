"""Orders to a NEO cluster: what destroys data is refused, 'Not ready' is a failure."""
import json
import subprocess
import sys
import time

import pytest
import transaction
from ZODB.DB import DB

from indico_zodbrepl.dataplane.neo import admin, control, orders

from neo_clusters import NEOCluster
from processes import wait_for


def run(cluster, capsys, *arguments):
    """Runs the command; returns (exit status, what it printed as JSON, or its error)."""
    status = admin.main(['--admin', cluster.written('a'), '--limit', '10'] + list(arguments))
    output, error = capsys.readouterr()
    return status, json.loads(output) if status == 0 else error


def stock_neoctl(cluster, *arguments):
    """Runs NEO's own command; returns (exit status, output)."""
    process = subprocess.Popen(
        [sys.executable, '-c', 'from neo.scripts.neoctl import main; main()',
         '-a', cluster.written('a')] + list(arguments),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output = process.communicate()[0]
    return process.returncode, output


@pytest.fixture(scope='module')
def cluster(tmpdir_factory):
    cluster = NEOCluster(tmpdir_factory.mktemp('neo'))
    try:
        yield cluster
    finally:
        cluster.close()


# The tests of this module are one story; each is told with the cluster of the one before.

def test_the_state_of_a_cluster_that_is_not_there_is_a_failure(cluster, capsys):
    status, error = run(cluster, capsys, 'status')
    assert 3 == status
    assert 'is not ready' in error
    # The trap: NEO's own command says so with exit status 0.
    status, output = stock_neoctl(cluster, 'print', 'cluster')
    assert (0, True) == (status, 'ERROR' in output)


def test_a_cluster_does_not_begin_while_one_of_its_storages_is_missing(cluster, capsys):
    cluster.start('m0', 's0', 'a')
    storages = [part for each in cluster.storages
                for part in ('--storage', cluster.written(each))]
    status, error = run(cluster, capsys, 'start', '--wait', '2', *storages)
    assert (1, True) == (status, 'it waits for %s' % cluster.written('s1') in error)


def test_processes_are_asked_for_a_sign_of_life_without_the_cluster(cluster, capsys):
    here, missing = cluster.written('s0'), cluster.written('s1')
    assert (0, {here: 'answers', missing: 'refuses'}) == run(
        cluster, capsys, 'ping', here, missing, '--wait', '30')
    cluster.running['s0'].pause()
    try:
        assert (0, {here: 'silent'}) == run(cluster, capsys, 'ping', here, '--wait', '1')
    finally:
        cluster.running['s0'].resume()


def test_a_new_cluster_begins_once(cluster, capsys):
    cluster.start('s1')
    storages = [part for each in cluster.storages
                for part in ('--storage', cluster.written(each))]
    assert (0, {'started': True, 'cluster_state': 'RUNNING'}) == run(
        cluster, capsys, 'start', '--wait', '180', *storages)
    assert (0, {'started': False, 'cluster_state': 'RUNNING'}) == run(
        cluster, capsys, 'start', *storages)


def test_the_state_names_everything_by_address(cluster, capsys):
    cluster.wait_until_whole()
    status, state = run(cluster, capsys, 'status')
    assert 0 == status
    assert 'RUNNING' == state['cluster_state']
    assert cluster.written('m0') == state['primary']
    table = state['partitions']
    assert (4, 1, 2) == (table['count'], table['replicas'], table['up_to_date'])
    storages = sorted(cluster.written(each) for each in cluster.storages)
    assert [storages] * 4 == table['rows']
    assert dict((each, {'up_to_date': 4}) for each in storages) == table['cells']


def test_partitions_are_redistributed_without_an_argument(cluster, capsys):
    assert (0, {'changed': False}) == run(cluster, capsys, 'tweak')
    # The trap: NEO's own command ends in a traceback.
    assert 'IndexError' in stock_neoctl(cluster, 'tweak')[1]


def test_a_check_needs_a_reference(cluster, capsys):
    with pytest.raises(SystemExit) as raised:
        run(cluster, capsys, 'check')
    assert 2 == raised.value.code
    assert 'argument --reference is required' in capsys.readouterr()[1]
    with pytest.raises(control.Failed), cluster.control() as ask:
        orders.check(ask, ('127.0.0.1', 1))


def test_a_check_with_a_reference_compares_all_that_it_holds(cluster, capsys):
    assert (0, {'partitions': 4, 'reference': cluster.written('s0')}) == run(
        cluster, capsys, 'check', '--reference', cluster.written('s0'))
    assert 2 == cluster.state()['partitions']['up_to_date']


def test_a_pack_is_done_while_every_copy_is_there(cluster, capsys):
    database = DB(cluster.open())
    database.open().root()['kept'] = 1
    transaction.commit()
    database.close()
    status, result = run(cluster, capsys, 'pack', '--cluster', 'tested', '--master',
                         cluster.written('m0'), '--days', '0')
    assert 0 == status
    assert abs(result['packed_to'] - time.time()) < 60


def test_what_the_cluster_denies_is_a_failure(cluster, capsys):
    status, error = run(cluster, capsys, 'set-state', 'stopping_backup')
    assert (1, True) == (status, 'Can not switch to this state' in error)
    with pytest.raises(SystemExit) as raised:
        run(cluster, capsys, 'set-state', 'asleep')
    assert 2 == raised.value.code


def test_a_pack_a_check_and_a_further_kill_are_refused_while_a_storage_is_down(cluster, capsys):
    assert (0, {'killed': cluster.written('s1')}) == run(
        cluster, capsys, 'kill', cluster.written('s1'))
    cluster.running['s1'].wait()
    for command in (
            ['pack', '--cluster', 'tested', '--master', cluster.written('m0')],
            ['check', '--reference', cluster.written('s0')]):
        status, error = run(cluster, capsys, *command)
        assert (1, True) == (status, 'while a copy is missing' in error), error
    for command in 'kill', 'drop':
        status, error = run(cluster, capsys, command, cluster.written('s0'))
        assert (1, True) == (status, 'no other storage that works holds' in error), error
    assert 'RUNNING' == cluster.state_of('s0')


def test_a_storage_that_lost_its_disk_is_filled_again(cluster, capsys):
    for each in cluster.data('s1').listdir():
        each.remove()
    cluster.start('s1')
    wait_for(lambda: cluster.state_of('s1') == 'PENDING', 'the empty storage')
    healing = subprocess.Popen(
        [sys.executable, '-m', 'indico_zodbrepl.dataplane.neo.admin', '--admin',
         cluster.written('a'), 'heal', cluster.written('s1'), '--wait', '180'],
        stdout=subprocess.PIPE)
    # As its supervisor would: to be dropped ends it.
    cluster.running['s1'].wait()
    cluster.start('s1')
    output = healing.communicate()[0]
    assert cluster.written('s1') == json.loads(output)['healed']
    assert 2 == cluster.state()['partitions']['up_to_date']
    status, error = run(cluster, capsys, 'heal', cluster.written('s1'))
    assert (1, True) == (status, 'has data that are up to date' in error)


def test_the_data_are_there_with_the_healed_storage_alone(cluster):
    cluster.running['s0'].kill()
    database = DB(cluster.open())
    assert 1 == database.open().root()['kept']
    database.close()
    cluster.start('s0')
    cluster.wait_until_whole()


def test_a_frozen_primary_is_an_answer_that_did_not_come(cluster, capsys):
    cluster.running['m0'].pause()
    try:
        status = admin.main(
            ['--admin', cluster.written('a'), '--limit', '1', 'set-replicas', '1'])
        assert (4, True) == (status, 'did not answer within 1 s' in capsys.readouterr()[1])
        # What the admin node remembers is told all the same, and so is what is missing.
        with cluster.control(limit=1.0) as ask:
            state = orders.describe(ask)
        assert ('RUNNING', None) == (state['cluster_state'], state['last_tid'])
        assert 'did not answer' in state['silent_primary']
    finally:
        cluster.running['m0'].resume()


def test_a_cluster_with_data_waits_for_all_of_them_unless_it_is_told_not_to(cluster, capsys):
    """What there is may be an older state than what is missing."""
    cluster.wait_until_whole()
    for name in ('s0', 's1', 'm0', 'a'):
        cluster.running[name].kill()
    cluster.start('m0', 's0', 'a')
    storages = ['--storage', cluster.written('s0'), '--storage', cluster.written('s1')]
    status, error = run(cluster, capsys, 'start', '--wait', '3', *storages)
    assert 1 == status
    assert 'it waits for %s' % cluster.written('s1') in error
    assert (0, {'started': True, 'cluster_state': 'RUNNING'}) == run(
        cluster, capsys, 'start', '--with-what-is-there', '--wait', '180')
