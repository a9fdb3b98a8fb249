"""Tests of speed inside Indico: what they return, who may make them, and that nothing stays."""
import httplib
import json
import os
import signal
import threading
import time
from contextlib import closing

import pytest
import requests

from benchmark_sites import (
    CONFERENCES, CONTRIBUTIONS, PATH, SECRET, Describer, ask, give_secret, load, measured,
    site_with_events)
from indico_site import site_with_file
from processes import PATIENCE, Processes, wait_for

READ = {'testReadCategoryThroughput': 'category names',
        'testReadConferenceRoomsThroughput': 'conference rooms',
        'testReadContributionsThroughput': 'contributions'}
WRITE = ('testWriteConferencesLatency', 'testWriteConferencesThroughput')
MODIFY = ('description', 'room', 'contribution', 'title')


@pytest.fixture(scope='module')
def loaded(tmpdir_factory, htdocs, founded):
    """Path of a Data.fs with what the bulk loader made; it is for copies."""
    site = site_with_file(None, tmpdir_factory.mktemp('loaded'), htdocs, founded)
    load(site)
    return site.data


@pytest.fixture(scope='module')
def site(tmpdir_factory, htdocs, loaded):
    folder = tmpdir_factory.mktemp('benchmarks')
    processes = Processes(folder)
    try:
        yield site_with_events(processes, folder, htdocs, loaded)
    finally:
        processes.close()


@pytest.fixture(scope='module')
def contents(site):
    """Returns what the tests could have changed, read from the data file beside the server."""
    with closing(Describer(site)) as describer:
        yield lambda site: describer.describe(site.data)


@pytest.fixture(scope='module')
def unchanged(site, contents):
    """The contents of `site` before all tests; each test leaves them."""
    return contents(site)


@pytest.mark.parametrize('caches', ['cold', 'warm', 'hot'])
@pytest.mark.parametrize('name', sorted(READ))
def test_a_test_of_reading_tells_how_much_how_fast_and_from_where(site, name, caches):
    result = measured(site, name, caches=caches, seconds='0.1')
    assert (name, caches) == (result['test'], result['caches'])
    assert READ[name] == result['unit']
    assert result['operations'] >= result['different'] > 0
    per_operation = CONTRIBUTIONS if name == 'testReadContributionsThroughput' else 1
    assert result['operations'] * per_operation == result['units']
    assert abs(result['rate'] * result['seconds'] - result['units']) < 1
    latency = result['latency_ms']
    assert 0 <= latency['p50'] <= latency['p90'] <= latency['p99'] <= latency['max']
    assert result['client_cache'] is None
    loads = result['storage']['loads']
    assert loads == result['connection_cache']['misses']
    assert 0 == result['storage']['stores']
    if caches == 'hot':
        assert 0 == loads
    else:
        assert loads >= result['passes']
        assert result['storage']['loaded_bytes'] > loads
    assert 'FileStorage' in result['storage_status']['storage']
    assert '5.8.1' == result['versions']['ZODB']


@pytest.mark.parametrize('modify', MODIFY)
@pytest.mark.parametrize('name', WRITE)
def test_a_test_of_writing_saves_each_modification_and_puts_all_back(
        site, contents, unchanged, name, modify):
    of_latency = name == 'testWriteConferencesLatency'
    result = measured(site, name, modify=modify, seconds='30' if of_latency else '0.3',
                      repetitions='8', caches='hot')
    assert modify == result['modify']
    if of_latency:
        assert 8 == result['operations']
    assert result['operations'] == result['units'] > 0
    assert result['storage']['stores'] >= result['operations']
    assert min(CONFERENCES, result['operations']) == result['put_back'] == result['different']
    assert {'retried': 0, 'given_up': 0} == result['conflicts']
    assert unchanged == contents(site)


def test_only_what_the_bulk_loader_made_is_modified(tmpdir, processes, htdocs, filled):
    site = site_with_events(processes, tmpdir, htdocs, filled[0])
    answer = ask(site, 'testWriteConferencesLatency')
    assert 412 == answer.status_code
    assert 'bulk loader' in answer.json()['error']
    assert measured(site, 'testReadConferenceRoomsThroughput', seconds='0.1')['units'] > 0


def test_without_conferences_nothing_is_measured(tmpdir, processes, htdocs, founded):
    site = site_with_events(processes, tmpdir, htdocs, founded)
    answer = ask(site, 'testReadContributionsThroughput')
    assert 412 == answer.status_code
    assert {'error': 'the database holds no conferences'} == answer.json()


def test_what_a_killed_process_left_is_put_back_before_the_next_test(
        tmpdir, processes, htdocs, loaded, contents):
    site = site_with_events(processes, tmpdir, htdocs, loaded)
    before = contents(site)
    left = _left_by_a_killed_process(site, contents)
    assert left['journal']
    assert before['conferences'] != left['conferences']
    site.start()
    site.wait_for_page()
    result = measured(site, 'testReadCategoryThroughput', seconds='0.1')
    assert CONFERENCES == result['put_back_of_earlier']
    assert before == contents(site)


def test_what_somebody_else_changed_meanwhile_stays(
        tmpdir, processes, htdocs, loaded, contents):
    site = site_with_events(processes, tmpdir, htdocs, loaded)
    before = contents(site)['conferences']
    found = _left_by_a_killed_process(site, contents)['conferences']
    replaced, beside_the_mark = sorted(before)[:2]
    mark = found[beside_the_mark]['description'][len(before[beside_the_mark]['description']):]
    for changed, mine in (replaced, 'Mine'), (beside_the_mark, 'Mine' + mark):
        assert found[changed]['description'] != before[changed]['description']
        status, _, error = site.python(
            os.path.join(os.path.dirname(__file__), 'make_conference.py'), '--describe', changed,
            mine)
        assert 0 == status, error
    site.start()
    site.wait_for_page()
    measured(site, 'testReadCategoryThroughput', seconds='0.1')
    after = contents(site)['conferences']
    for changed in replaced, beside_the_mark:
        assert 'Mine' == after.pop(changed)['description']
        del before[changed]
    assert before == after


def test_modifications_are_really_saved_and_put_back_when_the_client_goes(
        site, contents, unchanged):
    client = httplib.HTTPConnection('127.0.0.1', site.port, timeout=PATIENCE)
    client.request(
        'POST', PATH + 'testWriteConferencesThroughput', 'seconds=300&modify=title',
        {'X-Zodbrepl-Secret': SECRET, 'Content-Type': 'application/x-www-form-urlencoded'})
    try:
        during = wait_for(lambda: _modified(contents(site)), 'modified')
    finally:
        client.close()
    assert during['journal']
    assert during['found_by_mark']
    wait_for(lambda: _only(200, ask(site, 'testReadCategoryThroughput', seconds='0.1')),
             'the test has ended')
    assert unchanged == contents(site)


def test_there_is_one_test_at_a_time_and_the_second_is_told_who_runs_it(site):
    answers = []
    # The other one may be first, once.
    thread = threading.Thread(target=lambda: answers.append(wait_for(
        lambda: _only(200, ask(site, 'testReadCategoryThroughput', seconds='1')), 'the first')))
    thread.start()
    try:
        told = wait_for(
            lambda: _only(409, ask(site, 'testReadContributionsThroughput', seconds='0.05')),
            'the second')
    finally:
        thread.join()
    assert 'the control plane' == told['who']
    assert 'testReadCategoryThroughput' == told['test']
    assert answers[0]['began'] == told['since']
    measured(site, 'testReadCategoryThroughput', seconds='0.1')


def test_an_administrator_needs_the_csrf_token(site):
    session = site.log_in()
    refused = ask(site, 'testReadCategoryThroughput', secret=None, session=session)
    assert 403 == refused.status_code
    assert 'X-CSRF-Token' in refused.json()['error']
    token = site.csrf_token(session)
    wrong = ask(site, 'testReadCategoryThroughput', secret=None, session=session,
                headers={'X-CSRF-Token': token[:-1] + '!'})
    assert 403 == wrong.status_code
    allowed = ask(site, 'testReadCategoryThroughput', secret=None, session=session,
                  headers={'X-CSRF-Token': token}, seconds='0.1')
    assert 200 == allowed.status_code, allowed.text
    assert u'Ad\xe8le Min' == allowed.json()['who']


def test_nobody_else_may_have_a_test_made(site):
    anonymous = ask(site, 'testReadCategoryThroughput', secret=None)
    assert 403 == anonymous.status_code
    assert {'error': 'for administrators only'} == anonymous.json()
    for secret in ('wrong', ''):
        assert 403 == ask(site, 'testReadCategoryThroughput', secret=secret).status_code
    session = site.log_in()
    token = site.csrf_token(session)
    assert 403 == ask(site, 'testReadCategoryThroughput', secret='wrong', session=session,
                      headers={'X-CSRF-Token': token}).status_code


def test_a_secret_that_others_can_read_is_none(site):
    site.secret.chmod(0o644)
    try:
        answer = ask(site, 'testReadCategoryThroughput')
    finally:
        site.secret.chmod(0o600)
    assert 403 == answer.status_code
    assert '0600' in answer.json()['error']
    measured(site, 'testReadCategoryThroughput', seconds='0.1')


def test_a_get_makes_no_test(site):
    answer = requests.get(
        site.address + PATH + 'testReadCategoryThroughput', timeout=PATIENCE,
        headers={'X-Zodbrepl-Secret': SECRET})
    assert 405 == answer.status_code


def test_an_unknown_test_is_404_with_those_that_there_are(site):
    answer = ask(site, 'testNothing')
    assert 404 == answer.status_code
    for name in sorted(READ) + list(WRITE):
        assert name in answer.json()['error']


@pytest.mark.parametrize('fields', [
    {'seconds': '301'}, {'seconds': 'nan'}, {'seconds': '0'}, {'repetitions': '1.5'},
    {'repetitions': '0'}, {'count': '10001'}, {'caches': 'lukewarm'}, {'modify': 'all'},
    {'second': '1'}])
def test_what_is_out_of_bounds_is_refused(site, fields):
    answer = ask(site, 'testWriteConferencesLatency', **fields)
    assert 400 == answer.status_code
    assert list(fields)[0] in answer.json()['error']


def test_a_read_only_storage_answers_503_for_writes_and_is_read(
        tmpdir, processes, htdocs, loaded):
    from indico_site import filestorage
    site = site_with_file(processes, tmpdir, htdocs, loaded)
    give_secret(site)
    site.write_storage(filestorage(tmpdir, read_only=True))
    site.start()
    site.wait_for_page()
    answer = ask(site, 'testWriteConferencesLatency')
    assert 503 == answer.status_code, answer.text
    assert 'ReadOnly' in answer.json()['error']
    measured(site, 'testReadCategoryThroughput', seconds='0.1')


def _modified(found):
    return found if _is_marked(found['conferences']) else None


def _is_marked(described):
    return 'zodbrepl-benchmark' in json.dumps(described)


def _only(status, answer):
    # An answer that is an error counts as false itself.
    return answer.json() if answer.status_code == status else None


def _ask_one_that_dies(site):
    try:
        ask(site, 'testWriteConferencesThroughput', modify='description', seconds='60')
    except requests.exceptions.ConnectionError:
        return
    raise AssertionError('the process was to be killed')


def _left_by_a_killed_process(site, contents):
    """Kills a site that has modified all conferences; returns what is in its data file then."""
    thread = threading.Thread(target=_ask_one_that_dies, args=(site,))
    thread.start()
    wait_for(lambda: all(_is_marked(each) for each in contents(site)['conferences'].values()),
             'all modified')
    _kill(site)
    thread.join()
    return contents(site)


def _kill(site):
    """Kills gunicorn and its worker at once."""
    pid = site.process.pid
    with open('/proc/%d/task/%d/children' % (pid, pid)) as children:
        workers = [int(each) for each in children.read().split()]
    for each in [pid] + workers:
        os.kill(each, signal.SIGKILL)
    site.process.wait()
    wait_for(lambda: not any(os.path.exists('/proc/%d' % each) for each in workers), 'dead')
    time.sleep(0.1)
