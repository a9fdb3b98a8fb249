"""Each patch is needed: Indico with all patches before it lacks a behaviour that Indico with it has.

`make test` runs the tests of Indico with the whole series, `make test-rest` those of the other trees.
"""
import distutils.spawn
import json
import os
import subprocess

import pytest
from ZODB.fsIndex import fsIndex

from sites import Question
from trees import HERE, since


@since('0001-requirements')
def test_the_requirements_are_those_of_the_environment(tree, site):
    found = site.ask(tree, 'requirements', os.path.join(tree, 'requirements.txt'))
    assert [] == found['missing']
    assert found['distribution'] and found['wanted'] > 30
    with open(os.path.join(tree, 'indico.egg-info', 'requires.txt')) as one:
        with open(os.path.join(tree, 'requirements.txt')) as other:
            assert one.read() == other.read()


@pytest.mark.exhaustive
def test_the_requirements_were_not_those_of_the_environment(trees, site):
    tree = trees.before('0001-requirements')
    found = site.ask(tree, 'requirements', os.path.join(tree, 'requirements.txt'))
    assert 'pyatom==1.2' in found['missing']
    assert not found['distribution']


@since('0003-indico-conf-from-the-environment')
def test_the_environment_names_the_configuration(tree, site):
    assert site.ask(tree, 'configuration')['url'] == 'http://localhost/indico'


@pytest.mark.exhaustive
def test_the_environment_did_not_name_the_configuration(trees, site):
    tree = trees.before('0003-indico-conf-from-the-environment')
    assert site.ask(tree, 'configuration')['url'] != 'http://localhost/indico'


def test_the_environment_need_not_name_the_configuration(trees, site):
    """Without the variable Indico finds its sample, as before."""
    tree = trees.full()
    assert site.ask(tree, 'configuration', INDICO_CONF='')['url'] == 'http://localhost:8000/indico'


@since('0002-no-zodb-version-check')
def test_the_database_module_can_be_imported(tree, site):
    assert site.ask(tree, 'imports', 'indico.core.db') == 'imported'


@since('0004-configured-storage')
def test_indico_opens_the_configured_storage(tree, site):
    assert site.ask(tree, 'database', 'look') == {
        'storage': 'FileStorage', 'cache': 5000, 'categories': ['0', '1']}


def test_opening_is_tried_again_and_a_failure_closes_the_storage(trees, site):
    assert site.ask(trees.full(), 'database', 'lose_first_calls') == {
        'categories': ['0', '1'], 'error': 'ClientDisconnected', 'closed': [True, True]}


@since('0005-pack-through-the-database')
def test_any_storage_can_be_packed(tree, site):
    packed = site.ask(tree, 'database', 'pack')
    assert packed['after'] < packed['before']


@since('0021-undo-is-refused-in-words')
def test_an_undo_that_the_storage_does_not_offer_is_refused_in_words(tree, site):
    refusal = site.ask(tree, 'database', 'undo')
    assert 'Unsupported' == refusal['error']
    assert "can't undo transactions" in refusal['words']


@pytest.mark.exhaustive
def test_an_undo_that_the_storage_does_not_offer_was_refused_without_words(trees, site):
    tree = trees.before('0021-undo-is-refused-in-words')
    assert {'error': 'NotImplementedError', 'words': ''} == site.ask(tree, 'database', 'undo')


@since('0022-cached-files-are-whole')
def test_a_cached_value_is_read_whole_while_it_is_written(tree, site):
    found = site.ask(tree, 'caching', str(site.path('')))
    assert found['reads'] > 0
    assert 0 == found['others']


@pytest.mark.exhaustive
def test_a_cached_value_was_read_in_part_while_it_was_written(trees, site):
    tree = trees.before('0022-cached-files-are-whole')
    assert site.ask(tree, 'caching', str(site.path('')))['others'] > 0


def index_is_complete(site):
    """Return True if Data.fs.index covers all of Data.fs, so that opening need not read it."""
    return fsIndex.load(site.path('Data.fs.index'))['pos'] == os.path.getsize(site.path('Data.fs'))


@since('0006-close-the-database-at-exit')
def test_the_index_is_saved_when_the_process_ends(tree, site):
    site.ask(tree, 'database', 'change')
    assert index_is_complete(site)


@pytest.mark.exhaustive
def test_the_index_was_not_saved_when_the_process_ended(trees, site):
    site.ask(trees.before('0006-close-the-database-at-exit'), 'database', 'change')
    assert not index_is_complete(site)


@since('0007-scheduler-worker-opens-the-configured-storage')
def test_a_scheduler_worker_opens_the_storage_of_its_parent(tree, site, free_port):
    site.use_server(free_port)
    assert site.ask(tree, 'worker', free_port) == {'categories': ['0', '1'], 'own': True}


@pytest.mark.exhaustive
def test_a_scheduler_worker_did_not_open_the_storage_of_its_parent(trees, site, free_port):
    site.use_server(free_port)
    tree = trees.before('0007-scheduler-worker-opens-the-configured-storage')
    assert 'ValueError' in site.ask(tree, 'worker', free_port)['error']


@since('0008-room-booking-in-the-main-database')
def test_room_booking_uses_the_connection_of_the_present_request(tree, site):
    assert site.ask(tree, 'database', 'room_booking') == {
        'connected_without_connecting': False, 'own': True, 'room': 'a room'}


@since('0009-atom-feeds-without-pyatom')
def test_an_event_can_be_read_as_an_atom_feed(tree, site):
    """The event begins at 10:00 in Zurich, 09:00 UTC."""
    assert site.ask(tree, 'atom') == {
        'status': 200, 'type': 'application/atom+xml', 'titles': [u'Z\xfcrich & more'],
        'updated': ['2020-01-02T09:00:00Z'], 'links': ['http://localhost/indico/event/0/']}


@pytest.mark.exhaustive
@pytest.mark.parametrize('patch, question, error', [
    ('0002-no-zodb-version-check', ('imports', 'indico.core.db'), 'TypeError'),
    # It knows of a ZEO server only, and of one more for room booking.
    ('0004-configured-storage', ('database', 'look'), 'ClientDisconnected'),
    ('0008-room-booking-in-the-main-database', ('database', 'room_booking'), 'ClientDisconnected'),
    ('0005-pack-through-the-database', ('database', 'pack'), 'TypeError'),
    ('0009-atom-feeds-without-pyatom', ('atom',), 'No module named pyatom'),
])
def test_without_its_patch_this_fails(trees, site, patch, question, error):
    with pytest.raises(Question) as failure:
        site.ask(trees.before(patch), *question)
    assert error in str(failure.value)


def operations(site, tree, *conflicts):
    """Return (result, calls, saved) of operations that meet so many conflicts."""
    return [(each['result'], each['calls'], each['saved']) for each in site.ask(tree, 'operation', *conflicts)]


@since('0014-scheduler-ends-its-retries-in-an-error')
def test_the_scheduler_does_not_take_a_lost_operation_for_done(tree, site):
    assert [('ConflictError', 10, False), ('done', 10, True)] == operations(site, tree, 10, 9)


@pytest.mark.exhaustive
def test_the_scheduler_took_a_lost_operation_for_done(trees, site):
    tree = trees.before('0014-scheduler-ends-its-retries-in-an-error')
    assert [('done', 10, False)] == operations(site, tree, 10)


@since('0016-scheduler-tests-retry-conflicts')
def test_indicos_own_scheduler_tests_survive_a_conflict(tree, site):
    assert site.ask(tree, 'enqueue') == {'error': None, 'spooled': 1}


@pytest.mark.exhaustive
def test_indicos_own_scheduler_tests_did_not_survive_a_conflict(trees, site):
    tree = trees.before('0016-scheduler-tests-retry-conflicts')
    assert site.ask(tree, 'enqueue') == {'error': 'ConflictError', 'spooled': 0}


BROWSER_ERRORS = '0015-browser-shows-json-rpc-errors-of-any-status'
needs_node = pytest.mark.skipif(not distutils.spawn.find_executable('node'), reason='Node.js runs the JavaScript')


def shown_by_the_browser(tree):
    """Return what the callers of Indico's Remote.js get; check the answers that the patch does not change."""
    program = os.path.join(tree, 'indico', 'htdocs', 'js', 'presentation', 'Data', 'Remote.js')
    shown = json.loads(subprocess.check_output(['node', os.path.join(HERE, 'scripts', 'remote.js'), program]))
    assert {'result': 'fine', 'error': None} == shown['ok']
    assert {'result': None, 'error': {'message': 'no', 'type': 'noReport'}} == shown['refused']
    assert {'result': {}, 'error': 'SERVER: 502,text of 502'} == shown['other']
    return shown


@needs_node
@since(BROWSER_ERRORS)
def test_the_browser_shows_the_error_of_an_unavailable_service(tree):
    assert {'message': 'later', 'type': 'noReport'} == shown_by_the_browser(tree)['unavailable']['error']


@needs_node
@pytest.mark.exhaustive
def test_the_browser_showed_the_status_of_an_unavailable_service(trees):
    shown = shown_by_the_browser(trees.before(BROWSER_ERRORS))
    assert 'SERVER: 503,text of 503' == shown['unavailable']['error']


COUNTRIES = '0023-countries-are-read-when-needed'


def test_lists_of_countries_are_read_when_they_are_needed(trees, site):
    found = site.ask(trees.full(), 'countries')
    assert not found['at_import']
    assert ['Switzerland', 'Netherlands Antilles', None] == found['answers'][:3]
    assert len(found['answers'][3]) > 200


@pytest.mark.exhaustive
def test_lists_of_countries_were_read_at_import_and_are_the_same_now(trees, site):
    before, now = [site.ask(tree, 'countries') for tree in (trees.before(COUNTRIES), trees.through(COUNTRIES))]
    assert (True, False) == (before['at_import'], now['at_import'])
    assert before['answers'] == now['answers']


BUNDLES = '0024-a-folder-of-its-own-for-bundles'


@since(BUNDLES)
def test_bundles_are_kept_and_served_from_the_configured_folder(tree, site):
    found = site.ask(tree, 'bundle', site.path('bundles'))
    assert (200, True) == (found['status'], found['type'].endswith('/javascript'))
    assert found['body']
    assert found['path'].startswith('/static/assets/js/utils_')
    assert found['file'] == 'bundles' + found['path'][len('/static/assets'):]
    assert os.path.isfile(site.path(found['file']))
    assert site.path('bundles/plugins/search') == found['plugin']
    assert 404 == found['outside']


@pytest.mark.exhaustive
def test_bundles_without_a_configured_folder_are_among_the_files_of_indico(trees, site):
    tree = trees.through(BUNDLES)
    found = site.ask(tree, 'bundle')
    assert (200, True) == (found['status'], found['type'].endswith('/javascript'))
    assert os.path.isfile(os.path.join(tree, 'indico', 'htdocs', found['path'][1:]))


@pytest.mark.exhaustive
def test_bundles_could_not_be_kept_elsewhere(trees, site):
    with pytest.raises(Question) as failure:
        site.ask(trees.before(BUNDLES), 'bundle', site.path('bundles'))
    assert 'getStaticFile' in str(failure.value)
    assert not os.path.exists(site.path('bundles'))
