"""The NEO monitor reports the state of a real cluster, and kills processes that hang."""
import json
import os
import signal
import stat
import threading
import time

import pytest
import transaction
from ZODB.DB import DB

from indico_zodbrepl.dataplane.neo import process, sizes
from indico_zodbrepl.dataplane.neo.monitor import ActionLog
from indico_zodbrepl.dataplane.neo.pings import ANSWERS, REFUSES, SILENT, Pinger
from indico_zodbrepl.dataplane.neo.policy import Action

from neo_clusters import NEOCluster
from processes import free_ports, wait_for

# Long enough for a process on a busy machine to answer, short enough to wait for.
HUNG_AFTER = 4.0  # seconds


class WardedCluster(NEOCluster):
    """A cluster whose NEO monitor runs the admin node; `status` asks it as the control plane does."""

    def start(self, *names):
        NEOCluster.start(self, *(names or self.masters + self.storages))

    def start_monitor(self):
        arguments = ['python', '-m', 'indico_zodbrepl.dataplane.neo.monitor', '--folder',
                     str(self.data('a')), '--admin', self.written('a'), '--hung-after',
                     str(HUNG_AFTER)]
        for name in self.masters + self.storages:
            arguments += ['--node', '%s=%s' % (self.written(name), self.data(name))]
        arguments += ['--', '-f', str(self.conf), '-s', 'a', '-m',
                      ' '.join(self.written(each) for each in self.masters)]
        self.monitor = self.processes.start(arguments, name='monitor')
        wait_for(lambda: os.path.exists(self.socket), 'the socket of the NEO monitor')

    @property
    def socket(self):
        return str(self.data('a').join('control.sock'))

    def status(self):
        return sizes.ask_monitor(str(self.data('a')))

    def wait_for_status(self, condition, what):
        return wait_for(lambda: condition(self.status()), what)

    def actions(self):
        path = self.data('a').join('warden.jsonl')
        lines = path.readlines() if path.check() else []
        return [json.loads(each) for each in lines]


@pytest.fixture(scope='module')
def cluster(tmpdir_factory):
    cluster = WardedCluster(tmpdir_factory.mktemp('neo'), masters=2, storages=3)
    try:
        cluster.start_monitor()
        cluster.found()
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def whole(cluster):
    """The cluster with everything in it running, and known to the NEO monitor to be."""
    for name in cluster.masters + cluster.storages:
        if not cluster.running[name].is_running():
            cluster.start(name)
    cluster.wait_until_whole()
    cluster.wait_for_status(
        lambda status: status['writable'] and not status['silence'], 'a writable cluster')
    return cluster


def test_the_status_tells_what_the_cluster_is(whole):
    status = whole.status()
    assert ('RUNNING', None) == (status['cluster_state'], status['failure'])
    assert whole.written(whole.primary()) == status['primary']
    assert status['partitions']['up_to_date'] == 2
    assert [] == status['hung'] == status['problems']
    assert HUNG_AFTER == status['hung_after']
    assert set(whole.written(each) for each in whole.storages) == set(status['sizes'])
    assert 0o600 == stat.S_IMODE(os.stat(whole.socket).st_mode)


def test_the_status_is_queried_again_each_time(whole):
    asked = whole.status()['asked']
    whole.wait_for_status(lambda status: status['asked'] > asked, 'another look')


def test_a_client_on_the_same_host_knows_how_large_the_database_is(whole):
    database = DB(whole.open(more='    warden-folder %s\n' % whole.data('a')))
    try:
        files = sum(path.size() for name in whole.storages
                    for path in whole.data(name).visit('neo.sqlite*')
                    if not path.basename.endswith('-shm'))
        assert abs(database.getSize() - files // 2) < files // 2
        assert database.getSize() > 100000
    finally:
        database.close()


def test_the_size_is_unknown_while_a_storage_is_on_another_host():
    status = {'nodes': [{'type': 'storage', 'address': each} for each in ('a:1', 'b:1')],
              'partitions': {'replicas': 1}, 'sizes': {'a:1': 100, 'b:1': 300}}
    assert 200 == sizes.one_copy(status)
    del status['sizes']['b:1']
    assert 0 == sizes.one_copy(status)


def test_a_hung_storage_is_ended_and_a_waiting_write_is_saved(whole):
    """The client's own limit plays no part here: it is an hour."""
    database = DB(whole.open(limit=3600))
    whole.running['s0'].pause()
    done = threading.Event()
    writer = threading.Thread(target=_save, args=(database, done))
    writer.setDaemon(True)
    writer.start()
    whole.running['s0'].wait()
    wait_for(done.is_set, 'the write')
    actions = [(each['deed'], each['address']) for each in whole.actions()[-2:]]
    assert [('kill-storage', whole.written('s0')),
            ('kill-process', whole.written('s0'))] == actions
    whole.wait_for_status(lambda status: status['deeds'] and status['deeds'][-1]['result'] ==
                          'process %d ended' % whole.running['s0'].pid, 'the deed')
    database.close()


def _save(database, done):
    manager = transaction.TransactionManager()
    connection = database.open(manager)
    for value in range(12):  # so that every partition is written to
        with manager:
            connection.root()['key %d' % value] = value
            connection.add(type(connection.root())())
    connection.close()
    done.set()


def test_a_hung_primary_master_is_ended_and_another_one_elected(whole):
    primary = whole.primary()
    whole.running[primary].pause()
    assert -signal.SIGKILL == whole.running[primary].wait()
    whole.wait_for_status(
        lambda status: status['writable'] and status['primary'] not in (
            None, whole.written(primary)), 'another primary')
    assert ('kill-process', whole.written(primary)) == (
        whole.actions()[-1]['deed'], whole.actions()[-1]['address'])


def test_storages_of_which_neither_can_be_spared_are_left_alone_and_reported(whole):
    before = len(whole.actions())
    whole.running['s1'].pause()
    whole.running['s2'].pause()
    try:
        status = whole.wait_for_status(
            lambda status: len(status['problems']) == 2 and status, 'the problems')
        assert not status['writable']
        assert sorted(whole.written(each) for each in ('s1', 's2')) == status['hung']
        assert 'no other storage that works holds all of its data' in status['problems'][0]
    finally:
        whole.running['s1'].resume()
        whole.running['s2'].resume()
    assert before == len(whole.actions())
    assert whole.running['s1'].is_running() and whole.running['s2'].is_running()


def test_a_frozen_admin_node_does_not_freeze_the_neo_monitor_and_is_started_again(whole):
    pid = process.running(str(whole.data('a')))
    os.kill(pid, signal.SIGSTOP)
    status = whole.wait_for_status(lambda status: status['failure'] and status, 'the failure')
    assert (None, False) == (status['cluster_state'], status['writable'])
    asked = status['asked']
    status = whole.wait_for_status(
        lambda status: status['asked'] > asked and status['writable'] and status,
        'another admin node')
    assert pid != process.running(str(whole.data('a')))
    assert (whole.written('a'), 'process %d ended' % pid) == (
        status['deeds'][-1]['address'], status['deeds'][-1]['result'])


def test_the_admin_node_ends_with_the_neo_monitor_however_that_ends(whole):
    whole.monitor.kill()
    wait_for(lambda: process.running(str(whole.data('a'))) is None, 'its end')
    whole.start_monitor()


def test_the_neo_monitor_stops_on_sigterm_and_removes_its_socket(whole):
    os.kill(whole.monitor.pid, signal.SIGTERM)
    assert 0 == whole.monitor.wait()
    assert not os.path.exists(whole.socket)
    assert process.running(str(whole.data('a'))) is None
    whole.start_monitor()


def test_a_ping_tells_a_process_that_works_from_one_that_is_frozen_and_from_none(whole):
    greeting = Pinger(whole.addresses['s0'], 0.1)
    nobody = Pinger(('127.0.0.1', free_ports(1)[0]), 0.1)
    greeting.start()
    nobody.start()
    try:
        wait_for(lambda: greeting.state == ANSWERS, 'an answer')
        wait_for(lambda: nobody.state == REFUSES, 'a refusal')
        whole.running['s0'].pause()
        wait_for(lambda: greeting.state == SILENT and greeting.silent > 1.0, 'silence')
        whole.running['s0'].resume()
        wait_for(lambda: greeting.state == ANSWERS and greeting.silent == 0.0, 'an answer')
        assert 0.0 == nobody.silent
    finally:
        greeting.close()
        nobody.close()


def test_what_was_done_is_kept_over_a_restart_and_a_torn_line_is_passed_over(tmpdir):
    path = tmpdir.join('warden.jsonl')
    action = Action('kill-process', 'm:1', 'silent for 10 s')
    ActionLog(str(path)).do('kill-process', action, lambda action: 'process 1 ended')
    path.write(path.read() + '{"time": 1')
    actions = ActionLog(str(path))
    assert ['process 1 ended'] == [each['result'] for each in actions.latest(5)]


def test_what_can_not_be_done_is_written_down_and_ends_nothing(tmpdir):
    def fail(action):
        raise ValueError('no')
    actions = ActionLog(str(tmpdir.join('warden.jsonl')))
    actions.do('kill-storage', Action('kill-storage', 's:1', 'silent'), fail)
    assert 'failed: ValueError: no' == actions.latest(1)[0]['result']
    assert abs(time.time() - actions.latest(1)[0]['time']) < 60
