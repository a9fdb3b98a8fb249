# -*- coding: utf-8 -*-
"""What a run leaves in the storage is what its specification says, and what Indico shows."""
from __future__ import unicode_literals

from contextlib import closing

import pytest

from bulkloader.specification import Parameters, Specification, estimated_bytes
from homes import SMALL, Home, loaded_home

COMMAND = '--conferences 30 --contributions 4 --categories 3 --rooms 5 --seed 7 --batch 8'
SPECIFICATION = Specification(Parameters(30, 4, 3, 5, 7))


@pytest.fixture(scope='module')
def loaded(tmpdir_factory, empty_indico):
    """An Indico into which COMMAND was loaded; tests here do not change it."""
    with loaded_home(tmpdir_factory.mktemp('loaded'), empty_indico, COMMAND) as home:
        yield home


@pytest.fixture(scope='module')
def contents(loaded):
    return loaded.script('contents.py').json


def expected(index):
    wanted = SPECIFICATION.conference(index)
    return (wanted.title, wanted.room.name, [chair.family_name for chair in wanted.chairs], [
        [each.title, each.speakers[0].family_name, each.start.strftime('%Y-%m-%d %H:%M'),
         each.duration] for each in wanted.contributions])


def test_the_storage_holds_what_the_specification_says(contents):
    assert [expected(index) for index in range(30)] == [
        (each['title'], each['room'], each['chairs'], each['contributions'])
        for each in contents['conferences']]


def test_the_first_administrator_is_the_creator(contents):
    assert {'admin@conference.invalid'} == {
        each['creator'] for each in contents['conferences']}


def test_each_conference_is_in_its_category(contents):
    names = dict((its_id, name) for name, its_id, _ in contents['categories'])
    leaves = [category.name for category in SPECIFICATION.category_tree()]
    assert [leaves[SPECIFICATION.category_of(index)] for index in range(30)] == [
        names[each['category']] for each in contents['conferences']]


def test_verify_counts_what_is_there(loaded):
    result = loaded.bulkload('verify --json')
    assert 0 == result.code
    assert {
        'runs': 1, 'finished': 1, 'categories': 3, 'conferences': 30, 'expected_conferences': 30,
        'contributions': 120, 'expected_contributions': 120, 'schedule_entries': 120,
        'sessions': 0, 'expected_sessions': 0, 'slots': 0, 'expected_slots': 0,
        'materials': 0, 'expected_materials': 0, 'files': 0, 'expected_files': 0, 'others': 0,
        'problems': [],
        'complete': True} == result.json


def test_verify_says_the_same_in_words(loaded):
    result = loaded.bulkload('verify')
    assert (0, [
        '1 of 1 runs finished', '3 categories', '30 of 30 conferences',
        '120 of 120 contributions, 120 in timetables', '0 of 0 sessions with 0 of 0 blocks',
        '0 of 0 materials', '0 of 0 files', '0 other events in these categories',
        'complete']) == (result.code, result.text.splitlines())


def test_the_database_grows_by_about_what_was_estimated(loaded, empty_indico):
    growth = loaded.data.size() - empty_indico.size()
    assert abs(growth / float(estimated_bytes(SPECIFICATION.parameters)) - 1) < 0.2


def test_indicos_own_integrity_scripts_report_nothing(loaded):
    assert '' == loaded.maintenance_problems()


def test_indico_shows_it_and_its_pages_write_nothing(loaded, contents):
    name, category, events = contents['categories'][0]
    latest = max((SPECIFICATION.conference(index) for index in range(events)),
                 key=lambda conference: conference.start)
    wanted = {'/': {name}, '/category/%s/' % category: {latest.title}}
    for each in contents['conferences'][0], contents['conferences'][-1]:
        event = '/event/%s' % each['id']
        titles = {title for title, _, _, _ in each['contributions']}
        wanted.update({event + '/': {each['title']}, event + '/contributions': titles,
                       event + '/timetable/': titles})
        for number, (title, speaker, _, _) in enumerate(each['contributions']):
            wanted['%s/contribution/%d' % (event, number)] = {title, speaker.upper()}
    result = loaded.script('browse.py', *wanted).json
    assert wanted == {path: {text for text in wanted[path] if text in page}
                      for path, _, page in result['pages']}
    assert {200} == {status for _, status, _ in result['pages']}
    assert not result['wrote']


@pytest.fixture
def small(home, small_indico):
    small_indico.copy(home.data)
    return home


def test_a_complete_run_is_not_made_again(small):
    result = small.bulkload(SMALL)
    assert (3, [
        'NOTICE: a complete run is there already',
        'DETAIL: made by: bin/bulkload --conferences 3 --contributions 1 --categories 1 --rooms 50 '
        '--seed 1',
        'HINT: nothing needs to be done; --add makes another run in new categories',
    ]) == (result.code, result.text.splitlines())
    assert 3 == small.bulkload('verify --json').json['conferences']


def test_add_makes_another_run_in_new_categories(small):
    assert 0 == small.bulkload('--conferences 4 --contributions 2 --add').code
    found = small.bulkload('verify --json').json
    assert (2, 2, 7, 11, True) == tuple(found[key] for key in (
        'runs', 'categories', 'conferences', 'contributions', 'complete'))


def test_many_categories_are_grouped_and_conferences_may_be_empty(home):
    """A category of Indico holds subcategories or events, never both."""
    assert 0 == home.bulkload('--conferences 26 --contributions 0 --categories 26').code
    found = home.script('contents.py').json
    assert [12, 12, 2] == [events for _, _, events in found['categories']]
    assert (26, 26, 0, True) == tuple(found['verified'][key] for key in (
        'categories', 'conferences', 'contributions', 'complete'))
    assert '' == home.maintenance_problems()


@pytest.fixture(scope='module')
def older_indico(tmpdir_factory, small_indico):
    """What a loader of generator 1 left: a complete run without the later parameters."""
    with closing(Home(tmpdir_factory.mktemp('older'))) as home:
        small_indico.copy(home.data)
        result = home.script('older.py')
        assert 0 == result.code, result.text
        return home.data


@pytest.fixture
def older(home, older_indico):
    older_indico.copy(home.data)
    return home


def test_a_run_of_an_older_generator_is_verified(older):
    result = older.bulkload('verify --json')
    assert (0, 3, 3, True) == (result.code,) + tuple(result.json[key] for key in (
        'contributions', 'expected_contributions', 'complete'))


def test_a_contribution_that_an_older_run_lacks_is_reported(older):
    assert '0 of 1 contributions' in older.script('damage.py', 'contribution').text


def test_a_complete_older_run_does_not_hinder_another(older):
    assert 0 == older.bulkload(SMALL + ' --add').code
    assert 0 == older.bulkload('verify').code


def test_an_unfinished_older_run_is_refused(small):
    assert 0 == small.script('older.py', 'unfinished').code
    result = small.bulkload(SMALL)
    notice, detail, hint = result.text.splitlines()
    assert (4, 'NOTICE: a run is unfinished that another version began',
            'HINT: finish it with the version that began it') == (result.code, notice, hint)
    assert 'its data comes from generator 1, this is generator 2' in detail


def test_an_indico_without_first_run_is_refused(blank_home):
    result = blank_home.bulkload('--conferences 3 --contributions 1')
    assert (5, 'NOTICE: this Indico has no administrator yet',
            'HINT: make the first run: bin/indico-python -m indico_zodbrepl.dataplane.indico.firstrun '
            '--admin-file FILE') == (
        (result.code,) + tuple(result.text.splitlines()[::2]))


def test_verify_of_an_indico_without_any_run_fails(home):
    result = home.bulkload('verify --json')
    assert (1, 0, False) == (result.code, result.json['runs'], result.json['complete'])


def test_verify_of_a_missing_file_is_one_message(blank_home):
    result = blank_home.bulkload('verify --json')
    assert (6, 'NOTICE: the storage cannot be opened') == (
        result.code, result.text.splitlines()[0])


@pytest.mark.parametrize('damage, to_verify, to_indico', [
    ('holder', 'not in the holder of events', 'not in ConferenceHolder'),
    ('count', 'counts 4 events and holds 3', 'expected 3, got 4'),
    ('contribution', '0 of 1 contributions', None),
    ('conference', 'is in none of the categories', None),
])
def test_damage_is_reported(small, damage, to_verify, to_indico):
    """By `verify`, and by Indico's own integrity scripts as far as they look for it."""
    result = small.script('damage.py', damage)
    assert 1 == result.code
    assert to_verify in result.text
    if to_indico:
        assert to_indico in small.maintenance_problems()
