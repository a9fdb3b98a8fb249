"""Prints as JSON what the storage of indico.conf holds.

Conferences and categories are looked up without the loader's code; "verified"
is the result of its `verify`.
"""
import json

from bulkloader.verify import verify
from indico.core.db import DBMgr
from MaKaC.conference import CategoryManager, ConferenceHolder


def described(conference):
    return {
        'id': conference.getId(),
        'title': conference.getTitle(),
        'category': conference.getOwner().getId(),
        'room': conference.getRoom().getName(),
        'chairs': [chair.getFamilyName() for chair in conference.getChairList()],
        'creator': conference.getCreator().getEmail(),
        'contributions': [
            [entry.getOwner().getTitle(), entry.getOwner().getSpeakerList()[0].getFamilyName(),
             entry.getAdjustedStartDate(conference.getTimezone()).strftime('%Y-%m-%d %H:%M'),
             entry.getDuration().seconds // 60]
            for entry in conference.getSchedule().getEntries()],
    }


dbi = DBMgr.getInstance()
dbi.startRequest()
print json.dumps({
    'conferences': [described(each) for each in sorted(ConferenceHolder().getList(),
                                                       key=lambda each: int(each.getId()))],
    'categories': [[each.getName(), each.getId(), each.getNumConferences()]
                   for each in CategoryManager().getRoot().getSubCategoryList()],
    'verified': verify(dbi.getDBConnection().root()).as_dict(),
})
dbi.endRequest(False)
dbi._db.close()
