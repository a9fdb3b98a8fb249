"""The records that `phases` converts into objects, and the expected answers to its queries.

They come from a seeded generator, so each scale always gives the same ones.
"""
import random
import zlib

SEED = 2000
USERS, GROUPS, PERSONS = 2000, 200, 1000  # of scale 1
CONFERENCES, SESSIONS, CONTRIBUTIONS = 100, 4, 8
GROUPS_OF_A_USER = 3  # at most
PARENTS = 2  # groups that a group is in, at most
AUTHORS = 3  # at most
LEAST = 2  # of everything
PAGE = 20  # contributions
PAGES, PICKS = 200, 2000  # of scale 1


class Library(object):
    """Records that refer to each other by their numbers.

    Args:
        scale: factor for the numbers above.

    Attributes:
        users: of each user the numbers of its groups.
        groups: of each group the numbers of those that it is in; they are smaller.
        persons: how many.
        conferences: of each conference its sessions: lists of contributions, which are the
            numbers of their authors.
        sequence: (conference, session, contribution) of all contributions, by date.
        pages: positions in it at which pages begin.
        picks: positions in it, at random.
    """

    def __init__(self, scale):
        made = random.Random(SEED)
        groups = _scaled(GROUPS, scale)
        self.persons = _scaled(PERSONS, scale)
        self.groups = [_some(made, number, PARENTS) for number in range(groups)]
        self.users = [_some(made, groups, GROUPS_OF_A_USER)
                      for _ in range(_scaled(USERS, scale))]
        self.conferences = [
            [[_some(made, self.persons, AUTHORS) for _ in range(CONTRIBUTIONS)]
             for _ in range(SESSIONS)]
            for _ in range(_scaled(CONFERENCES, scale))]
        self.sequence = [
            (conference, session, contribution)
            for conference in range(len(self.conferences))
            for session in range(SESSIONS) for contribution in range(CONTRIBUTIONS)]
        made.shuffle(self.sequence)
        last = len(self.sequence) - PAGE
        self.pages = [made.randrange(last) for _ in range(_scaled(PAGES, scale))]
        self.picks = [made.randrange(len(self.sequence)) for _ in range(_scaled(PICKS, scale))]

    def sizes(self):
        """Return the numbers of users, groups, persons, conferences and contributions."""
        return [len(self.users), len(self.groups), self.persons, len(self.conferences),
                len(self.sequence)]

    def objects(self):
        """Return the number of objects made from the records, without lists and trees."""
        return sum(self.sizes()) + len(self.conferences) * SESSIONS

    def answer(self, query):
        """Return what a query must find, in the form of `answer_of`."""
        return answer_of(getattr(self, '_' + query.replace('-', '_'))())

    def _group_members(self):
        above = self._closures()
        members = [0] * len(self.groups)
        for direct in self.users:
            for group in set().union(*[above[each] for each in direct]):
                members[group] += 1
        return members

    def _user_groups(self):
        above = self._closures()
        return [len(set().union(*[above[each] for each in direct])) for direct in self.users]

    def _conference_contributions(self):
        return [title(conference, session, contribution)
                for conference in range(len(self.conferences))
                for session in range(SESSIONS) for contribution in range(CONTRIBUTIONS)]

    def _author_conferences(self):
        found = [set() for _ in range(self.persons)]
        for number, sessions in enumerate(self.conferences):
            for contributions in sessions:
                for authors in contributions:
                    for author in authors:
                        found[author].add(number)
        return [len(each) for each in found]

    def _sequence_walk(self):
        return [title(*each) for each in self.sequence]

    def _sequence_pages(self):
        return [title(*each) for start in self.pages
                for each in self.sequence[start:start + PAGE]]

    def _sequence_picks(self):
        return [title(*self.sequence[each]) for each in self.picks]

    def _closures(self):
        """Return, for each group, itself and all groups that contain it, directly or not."""
        found = []
        for number, parents in enumerate(self.groups):
            found.append(set([number]).union(*[found[each] for each in parents]))
        return found


def title(conference, session, contribution):
    """Return the title of a contribution."""
    return 'Contribution %d of session %d of conference %d' % (contribution, session, conference)


def answer_of(values):
    """Return the number of values and their checksum, which depends on their order."""
    return [len(values), zlib.crc32('\n'.join(map(str, values))) & 0xffffffff]


def _scaled(number, scale):
    return max(LEAST, int(round(number * scale)))


def _some(made, below, most):
    """Return 1 to `most` different numbers from 0, in ascending order."""
    most = min(most, below)
    return sorted(made.sample(xrange(below), made.randint(1, most))) if most else []
