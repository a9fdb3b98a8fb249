# -*- coding: utf-8 -*-
"""What the bulk way makes cannot be told from what Indico's own calls make."""
from __future__ import unicode_literals

import json
import re
import time
from contextlib import closing
from urllib import quote

import pytest
from ZODB.FileStorage import FileStorage
from ZODB.scripts import fstest
from ZODB.serialize import referencesf

from bulkloader.specification import (
    CONFERENCE, LECTURE, MATERIALS, MEETING, Parameters, Specification)
from equivalent import ALL_KINDS, EVENTS_BEFORE, Pair, busiest, by, in_sittings
from homes import LIMITED_FILE_STORAGE, Home

EMPTY = Parameters(conferences=45, contributions=0, categories=1, rooms=3, seed=8)


def test_events_of_all_shapes_are_compared():
    specification = Specification(ALL_KINDS)
    layouts = set(map(specification.layout, range(ALL_KINDS.conferences)))
    assert set(specification.layouts) == layouts
    assert set([(CONFERENCE, False, True), (CONFERENCE, True, True), (MEETING, True, True),
                (LECTURE, False, False)]) == set(
                    (layout.kind, bool(layout.sessions), bool(layout.contributions))
                    for layout in layouts)
    assert set([1, 2]) == set(len(session.slots) for layout in layouts
                              for session in layout.sessions)
    assert set(MATERIALS[:6]) == set(kind for layout in layouts for each in (
        (layout,) + layout.contributions) for kind in each.materials)


def test_all_objects_are_equal(pair):
    assert [] == pair.differences()


def test_neither_way_leaves_objects_that_nothing_leads_to(pair):
    assert ({}, {}) == pair.unreachable()


def test_indicos_own_integrity_scripts_report_nothing(pair):
    assert ['', ''] == pair.each(Home.maintenance_problems)


def test_the_loader_counts_the_same(pair):
    counted = pair.each(lambda home: home.bulkload('verify --json').json)
    assert counted[0] == counted[1]
    assert counted[1]['complete']


PAGES = ('', 'event.ics', 'other-view?view=xml', 'manage/general/', 'manage/participants/',
         'manage/access/')
OF_PROGRAMMES = ('contributions', 'authors', 'speakers', 'manage/timetable/',
                 'manage/contributions/', 'contribution/0', 'manage/contribution/0/',
                 'session/0/', 'manage/session/0/')
PAGES_OF = {CONFERENCE: PAGES + OF_PROGRAMMES + ('timetable/',), MEETING: PAGES + OF_PROGRAMMES,
            LECTURE: PAGES}
EXPORTS = ('event/{}.json?detail=contributions', 'event/{}.json?detail=subcontributions',
           'event/{}.json?detail=sessions', 'timetable/{}.json?pretty=yes')
LISTING = '/export/categ/0.json?from=2003-01-01&to=2014-01-01&detail=events'
CONVENERS = re.compile(r'(?<="sessionConveners": \[\{)[^][]*(?=\}\])')
NOT_DONE = 'your request could not be completed'
SEARCH = '/export/event/search/{}.json'


def paths(specification, first):
    """Pages of the categories, and of one event of each kind.

    Args:
        specification: what was loaded.
        first: the number of its first event.
    """
    categories = range(2, 3 + specification.parameters.categories)
    found = ['/', '/category/0/overview?period=year&year=2008', LISTING]
    found.extend('/category/%d/' % number for number in categories)
    found.append('/category/%d/manage/' % categories[-1])
    for kind in (CONFERENCE, MEETING, LECTURE):
        event = first + busiest(specification, kind)
        found.extend('/event/%d/%s' % (event, page) for page in PAGES_OF[kind])
        found.extend('/export/' + each.format(event) for each in EXPORTS)
    return found


def in_order(answer):
    """An answer with each session's conveners sorted: Indico lists a set of objects."""
    code, text = answer
    return code, CONVENERS.sub(
        lambda found: '}, {'.join(sorted(found.group().split('}, {'))), text)


def test_pages_exports_and_search_show_the_same(pair):
    specification = Specification(ALL_KINDS)
    titles = [specification.conference(busiest(specification, kind)).title
              for kind in (CONFERENCE, MEETING, LECTURE)]
    words = [max(title.split(), key=len).strip('():') for title in titles]
    searches = [SEARCH.format(quote(word.encode('utf-8'))) for word in words]
    wanted = paths(specification, EVENTS_BEFORE) + searches
    of_model, of_bulk = pair.pages(wanted)
    for path in wanted:
        assert in_order(of_model[path]) == in_order(of_bulk[path]), path
    assert [] == [(path, of_bulk[path][0]) for path in wanted if of_bulk[path][0] != 200]
    assert [] == [path for path in wanted if NOT_DONE in of_bulk[path][1]]
    assert [] == [title for title in titles if json.dumps(title)[1:-1] not in of_bulk[LISTING][1]]
    assert [] == [title for title, search in zip(titles, searches)
                  if json.dumps(title)[1:-1] not in of_bulk[search][1]]


def test_the_data_file_is_sound_and_can_be_packed(pair, tmpdir):
    """Without its index, too, which is then made of the file itself."""
    packed = tmpdir.join('Data.fs')
    pair.homes[1].data.copy(packed)
    fstest.check(str(packed))
    with closing(FileStorage(str(packed))) as storage:
        storage.pack(time.time(), referencesf)
    assert packed.size() < pair.homes[1].data.size()
    other = Home(tmpdir.join('packed'))
    packed.copy(other.data)
    assert [] == Pair(pair.homes[0], other).differences()


@pytest.mark.exhaustive
def test_it_does_not_matter_in_which_sittings_and_ways_a_run_is_made(pair, made, used_indico):
    """Here on a storage that writes each record itself."""
    other = made(used_indico, in_sittings(ALL_KINDS, 'bulk', 'model', 'bulk'),
                 storage=LIMITED_FILE_STORAGE)
    assert [] == Pair(pair.homes[0], other).differences()


def test_an_empty_indico_is_filled_alike_and_further_runs_are(made, empty_indico):
    """There are so many events that indexes split their buckets."""
    pair = Pair(made(empty_indico, by('model', EMPTY, '--batch 7')),
                made(empty_indico, by('bulk', EMPTY, '--batch 20')))
    assert [] == pair.differences()
    assert ({}, {}) == pair.unreachable()
    for home, method in zip(pair.homes, ('model', 'bulk')):
        by(method, EMPTY, '--add')(home)
    assert [] == pair.differences()
