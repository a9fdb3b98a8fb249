"""The program of the raw storage tests: what it reads and writes, and how it counts."""
import itertools

import pytest
import transaction
from ZODB.DB import DB
from ZODB.MappingStorage import MappingStorage
from ZODB.POSException import ConflictError

from bench_programs import IN_MEMORY, answered, configured, in_a_file
from indico_zodbrepl.dataplane.benchmarks import raw
from indico_zodbrepl.dataplane.benchmarks.raw_records import Record


@pytest.fixture(scope='module')
def configuration(tmpdir_factory):
    """Path of that of a FileStorage with two shares."""
    path = in_a_file(tmpdir_factory.mktemp('raw'))
    assert 2 == answered('raw', path, 'prepare', '--shares', 2)['shares']
    return path


def measured(configuration, test, *arguments):
    return answered('raw', configuration, test, '--seconds', 0.1, *arguments)


def test_commits_are_made_until_time_is_up(configuration):
    found = measured(configuration, 'throughput', '--share', 1)
    assert found['operations'] > 1
    assert found['seconds'] >= 0.1
    assert found['operations'] == sum(count for _, count in found['latencies'])


def test_a_commit_stores_as_many_objects_as_wanted_with_their_content(configuration):
    found = measured(configuration, 'throughput', '--objects', 7, '--object-bytes', 1000)
    stored = found['stored_bytes'] / float(found['operations'])
    assert 7 * 1000 < stored < 7 * 1200


def test_what_is_changed_is_in_the_cache_before_the_clock_starts(configuration):
    assert 0 == measured(configuration, 'throughput', '--objects', 100)['loads']


def test_latency_takes_as_many_commits_as_wanted(configuration):
    assert 12 == measured(configuration, 'latency', '--repetitions', 12)['operations']


def test_a_cold_read_loads_each_object_and_a_hot_one_none(configuration):
    cold = measured(configuration, 'read', '--caches', 'cold')
    assert cold['operations'] == cold['loads'] == cold['misses'] > 0
    hot = measured(configuration, 'read', '--caches', 'hot')
    assert hot['operations'] > 0 == hot['loads']


def test_hot_reads_have_no_latencies(configuration):
    assert [] == measured(configuration, 'read', '--caches', 'hot')['latencies']


def test_a_database_in_memory_is_filled_by_the_process_that_measures(tmpdir):
    path = configured(tmpdir, IN_MEMORY)
    assert measured(path, 'read', '--caches', 'warm', '--prepare')['operations'] > 0


def test_a_configuration_may_be_that_of_a_database(tmpdir):
    path = configured(tmpdir, '<zodb main>\n%s</zodb>\n' % IN_MEMORY)
    assert measured(path, 'throughput', '--prepare')['operations'] > 0


def test_preparing_makes_the_shares_again():
    with_root = DB(MappingStorage()).open()
    for shares in (3, 2):
        raw.prepare(with_root.root(), shares, 10)
        assert shares == len(with_root.root()[raw.KEY])


class TestConflicts(object):
    """Another connection changes the same object while a transaction is under way."""

    @pytest.fixture
    def db(self):
        db = DB(MappingStorage())
        with db.transaction() as connection:
            connection.root()['record'] = Record('old')
        yield db
        transaction.abort()
        db.close()

    def fillers(self, db, conflicts):
        for number in itertools.count():
            if number < conflicts:
                with db.transaction() as other:
                    other.root()['record'].content = 'of another'
            yield 'new %d' % number

    def test_are_tried_again_and_counted(self, db):
        record = db.open().root()['record']
        assert 2 == raw.committed([record], self.fillers(db, 2))
        with db.transaction() as connection:
            assert 'new 2' == connection.root()['record'].content

    def test_are_not_tried_for_ever(self, db):
        record = db.open().root()['record']
        with pytest.raises(ConflictError):
            raw.committed([record], self.fillers(db, raw.ATTEMPTS))
