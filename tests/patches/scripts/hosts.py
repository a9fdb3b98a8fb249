"""One request, or change, on a host of its own: cached and temporary files are in a folder with its name.

Usage: hosts.py HOST ACTION [ARGUMENT]; prints what the function of that name returns.
"""
import email
import json
import os
import re
import sys
from StringIO import StringIO

from indico.core.config import Config

host, action = sys.argv[1:3]
folder = os.path.join(os.getcwd(), host)
if not os.path.isdir(folder):
    os.mkdir(folder)
Config.getInstance()._configVars.update(
    XMLCacheDir=folder, UploadedFilesTempDir=folder, TempDir=folder, UploadedFilesSharedTempDir=folder,
    FileRepository='blobs')

import client  # noqa: E402
from indico.core.db import DBMgr  # noqa: E402
from indico.util import fossilize  # noqa: E402
from indico.util.contextManager import ContextManager  # noqa: E402

COOKIE = 'indico_session'


def log_in():
    browser = client.Client()
    browser.login()
    return [cookie.value for cookie in browser._client.cookie_jar if cookie.name == COOKIE][0]


def whose_page(cookie):
    """Return the start of the user's name as a page shows it; None for a stranger."""
    browser = client.Client()
    browser._client.set_cookie('localhost', COOKIE, cookie)
    return 'Ada' in browser.get('/')['body']


def ask_for_password():
    """Return the path that the mail names."""
    mails = client.Mails()
    _send_login_info()
    text = email.message_from_string(mails[0]['msg']).get_payload(0).get_payload(decode=True)
    link, = re.findall(r'https?://\S+', text)
    return link.split('/indico', 1)[1]


def _send_login_info():
    from MaKaC.common.mail import GenericMailer
    from MaKaC.user import AvatarHolder
    from MaKaC.webinterface import mail
    application = client.make_app()
    DBMgr.getInstance().startRequest()
    with application.test_request_context('/', base_url='http://localhost/indico'):
        mail.send_login_info(AvatarHolder().getById('0'))
    DBMgr.getInstance().endRequest(True)
    GenericMailer.flushQueue(True)


def open_link(path):
    """Return True if a link to set a password is valid."""
    return 'password_confirm' in client.Client().get(path)['body']


def set_password(path):
    client.Client().post(path, password='another horse', password_confirm='another horse')
    return [open_link(path), client.Client().post('/user/login', login='ada', password='another horse')['status']]


def look():
    """Return what is cached: a membership, a timetable, and an answer of the HTTP API."""
    from MaKaC.conference import ConferenceHolder
    from MaKaC.schedule import ScheduleToJson
    from MaKaC.user import AvatarHolder, GroupHolder
    fossilize.clearCache()
    DBMgr.getInstance().startRequest()
    groups = GroupHolder().match({'name': 'readers'})
    event = ConferenceHolder().getById('0')
    with client.make_app().test_request_context('/'):
        days = ScheduleToJson.process(event.getSchedule(), 'UTC', None)
    found = {'member': bool(groups and groups[0].containsUser(AvatarHolder().getById('0'))),
             'talks': [entry['title'] for day in days.values() for entry in day.values()]}
    DBMgr.getInstance().endRequest(False)
    found['api'] = json.loads(client.Client().get('/export/event/0.json')['body'])['results'][0]['title']
    return found


def change(number):
    """Add the user to the group, or remove him; rename the event, and add a talk."""
    import datetime
    import pytz
    from MaKaC.conference import ConferenceHolder, Contribution
    from MaKaC.user import AvatarHolder, Group, GroupHolder
    ContextManager.set('autoOps', [])
    DBMgr.getInstance().startRequest()
    groups = GroupHolder().match({'name': 'readers'})
    if groups:
        group = groups[0]
    else:
        group = Group()
        group.setName('readers')
        GroupHolder().add(group)
    user = AvatarHolder().getById('0')
    group.removeMember(user) if user in group.getMemberList() else group.addMember(user)
    event = ConferenceHolder().getById('0')
    event.setTitle('Title %s' % number)
    talk = Contribution()
    event.addContribution(talk)
    talk.setParent(event)
    talk.setTitle('Talk %s' % number, notify=False)
    talk.setDuration(0, 20)
    talk.setStartDate(datetime.datetime(2020, 1, 2, 10, tzinfo=pytz.utc), check=0)
    event.getSchedule().addEntry(talk.getSchEntry(), 2)
    DBMgr.getInstance().endRequest(True)


def room_booking():
    """Return True if the scripts' settings say that rooms can be booked, and the answer to a second request."""
    browser = client.Client()
    first = browser._client.get('/indico/vars.js', base_url='http://localhost')
    again = browser._client.get('/indico/vars.js', base_url='http://localhost',
                                headers={'If-None-Match': first.headers.get('ETag', '')})
    return [re.search('RoomBookingModuleActive: *(true|false)', first.data).group(1), again.status_code]


def activate_room_booking():
    from MaKaC.common.info import HelperMaKaCInfo
    DBMgr.getInstance().startRequest()
    HelperMaKaCInfo.getMaKaCInfoInstance().setRoomBookingModuleActive(True)
    DBMgr.getInstance().endRequest(True)


def book():
    """Return the name of the cached book of abstracts of the event."""
    from MaKaC.conference import ConferenceHolder
    from MaKaC.webinterface.rh.conferenceDisplay import RHAbstractBook
    DBMgr.getInstance().startRequest()
    with client.make_app().test_request_context('/'):
        handler = RHAbstractBook(None)
        handler._conf = ConferenceHolder().getById('0')
        name = os.path.basename(handler._getCacheFileName())
    DBMgr.getInstance().endRequest(False)
    return name


def upload_background(cookie):
    """Upload the background of a badge; return the answer's text."""
    browser = _browser_of(cookie)
    return browser.post('/event/0/manage/tools/badges/save-background', templateId='7',
                        file=(StringIO('a background'), 'back.gif'))['body']


def show_background(cookie):
    return _browser_of(cookie).get(
        '/event/0/manage/tools/badges/background?templateId=7&backgroundId=0')['body']


def _browser_of(cookie):
    browser = client.Client()
    browser._client.set_cookie('localhost', COOKIE, cookie)
    return browser


print(json.dumps(globals()[action](*sys.argv[3:])))
client.database().close()
