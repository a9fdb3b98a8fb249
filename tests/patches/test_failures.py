"""What requests are answered when the storage fails them; exhaustively, what they were without the patches.

page: a web form; rpc: JSON-RPC; export: reading with an API key, whose use is recorded; api: a hook of
the HTTP API that saves something.
"""
import json

import pytest

from sites import some_free_port
from trees import since

SURFACES = ('page', 'rpc', 'export', 'api')
PATCH_OF = {'page': '0011-pages-end-their-retries-in-an-error',
            'rpc': '0012-json-rpc-ends-its-retries-in-an-error',
            'export': '0013-http-api-ends-its-retries-in-an-error',
            'api': '0013-http-api-ends-its-retries-in-an-error'}
UNAVAILABLE = '0010-answer-503-when-the-storage-fails'
REDIRECTS = '0017-errors-take-back-redirects'
NOT_TAKEN_FOR_MISSING = '0018-errors-of-the-storage-are-not-taken-for-missing-objects'
SUCCESS = {'page': 303, 'rpc': 200, 'export': 200, 'api': 200}


# Errors that no storage is to blame for, by the path that somebody asks for who is not logged in.
ERRORS = {'/missing': 404, '/event/99/': 404, '/event/0/manage/': 303, '/export/nonsense/0.json': 404,
          '/export/event/0.json?ak=bad': 403}

CASES = {'no error': 'ConflictError:0:0', 'conflicts for ever': 'ConflictError:0:99',
         'a few conflicts': 'ConflictError:0:3', 'missing objects': 'POSKeyError:0:99',
         'lost while saving': 'LostWhileSaving:0:1', 'short disconnection': 'ClientDisconnected:0:2',
         'another error': 'ValueError:0:1', 'conflicts from the second commit on': 'ConflictError:1:99'}


def write(site, tree, *cases, **environment):
    """Return what writes, each (surface, name in CASES), are answered."""
    return site.ask(tree, 'write', site.ids['key'],
                    *['%s:%s' % (surface, CASES[case]) for surface, case in cases], **environment)


@pytest.fixture(scope='module')
def writes(trees, new_site):
    """With all patches: what a write is answered, by surface and case. One process makes all writes."""
    cases = [(surface, case) for surface in SURFACES for case in sorted(CASES)]
    return dict(zip(cases, write(new_site(), trees.full(), *cases)))


@pytest.fixture(scope='module')
def read_only_writes(trees, new_site):
    """With all patches: what a write to a read-only storage is answered, by surface."""
    site = new_site()
    session = site.ask(trees.full(), 'hosts', 'here', 'log_in')
    site.use_file(read_only=True)
    cases = [(surface, 'no error') for surface in SURFACES]
    return dict(zip(SURFACES, write(site, trees.full(), *cases, SESSION=session)))


@pytest.fixture(scope='module')
def reads(trees, new_site):
    """With all patches: what somebody who is not logged in gets, by path."""
    paths = sorted(ERRORS) + ['/admin/', '/images/indico.ico']
    return dict(zip(paths, new_site().ask(trees.full(), 'read', *paths)))


@pytest.fixture(scope='module')
def unloadable(trees, new_site):
    """With all patches: what a write is answered that cannot load an event, by surface and failed loads."""
    site = new_site()
    cases = [(surface, failures) for surface in ('page', 'rpc') for failures in (1, 10000)]
    return dict(zip(cases, site.ask(
        trees.full(), 'unloadable', site.ids['key'], *['%s:%d' % case for case in cases])))


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
    answer = writes[surface, 'no error']
    assert (SUCCESS[surface], True, 1, 0) == (
        answer['status'], answer['saved'], answer['tries'], answer['open_connections'])
    assert answer['mails'] == 1


@pytest.mark.parametrize('surface', SURFACES)
def test_a_write_whose_storage_is_lost_while_it_saves_is_not_tried_again(writes, surface):
    """It would be saved twice; the user is told that nobody knows."""
    answer = writes[surface, 'lost while saving']
    assert (503, 1) == (answer['status'], answer['tries'])
    assert 'not known whether this request was completed' in answer['body']
    assert 0 == answer['open_connections']


@pytest.mark.parametrize('surface', SURFACES)
def test_a_write_that_never_gets_through_conflicts_is_unavailable(writes, surface):
    answer = writes[surface, 'conflicts for ever']
    assert_unavailable(answer, surface)
    assert_nothing_happened(answer)
    assert answer['tries'] == 10


@pytest.mark.exhaustive
@pytest.mark.parametrize('surface', ('page', 'rpc', 'export'))
def test_a_lost_write_was_answered_as_a_success_and_kept_its_connection(trees, site, surface):
    """So it is with all patches but the surface's own (and those after it)."""
    answer, = write(site, trees.before(PATCH_OF[surface]), (surface, 'conflicts for ever'))
    assert (SUCCESS[surface], False, 10, 1) == (
        answer['status'], answer['saved'], answer['tries'], answer['open_connections'])


@pytest.mark.parametrize('surface', ('page', 'rpc', 'api'))
def test_a_write_that_succeeds_after_conflicts_is_done_once(writes, surface):
    answer = writes[surface, 'a few conflicts']
    assert (SUCCESS[surface], True, 4, 0) == (
        answer['status'], answer['saved'], answer['tries'], answer['open_connections'])
    assert answer['mails'] == 1


@pytest.mark.exhaustive
def test_a_hook_sent_its_mail_at_each_try(trees, site):
    answer, = write(site, trees.before(PATCH_OF['api']), ('api', 'a few conflicts'))
    assert answer['mails'] == 4


@pytest.mark.parametrize('surface', ('page', 'rpc', 'api'))
def test_no_mail_tells_of_a_write_that_was_lost(writes, surface):
    assert writes[surface, 'conflicts for ever']['mails'] == 0


@pytest.mark.parametrize('surface', SURFACES)
def test_a_write_that_misses_objects_is_unavailable(writes, surface):
    answer = writes[surface, 'missing objects']
    assert_unavailable(answer, surface)
    assert_nothing_happened(answer)


@pytest.mark.parametrize('surface', SURFACES)
def test_a_write_to_a_read_only_storage_is_unavailable_at_once(read_only_writes, surface):
    answer = read_only_writes[surface]
    assert_unavailable(answer, surface)
    assert 'read-only' in answer['body'] or 'nothing can be saved' in answer['body']
    assert_nothing_happened(answer)
    assert answer['tries'] == 1


@pytest.mark.exhaustive
@pytest.mark.parametrize('surface, status', [('page', 500), ('rpc', 200), ('export', 500), ('api', 500)])
def test_a_write_to_a_read_only_storage_was_an_internal_error(trees, site, surface, status):
    """JSON-RPC told of an unforeseen error, at HTTP 200."""
    site.use_file(read_only=True)
    answer, = write(site, trees.before(UNAVAILABLE), (surface, 'no error'))
    assert status == answer['status']


@pytest.mark.parametrize('surface', SURFACES)
def test_a_short_disconnection_is_bridged(writes, surface):
    answer = writes[surface, 'short disconnection']
    assert (SUCCESS[surface], True, 3, 0) == (
        answer['status'], answer['saved'], answer['tries'], answer['open_connections'])


def test_the_api_does_not_ask_for_a_repetition_of_what_it_saved(writes):
    """The hook's commit succeeds; then recording the key's use fails, which only the log tells."""
    answer = writes['api', 'conflicts from the second commit on']
    assert (200, True, 1, 0) == (
        answer['status'], answer['saved'], answer['tries'], answer['open_connections'])
    assert 'not recorded: ConflictError' in answer['logged']


def test_pages_can_be_read_while_the_storage_is_read_only(trees, site):
    site.use_file(read_only=True)
    answers = site.ask(trees.full(), 'read', '/', '/category/1/', '/event/0/', '/export/event/0.json')
    assert [200] * 4 == [answer['status'] for answer in answers]


def test_errors_that_are_not_the_storages_have_their_own_status(reads):
    assert ERRORS == {path: reads[path]['status'] for path in ERRORS}


@pytest.mark.exhaustive
def test_errors_that_are_not_the_storages_had_the_same_status(trees, site):
    answers = site.ask(trees.before(UNAVAILABLE), 'read', *sorted(ERRORS))
    assert ERRORS == {path: answer['status'] for path, answer in zip(sorted(ERRORS), answers)}


@pytest.mark.parametrize('path', sorted(ERRORS))
def test_no_way_out_of_a_request_keeps_a_connection(reads, path):
    assert 0 == reads[path]['open_connections']


@pytest.mark.exhaustive
def test_an_unknown_export_kept_its_connection(trees, site):
    without = trees.before(PATCH_OF['export'])
    assert 1 == site.ask(without, 'read', '/export/nonsense/0.json')[0]['open_connections']


def test_a_file_is_sent_as_before(reads):
    """Files are streamed after the request ended."""
    answer = reads['/images/indico.ico']
    assert 200 == answer['status']
    assert 1000 < answer['length']


EVERYTHING = ('home', 'missing page', 'missing export', 'public export', 'ajax') + SURFACES


@pytest.fixture(scope='module')
def outage(trees, new_site):
    """What happened around the death of a real server; see scripts/outage.py."""
    site = new_site()
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


@pytest.mark.exhaustive
def test_without_a_server_an_unknown_address_broke_out_of_the_application(trees, site, free_port):
    site.use_server(free_port)
    outcome = site.ask(trees.before(UNAVAILABLE), 'outage', free_port, site.ids['key'], 'missing page')
    assert ('raised', 'ClientDisconnected') == (
        outcome['away']['missing page']['status'], outcome['away']['missing page']['error'])


def test_a_commit_that_fails_otherwise_is_an_error_and_no_redirect(writes):
    answer = writes['page', 'another error']
    assert (500, False) == (answer['status'], answer['saved'])
    assert (0, 1, 0) == (answer['mails'], answer['tries'], answer['open_connections'])


@pytest.mark.exhaustive
def test_a_commit_that_failed_otherwise_was_a_redirect(trees, site):
    """It was taken for an error in the form, after the redirect was decided."""
    answer, = write(site, trees.before(REDIRECTS), ('page', 'another error'))
    assert (303, False) == (answer['status'], answer['saved'])


@pytest.mark.parametrize('surface', ('rpc', 'export', 'api'))
def test_a_commit_that_fails_otherwise_is_reported_by_every_surface(writes, surface):
    answer = writes[surface, 'another error']
    assert not answer['saved']
    if surface == 'rpc':
        assert json.loads(answer['body'])['error'] is not None
    else:
        assert answer['status'] >= 500


def test_who_is_not_logged_in_is_still_sent_to_the_login_page(reads):
    """The page is refused by an error after that redirect was decided."""
    assert 303 == reads['/admin/']['status']


@pytest.mark.exhaustive
def test_who_is_not_logged_in_was_sent_to_the_login_page(trees, site):
    assert 303 == site.ask(trees.before(REDIRECTS), 'read', '/admin/')[0]['status']


@pytest.mark.exhaustive
def test_a_server_lost_while_an_event_was_looked_for_was_an_invalid_event(trees, site):
    answer, = site.ask(trees.before(NOT_TAKEN_FOR_MISSING), 'unloadable', site.ids['key'], 'rpc:1')
    assert (200, False, 1) == (answer['status'], answer['saved'], answer['failed'])
    assert 'Invalid conference id.' == json.loads(answer['body'])['error']['message']


@pytest.mark.exhaustive
def test_a_page_saved_what_it_made_of_an_event_that_could_not_be_loaded(trees, site):
    answer, = site.ask(trees.before(NOT_TAKEN_FOR_MISSING), 'unloadable', site.ids['key'], 'page:1')
    assert (303, True, 1, 1) == (
        answer['status'], answer['saved'], answer['tries'], answer['failed'])


@pytest.mark.parametrize('surface', ('page', 'rpc'))
def test_a_request_that_could_not_load_an_event_is_tried_again(unloadable, surface):
    answer = unloadable[surface, 1]
    assert (SUCCESS[surface], True, 1) == (answer['status'], answer['saved'], answer['failed'])


@pytest.mark.parametrize('surface', ('page', 'rpc'))
def test_a_request_that_never_could_load_an_event_is_unavailable(unloadable, surface):
    answer = unloadable[surface, 10000]
    assert_unavailable(answer, surface)
    assert not answer['saved']
