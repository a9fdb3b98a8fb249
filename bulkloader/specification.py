"""What a run of the bulk loader makes (pure, Python 2.7 and 3).

Everything follows from the `Parameters`: conference number 17 of a seed is the
same on every machine and interpreter, and can be had without the 16 before it,
so an interrupted run goes on where it stopped.  Only `Random.random` of the
standard library is used, whose sequence for an integer seed is the same in
every Python version since 2.3; its other methods are not.
"""
from __future__ import unicode_literals

import datetime
import hashlib
import random
from collections import namedtuple

from bulkloader import vocabulary as words

# Raise it whenever a change here makes other data of the same parameters: a run
# that an older generator began cannot be finished by a newer one.
GENERATOR = 1

EVENTS_PER_CATEGORY = 200
MAX_CONTRIBUTIONS = 1000
PEOPLE = 2000

_SUBCATEGORIES = len(words.SERIES)
_FIRST_DAY = datetime.date(2003, 1, 6)    # a Monday
_LAST_DAY = datetime.date(2013, 12, 20)
_MAX_PER_DAY = 20
_DURATIONS = (15, 20, 30, 45)             # minutes
_HALF_DAY = 210                           # minutes, 9:00-12:30 and 14:00-17:30
_MORNING, _AFTERNOON, _CLOSE = datetime.time(9), datetime.time(14), datetime.time(18)

Parameters = namedtuple('Parameters', 'conferences contributions categories rooms seed')
Category = namedtuple('Category', 'name description children')
Room = namedtuple('Room', 'name location address timezone')
Person = namedtuple('Person', 'title first_name family_name affiliation email')
# times are naive, in the conference's time zone; duration in minutes
Contribution = namedtuple(
    'Contribution', 'title description keywords start duration authors co_authors speakers')
Conference = namedtuple(
    'Conference', 'title description keywords timezone start end room chairs contributions')


def default_categories(conferences):
    """Returns how many categories keep each at EVENTS_PER_CATEGORY events or fewer."""
    return -(-conferences // EVENTS_PER_CATEGORY)


class _Draws(object):
    """Random choices that depend on nothing but the seed and the words given."""

    def __init__(self, *key):
        digest = hashlib.sha256('/'.join('%s' % part for part in key).encode('utf-8'))
        self._random = random.Random(int(digest.hexdigest(), 16)).random

    def below(self, limit):
        return int(self._random() * limit)

    def between(self, least, most):
        return least + self.below(most - least + 1)

    def pick(self, sequence):
        return sequence[self.below(len(sequence))]

    def some(self, sequence, count):
        """Returns `count` different members, in random order."""
        left = list(sequence)
        return [left.pop(self.below(len(left))) for _ in range(count)]


def _ordinal(number):
    if number % 100 in (11, 12, 13):
        return '%dth' % number
    return '%d%s' % (number, {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th'))


class Specification(object):
    """All that one run makes, computed on demand.

    Args:
        parameters: `Parameters`; numbers of conferences, contributions a
            conference, categories that hold them, rooms, and the seed.
    """

    def __init__(self, parameters):
        self.parameters = parameters
        self._topics = self._draws('topics').some(words.TOPICS, len(words.TOPICS))

    def _draws(self, *key):
        return _Draws(self.parameters.seed, *key)

    def _topic(self, number):
        """Returns the topic of the category of this number among those below the root."""
        turn, place = divmod(number, len(self._topics))
        return self._topics[place] if not turn else '%s %d' % (self._topics[place], turn + 1)

    def _category_topic(self, leaf):
        grouped = self.parameters.categories > _SUBCATEGORIES
        return self._topic(leaf // _SUBCATEGORIES if grouped else leaf)

    def category_tree(self):
        """Returns the `Category` tuples that go below the root.

        Up to 12 categories lie there directly; more are grouped by topic.
        Those without children hold the events; from left to right they have
        the numbers `category_of` speaks of.
        """
        count = self.parameters.categories
        if count <= _SUBCATEGORIES:
            return tuple(Category(self._topic(number), self._about(number), ())
                         for number in range(count))
        tree = []
        for first in range(0, count, _SUBCATEGORIES):
            number = first // _SUBCATEGORIES
            children = tuple(
                Category(series, '%s in the field of %s.' % (series, self._topic(number)), ())
                for series in words.SERIES[:count - first])
            tree.append(Category(self._topic(number), self._about(number), children))
        return tuple(tree)

    def _about(self, number):
        return 'Conferences and workshops on %s.' % self._topic(number)

    def category_of(self, index):
        """Returns the number of the category that holds conference `index` (from 0)."""
        return index * self.parameters.categories // self.parameters.conferences

    def category_sizes(self):
        """Returns how many conferences each category holds, in their order."""
        sizes = [0] * self.parameters.categories
        for index in range(self.parameters.conferences):
            sizes[self.category_of(index)] += 1
        return sizes

    def room(self, number):
        """Returns `Room` number 0 to rooms - 1."""
        draws = self._draws('room', number)
        city, country, timezone = draws.pick(words.PLACES)
        name = '%s %d-%s-%03d' % (draws.pick(words.ROOM_KINDS), draws.between(1, 60),
                                  draws.pick('RS') + draws.pick('123'), number + 1)
        return Room(name, city, '%s, %s' % (city, country), timezone)

    def person(self, number):
        """Returns `Person` number 0 to PEOPLE - 1; addresses are in a domain without mail."""
        draws = self._draws('person', number)
        institute = draws.pick(words.INSTITUTE_KINDS).format(city=draws.pick(words.PLACES)[0])
        return Person(draws.pick(words.PERSON_TITLES), draws.pick(words.FIRST_NAMES),
                      draws.pick(words.FAMILY_NAMES), institute,
                      'person%04d@conference.invalid' % number)

    def _people(self, draws, count):
        numbers = []
        while len(numbers) < count:
            number = draws.below(PEOPLE)
            if number not in numbers:
                numbers.append(number)
        return tuple(self.person(number) for number in numbers)

    def conference(self, index):
        """Returns `Conference` number 0 to conferences - 1 with its contributions."""
        draws = self._draws('conference', index)
        room = self.room(draws.below(self.parameters.rooms))
        days = draws.between(1, 5)
        while self.parameters.contributions > days * _MAX_PER_DAY:
            days += 1
        start = self._first_day(draws, days)
        topic = self._category_topic(self.category_of(index))
        title = '%s %s (%s %d)' % (
            _ordinal(draws.between(1, 40)),
            draws.pick(words.CONFERENCE_KINDS).format(topic=topic), room.location, start.year)
        description = '%s takes place in %s. %s' % (
            title, room.location, ' '.join(draws.some(words.SENTENCES, draws.between(2, 4))))
        return Conference(
            title, description, '\n'.join(draws.some(words.SUBJECTS, draws.between(2, 4))),
            room.timezone, datetime.datetime.combine(start, _MORNING),
            datetime.datetime.combine(start + datetime.timedelta(days - 1), _CLOSE), room,
            self._people(draws, draws.between(1, 3)), self._contributions(draws, start, days))

    def _first_day(self, draws, days):
        """Returns a day in the past; up to five days stay between Monday and Friday."""
        weeks = ((_LAST_DAY - _FIRST_DAY).days - days) // 7
        spare = draws.below(6 - days) if days <= 5 else 0
        return _FIRST_DAY + datetime.timedelta(7 * draws.below(weeks) + spare)

    def _contributions(self, draws, first_day, days):
        """Returns the contributions by time; none overlaps another."""
        total = self.parameters.contributions
        contributions = []
        for day in range(days):
            of_day = (day + 1) * total // days - day * total // days
            date = first_day + datetime.timedelta(day)
            for opens, count in ((_MORNING, of_day - of_day // 2), (_AFTERNOON, of_day // 2)):
                start = datetime.datetime.combine(date, opens)
                for _ in range(count):
                    fitting = [each for each in _DURATIONS if each * count <= _HALF_DAY]
                    contribution = self._contribution(draws, start, draws.pick(fitting))
                    contributions.append(contribution)
                    start += datetime.timedelta(minutes=contribution.duration)
        return tuple(contributions)

    def _contribution(self, draws, start, duration):
        subjects = draws.some(words.SUBJECTS, 3)
        title = draws.pick(words.CONTRIBUTION_FORMS).format(subject=subjects[0])
        people = self._people(draws, draws.between(1, 4))
        return Contribution(
            title, ' '.join(draws.some(words.SENTENCES, draws.between(1, 3))),
            '\n'.join(subjects[1:]), start, duration, people[:1], people[1:], people[:1])
