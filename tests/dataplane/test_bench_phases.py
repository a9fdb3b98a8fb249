"""The program of the phases: the graph that it makes, and that only a right result counts."""
import pytest
import transaction
from ZODB.DB import DB
from ZODB.MappingStorage import MappingStorage

from bench_programs import IN_MEMORY, answered, configured, in_a_file
from indico_zodbrepl.dataplane.benchmarks import phases
from indico_zodbrepl.dataplane.benchmarks.phases_library import Library
from indico_zodbrepl.dataplane.benchmarks.phases_queries import QUERIES

SCALE = 0.05


@pytest.fixture
def db():
    db = DB(MappingStorage())
    yield db
    transaction.abort()
    db.close()


@pytest.fixture(scope='module')
def configuration(tmpdir_factory):
    """Path of that of a FileStorage with the objects."""
    path = in_a_file(tmpdir_factory.mktemp('phases'))
    answered('phases', path, 'create', '--scale', SCALE)
    return path


def test_a_library_of_one_scale_is_always_the_same():
    one, another = Library(SCALE), Library(SCALE)
    assert vars(one) == vars(another)
    assert all(one.answer(each) == another.answer(each) for each in QUERIES)


def test_a_library_grows_with_its_scale():
    assert Library(0.5).objects() > 5 * Library(SCALE).objects()


def test_scale_1_has_as_many_objects_as_is_documented(db):
    library = Library(1.0)
    assert [2000, 200, 1000, 100, 3200] == library.sizes()
    created = phases.create(db, library)
    assert (6900, 14423) == (created['objects'], created['records'])


def test_the_smallest_library_has_some_of_everything():
    assert all(size >= 2 for size in Library(0.0).sizes())


def test_groups_are_nested_in_others():
    library = Library(SCALE)
    direct = sum(len(each) for each in library.users)
    assert sum(library._group_members()) > direct


@pytest.mark.parametrize('scale', [0.0, SCALE, 0.3])
@pytest.mark.parametrize('name', sorted(QUERIES))
def test_a_query_finds_what_the_library_says(db, name, scale):
    library = Library(scale)
    phases.create(db, library)
    found = phases.query(db, library, name)
    assert library.answer(name) == found['answer']
    assert found['objects'] > 0


@pytest.mark.parametrize('name', sorted(QUERIES))
def test_a_wrong_result_is_an_error(db, name):
    phases.create(db, Library(SCALE))
    library = Library(SCALE)
    library.answer = lambda _: [1, 2]
    with pytest.raises(phases.WrongResult):
        phases.query(db, library, name)


def test_a_contribution_in_the_wrong_place_is_an_error(db):
    library = Library(SCALE)
    phases.create(db, library)
    with db.transaction() as connection:
        connection.root()[phases.KEY].conferences[0].sessions[1].contributions.reverse()
    with pytest.raises(phases.WrongResult):
        phases.query(db, library, 'conference-contributions')


def test_a_member_too_many_is_an_error(db):
    library = Library(SCALE)
    phases.create(db, library)
    with db.transaction() as connection:
        site = connection.root()[phases.KEY]
        group = site.groups[len(site.groups) - 1]
        stranger = next(each for each in site.users.values() if each.name not in group.users)
        group.users[stranger.name] = stranger
    with pytest.raises(phases.WrongResult):
        phases.query(db, library, 'group-members')


def test_creation_and_commit_are_timed_apart(db):
    library = Library(SCALE)
    found = phases.create(db, library)
    assert found['create_seconds'] > 0
    assert found['commit_seconds'] > 0
    assert library.objects() == found['objects'] < found['records']


def test_creating_again_replaces_what_was_there(db):
    phases.create(db, Library(SCALE))
    phases.create(db, Library(0.0))
    phases.query(db, Library(0.0), 'sequence-walk')


@pytest.mark.parametrize('name', sorted(QUERIES))
def test_a_query_of_another_process_begins_with_empty_caches(configuration, name):
    found = answered('phases', configuration, name, '--scale', SCALE)
    assert found['records'] > 0
    assert Library(SCALE).answer(name) == found['answer']


def test_a_database_in_memory_is_filled_by_the_process_of_the_query(tmpdir):
    path = configured(tmpdir, IN_MEMORY)
    assert answered('phases', path, 'user-groups', '--scale', SCALE, '--create')['records'] > 0
