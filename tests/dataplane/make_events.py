"""Makes a category with three events, and a user `guest`; prints paths as JSON.

Run in a process of its own: Indico is configured once a process.
"""
import datetime
import json

import pytz

from indico_zodbrepl.dataplane.indico import prewarm
from indico.core.db import DBMgr
from indico.util.contextManager import ContextManager
from MaKaC.conference import (
    CategoryManager, Contribution, ContributionParticipation)
from MaKaC.authentication.AuthenticationMgr import AuthenticatorMgr
from MaKaC.user import Avatar, AvatarHolder, LoginInfo
from MaKaC.webinterface.rh.categoryDisplay import UtilsConference

KINDS = (('conference', 'static', 'Big Conference'),
         ('meeting', 'standard', 'Small Meeting'),
         ('simple_event', 'lecture', 'One Lecture'))
START = datetime.datetime(2012, 3, 4, 10, tzinfo=pytz.utc)


def make_event(category, creator, kind, style, title):
    conference = category.newConference(creator)
    UtilsConference.setValues(conference, dict(
        title=title, description='', keywords='', Timezone='UTC',
        sYear=2012, sMonth=3, sDay=4, sHour=9, sMinute=0,
        eYear=2012, eMonth=3, eDay=5, eHour=18, eMinute=0,
        locationName='Geneva', roomName='Room 1', eventType=kind,
        defaultStyle=style))
    contribution = Contribution()
    conference.addContribution(contribution)
    contribution.setParent(conference)
    contribution.setTitle('A Talk', notify=False)
    contribution.setDuration(0, 20)
    contribution.setStartDate(START, check=0)
    conference.getSchedule().addEntry(contribution.getSchEntry(), 2)
    speaker = ContributionParticipation()
    speaker.setFirstName('Ann')
    speaker.setFamilyName('Lee')
    contribution.addPrimaryAuthor(speaker)
    contribution.addSpeaker(speaker)
    prewarm.prewarm_contribution(contribution)
    prewarm.prewarm_conference(conference)
    return '/event/%s' % conference.getId()


def make_guest():
    guest = Avatar()
    guest.setName('Gus')
    guest.setSurName('Uest')
    guest.setEmail('guest@example.org')
    AvatarHolder().add(guest)
    guest.activateAccount()
    authenticators = AuthenticatorMgr()
    authenticators.add(authenticators.createIdentity(
        LoginInfo('guest', 'guest'), guest, 'Local'))
    prewarm.prewarm_user(guest)


def main():
    manager = DBMgr.getInstance()
    manager.startRequest()
    ContextManager.set('autoOps', [])
    creator = AvatarHolder().getList()[0]
    category = CategoryManager().getRoot().newSubCategory(0)
    category.setName('Physics')
    prewarm.prewarm_category(category)
    paths = {'category': '/category/%s' % category.getId()}
    for kind, style, title in KINDS:
        paths[kind] = make_event(category, creator, kind, style, title)
    make_guest()
    manager.endRequest(True)
    print(json.dumps(paths))


if __name__ == '__main__':
    main()
