"""The programs that measure replication: what they commit, and when they see it arrive."""
import json
import os
import subprocess
import sys

import pytest
from ZODB.FileStorage import FileStorage
from ZODB.utils import u64

from indico_zodbrepl.dataplane.benchmarks import replication
from nodes import Node
from processes import wait_for

PACKAGE = 'indico_zodbrepl.dataplane.benchmarks.'
CLIENT = '%%import ZEO\n<clientstorage>\n  server 127.0.0.1:%d\n  wait-timeout 30\n</clientstorage>\n'
KEPT = '<filestorage>\n  path %s\n</filestorage>\n'


class Program(object):
    """One of the programs, in a session of its own, ready."""

    def __init__(self, module, *arguments):
        self._popen = subprocess.Popen(
            [sys.executable, '-m', PACKAGE + module] + map(str, arguments),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            preexec_fn=os.setsid)
        self.said = self._popen.stdout.readline()

    def answer(self, line):
        """Sends it a line; returns its status, its answer if it has one, and what it complained of."""
        output, errors = self._popen.communicate(line + '\n')
        status = self._popen.returncode
        return status, json.loads(output) if not status else None, errors

    def close(self):
        if self._popen.poll() is None:
            self._popen.kill()
            self._popen.communicate()


@pytest.fixture
def start():
    started = []

    def begin(*arguments):
        started.append(Program(*arguments))
        assert 'ready\n' == started[-1].said, started[-1].answer('')
        return started[-1]
    yield begin
    for each in started:
        each.close()


@pytest.fixture
def server(processes, tmpdir):
    made = Node(processes, tmpdir, 'a')
    made.start()
    return made


@pytest.fixture
def conf(server, tmpdir):
    path = tmpdir.join('zodb.conf')
    path.write(CLIENT % server.port)
    return path


@pytest.mark.parametrize('what, records, size', [
    ('small', 1, (200, 200)), ('large', 100, (20000, 20000)), ('indico', 171, (44500, 45500))])
def test_a_transaction_has_the_records_and_bytes_that_it_is_named_for(
        start, tmpdir, what, records, size):
    conf, data = tmpdir.join('zodb.conf'), tmpdir.join('Data.fs')
    conf.write(KEPT % data)
    status, told, errors = start('replication', conf, what, 'x', 0, 0.2).answer('go')
    assert 0 == status, errors
    tids = [tid for tid, _ in told['acknowledged']]
    assert len(tids) == len(told['latencies_us']) > 0
    storage = FileStorage(str(data), read_only=True)
    found = dict((u64(each.tid), [len(record.data) for record in each])
                 for each in storage.iterator())
    storage.close()
    assert sorted(tids) == tids
    for tid in tids[1:]:
        assert records == len(found[tid])
        assert size[0] <= sum(found[tid]) <= size[1]


def test_acknowledgements_lie_between_begin_and_end(start, conf):
    status, told, errors = start('replication', conf, 'small', 'x', 0.1, 0.3).answer('go')
    assert 0 == status, errors
    moments = [at for _, at in told['acknowledged']]
    assert told['began'] <= moments[0] <= moments[-1] <= told['ended']
    assert 0 == told['retried']


def test_operations_are_counted_whose_latencies_are_not_kept(monkeypatch):
    """Else a rate would be too low as soon as there are very many."""
    monkeypatch.setattr(replication, 'MOST', 3)

    class Work(object):
        def pass_over(self, deadline, done):
            for tid in range(5):
                done(1.0, 1.5, tid)
            return 0
    told = replication.measured(Work(), 0.1)
    assert (5, 3, 5) == (told['operations'], len(told['latencies_us']), len(told['acknowledged']))


def test_cold_reads_ask_the_server_for_each_object(start, conf, server):
    reading = start('replication', conf, 'read', 'x', 0.1, 0.3)
    before = server.ruok()['loads']
    status, told, errors = reading.answer('go')
    assert 0 == status, errors
    assert server.ruok()['loads'] - before >= len(told['latencies_us']) > 0
    assert [] == told['acknowledged']


def test_writers_of_different_names_are_not_in_each_other_s_way(start, conf):
    writers = [start('replication', conf, 'indico', name, 0, 0.3) for name in 'xy']
    for each in writers:
        status, told, errors = each.answer('go')
        assert 0 == status, errors
        assert 0 == told['retried']


def test_each_transaction_is_seen_when_its_server_tells_of_it(start, conf):
    watching = start('lag', 0.002, 'b=%s' % conf)
    _, told, _ = start('replication', conf, 'small', 'x', 0, 0.3).answer('go')
    acknowledged = dict(told['acknowledged'])
    status, seen, errors = watching.answer('%d 30' % max(acknowledged))
    assert 0 == status, errors
    assert set(acknowledged) <= set(tid for tid, _ in seen['arrivals']['b'])
    assert seen['gaps_ms'] == {'b': []}


def test_what_does_not_arrive_in_time_is_an_error_that_names_it(start, conf, server):
    last = u64(server.last_tid())
    status, _, errors = start('lag', 0.002, 'b=%s' % conf).answer('%d 0.2' % (last + 1))
    assert 1 == status
    assert 'b has transaction %016x, and not yet %016x' % (last, last + 1) in errors


def test_a_program_that_nobody_waits_for_ends(start, conf):
    for arguments in (('lag', 0.002, 'b=%s' % conf), ('replication', conf, 'small', 'x', 0, 0.3)):
        program = start(*arguments)
        program._popen.stdin.close()
        wait_for(lambda: program._popen.poll() is not None, 'its end')
        assert 1 == program._popen.returncode
