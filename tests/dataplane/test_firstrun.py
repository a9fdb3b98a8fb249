"""First run: an empty database becomes an Indico whose GETs write nothing."""
import json
import os

import pytest
import requests

from indico_site import ADMIN, filestorage, site_with_file
from processes import PATIENCE, Processes


@pytest.fixture
def empty(processes, tmpdir, htdocs):
    """A site whose database is empty."""
    return site_with_file(processes, tmpdir.ensure('var', dir=True), htdocs)


@pytest.fixture
def site(processes, tmpdir, htdocs, founded):
    """A site after its first run."""
    return site_with_file(processes, tmpdir.ensure('var', dir=True), htdocs, founded)


@pytest.fixture(scope='module')
def running(tmpdir_factory, htdocs, filled):
    """A site with events that runs and may write, and their paths below /indico."""
    data, paths = filled
    folder = tmpdir_factory.mktemp('running')
    processes = Processes(folder)
    site = site_with_file(processes, folder.ensure('var', dir=True), htdocs, data)
    try:
        site.start()
        site.wait_for_page()
        yield site, paths
    finally:
        processes.close()


def test_it_creates_the_administrator_once_and_a_second_run_writes_nothing(empty):
    status, output, error = empty.first_run()
    assert 0 == status, error
    assert {'created': True, 'login': 'admin'} == json.loads(output)
    before = empty.folder.join('Data.fs').computehash()
    status, output, error = empty.first_run()
    assert 0 == status, error
    assert {'created': False, 'login': 'admin'} == json.loads(output)
    assert before == empty.folder.join('Data.fs').computehash()


@pytest.mark.parametrize('content, said', [
    ('{', 'Expecting'),
    ('[]', 'not a JSON object'),
    (json.dumps(dict(ADMIN, password='')), 'password is missing'),
    (json.dumps(dict((each, ADMIN[each]) for each in ADMIN
                     if each != 'login')), 'login is missing')])
def test_it_refuses_a_wrong_administrator_file(empty, content, said):
    empty.admin_file.write(content)
    status, output, error = empty.first_run()
    assert (2, '') == (status, output)
    assert said in error


def test_it_refuses_an_administrator_file_that_others_may_read(empty):
    empty.admin_file.chmod(0o644)
    status, output, error = empty.first_run()
    assert (2, '') == (status, output)
    assert 'chmod 600' in error
    assert not empty.folder.join('Data.fs').check()


def test_it_refuses_an_email_address_that_another_user_has(site):
    site.admin_file.write(json.dumps(dict(ADMIN, login='second')))
    status, output, error = site.first_run()
    assert (2, '') == (status, output)
    assert 'admin@example.org is already used' in error


def test_it_says_so_when_the_storage_is_read_only(site):
    site.write_storage(filestorage(site.folder, read_only=True))
    site.admin_file.write(json.dumps(
        dict(ADMIN, login='second', email='second@example.org')))
    status, output, error = site.first_run()
    assert (1, '') == (status, output)
    assert 'ReadOnlyError' in error


PAGES = (
    '/', '/category/0/', '/about', '/contact', '/help', '/news', '/vars.js',
    '/user/login', '/user/register',
    '{category}/', '{category}/overview', '{category}/statistics',
    '{category}/map', '{category}/events.ics', '{category}/events.atom',
    '{conference}/', '{conference}/timetable/', '{conference}/contributions',
    '{conference}/contribution/0', '{conference}/authors',
    '{conference}/speakers', '{conference}/program',
    '{conference}/overview', '{conference}/event.ics',
    '{conference}/timetable/pdf', '{conference}/other-view?view=xml',
    '{meeting}/', '{meeting}/contribution/0', '{meeting}/contributions',
    '{simple_event}/', '{simple_event}/contributions')
ADMIN_PAGES = (
    '/', '/user/dashboard', '/user/account/', '/admin/', '/admin/plugins/',
    '{category}/manage/', '/event/create/conference?categId=0',
    '{conference}/', '{conference}/manage/general/',
    '{conference}/manage/timetable/', '{conference}/manage/contributions/',
    '{conference}/manage/access/', '{conference}/my-conference/',
    '{meeting}/', '{meeting}/manage/general/', '{simple_event}/')


def test_pages_are_served_from_a_read_only_storage(processes, tmpdir, htdocs, filled):
    """And so write nothing; also to somebody who logged in before."""
    data, paths = filled
    site = site_with_file(processes, tmpdir.ensure('var', dir=True), htdocs, data)
    site.start()
    site.wait_for_page()
    session = site.log_in()
    site.process.terminate()
    site.write_storage(filestorage(site.folder, read_only=True))
    site.start()
    assert 'Physics' in site.wait_for_page().text
    statuses = dict(
        (page, site.get('/indico' + page.format(**paths)).status_code)
        for page in PAGES)
    assert dict.fromkeys(PAGES, 200) == statuses
    statuses = dict(
        (page, site.get('/indico' + page.format(**paths), session).status_code)
        for page in ADMIN_PAGES)
    assert dict.fromkeys(ADMIN_PAGES, 200) == statuses
    conference = site.get('/indico%s/contributions' % paths['conference'])
    assert 'A Talk' in conference.text and 'Big Conference' in conference.text


def test_pages_write_nothing_into_a_writable_storage(running):
    site, paths = running
    session = site.log_in()
    # The session remembers the filter of a list.
    site.get('/indico{conference}/manage/contributions/'.format(**paths), session)
    assert site.health()[1]['writable']
    before = os.path.getsize(site.data)
    for page in PAGES:
        site.get('/indico' + page.format(**paths))
    for page in ADMIN_PAGES:
        site.get('/indico' + page.format(**paths), session)
    assert before == os.path.getsize(site.data)


def test_everything_a_page_includes_is_there(running):
    """Style sheets and scripts are built, images and fonts are served."""
    site, paths = running
    included = set()
    for page in ('/', '{category}/', '{conference}/', '{meeting}/'):
        included.update(site.included('/indico' + page.format(**paths)))
    assert any('screen_sass' in each for each in included)
    assert any('base_' in each for each in included)
    wrong = [each for each in included
             if requests.get(each, timeout=PATIENCE).status_code != 200]
    assert [] == wrong
