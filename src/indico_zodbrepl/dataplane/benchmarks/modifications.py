"""What 'to modify a conference' can mean, by Indico's own calls, and how it is taken back.

Whatever is written ends with a mark, so that only what a test wrote is taken
back: where somebody else changed it meanwhile, that stays.  Each modification
has

  describe(conference)             what is to be put back, plain types
  make(conference, before, text)   modifies; `before` is what describe returned
  take_back(conference, before, mark)   returns whether it is as it was before
"""
import re

from MaKaC.trashCan import TrashCanManager


def _without(mark, text):
    """Returns a text without what was written with that mark; None if nothing was."""
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
    """The name of the room; what has none is not used."""

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
    """A contribution more, with a title; taken back it is deleted, and not in the trash can."""

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
