"""Breaks something that Indico's integrity scripts look for, and runs `bulkload verify`.

Argument: 'holder' takes a conference out of the holder of all conferences,
'count' makes a category count one event too many, 'contribution' takes one
out of its conference, 'conference' deletes a conference as Indico does;
'session' and 'material' delete one as Indico does, 'block' takes one of a
session out of the timetable, 'kind' makes a meeting a conference.
"""
import sys

from bulkloader.__main__ import main
from indico.core.db import DBMgr
from MaKaC.common.contextManager import ContextManager
from MaKaC.conference import CategoryManager, ConferenceHolder

dbi = DBMgr.getInstance()
dbi.startRequest()
ContextManager.set('autoOps', [])
category = CategoryManager().getRoot().getSubCategoryList()[0]
conference = list(category.conferences)[0]
events = [each for each in ConferenceHolder().getList() if each.getSessionList()]
what = sys.argv[1]
if what == 'holder':
    ConferenceHolder().remove(conference)
elif what == 'count':
    category._numConferences += 1
elif what == 'contribution':
    del conference.contributions[sorted(conference.contributions)[0]]
    conference._p_changed = True
elif what == 'conference':
    category.removeConference(conference, notify=False, delete=True)
elif what == 'session':
    events[0].removeSession(events[0].getSessionList()[0])
elif what == 'block':
    block = events[0].getSessionList()[0].getSlotList()[0]
    events[0].getSchedule().removeEntry(block.getConfSchEntry())
elif what == 'material':
    owners = [each for event in events for each in event.getContributionList()]
    [each for each in owners if each.getSlides()][0].removeSlides()
elif what == 'kind':
    meeting = [each for each in events if each.getType() == 'meeting'][0]
    del dbi.getDBConnection().root()['webfactoryregistry'][meeting.getId()]
dbi.endRequest(True)
dbi._db.close()
sys.exit(main(['verify']))
