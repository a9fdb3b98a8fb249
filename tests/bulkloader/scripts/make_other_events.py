"""Makes what an Indico may hold before the bulk loader comes: a category with events of all kinds.

Argument: how many events. They are made by Indico's own calls, without the loader's code, each with
a commit of its own.
"""
import sys

from indico.core.db import DBMgr
from MaKaC.common.contextManager import ContextManager
from MaKaC.common.info import HelperMaKaCInfo
from MaKaC.conference import CategoryManager
from MaKaC.webinterface.rh.categoryDisplay import UtilsConference

KINDS = (('conference', 'static'), ('meeting', 'standard'), ('simple_event', 'lecture'))

dbi = DBMgr.getInstance()


def commit():
    dbi.endRequest(True)
    ContextManager.destroy()
    dbi.startRequest()
    ContextManager.set('autoOps', [])


dbi.startRequest()
ContextManager.set('autoOps', [])
category = CategoryManager().getRoot().newSubCategory(0)
category.setName('Before')
commit()
creator = HelperMaKaCInfo.getMaKaCInfoInstance().getAdminList().getList()[0]
for number in range(int(sys.argv[1])):
    kind, style = KINDS[number % len(KINDS)]
    event = category.newConference(creator)
    UtilsConference.setValues(event, {
        'title': 'Event %d that was there' % number, 'description': '', 'keywords': '',
        'Timezone': 'Europe/Zurich', 'locationName': 'CERN', 'locationAddress': '',
        'roomName': 'Hall %d' % (number % 4), 'eventType': kind, 'defaultStyle': style,
        'sYear': 2005 + number % 7, 'sMonth': 1 + number % 12, 'sDay': 3, 'sHour': 9, 'sMinute': 0,
        'eYear': 2005 + number % 7, 'eMonth': 1 + number % 12, 'eDay': 4, 'eHour': 17,
        'eMinute': 0})
    commit()
dbi.endRequest(True)
dbi._db.close()
