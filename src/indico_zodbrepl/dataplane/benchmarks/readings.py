"""The objects of the reading tests: category names, rooms, contributions.

Each is a class with UNIT, the name of the counted unit; `things(count)`, the
ids of at most that many categories or conferences; and `read(id)`, which reads
one and returns the number of units.  All need an open connection.
"""
from __future__ import absolute_import

from MaKaC.conference import CategoryManager, ConferenceHolder

from indico_zodbrepl.dataplane.benchmarks.parameters import NothingLoaded


class _Reading(object):
    holder = None
    kind = None

    def things(self, count):
        """Return the ids to read, evenly spread over all.

        Raises NothingLoaded if there are none.
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


KEY = 'bulkloader'


def conferences(root):
    """Return the ids of the bulk loader's events, the oldest first.

    Args:
        root: the database root.

    Raises NothingLoaded.
    """
    found = [conference_id for run in root.get(KEY, ())
             for conference_id in run['conferences'].values()]
    if not found:
        raise NothingLoaded(
            'the database holds nothing that the bulk loader made, and other data are not '
            'changed by a test: load some first, bin/bulkload --conferences 100')
    return found


def spread(found, count):
    """Return at most `count` of a sequence, evenly spread over it."""
    if len(found) <= count:
        return list(found)
    return [found[len(found) * number // count] for number in range(count)]
