"""The WSGI application under gunicorn, on a ZEO server that comes and goes."""
import json
import shutil
import threading

import pytest
import requests

from indico_site import IndicoSite, filestorage, site_with_file
from processes import PATIENCE, Processes, listens, wait_for
from zeo_servers import ZEOServer, client_config


@pytest.fixture(scope='module')
def servers(tmpdir_factory, filled):
    """Returns the server of an Indico with events when called, started if a test stopped it."""
    folder = tmpdir_factory.mktemp('server')
    processes = Processes(folder)
    server = ZEOServer(processes, folder, filled[0])

    def running():
        if server.process is None or not server.process.is_running():
            server.start()
        return server
    try:
        yield running
    finally:
        processes.close()


@pytest.fixture
def server(servers):
    """A server with an Indico that has events."""
    return servers()


@pytest.fixture
def site(processes, tmpdir, htdocs, server):
    """An Indico that is set up and not started."""
    return IndicoSite(
        processes, tmpdir.join('var'), htdocs, client_config([server], wait=2))


@pytest.fixture(scope='module')
def running_site(tmpdir_factory, htdocs, servers):
    """An Indico that runs, for tests that leave it running."""
    folder = tmpdir_factory.mktemp('running')
    processes = Processes(folder)
    site = IndicoSite(
        processes, folder.join('var'), htdocs, client_config([servers()], wait=2))
    try:
        site.start()
        yield site
    finally:
        processes.close()


def test_health_says_that_the_database_holds_no_indico_until_it_does(processes, tmpdir, htdocs):
    """An empty database is distinguished from one that is away."""
    server = ZEOServer(processes, tmpdir.join('a'))
    server.start()
    site = IndicoSite(
        processes, tmpdir.join('var'), htdocs, client_config([server]))
    site.start('python')
    wait_for(lambda: not site.health()[1]['set_up'], 'the word that nothing is set up')
    status, report = site.health()
    assert (200, False, True) == (status, report['built'], report['connected'])
    assert report['failure'].startswith('NotSetUp: the database holds no Indico')
    answer = site.get('/indico/')
    assert 503 == answer.status_code
    assert 'Not set up' in answer.text
    assert 'firstrun' in answer.text
    report = site.health()[1]
    assert report['connected']
    assert (1, 1) == (report['requests'], report['unavailable'])
    status, _, error = site.first_run()
    assert 0 == status, error
    wait_for(lambda: site.health()[1]['built'], 'a built Indico')
    report = site.health()[1]
    assert (True, None) == (report['set_up'], report['failure'])
    site.wait_for_page()
    before, _, after = site.health()[1], site.get('/indico/'), site.health()[1]
    assert (1, 0) == tuple(after[key] - before[key] for key in ('requests', 'unavailable'))


def at_once(count, function):
    """Calls `function(number)` in so many threads; returns what they return."""
    results = [None] * count

    def call(number):
        results[number] = function(number)
    threads = [threading.Thread(target=call, args=(number,))
               for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * PATIENCE)
    return results


@pytest.mark.parametrize('attempt', [
    0, pytest.param(1, marks=pytest.mark.exhaustive), pytest.param(2, marks=pytest.mark.exhaustive)])
def test_many_first_requests_at_once_are_all_answered(site, attempt):
    """No deadlock of import lock and ZEO; who need not wait is told to retry."""
    site.start('python')
    paths = ['/indico/', '/zodbrepl/health', '/indico/category/0/',
             '/indico/css/Default.css', '/indico/user/login'] * 4
    answers = at_once(len(paths), lambda number: site.get(paths[number]))
    assert set(each.status_code for each in answers) <= set([200, 503])
    assert 200 in [each.status_code for each in answers
                   if '/indico/' in each.url]
    for each in answers:
        if each.status_code == 503 and '/indico/' in each.url:
            assert '5' == each.headers['Retry-After']
    answers = at_once(len(paths), lambda number: site.get(paths[number]))
    assert [200] * len(paths) == [each.status_code for each in answers]


def test_pages_login_and_json_rpc_work_at_the_same_time(running_site, filled):
    """More at once than the Indico has threads."""
    _, paths = filled
    site = running_site
    site.wait_for_page()

    def category_list(session):
        return session.post(
            site.address + '/indico/services/json-rpc', timeout=PATIENCE,
            headers={'Content-Type': 'application/json',
                     'X-CSRF-Token': site.csrf_token(session)},
            data=json.dumps({
                'version': '1.1', 'id': 1,
                'method': 'category.getCategoryList',
                'params': {'categId': '0'}})).json()

    def visit(number):
        session = site.log_in()
        page = site.get('/indico' + paths['conference'] + '/', session)
        assert 'Big Conference' in page.text
        answer = category_list(session)
        assert answer['error'] is None
        return [each['title'] for each in answer['result']['categList']]
    assert [['Physics']] * 6 == at_once(6, visit)


def test_health_answers_while_indico_is_being_built(site):
    site.start('python')
    thread = threading.Thread(target=site.get, args=('/indico/',))
    thread.start()
    reports = []

    def built():
        reports.append(site.health())
        return reports[-1][1]['built']
    wait_for(built, 'a built Indico')
    thread.join(PATIENCE)
    assert not reports[0][1]['built']
    status, report = reports[-1]
    assert (200, True, False) == (
        status, report['connected'], report['read_only'])
    assert 'one' == report['instance']


def test_health_names_the_server(running_site, server):
    site = running_site
    site.wait_for_page()
    status, report = site.health()
    assert 200 == status
    assert '127.0.0.1:%d' % server.port == report['server']
    assert report['last_tid'].startswith('0x')
    assert report['cache']['objects'] > 0


def test_without_a_server_at_the_start_indico_comes_up_later(site, server):
    server.kill()
    site.start('python')
    answer = site.get('/indico/')
    assert (503, '5') == (answer.status_code, answer.headers['Retry-After'])
    status, report = site.health()
    assert (503, False, False) == (
        status, report['connected'], report['built'])
    pid = report['pid']
    server.start()
    site.wait_for_page()
    status, report = site.health()
    assert (200, True, pid) == (status, report['built'], report['pid'])


def test_when_the_server_goes_pages_are_503_until_it_is_back(running_site, server):
    site = running_site
    site.wait_for_page()
    server.kill()
    wait_for(lambda: not site.health()[1]['connected'], 'the loss')
    answers = at_once(8, lambda number: site.get('/indico/'))
    assert [503] * 8 == [each.status_code for each in answers]
    assert ['5'] * 8 == [each.headers['Retry-After'] for each in answers]
    assert 503 == site.health()[0]
    server.start()
    site.wait_for_page()


def test_what_cannot_work_is_an_error_and_not_a_promise(processes, tmpdir, htdocs):
    site = IndicoSite(processes, tmpdir.join('var'), htdocs, '<nonsense>\n</nonsense>\n')
    site.start('python')
    assert 500 == site.get('/indico/').status_code
    assert 503 == site.health()[0]
    wait_for(lambda: 'nonsense' in site.process.output(), 'the reason')


def test_a_stopped_process_closes_the_database(processes, tmpdir, htdocs, founded):
    """A FileStorage that is closed saves its index."""
    folder = tmpdir.ensure('var', dir=True)
    site = site_with_file(processes, folder, htdocs, founded)
    index = folder.join('Data.fs.index')
    assert not index.check()
    site.start('python')
    site.wait_for_page()
    assert 0 == site.process.terminate()
    assert index.check()


def test_after_a_fork_the_child_builds_an_indico_of_its_own(
        processes, tmpdir, htdocs, server, site):
    """As with gunicorn --preload, and with the master's build begun."""
    script = tmpdir.join('forks.py')
    script.write(FORKS % site.port)
    processes.start(['python', str(script)], name='forks', port=site.port,
                    env=site.environment)
    wait_for(lambda: listens(site.port), 'the child')
    site.wait_for_page()


FORKS = '''\
import os, sys
from wsgiref.simple_server import make_server
from indico_zodbrepl.dataplane.indico.app import application
application._instance.want().wait()
assert application._instance.application is not None
if os.fork():
    os.wait()
else:
    assert application._instance.want() is not None
    assert application._instance.application is None
    make_server('127.0.0.1', %d, application).serve_forever()
'''


@pytest.mark.parametrize('base_url, there, not_there', [
    ('https://events.example.org', '/', '/indico/'),
    ('https://www.example.org/our/events/', '/our/events/', '/indico/')])
def test_indico_is_where_its_base_url_says(
        processes, tmpdir, htdocs, founded, base_url, there, not_there):
    folder = tmpdir.join('var')
    site = IndicoSite(processes, folder, htdocs, filestorage(folder),
                      site_conf='BaseURL = %r' % base_url)
    shutil.copy(founded, str(folder.join('Data.fs')))
    site.start()
    page = site.wait_for_page(there).text
    assert base_url.rstrip('/') + '/category/0/' in page
    assert 404 == site.get(not_there).status_code
    assert 200 == site.get('/zodbrepl/health').status_code
    assert 200 == site.get(there + 'css/Default.css').status_code
