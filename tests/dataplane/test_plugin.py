"""The plugin's page, found through its entry point."""
import pytest
import requests

from indico_site import site_with_file
from processes import PATIENCE, Processes


@pytest.fixture(scope='module')
def site(tmpdir_factory, htdocs, filled):
    """A site that serves pages; the tests only look at it."""
    folder = tmpdir_factory.mktemp('plugin')
    processes = Processes(folder)
    try:
        site = site_with_file(processes, folder, htdocs, filled[0])
        site.start()
        site.wait_for_page()
        yield site
    finally:
        processes.close()


def test_an_administrator_sees_the_status(site):
    answer = site.get('/indico/zodbrepl/status', site.log_in())
    assert 200 == answer.status_code
    assert 'application/json' == answer.headers['Content-Type']
    status = answer.json()
    assert 'one' == status['instance']
    assert 'FileStorage(%s)' % site.folder.join('Data.fs') == status['storage']
    assert status['connected'] and status['writable']
    _, health = site.health()
    assert health['last_tid'] == status['last_tid']
    assert health['pid'] == status['pid']
    assert 20000 == status['cache']['limit']


@pytest.mark.parametrize('headers', [
    {}, {'Content-Type': 'application/json'}])
def test_who_is_not_logged_in_gets_403_and_no_redirect(site, headers):
    answer = requests.get(
        site.address + '/indico/zodbrepl/status', headers=headers,
        allow_redirects=False, timeout=PATIENCE)
    assert 403 == answer.status_code
    assert {'error': 'for administrators only'} == answer.json()


def test_who_is_no_administrator_gets_403(site):
    guest = site.log_in('guest', 'guest')
    assert 200 == site.get('/indico/user/dashboard', guest).status_code
    answer = site.get('/indico/zodbrepl/status', guest)
    assert 403 == answer.status_code
    assert {'error': 'for administrators only'} == answer.json()
