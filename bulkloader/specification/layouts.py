"""The layouts of a run: what hangs together how, without any words or dates (pure)."""
from __future__ import unicode_literals

from bulkloader.specification.draws import Draws
from bulkloader.specification.parameters import Mix, amounts
from bulkloader.specification.shapes import (
    CONFERENCE, LECTURE, MATERIALS, ContributionLayout, Layout, SessionLayout, SlotLayout)

MOST_LAYOUTS = 32
MAX_PEOPLE = 1000               # in one event
DAY = 24 * 60                   # all times are in minutes
MORNING, AFTERNOON, CLOSE = 9 * 60, 14 * 60, 18 * 60

_HALF_DAY = 210                 # 9:00-12:30 and 14:00-17:30
_MAX_PER_HALF_DAY = 10
_DURATIONS = (15, 20, 30, 45)
_LECTURE_STARTS = (10 * 60, 14 * 60, 16 * 60 + 30)
_LECTURE_DURATIONS = (60, 90, 120)
_ONE_IN_REPEATED = 5            # of those who take part have another part already


def layouts(parameters):
    """Return a list of (share, layouts): for each kind of event how often it occurs, and its
    different `Layout`s, which are equally frequent."""
    count = min(MOST_LAYOUTS, max(4, parameters.conferences // 50))
    wanted = amounts(parameters)
    found = []
    for kind, share in Mix(parameters.events).shares:
        of_kind = max(1, int(count * share + 0.5))
        found.append((share, [_layout(Draws(parameters.seed, 'layout', kind, number), kind,
                                      wanted, number, of_kind) for number in range(of_kind)]))
    return found


def _layout(draws, kind, wanted, number, count):
    """Return layout `number` of `count` of a kind.

    The amounts of these layouts are spread evenly over what is wanted (stratified), so that few
    layouts have the wanted mean, too; the busiest event has the most sessions.
    """
    busy = (number + draws.fraction()) / count
    if kind == LECTURE:
        return _lecture(draws, wanted)
    contributions = wanted['contributions'].at(busy)
    sessions = wanted['sessions'].at(busy)
    days = max(draws.between(1, 5 if kind == CONFERENCE else 2),
               -(-contributions // (2 * _MAX_PER_HALF_DAY)))
    if sessions:
        places = _places_in_sessions(days, contributions, sessions)
    else:
        places = _places_in_days(days, contributions)
    people = _People(draws)
    chairs = people.some(draws.between(1, 3))
    materials = () if contributions else _materials(draws, wanted)
    session_layouts = _sessions(draws, people, places, sessions)
    contribution_layouts = _contributions(draws, people, places, wanted, kind == CONFERENCE)
    return Layout(
        kind, days, MORNING, (days - 1) * DAY + CLOSE, people.ranks(), chairs,
        _has_description(draws), _has_keywords(draws), materials, session_layouts,
        contribution_layouts)


def _lecture(draws, wanted):
    people = _People(draws)
    chairs = people.some(wanted['speakers'].at(draws.fraction()))
    start = draws.pick(_LECTURE_STARTS)
    return Layout(
        LECTURE, 1, start, start + draws.pick(_LECTURE_DURATIONS), people.ranks(), chairs,
        _has_description(draws), _has_keywords(draws), _materials(draws, wanted), (), ())


def _has_description(draws):
    return draws.below(5) > 0


def _has_keywords(draws):
    return draws.below(2) > 0


class _People(object):
    """The people of one event, of whom some have several parts in it."""

    def __init__(self, draws):
        self._draws = draws
        self._count = 0

    def some(self, count):
        """Return slots of `count` different people, of whom some take part already."""
        chosen = []
        while len(chosen) < count:
            full = self._count == MAX_PEOPLE
            if full or self._count and self._draws.below(_ONE_IN_REPEATED) == 0:
                slot = self._draws.below(self._count)
            else:
                slot = self._count
                self._count += 1
            if slot not in chosen:
                chosen.append(slot)
        return tuple(chosen)

    def ranks(self):
        """Return which place each slot's person has among all when sorted by `rank`."""
        return tuple(self._draws.some(range(self._count), self._count))


class _Place(object):
    """A half-day of the programme, or a session's slot in it, with `count` contributions."""

    def __init__(self, half_day, count, session=None, slot=None):
        day, is_afternoon = divmod(half_day, 2)
        self.start = day * DAY + (AFTERNOON if is_afternoon else MORNING)
        self.count, self.session, self.slot = count, session, slot


def _even(total, parts):
    """Split a number into parts that differ by 1 at most."""
    return [(part + 1) * total // parts - part * total // parts for part in range(parts)]


def _places_in_days(days, contributions):
    return [_Place(half_day, count)
            for half_day, count in enumerate(_even(contributions, 2 * days))]


def _places_in_sessions(days, contributions, sessions):
    """Slots one after the other; side by side where there are more sessions than half-days."""
    slots = max(sessions, -(-contributions // _MAX_PER_HALF_DAY))
    half_days = 2 * days
    counts = iter(enumerate(_even(contributions, slots)))
    places = []
    for session, own in enumerate(_even(slots, sessions)):
        for slot in range(own):
            number, count = next(counts)
            places.append(_Place(number * half_days // slots, count, session, slot))
    return places


def _sessions(draws, people, places, count):
    return tuple(
        SessionLayout(draws.below(4) > 0, people.some(draws.between(1, 2)), tuple(
            SlotLayout(place.start, _HALF_DAY) for place in places if place.session == number))
        for number in range(count))


def _contributions(draws, people, places, wanted, have_authors):
    """Return the contributions by place and time; in one place none overlaps another."""
    contributions = []
    for place in places:
        fitting = [each for each in _DURATIONS if each * place.count <= _HALF_DAY]
        start = place.start
        for _ in range(place.count):
            duration = draws.pick(fitting)
            speakers = wanted['speakers'].at(draws.fraction())
            present = people.some(max(draws.between(1, 4), speakers) if have_authors else speakers)
            authors = present if have_authors else ()
            contributions.append(ContributionLayout(
                start, duration, place.session, place.slot, authors[:1], authors[1:],
                present[:speakers], _has_description(draws), _has_keywords(draws),
                _materials(draws, wanted)))
            start += duration
    return tuple(contributions)


def _materials(draws, wanted):
    return MATERIALS[:wanted['materials'].at(draws.fraction())]
