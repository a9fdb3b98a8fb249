# -*- coding: utf-8 -*-
"""Indico's own forms do to objects made in bulk what they do to those that Indico made.

The same person does the same to both at real Indicos; then everything is compared again.
"""
from __future__ import unicode_literals

import itertools
from contextlib import closing

import pytest

from bulkloader.specification import CONFERENCE, LECTURE, MEETING, Specification
from equivalent import ALL_KINDS, EVENTS_BEFORE, Pair, busiest
from homes import Home
from visitor import Visitor

SPECIFICATION = Specification(ALL_KINDS)
CONFERENCES = [EVENTS_BEFORE + index for index in range(ALL_KINDS.conferences)
               if SPECIFICATION.layout(index).kind == CONFERENCE]
# of events that are made here
CLONE_OF_CONFERENCE = EVENTS_BEFORE + ALL_KINDS.conferences
CLONE_OF_LECTURE, MADE_BY_HAND = CLONE_OF_CONFERENCE + 1, CLONE_OF_CONFERENCE + 2


def leaves(tree, count):
    """Ids of the categories that hold events; `count` counts categories as they are made."""
    found = []
    for category in tree:
        its_id = str(next(count))
        found.extend(leaves(category.children, count) if category.children else [its_id])
    return found


# The top one has the id 0, that of the events before 1.
CATEGORIES = leaves(SPECIFICATION.category_tree(), itertools.count(2))


def busiest_event(kind):
    return EVENTS_BEFORE + busiest(SPECIFICATION, kind)


def category_of(event):
    return CATEGORIES[SPECIFICATION.category_of(event - EVENTS_BEFORE)]


def other_than(category):
    return CATEGORIES[0 if category != CATEGORIES[0] else -1]


def edit(visitor, event, **values):
    """Changes main data of an event: indexes of titles, dates, rooms follow."""
    visitor.submit('/event/%d/manage/general/data' % event, '/general/data/save', 'OK', **values)


def clone(visitor, event, year):
    """Clones an event with all that is in it into a year; returns the address of the clone."""
    return visitor.send('/event/%d/manage/tools/clone' % event, [
        ('cloneType', 'once'), ('stdyo', str(year)), ('stdmo', '6'), ('stddo', '5'),
        ('cloneMaterials', '1'), ('cloneAccess', '1'), ('cloneTimetable', '1'),
        ('confirm', 'yes')])


def move(visitor, events, from_category, to_category):
    """Moves events, as the tree of categories does that is shown after 're-allocate'."""
    visitor.send('/category/%s/manage/events' % to_category, [
        ('reallocate', 'yes'), ('confirm', 'yes'), ('srcCategId', from_category)] + [
            ('selectedConf', str(event)) for event in events])


def delete(visitor, event):
    visitor.submit('/event/%d/manage/tools/delete' % event, '/tools/delete', 'confirm')


def create(visitor, kind, category, title):
    """Fills in the form for a new event; returns the address of the event."""
    return visitor.submit(
        '/category/%s/create/event/%s' % (category, kind), '/event/create/save', 'ok',
        title=title, sDay='3', sMonth='9', sYear='2009', sHour='9', sMinute='0', eDay='3',
        eMonth='9', eYear='2009', eHour='18', eMinute='0', chairperson='[]', allowedUsers='[]')


def work(visitor):
    """One of each thing that people do to events, to events of each kind."""
    conference, meeting, lecture = map(busiest_event, (CONFERENCE, MEETING, LECTURE))
    for event in conference, meeting, lecture:
        edit(visitor, event, title='Événement changé', sYear='2006', eYear='2006', sMonth='8',
             eMonth='8', sDay='2', eDay='8', roomName='Another Hall', description='other words')
    visitor.submit('/event/%d/manage/contribution/0/modify' % conference,
                   '/contribution/0/modify/save', 'ok', title='Another talk', keywords='')
    visitor.submit('/event/%d/manage/contribution/0/tools/delete' % meeting,
                   '/contribution/0/tools/delete', 'confirm')
    assert '/event/%d/' % CLONE_OF_CONFERENCE in clone(visitor, conference, 2010)
    assert '/event/%d/' % CLONE_OF_LECTURE in clone(visitor, lecture, 2012)
    source = category_of(conference)
    move(visitor, [conference, CLONE_OF_CONFERENCE], source, other_than(source))
    others = [event for event in CONFERENCES if event != conference]
    delete(visitor, others[0])
    delete(visitor, others[-1])
    assert '/event/%d/' % MADE_BY_HAND in create(visitor, 'meeting', source, 'Made by hand')


def work_after_a_restart(visitor):
    """What was made in bulk and changed is changed once more."""
    conference = busiest_event(CONFERENCE)
    edit(visitor, CLONE_OF_CONFERENCE, title='Changed again', sYear='2004', eYear='2004')
    delete(visitor, conference)
    move(visitor, [CLONE_OF_CONFERENCE], other_than(category_of(conference)),
         category_of(conference))


@pytest.fixture(scope='module')
def worked_at(made, pair):
    """Copies of the pair after `work` at both, and a restart."""
    copies = Pair(*(made(home.data) for home in pair.homes))
    for home in copies.homes:
        with closing(Visitor(home)) as visitor:
            work(visitor)
    return copies


def test_forms_of_indico_change_both_alike(worked_at):
    assert [] == worked_at.differences()


def test_indexes_stay_valid(worked_at):
    assert ['', ''] == worked_at.each(Home.maintenance_problems)


def test_what_was_changed_is_shown_after_a_restart(worked_at):
    clone, by_hand, deleted = ('/event/%d/' % number for number in (
        CLONE_OF_CONFERENCE, MADE_BY_HAND, CONFERENCES[-1]))
    of_model, of_bulk = worked_at.pages([clone, by_hand, deleted, '/category/1/'])
    assert of_model == of_bulk
    assert 'Événement changé' in of_bulk[clone][1]
    assert 'Made by hand' in of_bulk[by_hand][1]
    assert 404 == of_bulk[deleted][0]


def test_work_goes_on_after_a_restart(worked_at):
    for home in worked_at.homes:
        with closing(Visitor(home)) as visitor:
            work_after_a_restart(visitor)
    assert [] == worked_at.differences()
    assert ['', ''] == worked_at.each(Home.maintenance_problems)
