"""The layout of an event decides all but its words, dates, rooms and people."""
from __future__ import division

import datetime

import pytest

from bulkloader.specification import (
    CONFERENCE, LECTURE, MEETING, Parameters, Person, Specification, estimated_bytes,
    events_of_size, rank)

MIXED = Parameters(2000, 'mean:12,max:60', 10, 50, 1, '0-8', '0-3', '0-10',
                   'conference:70,meeting:20,lecture:10')
DAY = datetime.timedelta(1)


@pytest.fixture(scope='module')
def mixed():
    return Specification(MIXED)


def shape(value, people):
    """Returns a value with people as slots, and without words and dates."""
    if isinstance(value, Person):
        return people.index(value)
    if isinstance(value, tuple):
        return tuple(shape(part, people) for part in value)
    if isinstance(value, datetime.datetime):
        return 'moment'
    return bool(value) if hasattr(value, 'encode') else value


def test_a_layout_can_be_a_key():
    """Two specifications make equal layouts, which find each other in a dict."""
    first, second = Specification(MIXED), Specification(MIXED)
    numbers = dict((layout, number) for number, layout in enumerate(first.layouts))
    assert [numbers[layout] for layout in second.layouts] == list(range(len(first.layouts)))


def test_events_of_one_layout_have_the_same_shape(mixed):
    shapes = {}
    for index in range(600):
        event = mixed.conference(index)
        shapes.setdefault(mixed.layout_number(index), set()).add(
            shape(event._replace(kind=None, materials=None), event.people))
    assert len(shapes) > 20
    assert {1} == set(len(found) for found in shapes.values())


def test_times_of_an_event_are_those_of_its_layout(mixed):
    for index in range(200):
        event, layout = mixed.conference(index), mixed.layout(index)
        midnight = datetime.datetime.combine(event.start.date(), datetime.time())

        def minutes(moment):
            return (moment - midnight).total_seconds() // 60

        assert (layout.start, layout.end) == (minutes(event.start), minutes(event.end))
        assert [(each.start, each.duration) for each in layout.contributions] == [
            (minutes(each.start), each.duration) for each in event.contributions]
        assert [[tuple(slot) for slot in each.slots] for each in layout.sessions] == [
            [(minutes(slot.start), slot.duration) for slot in each.slots]
            for each in event.sessions]


def test_people_have_the_places_that_the_layout_gives_them(mixed):
    for index in range(200):
        event, layout = mixed.conference(index), mixed.layout(index)
        assert list(layout.people) == [
            sorted(event.people, key=rank).index(person) for person in event.people]
        assert event.chairs == tuple(event.people[slot] for slot in layout.chairs)


def test_nobody_is_in_one_list_twice(mixed):
    for layout in mixed.layouts:
        lists = [layout.chairs] + [session.conveners for session in layout.sessions]
        lists.extend(each.authors + each.co_authors for each in layout.contributions)
        lists.extend(each.speakers for each in layout.contributions)
        assert all(len(set(slots)) == len(slots) for slots in lists)


def test_some_people_have_several_parts_in_an_event(mixed):
    for layout in mixed.layouts:
        parts = list(layout.chairs)
        for each in layout.contributions:
            parts.extend(each.authors + each.co_authors or each.speakers)
        if len(parts) > 30:
            assert len(parts) * 0.6 < len(layout.people) < len(parts) * 1.2


@pytest.mark.parametrize('conferences, layouts', [(1, 4), (300, 6), (1600, 32), (85000, 32)])
def test_a_run_has_few_layouts(conferences, layouts):
    assert layouts == len(Specification(Parameters(conferences, '0-9', 1, 5, 1)).layouts)


def test_each_kind_has_a_layout_even_in_a_small_run():
    few = Parameters(3, 2, 1, 5, 1, events='conference:98,meeting,lecture')
    assert [CONFERENCE, MEETING, LECTURE] == sorted(
        set(layout.kind for layout in Specification(few).layouts),
        key=[CONFERENCE, MEETING, LECTURE].index)


def test_kinds_are_as_frequent_as_the_mix_says(mixed):
    kinds = [mixed.layout(index).kind for index in range(2000)]
    assert abs(kinds.count(CONFERENCE) / 2000 - 0.7) < 0.04
    assert abs(kinds.count(MEETING) / 2000 - 0.2) < 0.04
    assert abs(kinds.count(LECTURE) / 2000 - 0.1) < 0.03


def test_the_mean_of_contributions_is_nearly_the_wanted_one():
    run = Specification(Parameters(4000, 'mean:12,max:60', 1, 5, 1))
    counts = [len(run.layout(index).contributions) for index in range(4000)]
    assert abs(sum(counts) / 4000 - 12) < 1
    assert max(counts) > 30


def test_lectures_have_speakers_only(mixed):
    lectures = [layout for layout in mixed.layouts if layout.kind == LECTURE]
    assert all((1, (), ()) == (each.days, each.sessions, each.contributions) for each in lectures)
    assert any(layout.chairs for layout in lectures)


def test_contributions_of_meetings_have_speakers_and_no_authors(mixed):
    for layout in mixed.layouts:
        for each in layout.contributions:
            if layout.kind == MEETING:
                assert ((), ()) == (each.authors, each.co_authors)
            else:
                assert set(each.speakers) <= set(each.authors + each.co_authors)


@pytest.mark.parametrize('contributions, sessions', [
    (0, 1), (0, 8), (3, 8), (10, 1), (60, 4), (95, 3), (1000, 1), (1000, 100), (7, 100)])
def test_contributions_lie_in_the_slots_of_their_sessions(contributions, sessions):
    parameters = Parameters(40, contributions, 1, 5, 1, sessions)
    for layout in Specification(parameters).layouts:
        assert (contributions, sessions) == (len(layout.contributions), len(layout.sessions))
        free_from = {}
        for each in layout.contributions:
            place = each.session, each.slot
            slot = layout.sessions[each.session].slots[each.slot]
            assert free_from.get(place, slot.start) <= each.start
            free_from[place] = each.start + each.duration
            assert free_from[place] <= slot.start + slot.duration


@pytest.mark.parametrize('contributions, sessions', [(0, 8), (95, 3), (1000, 1), (7, 100)])
def test_the_slots_of_a_session_follow_each_other_within_the_event(contributions, sessions):
    parameters = Parameters(40, contributions, 1, 5, 1, sessions)
    for layout in Specification(parameters).layouts:
        for session in layout.sessions:
            assert session.slots
            ends = [layout.start] + [slot.start + slot.duration for slot in session.slots]
            starts = [slot.start for slot in session.slots] + [layout.end]
            assert all(end <= start for end, start in zip(ends, starts))


def test_rooms_of_sessions_are_in_the_place_of_the_event(mixed):
    events = [mixed.conference(index) for index in range(300)]
    rooms = [(event.room, session.room) for event in events for session in event.sessions]
    assert all(own.location == other.location for own, other in rooms)
    assert any(own != other for own, other in rooms)


def test_materials_are_those_of_contributions_where_there_are_some(mixed):
    for index in range(300):
        event, layout = mixed.conference(index), mixed.layout(index)
        assert [each.kind for each in event.materials] == list(layout.materials)
        assert not (event.materials and event.contributions)
        owners = [event] + list(event.contributions)
        addresses = [each.url for owner in owners for each in owner.materials]
        assert len(addresses) == len(set(addresses))


def test_texts_are_never_of_a_single_letter(mixed):
    """Python keeps one object for each of these, which pickles show."""
    def texts(value):
        if isinstance(value, tuple):
            return [text for part in value for text in texts(part)]
        return [value] if hasattr(value, 'encode') else []

    assert 1 not in set(len(text) for index in range(300)
                        for text in texts(mixed.conference(index)))


def test_the_size_of_a_run_grows_with_its_events():
    run = Parameters(2000, 3, 10, 5, 1)
    assert 2 * estimated_bytes(run) == estimated_bytes(run._replace(conferences=4000))


@pytest.mark.parametrize('size', [1 << 20, 30 << 20, 1 << 30, 15 << 30])
def test_as_many_events_as_make_a_size(size):
    run = MIXED._replace(conferences=events_of_size(MIXED, size))
    each = estimated_bytes(run) / run.conferences
    assert abs(estimated_bytes(run) - size) < 1.5 * each or size < 30 << 20
