# -*- coding: utf-8 -*-
"""Stencils of made-up objects, without Indico: what is a hole, and what is refused."""
import datetime
import struct

import pytest
from BTrees.OOBTree import OOBTree
from persistent import Persistent
from persistent.mapping import PersistentMapping
from ZODB.FileStorage.format import DATA_HDR_LEN
from ZODB.serialize import ObjectWriter

from bulkloader.bulk.cutting import Sample, Unexplained, cut, prove
from bulkloader.bulk.holes import NOW
from bulkloader.bulk.values import moment

CLOCK = datetime.datetime(2026, 3, 4, 5, 6, 7)
ONE = {'title': 'Aé 000001', 'day': moment(datetime.datetime(2005, 6, 6, 9)), 'id': '7310000'}
OTHER = {'title': 'Bé 000001', 'day': moment(datetime.datetime(2008, 1, 7, 12)), 'id': '7311000'}
THIRD = {'title': 'Cé 000001', 'day': moment(datetime.datetime(2011, 7, 4)), 'id': '7312000'}
NAMES = ('day', 'id', 'owner', 'title', NOW)


class Event(Persistent):
    """Stands for an event of Indico."""


class Jar(object):
    """Gives out object ids, from where it is told."""

    def __init__(self, first):
        self.next = first

    def new_oid(self):
        self.next += 1
        return ('%08d' % self.next).encode('ascii')

    def db(self):
        return self


OWNERS = dict((number, ('owner%03d' % number).encode('ascii')) for number in range(5))


def sample(values, number, make):
    """Returns the `Sample` of an event whose attributes are `make(values, moment)`."""
    jar = Jar(1000 * number)
    owner = PersistentMapping()
    owner._p_oid, owner._p_jar = OWNERS[number], jar
    event = Event()
    now = CLOCK + datetime.timedelta(seconds=number)
    event.__dict__.update(make(values, now + datetime.timedelta(microseconds=number)))
    event.owner = owner
    event._p_jar, event._p_oid = jar, jar.new_oid()
    found = []
    writer = ObjectWriter(event)
    for each in writer:
        found.append((type(each).__name__, writer.serialize(each), each._p_oid))
    classes, records, oids = zip(*found)
    return Sample(classes, records, oids, {'event': 0}, dict(
        values, owner=OWNERS[number], now=moment(now)),
        (moment(now), moment(now + datetime.timedelta(milliseconds=1))))


def stencil_of(make):
    return cut(NAMES, sample(ONE, 1, make), sample(OTHER, 2, make))


def assert_same_as_pickled(make, values):
    """The stencil of `make` stamps what ZODB pickles from an event with these values."""
    wanted = sample(values, 3, lambda values, now: make(
        values, CLOCK + datetime.timedelta(seconds=3)))
    stamped = stencil_of(make).stamp(wanted.oids, [wanted.values[name] for name in NAMES])
    assert zip(wanted.oids, wanted.records) == stamped.records()
    assert_is_in_the_format_of_a_file(stamped)


def assert_is_in_the_format_of_a_file(stamped):
    """The records in a row are those of the list, each after a header, where `positions` says."""
    begin, middle = 4000, b'26 bytes of each header...'
    written = stamped.written(middle)
    assert stamped.size == len(written)
    places = stamped.positions(begin)
    ends = places[1:] + [begin + len(written)]
    assert [oid + middle + struct.pack(b'>Q', len(record)) + record
            for oid, record in stamped.records()] == [
        written[place - begin:end - begin] for place, end in zip(places, ends)]
    assert DATA_HDR_LEN == len(oid_of(stamped) + middle) + 8


def oid_of(stamped):
    return stamped.records()[0][0]


@pytest.mark.parametrize('make', [
    lambda values, now: {'title': values['title']},
    lambda values, now: {'title': values['title'].decode('utf-8')},
    lambda values, now: {'key': '%st4' % values['id']},
    lambda values, now: {'key': '100% of ' + values['title'].lower() + ' and ' + values['id']},
    lambda values, now: {'made': now, 'made_again': now},
    lambda values, now: {'parts': OOBTree({1: Event(), 2: Event()})},
    lambda values, now: {'parts': [values['title'], values['title']]},
    lambda values, now: {'parts': [Event(), Event(), OOBTree({values['title']: Event()}), Event()]},
])
def test_a_stamped_record_is_what_zodb_pickles(make):
    assert_same_as_pickled(make, THIRD)


def test_a_date_is_filled_in():
    def make(values, now):
        return {'day': datetime.datetime(values['day'])}
    assert_same_as_pickled(make, THIRD)


def test_a_long_text_is_filled_in():
    assert_same_as_pickled(lambda values, now: {'title': values['title']},
                           dict(THIRD, title='long ' * 100))


def test_references_lead_to_the_objects_of_the_same_event_and_to_its_owner():
    def make(values, now):
        return {'part': Event(), 'title': values['title']}
    wanted = sample(THIRD, 3, make)
    event, part = stencil_of(make).stamp(
        [b'new-id-1', b'new-id-2'],
        [dict(wanted.values, owner=b'new-home')[name] for name in NAMES]).records()
    assert (b'new-id-1', b'new-id-2') == (event[0], part[0])
    assert b'new-id-2' in event[1]
    assert b'new-home' in event[1]
    assert OWNERS[1] not in event[1]


@pytest.mark.parametrize('different', [
    lambda values: {'number': len(values['id']) + ord(values['title'][0])},
    lambda values: {'text': 'made of ' + values['title'][0] * 3},
    lambda values: {'list': ['same'] * ord(values['title'][0])},
    lambda values: {'flag': values['title'].startswith('A')},
    lambda values: {'day': datetime.datetime(values['day']).date()},
])
def test_an_unexplained_difference_of_two_events_is_refused(different):
    with pytest.raises(Unexplained) as refused:
        stencil_of(lambda values, now: dict(different(values), title=values['title']))
    assert 'Event' in str(refused.value)


def test_the_refusal_names_class_and_attribute():
    with pytest.raises(Unexplained) as refused:
        stencil_of(lambda values, now: {'colour': 'of ' + values['title'][0]})
    assert "Event.colour: 'of A' and 'of B'" == str(refused.value)


def test_another_number_of_objects_is_refused():
    with pytest.raises(Unexplained):
        stencil_of(lambda values, now: {
            'parts': [Event() for _ in range(ord(values['title'][0]))]})


def test_a_difference_that_only_a_further_event_shows_is_refused():
    def make(values, now):
        return {'flag': values['title'].startswith('C'), 'title': values['title']}
    stencil = stencil_of(make)
    prove(stencil, sample(dict(THIRD, title='D 1'), 4, make))
    with pytest.raises(Unexplained) as refused:
        prove(stencil, sample(THIRD, 3, make))
    assert 'Event.flag' in str(refused.value)


def test_moments_of_the_making_are_all_the_same_moment_in_the_proof():
    def make(values, now):
        return {'made': now}
    prove(stencil_of(make), sample(THIRD, 3, make))


@pytest.mark.parametrize('title', ['', 'x'])
def test_short_values_are_filled_in_although_picklers_do_not_remember_them(title):
    def make(values, now):
        return {'parts': [values['title'], 'after', 'after'], 'same': values['id']}
    prove(stencil_of(make), sample(dict(THIRD, title=title), 3, make))


def test_a_wrong_value_is_noticed_by_the_proof():
    def make(values, now):
        return {'title': values['title']}
    own = sample(THIRD, 3, make)
    own.values['title'] = 'something else'
    with pytest.raises(Unexplained):
        prove(stencil_of(make), own)
