"""Prints as JSON all that the specification decides of the events in the storage.

They are described in the order of their ids, without the loader's code.
"""
import json

from indico.core.db import DBMgr
from MaKaC.conference import ConferenceHolder


def moment(owner):
    return owner.getAdjustedStartDate().strftime('%Y-%m-%d %H:%M')


def minutes(owner):
    return int(owner.getDuration().total_seconds()) // 60


def emails(people):
    return [person.getEmail() for person in people]


def materials(owner):
    return sorted([material.getTitle(), resource.getName(), resource.getURL()]
                  for material in owner.getAllMaterialList()
                  for resource in material.getResourceList())


def session(of_event):
    return {
        'title': of_event.getTitle(),
        'description': of_event.getDescription(),
        'start': moment(of_event),
        'slots': [[moment(slot), minutes(slot), slot.getRoom().getName(),
                   slot.getLocation().getName(), emails(slot.getConvenerList()),
                   [entry.getOwner().getTitle() for entry in slot.getSchedule().getEntries()]]
                  for slot in of_event.getSortedSlotList()],
    }


def contribution(of_event):
    return {
        'title': of_event.getTitle(),
        'start': moment(of_event),
        'duration': minutes(of_event),
        'session': of_event.getSession() and int(of_event.getSession().getId()),
        'people': [emails(each) for each in (
            of_event.getPrimaryAuthorList(), of_event.getCoAuthorList(),
            of_event.getSpeakerList())],
        'materials': materials(of_event),
    }


def described(event):
    return {
        'id': event.getId(),
        'type': event.getType(),
        'title': event.getTitle(),
        'start': moment(event),
        'end': event.getAdjustedEndDate().strftime('%Y-%m-%d %H:%M'),
        'chairs': emails(event.getChairList()),
        'materials': materials(event),
        'sessions': [session(each) for each in by_id(event.getSessionList())],
        'contributions': [contribution(each) for each in by_id(event.getContributionList())],
    }


def by_id(objects):
    return sorted(objects, key=lambda each: int(each.getId()))


dbi = DBMgr.getInstance()
dbi.startRequest()
print json.dumps([described(each) for each in by_id(ConferenceHolder().getList())])
dbi.endRequest(False)
dbi._db.close()
