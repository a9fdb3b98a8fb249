"""Make the Data.fs of a small site with the code of an old Indico.

usage: python make_old_site.py INDICO DATA.FS ARCHIVE

INDICO is the unpacked source of release 1.0 or 1.1.  Python 2.7 needs ZODB3 3.10.5 and
zope.event first in PYTHONPATH, then INDICO and INDICO/indico, then the other libraries of
Indico 1.2.2.  A pyatom.py with werkzeug's AtomFeed replaces the library of that name, and the
"ZODB version check" at the end of MaKaC/common/db.py is removed, which today's setuptools breaks.
"""
import datetime
import os
import sys
import tempfile
import threading

import pkg_resources
import pytz

indico, data, archive = map(os.path.abspath, sys.argv[1:])
sys.path[:] = [each for each in sys.path if '/parts/indico' not in each]
entry_points = pkg_resources.iter_entry_points
pkg_resources.iter_entry_points = lambda group, name=None: (
    each for each in entry_points(group, name) if each.name != 'zodbrepl')

from MaKaC.common import Configuration
from MaKaC.common import db
from ZODB.FileStorage import FileStorage

scratch = tempfile.mkdtemp()
Configuration.Config.getInstance().updateValues(dict(
    ArchiveDir=archive, LogDir=scratch, XMLCacheDir=scratch, UploadedFilesTempDir=scratch,
    ConfigurationDir=os.path.join(indico, 'etc'), SmtpServer=('127.0.0.1', 1)))


class Manager(db.DBMgr):
    def __init__(self, path):
        self._storage = FileStorage(path)
        self._db = db.MaKaCDB(self._storage)
        self._conn = threading.local()
        self._conn.conn = None


manager = Manager(data)
db.DBMgr.setInstance(manager)

from indico.core.index import Catalog
from MaKaC.authentication.AuthenticationMgr import AuthenticatorMgr
from MaKaC.common.contextManager import ContextManager
from MaKaC.common.info import HelperMaKaCInfo
from MaKaC.conference import (
    CategoryManager, Contribution, ContributionParticipation, DefaultConference, LocalFile,
    Material)
from MaKaC.plugins.base import PluginsHolder
from MaKaC.user import Avatar, AvatarHolder, LoginInfo
from MaKaC.webinterface.rh.categoryDisplay import UtilsConference

START = datetime.datetime(2012, 3, 4, 10, tzinfo=pytz.utc)
KINDS = (('conference', 'static', 'Big Conference'),
         ('meeting', 'standard', 'Small Meeting'),
         ('simple_event', 'lecture', 'One Lecture'))


def make_user(login, password, name, surname):
    user = Avatar()
    user.setName(name)
    user.setSurName(surname)
    user.setOrganisation('Uni')
    user.setLang('en_GB')
    user.setEmail(login + '@example.org')
    AvatarHolder().add(user)
    user.activateAccount()
    authenticators = AuthenticatorMgr()
    authenticators.add(authenticators.createIdentity(LoginInfo(login, password), user, 'Local'))
    return user


def make_event(category, owner, manager_, kind, style, title):
    event = category.newConference(owner)
    UtilsConference.setValues(event, dict(
        title=title, description='', keywords='', Timezone='UTC',
        sYear=2012, sMonth=3, sDay=4, sHour=9, sMinute=0,
        eYear=2012, eMonth=3, eDay=5, eHour=18, eMinute=0,
        locationName='Geneva', roomName='Room 1', eventType=kind, defaultStyle=style))
    event.grantModification(manager_)
    talk = Contribution()
    event.addContribution(talk)
    talk.setParent(event)
    talk.setTitle('A Talk', notify=False)
    talk.setDuration(0, 20)
    talk.setStartDate(START, check=0)
    event.getSchedule().addEntry(talk.getSchEntry(), 2)
    speaker = ContributionParticipation()
    speaker.setFirstName('Ann')
    speaker.setFamilyName('Lee')
    talk.addPrimaryAuthor(speaker)
    talk.addSpeaker(speaker)
    slides = Material()
    slides.setTitle('Slides')
    talk.addMaterial(slides)
    source = os.path.join(scratch, 'talk.txt')
    with open(source, 'w') as content:
        content.write('slides of %s\n' % title)
    uploaded = LocalFile()
    uploaded.setName('talk')
    uploaded.setFileName('talk.txt')
    uploaded.setFilePath(source)
    slides.addResource(uploaded, forcedFileId=None)


manager.startRequest()
ContextManager.set('autoOps', [])
home = CategoryManager().getRoot()
Catalog.updateDB()
PluginsHolder().loadAllPlugins()
PluginsHolder().reloadAllPlugins()
owner = make_user('owner', 'old secret', 'Ow', 'Ner')
info = HelperMaKaCInfo.getMaKaCInfoInstance()
info.setTitle('The Old Site')
info.getAdminList().grant(owner)
info.setDefaultConference(DefaultConference())
guest = make_user('guest', 'guest', 'Gus', 'Uest')
guest.setSecondaryEmails(['Gus@Example.org'])
manager.commit()
physics = home.newSubCategory(0)
physics.setName('Physics')
for each in KINDS:
    make_event(physics, owner, guest, *each)
manager.endRequest(True)
manager._db.close()
