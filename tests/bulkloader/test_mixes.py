# -*- coding: utf-8 -*-
"""Meetings, lectures, sessions, speakers and materials are what the specification says."""
from __future__ import unicode_literals

import json

import pytest

from bulkloader.arguments import parse
from bulkloader.specification import CONFERENCE, LECTURE, MEETING, Specification
from homes import loaded_home

COMMAND = ('--conferences 24 --contributions 0-24 --sessions 0-2 --speakers 0-3 --materials 0-3 '
           '--events conference:2,meeting,lecture --rooms 60 --seed 1 --method model')
SPECIFICATION = Specification(parse(COMMAND.split())[1].parameters)
WANTED = [SPECIFICATION.conference(index) for index in range(24)]
TYPES = {CONFERENCE: 'conference', MEETING: 'meeting', LECTURE: 'simple_event'}


@pytest.fixture(scope='module')
def loaded(tmpdir_factory, empty_indico):
    """An Indico into which COMMAND was loaded; tests here do not change it."""
    with loaded_home(tmpdir_factory.mktemp('mixed'), empty_indico, COMMAND) as home:
        yield home


@pytest.fixture(scope='module')
def events(loaded):
    return loaded.script('events.py').json


@pytest.fixture
def changeable(home, loaded):
    loaded.data.copy(home.data)
    return home


def moment(of):
    return of.strftime('%Y-%m-%d %H:%M')


def emails(people):
    return [person.email for person in people]


def materials(owner):
    return sorted([each.kind.title(), each.name, each.url] for each in owner.materials)


def expected_slots(wanted, number):
    session = wanted.sessions[number]
    return [[moment(slot.start), slot.duration, session.room.name, session.room.location,
             emails(session.conveners),
             [each.title for each in wanted.contributions
              if (each.session, each.slot) == (number, position)]]
            for position, slot in enumerate(session.slots)]


def test_the_mix_has_some_of_everything():
    """So that the tests below mean something."""
    assert set(TYPES) == set(wanted.kind for wanted in WANTED)
    assert any(wanted.sessions for wanted in WANTED if wanted.kind == MEETING)
    assert any(wanted.contributions and not wanted.sessions for wanted in WANTED)
    assert any(len(session.slots) > 1 for wanted in WANTED for session in wanted.sessions)
    assert any(wanted.materials for wanted in WANTED)
    assert any(wanted.room != session.room for wanted in WANTED for session in wanted.sessions)


def test_events_are_what_the_specification_says(events):
    assert [(TYPES[wanted.kind], wanted.title, moment(wanted.start), moment(wanted.end),
             emails(wanted.chairs), materials(wanted)) for wanted in WANTED] == [
        (each['type'], each['title'], each['start'], each['end'], each['chairs'],
         each['materials']) for each in events]


def test_sessions_are_what_the_specification_says(events):
    for wanted, found in zip(WANTED, events):
        assert [(session.title, session.description, moment(session.slots[0].start),
                 expected_slots(wanted, number))
                for number, session in enumerate(wanted.sessions)] == [
            (session['title'], session['description'], session['start'], session['slots'])
            for session in found['sessions']]


def test_contributions_are_what_the_specification_says(events):
    for wanted, found in zip(WANTED, events):
        assert [(each.title, moment(each.start), each.duration, each.session,
                 [emails(each.authors), emails(each.co_authors), emails(each.speakers)],
                 materials(each)) for each in wanted.contributions] == [
            (each['title'], each['start'], each['duration'], each['session'], each['people'],
             each['materials']) for each in found['contributions']]


def test_verify_counts_everything(loaded):
    result = loaded.bulkload('verify --json')
    assert (0, []) == (result.code, result.json['problems'])
    contributions = [each for wanted in WANTED for each in wanted.contributions]
    sessions = [each for wanted in WANTED for each in wanted.sessions]
    wanted = {
        'conferences': 24, 'contributions': len(contributions), 'sessions': len(sessions),
        'slots': sum(len(session.slots) for session in sessions),
        'materials': sum(len(owner.materials) for owner in WANTED + contributions)}
    assert wanted == dict((name, result.json[name]) for name in wanted)
    assert wanted == dict((name, result.json['expected_' + name]) for name in wanted)
    assert len(contributions) == result.json['schedule_entries']


def test_indicos_own_integrity_scripts_report_nothing(loaded):
    assert '' == loaded.maintenance_problems()


def paths(event):
    """Pages that show something of an event, with a text that each has to show."""
    base = '/event/%s' % event['id']
    # the page of a meeting or a lecture is its timetable
    found = {base + '/': event['title'],
             '/export%s.json?detail=sessions' % base: json.dumps(event['title'])}
    for number, session in enumerate(event['sessions']):
        found['%s/session/%d/' % (base, number)] = session['title']
    for number, contribution in enumerate(event['contributions']):
        found['%s/contribution/%d' % (base, number)] = contribution['title']
    return found


def test_pages_show_the_events_and_write_nothing(loaded, events):
    wanted = {}
    for kind in 'conference', 'meeting', 'simple_event':
        of_kind = [event for event in events if event['type'] == kind]
        wanted.update(paths(max(of_kind, key=lambda event: (
            len(event['sessions']) > 0, len(event['materials']), len(event['contributions'])))))
    result = loaded.script('browse.py', *wanted).json
    assert {200} == set(status for _, status, _ in result['pages'])
    assert [] == [path for path, _, text in result['pages'] if wanted[path] not in text]
    assert not result['wrote']


@pytest.mark.parametrize('damage, to_verify', [
    ('session', 'sessions'),
    ('block', 'is not in the timetable'),
    ('material', 'materials'),
    ('kind', 'is a conference, where a meeting was made'),
])
def test_damage_is_reported(changeable, damage, to_verify):
    result = changeable.script('damage.py', damage)
    assert 1 == result.code
    assert to_verify in '\n'.join(
        line for line in result.text.splitlines() if line.startswith('! '))


def test_a_run_to_a_size_says_what_it_will_make_and_goes_on_with_the_same_command(home):
    command = '--profile report-2011 --target-size 1MiB --batch 5'
    result = home.bulkload(command)
    assert 0 == result.code, result.text
    announced = result.text.splitlines()[0].split()
    assert 'events, about 1.0 MiB of packed database'.split() == announced[1:]
    assert int(announced[0]) == home.bulkload('verify --json').json['conferences']
    assert 3 == home.bulkload(command).code
