"""Modify a conference by Indico's own calls, and undo the modification.

Everything written ends with a mark, so that only the text of a test is undone.
Concurrent changes by others stay.  Each modification has

  describe(conference)             what must be put back, as plain types
  make(conference, before, text)   modifies; `before` is the result of describe
  take_back(conference, before, mark)   returns True if it is as before

The list of what must be put back is kept in the database itself.
"""
from __future__ import absolute_import

import re

import transaction
from indico.core.db import DBMgr
from MaKaC.conference import ConferenceHolder
from MaKaC.trashCan import TrashCanManager
from persistent.mapping import PersistentMapping

from indico_zodbrepl.dataplane.benchmarks.measuring import committed


def _without(mark, text):
    """Return a text without the parts written with that mark; None if there are none."""
    left, count = re.subn(r' \[%s \d+\]' % re.escape(mark), '', text)
    return left if count else None


class Description(object):
    def describe(self, conference):
        return conference.getDescription()

    def make(self, conference, before, text):
        conference.setDescription(before + text)

    def take_back(self, conference, before, mark):
        left = _without(mark, conference.getDescription())
        if left is None:
            return False
        conference.setDescription(left)
        return left == before


class Title(object):
    def describe(self, conference):
        return conference.getTitle()

    def make(self, conference, before, text):
        conference.setTitle(before + text)

    def take_back(self, conference, before, mark):
        left = _without(mark, conference.getTitle())
        if left is None:
            return False
        conference.setTitle(left)
        return left == before


class Room(object):
    """The name of the room; a conference without one is not used."""

    def describe(self, conference):
        room = conference.getRoom()
        return None if room is None else room.getName()

    def make(self, conference, before, text):
        conference.getRoom().setName(before + text)

    def take_back(self, conference, before, mark):
        room = conference.getRoom()
        left = None if room is None else _without(mark, room.getName())
        if left is None:
            return False
        room.setName(left)
        return left == before


class NewContribution(object):
    """An additional contribution with a title; undo deletes it, without the trash can."""

    def describe(self, conference):
        return {'ids': sorted(conference.contributions.keys()),
                'count': _counter(conference)._getCount()}

    def make(self, conference, before, text):
        conference.newContribution().setTitle(text.strip(), notify=False)

    def take_back(self, conference, before, mark):
        made = [each for each in conference.getContributionList() if mark in each.getTitle()]
        for contribution in made:
            contribution.delete()
            TrashCanManager().remove(contribution)
        if made and sorted(conference.contributions.keys()) == before['ids']:
            _counter(conference)._Counter__count = before['count']
        return bool(made)


def _counter(conference):
    return conference._Conference__contribGenerator


KINDS = {'description': Description, 'title': Title, 'room': Room,
         'contribution': NewContribution}


KEY = 'zodbrepl-benchmarks'
BATCH = 10  # conferences changed in one transaction


def begin(instance, modify, mark, began, candidates, count):
    """Commit what must be put back; conferences that another instance's test uses are left out.

    Args:
        instance: a name for which nothing is recorded.
        modify: a key of KINDS.  mark: see `modifications`.
        candidates: ids of conferences, the preferred ones first.
        count: maximum number to use.

    Returns: a dict from the ids of the conferences that may be modified to
    what `describe` of the modification returned.
    """
    def work():
        root = DBMgr.getInstance().getDBConnection().root()
        others = set(conference_id for entry in root.get(KEY, {}).values()
                     for conference_id in entry['before'])
        kind = KINDS[modify]()
        before = PersistentMapping()
        for conference_id in candidates:
            if len(before) == count:
                break
            if conference_id in before or conference_id in others or (
                    not ConferenceHolder().hasKey(conference_id)):
                continue
            conference = ConferenceHolder().getById(conference_id)
            described = kind.describe(conference)
            if described is not None:
                before[conference_id] = described, conference.getModificationDate()
        if before:
            if KEY not in root:
                root[KEY] = PersistentMapping()
            root[KEY][instance] = PersistentMapping(
                {'modify': modify, 'mark': mark, 'began': began, 'before': before})
        transaction.get().note(u'benchmark: what is to be put back')
        return dict((each, before[each][0]) for each in before)
    return committed(work)[0]


def put_back(instance):
    """Put back what is recorded for an instance, a few conferences at a time, and forget it.

    Returns: the number of conferences that were put back.
    """
    total = 0
    while True:
        done, left = committed(lambda: _put_back_some(instance))[0]
        total += done
        if not left:
            return total


def _put_back_some(instance):
    """Return how many were put back, and how many are left."""
    root = DBMgr.getInstance().getDBConnection().root()
    entry = root.get(KEY, {}).get(instance)
    if entry is None:
        return 0, 0
    done = 0
    kind, before = KINDS[entry['modify']](), entry['before']
    for conference_id in sorted(before):
        if done == BATCH:
            break
        described, modified = before.pop(conference_id)
        if not ConferenceHolder().hasKey(conference_id):
            continue  # somebody deleted it
        conference = ConferenceHolder().getById(conference_id)
        if kind.take_back(conference, described, entry['mark']):
            conference.setModificationDate(modified)
            done += 1
    if not before:
        del root[KEY][instance]
        if not root[KEY]:
            del root[KEY]
    transaction.get().note(u'benchmark: put back')
    return done, len(before)
