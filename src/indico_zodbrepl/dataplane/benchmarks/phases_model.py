"""The classes of `phases`, and the conversion of a library into their objects."""
from BTrees.IOBTree import IOBTree
from BTrees.OOBTree import OOBTree
from persistent import Persistent
from persistent.list import PersistentList

from indico_zodbrepl.dataplane.benchmarks.phases_library import title


class User(Persistent):
    """A user with `groups`, by name."""

    def __init__(self, name):
        self.name = name
        self.groups = OOBTree()


class Group(Persistent):
    """A group: `users` and `subgroups` by name, and `parents`, the groups that contain it."""

    def __init__(self, name):
        self.name = name
        self.users = OOBTree()
        self.subgroups = OOBTree()
        self.parents = OOBTree()


class Person(Persistent):
    """An author of `contributions`, by title."""

    def __init__(self, name):
        self.name = name
        self.contributions = OOBTree()


class Conference(Persistent):
    """A conference: `sessions` in order."""

    def __init__(self, name):
        self.title = name
        self.sessions = PersistentList()


class Session(Persistent):
    """A session: `contributions` in order."""

    def __init__(self, conference):
        self.conference = conference
        self.contributions = PersistentList()


class Contribution(Persistent):
    """A contribution: `authors` in order."""

    def __init__(self, session, name):
        self.session = session
        self.title = name
        self.authors = PersistentList()


class Site(Persistent):
    """All objects.

    Attributes:
        users, groups, persons, conferences: by number.
        sequence: all contributions by position, in the order of their dates.
    """

    def __init__(self):
        self.users = IOBTree()
        self.groups = IOBTree()
        self.persons = IOBTree()
        self.conferences = IOBTree()
        self.sequence = IOBTree()

    def sizes(self):
        """Return the numbers of each kind, as `Library.sizes`."""
        return [len(each) for each in (self.users, self.groups, self.persons, self.conferences,
                                       self.sequence)]


def converted(library):
    """Return a `Site` with the objects of a library; nothing is stored yet."""
    site = Site()
    _convert_groups(library, site)
    _convert_users(library, site)
    for number in range(library.persons):
        site.persons[number] = Person('Person %d' % number)
    for number, sessions in enumerate(library.conferences):
        site.conferences[number] = _conference(site, number, sessions)
    for position, (conference, session, contribution) in enumerate(library.sequence):
        found = site.conferences[conference].sessions[session]
        site.sequence[position] = found.contributions[contribution]
    return site


def _convert_groups(library, site):
    for number, parents in enumerate(library.groups):
        group = site.groups[number] = Group('group-%d' % number)
        for each in parents:
            parent = site.groups[each]
            group.parents[parent.name] = parent
            parent.subgroups[group.name] = group


def _convert_users(library, site):
    for number, groups in enumerate(library.users):
        user = site.users[number] = User('user-%d' % number)
        for each in groups:
            group = site.groups[each]
            user.groups[group.name] = group
            group.users[user.name] = user


def _conference(site, number, sessions):
    conference = Conference('Conference %d' % number)
    for position, contributions in enumerate(sessions):
        session = Session(conference)
        conference.sessions.append(session)
        for place, authors in enumerate(contributions):
            contribution = Contribution(session, title(number, position, place))
            session.contributions.append(contribution)
            for each in authors:
                person = site.persons[each]
                contribution.authors.append(person)
                person.contributions[contribution.title] = contribution
    return conference
