"""What requests are answered when the storage fails them; without the patches, what they were answered.

page: a web form; rpc: JSON-RPC; export: reading with an API key, whose use is recorded; api: a hook of
the HTTP API that saves something.
"""
import json

import pytest

from sites import copy_of, some_free_port

SURFACES = ('page', 'rpc', 'export', 'api')
PATCH_OF = {'page': '0011-pages-end-their-retries-in-an-error',
            'rpc': '0012-json-rpc-ends-its-retries-in-an-error',
            'export': '0013-http-api-ends-its-retries-in-an-error',
            'api': '0013-http-api-ends-its-retries-in-an-error'}
SUCCESS = {'page': 303, 'rpc': 200, 'export': 200, 'api': 200}


def write(site, tree, surface, case='ConflictError:0:0'):
    answer, = site.ask(tree, 'write', surface, site.ids['key'], case)
    return answer


CASES = {'no error': 'ConflictError:0:0', 'conflicts for ever': 'ConflictError:0:99',
         'a few conflicts': 'ConflictError:0:3', 'missing objects': 'POSKeyError:0:99',
         'lost while saving': 'LostWhileSaving:0:1', 'short disconnection': 'ClientDisconnected:0:2'}


@pytest.fixture(scope='module')
def writes(trees, template, tmpdir_factory):
    """With all patches: what a write by a surface is answered in one of CASES."""
    answers = {}

    def answer(surface, case):
        if surface not in answers:
            site = copy_of(template, tmpdir_factory)
            names = sorted(CASES)
            answers[surface] = dict(zip(names, site.ask(
                trees.full(), 'write', surface, site.ids['key'], *[CASES[name] for name in names])))
        return answers[surface][case]
    return answer


def assert_unavailable(answer, surface):
    """The answer says in the manner of its surface that the request was not completed."""
    assert (503, '5') == (answer['status'], answer['retry_after'])
    if surface == 'page':
        assert answer['type'] == 'text/html'
        assert 'not completed' in answer['body'] or 'be completed' in answer['body']
    else:
        assert answer['type'] == 'application/json'
        body = json.loads(answer['body'])
        if surface == 'rpc':
            assert body['result'] is None
            assert body['id'] == 7
            assert body['error']['type'] == 'noReport'
            assert 'try again' in body['error']['message']
        else:
            assert 'try again' in body['message']
    assert not answer['cookie']


def assert_nothing_happened(answer):
    assert not answer['saved']
    assert answer['open_connections'] == 0


@pytest.mark.parametrize('surface', SURFACES)
def test_a_write_is_saved_and_its_mail_sent(writes, surface):
    answer = writes(surface, 'no error')
    assert (SUCCESS[surface], True, 1, 0) == (
        answer['status'], answer['saved'], answer['tries'], answer['open_connections'])
    assert answer['mails'] == 1


@pytest.mark.parametrize('surface', SURFACES)
def test_a_write_whose_storage_is_lost_while_it_saves_is_not_tried_again(writes, surface):
    """It would be saved twice; the user is told that nobody knows."""
    answer = writes(surface, 'lost while saving')
    assert (503, 1) == (answer['status'], answer['tries'])
    assert 'not known whether this request was completed' in answer['body']
    assert 0 == answer['open_connections']


@pytest.mark.parametrize('surface', SURFACES)
def test_a_write_that_never_gets_through_conflicts_is_unavailable(writes, surface):
    answer = writes(surface, 'conflicts for ever')
    assert_unavailable(answer, surface)
    assert_nothing_happened(answer)
    assert answer['tries'] == 10


@pytest.mark.parametrize('surface, kept', [('page', 1), ('rpc', 1), ('export', 1)])
def test_a_lost_write_was_answered_as_a_success_and_kept_its_connection(trees, site, surface, kept):
    """So it is with all patches but the surface's own (and those after it)."""
    without, _ = trees.without_and_with(PATCH_OF[surface])
    answer = write(site, without, surface, 'ConflictError:0:99')
    assert (SUCCESS[surface], False, 10, kept) == (
        answer['status'], answer['saved'], answer['tries'], answer['open_connections'])


@pytest.mark.parametrize('surface', ('page', 'rpc', 'api'))
def test_a_write_that_succeeds_after_conflicts_is_done_once(writes, surface):
    answer = writes(surface, 'a few conflicts')
    assert (SUCCESS[surface], True, 4, 0) == (
        answer['status'], answer['saved'], answer['tries'], answer['open_connections'])
    assert answer['mails'] == 1


def test_a_hook_sent_its_mail_at_each_try(trees, site):
    without, _ = trees.without_and_with(PATCH_OF['api'])
    assert write(site, without, 'api', 'ConflictError:0:3')['mails'] == 4


@pytest.mark.parametrize('surface', ('page', 'rpc', 'api'))
def test_no_mail_tells_of_a_write_that_was_lost(writes, surface):
    assert writes(surface, 'conflicts for ever')['mails'] == 0


@pytest.mark.parametrize('surface', SURFACES)
def test_a_write_that_misses_objects_is_unavailable(writes, surface):
    answer = writes(surface, 'missing objects')
    assert_unavailable(answer, surface)
    assert_nothing_happened(answer)


@pytest.mark.parametrize('surface', SURFACES)
def test_a_write_to_a_read_only_storage_is_unavailable_at_once(trees, site, surface):
    site.use_file(read_only=True)
    answer = write(site, trees.full(), surface)
    assert_unavailable(answer, surface)
    assert 'read-only' in answer['body'] or 'nothing can be saved' in answer['body']
    assert_nothing_happened(answer)
    assert answer['tries'] == 1


@pytest.mark.parametrize('surface, status', [('page', 500), ('rpc', 200), ('export', 500), ('api', 500)])
def test_a_write_to_a_read_only_storage_was_an_internal_error(trees, site, surface, status):
    """JSON-RPC told of an unforeseen error, at HTTP 200."""
    site.use_file(read_only=True)
    without, _ = trees.without_and_with('0010-answer-503-when-the-storage-fails')
    answer = write(site, without, surface)
    assert status == answer['status']


@pytest.mark.parametrize('surface', SURFACES)
def test_a_short_disconnection_is_bridged(writes, surface):
    answer = writes(surface, 'short disconnection')
    assert (SUCCESS[surface], True, 3, 0) == (
        answer['status'], answer['saved'], answer['tries'], answer['open_connections'])


def test_the_api_does_not_ask_for_a_repetition_of_what_it_saved(trees, site):
    """The hook's commit succeeds; then recording the key's use fails, which only the log tells."""
    answer = write(site, trees.full(), 'api', 'ConflictError:1:99')
    assert (200, True, 1, 0) == (
        answer['status'], answer['saved'], answer['tries'], answer['open_connections'])
    with open(site.path('indico.log')) as log:
        assert 'not recorded: ConflictError' in log.read()


def test_pages_can_be_read_while_the_storage_is_read_only(trees, site):
    site.use_file(read_only=True)
    answers = site.ask(trees.full(), 'read', '/', '/category/1/', '/event/0/', '/export/event/0.json')
    assert [200] * 4 == [answer['status'] for answer in answers]


def test_errors_that_are_not_the_storages_are_answered_as_before(trees, site):
    paths = ('/missing', '/event/99/', '/event/0/manage/', '/export/nonsense/0.json', '/export/event/0.json?ak=bad')
    pristine_like, _ = trees.without_and_with('0010-answer-503-when-the-storage-fails')
    before = site.ask(pristine_like, 'read', *paths)
    after = site.ask(trees.full(), 'read', *paths)
    assert [answer['status'] for answer in before] == [answer['status'] for answer in after]
    assert 404 == after[0]['status']
    assert 403 == after[4]['status']


def test_no_way_out_of_a_request_keeps_a_connection(trees, site):
    paths = ('/missing', '/event/99/', '/event/0/manage/', '/export/nonsense/0.json')
    assert [0] * 4 == [answer['open_connections'] for answer in site.ask(trees.full(), 'read', *paths)]


def test_an_unknown_export_kept_its_connection(trees, site):
    without, _ = trees.without_and_with(PATCH_OF['export'])
    assert 1 == site.ask(without, 'read', '/export/nonsense/0.json')[0]['open_connections']


def test_a_file_is_sent_as_before(trees, site):
    """Files are streamed after the request ended."""
    answer, = site.ask(trees.full(), 'read', '/images/indico.ico')
    assert 200 == answer['status']
    assert 1000 < answer['length']


EVERYTHING = ('home', 'missing page', 'missing export', 'public export', 'ajax') + SURFACES


@pytest.fixture(scope='module')
def outage(trees, template, tmpdir_factory):
    """What happened around the death of a real server; see scripts/outage.py."""
    site = copy_of(template, tmpdir_factory)
    port = some_free_port()
    site.use_server(port)
    return site.ask(trees.full(), 'outage', port, site.ids['key'], *EVERYTHING)


@pytest.mark.parametrize('asked', EVERYTHING)
def test_without_a_server_every_request_is_unavailable(outage, asked):
    answer = outage['away'][asked]
    manner = {'home': 'page', 'missing page': 'page', 'missing export': 'export',
              'public export': 'export'}.get(asked, asked)
    if asked == 'ajax':
        assert 'noReport' == json.loads(answer['body'])['error']['type']
        assert (503, '5') == (answer['status'], answer['retry_after'])
    else:
        assert_unavailable(answer, manner)


def test_without_a_server_nothing_is_saved_and_no_mail_sent(outage):
    assert ([], 0) == (outage['saved'], outage['mails'])


def test_without_a_server_connections_are_given_back(outage):
    assert 0 == outage['open_connections']


def test_when_the_server_is_back_indico_reads_and_writes_again(outage):
    assert (200, 303, True) == (outage['back'], outage['written'], outage['written_and_read'])
    assert 0 == outage['open_connections_at_last']


def test_without_a_server_an_unknown_address_broke_out_of_the_application(trees, site, free_port):
    without, _ = trees.without_and_with('0010-answer-503-when-the-storage-fails')
    site.use_server(free_port)
    outcome = site.ask(without, 'outage', free_port, site.ids['key'], 'missing page')
    assert ('raised', 'ClientDisconnected') == (
        outcome['away']['missing page']['status'], outcome['away']['missing page']['error'])


def test_how_often_and_after_which_pauses_a_request_is_tried(trees, site):
    """Pauses in seconds, at their longest; None: the error is final."""
    decided = site.ask(trees.full(), 'retries')
    assert [0.05] == decided['conflicts'][:1] == decided['read conflict'] == decided['missing object']
    assert (10, None) == (len(decided['conflicts']), decided['conflicts'][-1])
    assert [None] == decided['read-only'] == decided['disconnected late']
    assert [0.25, 0.25] == decided['disconnected soon']
    assert [0.25, None] == decided['disconnected, then read-only']


def test_a_commit_that_fails_otherwise_is_an_error_and_no_redirect(trees, new_site):
    """What else a storage raises was taken for an error in the form, after the redirect was decided."""
    without, with_it = trees.without_and_with('0017-errors-take-back-redirects')
    before, after = [write(new_site(), tree, 'page', 'ValueError:0:1') for tree in (without, with_it)]
    assert (303, False) == (before['status'], before['saved'])
    assert (500, False) == (after['status'], after['saved'])
    assert (0, 1, 0) == (after['mails'], after['tries'], after['open_connections'])


@pytest.mark.parametrize('surface', ['rpc', 'export', 'api'])
def test_a_commit_that_fails_otherwise_is_reported_by_every_surface(trees, new_site, surface):
    answer = write(new_site(), trees.full(), surface, 'ValueError:0:1')
    assert not answer['saved']
    if surface == 'rpc':
        assert json.loads(answer['body'])['error'] is not None
    else:
        assert answer['status'] >= 500


def test_who_is_not_logged_in_is_still_sent_to_the_login_page(trees, site):
    """The page is refused by an error after that redirect was decided, and was so before."""
    for tree in trees.without_and_with('0017-errors-take-back-redirects'):
        assert 303 == site.ask(tree, 'read', '/admin/')[0]['status']


NOT_TAKEN_FOR_MISSING = '0018-errors-of-the-storage-are-not-taken-for-missing-objects'


def test_a_server_lost_while_an_event_was_looked_for_was_an_invalid_event(trees, site):
    without, _ = trees.without_and_with(NOT_TAKEN_FOR_MISSING)
    answer = site.ask(without, 'unloadable', 'rpc', site.ids['key'], 1)
    assert (200, False, 1) == (answer['status'], answer['saved'], answer['failed'])
    assert 'Invalid conference id.' == json.loads(answer['body'])['error']['message']


def test_a_page_saved_what_it_made_of_an_event_that_could_not_be_loaded(trees, site):
    without, _ = trees.without_and_with(NOT_TAKEN_FOR_MISSING)
    answer = site.ask(without, 'unloadable', 'page', site.ids['key'], 1)
    assert (303, True, 1, 1) == (
        answer['status'], answer['saved'], answer['tries'], answer['failed'])


@pytest.mark.parametrize('surface', ('page', 'rpc'))
def test_a_request_that_could_not_load_an_event_is_tried_again(trees, site, surface):
    answer = site.ask(trees.full(), 'unloadable', surface, site.ids['key'], 1)
    assert (SUCCESS[surface], True, 1) == (answer['status'], answer['saved'], answer['failed'])


@pytest.mark.parametrize('surface', ('page', 'rpc'))
def test_a_request_that_never_could_load_an_event_is_unavailable(trees, site, surface):
    answer = site.ask(trees.full(), 'unloadable', surface, site.ids['key'], 10000)
    assert_unavailable(answer, surface)
    assert not answer['saved']
