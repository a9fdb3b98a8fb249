"""Each patch is needed: the behaviour fails with all patches before it, and holds once it is applied."""
import distutils.spawn
import json
import os
import subprocess

import pytest
from ZODB.fsIndex import fsIndex

from sites import Question
from trees import HERE


def test_the_requirements_are_those_of_the_environment(trees, site):
    without, with_it = trees.without_and_with('0001-requirements')
    before = site.ask(without, 'requirements', os.path.join(without, 'requirements.txt'))
    after = site.ask(with_it, 'requirements', os.path.join(with_it, 'requirements.txt'))
    assert 'pyatom==1.2' in before['missing']
    assert not before['distribution']
    assert [] == after['missing']
    assert after['distribution'] and after['wanted'] > 30
    for name in ('requirements.txt', 'indico.egg-info/requires.txt'):
        with open(os.path.join(with_it, name)) as one, open(os.path.join(with_it, 'requirements.txt')) as other:
            assert one.read() == other.read()


def test_the_environment_names_the_configuration(trees, site):
    without, with_it = trees.without_and_with('0003-indico-conf-from-the-environment')
    assert site.ask(without, 'configuration')['url'] != 'http://localhost/indico'
    assert site.ask(with_it, 'configuration')['url'] == 'http://localhost/indico'


def test_the_environment_need_not_name_the_configuration(trees, site):
    """Without the variable Indico finds its sample, as before."""
    tree = trees.full()
    assert site.ask(tree, 'configuration', INDICO_CONF='')['url'] == 'http://localhost:8000/indico'


def test_the_database_module_can_be_imported(trees, site):
    without, with_it = trees.without_and_with('0002-no-zodb-version-check')
    with pytest.raises(Question) as failure:
        site.ask(without, 'imports', 'indico.core.db')
    assert 'TypeError' in str(failure.value)
    assert site.ask(with_it, 'imports', 'indico.core.db') == 'imported'


def test_indico_opens_the_configured_storage(trees, site):
    without, with_it = trees.without_and_with('0004-configured-storage')
    with pytest.raises(Question) as failure:
        site.ask(without, 'database', 'look')
    assert 'ClientDisconnected' in str(failure.value)  # it knows of a ZEO server only
    assert site.ask(with_it, 'database', 'look') == {
        'storage': 'FileStorage', 'cache': 5000, 'categories': ['0', '1']}


def test_opening_is_tried_again_and_a_failure_closes_the_storage(trees, site):
    assert site.ask(trees.full(), 'database', 'lose_first_calls') == {
        'categories': ['0', '1'], 'error': 'ClientDisconnected', 'closed': [True, True]}


def test_any_storage_can_be_packed(trees, site):
    without, with_it = trees.without_and_with('0005-pack-through-the-database')
    with pytest.raises(Question) as failure:
        site.ask(without, 'database', 'pack')
    assert 'TypeError' in str(failure.value)
    packed = site.ask(with_it, 'database', 'pack')
    assert packed['after'] < packed['before']


def test_an_undo_that_the_storage_does_not_offer_is_refused_in_words(trees, site):
    without, with_it = trees.without_and_with('0021-undo-is-refused-in-words')
    assert {'error': 'NotImplementedError', 'words': ''} == site.ask(without, 'database', 'undo')
    refusal = site.ask(with_it, 'database', 'undo')
    assert 'Unsupported' == refusal['error']
    assert "can't undo transactions" in refusal['words']


def test_a_cached_value_is_read_whole_while_it_is_written(trees, site):
    without, with_it = trees.without_and_with('0022-cached-files-are-whole')
    assert site.ask(without, 'caching', str(site.path('')))['others'] > 0
    found = site.ask(with_it, 'caching', str(site.path('')))
    assert found['reads'] > 0
    assert 0 == found['others']


def index_is_complete(site):
    """Tells whether Data.fs.index covers all of Data.fs, so that opening need not read it."""
    return fsIndex.load(site.path('Data.fs.index'))['pos'] == os.path.getsize(site.path('Data.fs'))


def test_the_index_is_saved_when_the_process_ends(trees, new_site):
    without, with_it = trees.without_and_with('0006-close-the-database-at-exit')
    before, after = new_site(), new_site()
    before.ask(without, 'database', 'change')
    assert not index_is_complete(before)
    after.ask(with_it, 'database', 'change')
    assert index_is_complete(after)


def test_a_scheduler_worker_opens_the_storage_of_its_parent(trees, site, free_port):
    without, with_it = trees.without_and_with('0007-scheduler-worker-opens-the-configured-storage')
    site.use_server(free_port)
    assert 'ValueError' in site.ask(without, 'worker', free_port)['error']
    assert site.ask(with_it, 'worker', free_port) == {'categories': ['0', '1'], 'own': True}


def test_room_booking_uses_the_connection_of_the_present_request(trees, site):
    without, with_it = trees.without_and_with('0008-room-booking-in-the-main-database')
    with pytest.raises(Question) as failure:
        site.ask(without, 'database', 'room_booking')
    assert 'ClientDisconnected' in str(failure.value)  # a ZEO client of its own
    assert site.ask(with_it, 'database', 'room_booking') == {
        'connected_without_connecting': False, 'own': True, 'room': 'a room'}


def test_an_event_can_be_read_as_an_atom_feed(trees, site):
    """The event begins at 10:00 in Zurich, 09:00 UTC."""
    without, with_it = trees.without_and_with('0009-atom-feeds-without-pyatom')
    with pytest.raises(Question) as failure:
        site.ask(without, 'atom')
    assert 'No module named pyatom' in str(failure.value)
    assert site.ask(with_it, 'atom') == {
        'status': 200, 'type': 'application/atom+xml', 'titles': [u'Z\xfcrich & more'],
        'updated': ['2020-01-02T09:00:00Z'], 'links': ['http://localhost/indico/event/0/']}


def test_the_scheduler_does_not_take_a_lost_operation_for_done(trees, site):
    without, with_it = trees.without_and_with('0014-scheduler-ends-its-retries-in-an-error')
    outcomes = [site.ask(tree, 'operation', conflicts)
                for tree, conflicts in ((without, 10), (with_it, 10), (with_it, 9))]
    assert [('done', 10, False), ('ConflictError', 10, False), ('done', 10, True)] == [
        (each['result'], each['calls'], each['saved']) for each in outcomes]


def test_indicos_own_scheduler_tests_survive_a_conflict(trees, new_site):
    without, with_it = trees.without_and_with('0016-scheduler-tests-retry-conflicts')
    assert new_site().ask(without, 'enqueue') == {'error': 'ConflictError', 'spooled': 0}
    assert new_site().ask(with_it, 'enqueue') == {'error': None, 'spooled': 1}


@pytest.mark.skipif(not distutils.spawn.find_executable('node'), reason='Node.js runs the JavaScript')
def test_the_browser_shows_the_error_of_an_unavailable_service(trees):
    without, with_it = [os.path.join(tree, 'indico', 'htdocs', 'js', 'presentation', 'Data', 'Remote.js')
                        for tree in trees.without_and_with('0015-browser-shows-json-rpc-errors-of-any-status')]
    before, after = [
        json.loads(subprocess.check_output(['node', os.path.join(HERE, 'scripts', 'remote.js'), each]))
        for each in (without, with_it)]
    assert 'SERVER: 503,text of 503' == before['unavailable']['error']
    assert {'message': 'later', 'type': 'noReport'} == after['unavailable']['error']
    for each in ('ok', 'refused', 'other'):
        assert before[each] == after[each]


def test_lists_of_countries_are_read_when_they_are_needed(trees, site):
    without, with_it = trees.without_and_with('0023-countries-are-read-when-needed')
    before, after = site.ask(without, 'countries'), site.ask(with_it, 'countries')
    assert (True, False) == (before['at_import'], after['at_import'])
    assert before['answers'] == after['answers']
    assert ['Switzerland', 'Netherlands Antilles', None] == after['answers'][:3]
    assert len(after['answers'][3]) > 200
