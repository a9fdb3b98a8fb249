"""Words, dates, rooms and people that fill a layout (pure)."""
from __future__ import unicode_literals

import datetime

from bulkloader import vocabulary as words
from bulkloader.specification.draws import Draws
from bulkloader.specification.shapes import (
    CONFERENCE, LECTURE, Conference, Contribution, Material, Person, Room, Session, Slot, rank)

PEOPLE = 2000

_FIRST_DAY = datetime.date(2003, 1, 6)    # a Monday
_LAST_DAY = datetime.date(2013, 12, 20)
_WORKING_WEEK = 5                         # days
_SITE = 'http://material.invalid'


def _ordinal(number):
    if number % 100 in (11, 12, 13):
        return '%dth' % number
    return '%d%s' % (number, {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th'))


class Values(object):
    """The values of the events of a run.

    Args:
        seed: of the run.
        rooms: how many rooms there are. Room n and room n + the number of places are in one place.

    Attributes: `topics`, in the order in which categories use them.
    """

    def __init__(self, seed, rooms):
        self._seed = seed
        self._rooms = rooms
        self.topics = self._draws('topics').some(words.TOPICS, len(words.TOPICS))
        self._places = self._draws('places').some(words.PLACES, len(words.PLACES))
        self._made_rooms, self._made_people = {}, {}
        # Indico's index of authors takes those of one name for one, so nobody shares a name.
        self._names = self._draws('names').numbers(
            len(words.FIRST_NAMES) * len(words.FAMILY_NAMES), PEOPLE)

    def _draws(self, *key):
        return Draws(self._seed, *key)

    def room(self, number):
        """Return `Room` number 0 to rooms - 1."""
        if number not in self._made_rooms:
            draws = self._draws('room', number)
            city, country, timezone = self._places[number % len(self._places)]
            name = '%s %d-%s-%03d' % (draws.pick(words.ROOM_KINDS), draws.between(1, 60),
                                      draws.pick('RS') + draws.pick('123'), number + 1)
            self._made_rooms[number] = Room(name, city, '%s, %s' % (city, country), timezone)
        return self._made_rooms[number]

    def _room_beside(self, draws, number):
        """Return a room in the place of room `number`, perhaps the same one."""
        first = number % len(self._places)
        return self.room(first + len(self._places) * draws.below(
            (self._rooms - 1 - first) // len(self._places) + 1))

    def person(self, number):
        """Return `Person` number 0 to PEOPLE - 1."""
        if number not in self._made_people:
            draws = self._draws('person', number)
            institute = draws.pick(words.INSTITUTE_KINDS).format(city=draws.pick(words.PLACES)[0])
            family_name, first_name = divmod(self._names[number], len(words.FIRST_NAMES))
            self._made_people[number] = Person(
                draws.pick(words.PERSON_TITLES), words.FIRST_NAMES[first_name],
                words.FAMILY_NAMES[family_name], institute,
                'person%04d@conference.invalid' % number)
        return self._made_people[number]

    def _people(self, draws, ranks):
        """Return different people, one for each of these places in the order of `rank`."""
        found = sorted((self.person(number) for number in draws.numbers(PEOPLE, len(ranks))),
                       key=rank)
        return tuple(found[place] for place in ranks)

    def event(self, index, layout, topic):
        """Return the `Conference` number `index` with this layout, on this topic."""
        draws = self._draws('event', index)
        room_number = draws.below(self._rooms)
        room = self.room(room_number)
        first_day = _first_day(draws, layout.days)
        midnight = datetime.datetime.combine(first_day, datetime.time())
        title = _title(draws, layout.kind, topic, room, first_day)
        description = keywords = ''
        if layout.has_description:
            description = '%s takes place in %s. %s' % (title, room.location, _sentences(draws))
        if layout.has_keywords:
            keywords = _keywords(draws)
        people = self._people(draws, layout.people)
        return Conference(
            title, description, keywords, room.timezone,
            midnight + _minutes(layout.start), midnight + _minutes(layout.end), room,
            tuple(people[slot] for slot in layout.chairs),
            tuple(_contribution(draws, each, midnight, people, '%s/%d/%d' % (_SITE, index, number))
                  for number, each in enumerate(layout.contributions)),
            layout.kind, people, _materials(draws, layout, '%s/%d' % (_SITE, index)),
            tuple(self._session(draws, each, midnight, people, room_number)
                  for each in layout.sessions))

    def _session(self, draws, layout, midnight, people, event_room):
        return Session(
            draws.pick(words.SESSION_FORMS).format(subject=draws.pick(words.SUBJECTS)),
            _sentences(draws) if layout.has_description else '',
            self._room_beside(draws, event_room),
            tuple(people[slot] for slot in layout.conveners),
            tuple(Slot(midnight + _minutes(slot.start), slot.duration) for slot in layout.slots))


def _minutes(count):
    return datetime.timedelta(minutes=count)


def _first_day(draws, days):
    """Return a day in the past.

    Events of up to five days stay between Monday and Friday, and longer ones between May and
    September: so the clocks are not changed during an event in any of the places.
    """
    if days > _WORKING_WEEK:
        year = draws.between(_FIRST_DAY.year, _LAST_DAY.year)
        return datetime.date(year, 5, 1) + datetime.timedelta(draws.below(62))
    weeks = ((_LAST_DAY - _FIRST_DAY).days - days) // 7
    spare = draws.below(_WORKING_WEEK + 1 - days)
    return _FIRST_DAY + datetime.timedelta(7 * draws.below(weeks) + spare)


def _title(draws, kind, topic, room, day):
    if kind == LECTURE:
        return '%s: %s' % (topic, draws.pick(words.LECTURE_KINDS).format(
            subject=draws.pick(words.SUBJECTS)))
    if kind == CONFERENCE:
        name = draws.pick(words.CONFERENCE_KINDS)
    else:
        name = draws.pick(words.MEETING_KINDS)
    return '%s %s (%s %d)' % (_ordinal(draws.between(1, 40)), name.format(topic=topic),
                              room.location, day.year)


def _sentences(draws):
    return ' '.join(draws.some(words.SENTENCES, draws.between(1, 4)))


def _keywords(draws):
    return '\n'.join(draws.some(words.SUBJECTS, draws.between(2, 4)))


def _materials(draws, layout, address):
    return tuple(
        Material(kind, draws.pick(words.MATERIAL_NAMES),
                 '%s/%s-%d' % (address, kind, position + 1))
        for position, kind in enumerate(layout.materials))


def _contribution(draws, layout, midnight, people, address):
    title = draws.pick(words.CONTRIBUTION_FORMS).format(subject=draws.pick(words.SUBJECTS))
    return Contribution(
        title, _sentences(draws) if layout.has_description else '',
        _keywords(draws) if layout.has_keywords else '',
        midnight + _minutes(layout.start), layout.duration,
        tuple(people[slot] for slot in layout.authors),
        tuple(people[slot] for slot in layout.co_authors),
        tuple(people[slot] for slot in layout.speakers), layout.session, layout.slot,
        _materials(draws, layout, address))
