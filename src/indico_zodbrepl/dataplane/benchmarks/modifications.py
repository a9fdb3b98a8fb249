"""What 'to modify a conference' can mean, by Indico's own calls, and how it is taken back.

Whatever is written ends with a mark, so that only what a test wrote is taken
back: where somebody else changed it meanwhile, that stays.  Each modification
has

  describe(conference)             what is to be put back, plain types
  make(conference, before, text)   modifies; `before` is what describe returned
  take_back(conference, before, mark)   returns whether there was anything
"""
from MaKaC.trashCan import TrashCanManager


class Description(object):
    def describe(self, conference):
        return conference.getDescription()

    def make(self, conference, before, text):
        conference.setDescription(before + text)

    def take_back(self, conference, before, mark):
        if mark not in conference.getDescription():
            return False
        conference.setDescription(before)
        return True


class Title(object):
    def describe(self, conference):
        return conference.getTitle()

    def make(self, conference, before, text):
        conference.setTitle(before + text)

    def take_back(self, conference, before, mark):
        if mark not in conference.getTitle():
            return False
        conference.setTitle(before)
        return True


class Room(object):
    """The name of the room; what has none is not used."""

    def describe(self, conference):
        room = conference.getRoom()
        return None if room is None else room.getName()

    def make(self, conference, before, text):
        conference.getRoom().setName(before + text)

    def take_back(self, conference, before, mark):
        room = conference.getRoom()
        if room is None or mark not in room.getName():
            return False
        room.setName(before)
        return True


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
