"""First run: an empty database becomes an Indico whose GETs write nothing."""
import json

import pytest
import requests

from indico_site import ADMIN, IndicoSite
from processes import PATIENCE

FILESTORAGE = '''\
%%import indico_zodbrepl.dataplane
<indicostorage>
  <filestorage>
    path %s
    read-only %s
  </filestorage>
</indicostorage>
'''


def filestorage(site_folder, read_only=False):
    return FILESTORAGE % (
        site_folder.join('Data.fs'), 'true' if read_only else 'false')


@pytest.fixture
def site(processes, tmpdir, htdocs):
    folder = tmpdir.join('var')
    return IndicoSite(processes, folder, htdocs, filestorage(folder))


def test_it_creates_the_administrator_once(site):
    status, output, error = site.first_run()
    assert 0 == status, error
    assert {'created': True, 'login': 'admin'} == json.loads(output)
    status, output, error = site.first_run()
    assert 0 == status, error
    assert {'created': False, 'login': 'admin'} == json.loads(output)


def test_a_second_run_writes_nothing(site):
    site.first_run()
    before = site.folder.join('Data.fs').computehash()
    site.first_run()
    assert before == site.folder.join('Data.fs').computehash()


@pytest.mark.parametrize('content, said', [
    ('{', 'Expecting'),
    ('[]', 'not a JSON object'),
    (json.dumps(dict(ADMIN, password='')), 'password is missing'),
    (json.dumps(dict((each, ADMIN[each]) for each in ADMIN
                     if each != 'login')), 'login is missing')])
def test_it_refuses_a_wrong_administrator_file(site, content, said):
    site.admin_file.write(content)
    status, output, error = site.first_run()
    assert (2, '') == (status, output)
    assert said in error


def test_it_refuses_an_administrator_file_that_others_may_read(site):
    site.admin_file.chmod(0o644)
    status, output, error = site.first_run()
    assert (2, '') == (status, output)
    assert 'chmod 600' in error
    assert not site.folder.join('Data.fs').check()


def test_it_refuses_an_email_address_that_another_user_has(site):
    site.first_run()
    site.admin_file.write(json.dumps(dict(ADMIN, login='second')))
    status, output, error = site.first_run()
    assert (2, '') == (status, output)
    assert 'admin@example.org is already used' in error


def test_it_says_so_when_the_storage_is_read_only(site):
    site.first_run()
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


def test_pages_are_served_from_a_read_only_storage(site):
    """And so write nothing; logging in is possible as well."""
    site.first_run()
    paths = site.make_events()
    site.write_storage(filestorage(site.folder, read_only=True))
    site.start()
    assert 'Physics' in site.wait_for_page().text
    statuses = dict(
        (page, site.get('/indico' + page.format(**paths)).status_code)
        for page in PAGES)
    assert dict.fromkeys(PAGES, 200) == statuses
    session = site.log_in()
    statuses = dict(
        (page, site.get('/indico' + page.format(**paths), session).status_code)
        for page in ADMIN_PAGES)
    assert dict.fromkeys(ADMIN_PAGES, 200) == statuses
    conference = site.get('/indico%s/contributions' % paths['conference'])
    assert 'A Talk' in conference.text and 'Big Conference' in conference.text


def test_pages_write_nothing_into_a_writable_storage(site):
    site.first_run()
    paths = site.make_events()
    site.start()
    site.wait_for_page()
    _, before = site.health()
    assert before['writable']
    session = site.log_in()
    for page in PAGES:
        site.get('/indico' + page.format(**paths))
    for page in ADMIN_PAGES:
        site.get('/indico' + page.format(**paths), session)
    _, after = site.health()
    assert before['last_tid'] == after['last_tid']


def test_everything_a_page_includes_is_there(site):
    """Style sheets and scripts are built, images and fonts are served."""
    site.first_run()
    paths = site.make_events()
    site.start()
    site.wait_for_page()
    included = set()
    for page in ('/', '{category}/', '{conference}/', '{meeting}/'):
        included.update(site.included('/indico' + page.format(**paths)))
    assert any('screen_sass' in each for each in included)
    assert any('base_' in each for each in included)
    wrong = [each for each in included
             if requests.get(each, timeout=PATIENCE).status_code != 200]
    assert [] == wrong
