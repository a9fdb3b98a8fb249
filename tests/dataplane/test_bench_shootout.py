"""The program that makes zodbshootout's tests: on its own storage in memory, and on a file."""
import pytest
import ZODB.config

from bench_programs import answered
from indico_zodbrepl.dataplane.benchmarks.shootout import TESTS, measured

FILE = '''\
%%import indico_zodbrepl.dataplane
<zodb main>
  <indicostorage>
    <filestorage>
      path %s
    </filestorage>
  </indicostorage>
</zodb>
'''


@pytest.fixture(scope='module')
def conf(tmpdir_factory):
    """Path of the configuration of a file with what two workers read, ten objects each."""
    folder = tmpdir_factory.mktemp('shootout')
    path = folder.join('shootout.conf')
    path.write(FILE % folder.join('Data.fs'))
    answered('shootout', path, 'populate', 10, 2)
    return path


@pytest.mark.parametrize('test', sorted(TESTS))
def test_each_test_is_repeated_for_about_as_long_as_wanted(conf, test):
    found = answered('shootout', conf, test, 10, 2, 'threads', 0.05)
    assert found['transaction_seconds'] > 0
    assert found['repetitions'] >= 1
    assert abs(found['seconds'] - found['transaction_seconds'] * found['repetitions']) < 1e-6


def test_workers_are_processes_where_each_can_have_a_storage(tmpdir):
    empty = tmpdir.join('empty.conf')
    empty.write('')
    assert answered('shootout', empty, 'update', 10, 2, 'processes', 0.05)['repetitions'] >= 1


def test_what_is_there_is_not_made_again(conf):
    def size():
        with open(str(conf)) as source:
            db = ZODB.config.databaseFromFile(source)
        try:
            return len(db.storage)
        finally:
            db.close()
    before = size()
    answered('shootout', conf, 'populate', 10, 2)
    assert before == size()


class Slow(object):
    """Stands for zodbshootout's; each repetition takes a tenth of a second."""

    def __init__(self):
        self.calls = []

    def bench_cold_read(self, loops, factory):
        self.calls.append(loops * self.inner_loops)
        return 0.1 * loops * self.inner_loops
    bench_cold_read.inner_loops = True
    bench_add = bench_update = bench_cold_read

    def bench_read_after_write(self, loops, factory):
        self.calls.append(loops)
        return 0.1 * loops
    bench_read_after_write.inner_loops = False


@pytest.mark.parametrize('test', ['cold', 'warm'])
def test_a_single_worker_that_wants_cold_caches_has_the_database_opened_each_time(test):
    tests = Slow()
    found = measured(tests, test, None, 1, 0.55)
    assert [1] * 6 == tests.calls
    assert 5 == found['repetitions']


@pytest.mark.parametrize('test,concurrency', [('cold', 2), ('warm', 2), ('add', 1)])
def test_others_repeat_in_one_go_so_that_workers_are_at_work_together(test, concurrency):
    tests = Slow()
    found = measured(tests, test, None, concurrency, 0.55)
    assert [1, 5] == tests.calls
    assert abs(0.1 - found['transaction_seconds']) < 1e-6


def test_what_takes_longer_than_wanted_is_made_once():
    tests = Slow()
    assert 1 == measured(tests, 'add', None, 1, 0.05)['repetitions']
    assert [1] == tests.calls


def test_updates_are_ten_at_least_as_the_first_one_loads_what_is_updated():
    tests = Slow()
    assert 10 == measured(tests, 'update', None, 1, 0.05)['repetitions']
    assert [1, 10] == tests.calls
