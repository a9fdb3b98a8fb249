"""Breaks something that Indico's integrity scripts and `bulkload verify` look for.

Argument: 'holder' takes a conference out of the holder of all conferences,
'count' makes a category count one event too many, 'contribution' takes one
out of its conference, 'conference' deletes a conference as Indico does.
"""
import sys

from indico.core.db import DBMgr
from MaKaC.common.contextManager import ContextManager
from MaKaC.conference import CategoryManager, ConferenceHolder

dbi = DBMgr.getInstance()
dbi.startRequest()
ContextManager.set('autoOps', [])
category = CategoryManager().getRoot().getSubCategoryList()[0]
conference = list(category.conferences)[0]
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
dbi.endRequest(True)
dbi._db.close()
