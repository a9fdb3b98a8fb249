"""What the tests of reading read: category names, rooms, contributions.

Each is a class with UNIT, the word for what is counted, `things(count)`, the
ids of at most so many categories or conferences, and `read(id)`, which reads
one and returns how many units that were.  All need an open connection.
"""
from MaKaC.conference import CategoryManager, ConferenceHolder

from .errors import NothingLoaded
from .loaded import spread


class _Reading(object):
    holder = None
    kind = None

    def things(self, count):
        """Returns the ids of what is read, evenly spread over all there are.

        Raises NothingLoaded when there are none.
        """
        found = spread(list(self.holder()._getIdx().keys()), count)
        if not found:
            raise NothingLoaded('the database holds no %s' % self.kind)
        return found


class CategoryNames(_Reading):
    UNIT = 'category names'
    holder = CategoryManager
    kind = 'categories'

    def read(self, category_id):
        CategoryManager().getById(category_id).getName()
        return 1


class ConferenceRooms(_Reading):
    UNIT = 'conference rooms'
    holder = ConferenceHolder
    kind = 'conferences'

    def read(self, conference_id):
        room = ConferenceHolder().getById(conference_id).getRoom()
        if room is None:
            return 0
        room.getName()
        return 1


class Contributions(_Reading):
    UNIT = 'contributions'
    holder = ConferenceHolder
    kind = 'conferences'

    def read(self, conference_id):
        read = 0
        for contribution in ConferenceHolder().getById(conference_id).getContributionList():
            contribution.getTitle()
            read += 1
        return read
