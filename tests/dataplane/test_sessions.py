"""Two instances that share nothing but the database, as on two hosts: sessions, and cached pages."""
import json
import threading

import lxml.html
import pytest
import requests
from ZODB.FileStorage import FileIterator

from indico_site import IndicoSite
from processes import PATIENCE
from zeo_servers import ZEOServer, client_config

READ_SESSIONS = '''
import cPickle, json
import MaKaC.common
from indico.core.db import DBMgr
with DBMgr.getInstance().ownTransaction() as root:
    contents = [cPickle.loads(record['content'])
                for _, record in root['expiringValues']['sessions'].values()]
print(json.dumps([dict((key, sorted(value) if isinstance(value, set) else str(value))
                       for key, value in content.items()) for content in contents]))
'''
RENAME = '''
import sys
import MaKaC.common
from indico.core.db import DBMgr
from indico.util.contextManager import ContextManager
from MaKaC.conference import ConferenceHolder
DBMgr.getInstance().startRequest()
ContextManager.set('autoOps', [])
event = ConferenceHolder().getById(sys.argv[1])
event.getContributionList()[0].setTitle(sys.argv[2])
DBMgr.getInstance().endRequest(True)
'''


@pytest.fixture
def server(processes, tmpdir, filled):
    server = ZEOServer(processes, tmpdir.join('zeo'), filled[0])
    server.start()
    return server


@pytest.fixture
def sites(processes, tmpdir, htdocs, server):
    """Two running instances with folders of their own."""
    made = [IndicoSite(processes, tmpdir.join(name), htdocs,
                       client_config([server], wait=2, server_sync='true'))
            for name in ('here', 'there')]
    for site in made:
        site.start()
    for site in made:
        site.wait_for_page()
    return made


def token_of(site, session):
    """Return the token that a page holds for a user; None if it is shown to a stranger."""
    page = lxml.html.fromstring(site.get('/indico/', session).content)
    return page.xpath('//meta[@name="csrf-token"]/@content')[0] or None


def call(site, cookies, token, method, **parameters):
    """Call a method of JSON-RPC; return the answer."""
    return requests.post(
        site.address + '/indico/services/json-rpc', timeout=PATIENCE, cookies=cookies,
        data=json.dumps({'version': '1.1', 'method': method, 'params': parameters}),
        headers={'Content-Type': 'application/json', 'X-CSRF-Token': token})


def log_out(site, session):
    return site.get('/indico/user/logout', session, allow_redirects=False)


def stored_sessions(site):
    """Return what the database holds of each session."""
    status, output, error = site.python('-c', READ_SESSIONS)
    assert 0 == status, error
    return json.loads(output)


def committed(server):
    """Return (description, bytes) of each transaction."""
    with open(server.data, 'rb'):
        return [(each.description, each._tend - each._tpos)
                for each in FileIterator(server.data)]


def test_a_login_and_a_logout_count_at_the_other_instance_at_once(sites):
    here, there = sites
    for _ in range(20):
        session = here.log_in()
        token = token_of(there, session)
        assert token is not None
        assert token == token_of(here, session)
        kept = session.cookies.get_dict()
        assert log_out(there, session).status_code in (302, 303)
        session.cookies.update(kept)
        assert token_of(here, session) is None, 'the cookie of an ended session is worth nothing'
        here, there = there, here


def test_page_views_commit_nothing_and_a_login_one_small_transaction(sites, server):
    here, there = sites
    here.log_in()  # makes the place for sessions
    before = committed(server)
    session = here.log_in()
    for site in (here, there, here):
        assert token_of(site, session) is not None
        assert token_of(site, requests) is None
        assert 200 == site.get('/indico/user/login?returnURL=x').status_code
    added = committed(server)[len(before):]
    assert ['session'] == [description for description, _ in added]
    assert added[0][1] < 4000


def test_requests_of_one_session_do_not_lose_what_others_changed(sites):
    """None is refused either."""
    here, there = sites
    session = here.log_in()
    token, cookies = token_of(here, session), session.cookies.get_dict()
    categories = ['0', '1']
    answers = []

    def change(site, number):
        for turn in range(6):
            category = categories[(number + turn) % 2]
            answers.append(call(site, cookies, token, 'category.setShowPastEventsForCateg',
                                categId=category, showPastEvents=True).status_code)
            answers.append(requests.get(
                site.address + '/indico/?lang=fr_FR', cookies=cookies, timeout=PATIENCE).status_code)
    threads = [threading.Thread(target=change, args=(site, number))
               for number, site in enumerate(sites * 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {200} == set(answers)
    stored, = stored_sessions(here)
    assert categories == stored['fetchPastEventsFrom']
    assert ('fr_FR', token) == (stored['_lang'], stored['_csrf_token'])


def test_a_change_at_one_instance_shows_at_the_other_at_once(sites, filled):
    here, there = sites
    event = filled[1]['meeting'].rpartition('/')[2]
    session = here.log_in()
    token, cookies = token_of(here, session), session.cookies.get_dict()
    paths = ['/indico/event/%s/' % event, '/indico/export/event/%s.json' % event,
             '/indico/export/timetable/%s.json' % event]
    for turn in range(3):
        for site in sites:
            for path in paths:
                assert 200 == site.get(path).status_code
        answer = call(here, cookies, token, 'event.main.changeTitle', conference=event,
                      value='Title %d' % turn)
        assert 'Title %d' % turn == answer.json()['result']
        for path in paths[:2]:
            assert 'Title %d' % turn in there.get(path).text
        status, _, error = here.python('-c', RENAME, event, 'Talk %d' % turn)
        assert 0 == status, error
        for site in sites:
            for path in (paths[0], paths[2]):
                assert 'Talk %d' % turn in site.get(path).text
        here, there = there, here


def test_while_the_database_is_read_only_a_session_is_valid_and_none_begins_or_ends(sites, server):
    here, there = sites
    session = here.log_in()
    token, cookies = token_of(there, session), session.cookies.get_dict()
    server.process.terminate()
    server.start(read_only=True)
    for site in sites:
        site.wait_for_page()
        assert token == token_of(site, session)
        answer = site.get('/indico/?lang=fr_FR', session)
        assert (200, True) == (answer.status_code, token in answer.text)
        refused = requests.post(
            site.address + '/indico/user/login', timeout=PATIENCE, allow_redirects=False,
            data={'login': 'guest', 'password': 'guest'})
        assert (503, True) == (refused.status_code, 'Retry-After' in refused.headers)
        assert 'read-only' in refused.text
        assert 'Set-Cookie' not in refused.headers
        assert 503 == log_out(site, session).status_code
        assert 503 == call(site, cookies, token, 'category.setShowPastEventsForCateg',
                           categId='0', showPastEvents=True).status_code
        assert token == token_of(site, session)
    server.process.terminate()
    server.start()
    for site in sites:
        site.wait_for_page()
        assert token == token_of(site, session)
    assert log_out(here, session).status_code in (302, 303)
