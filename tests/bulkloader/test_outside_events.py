"""What Indico changes outside of a new event: all of it is what `bulk.indexes` changes as well."""
import json

import pytest

from homes import loaded_home

# by key of the root and classes on the way from there
CHANGED = [
    'adminlist _AdminList Avatar',                  # the creator, and what it made
    'adminlist _AdminList Avatar OOTreeSet',
    'catalog Catalog CategoryEventStartDateIndex OOBTree IOIndex IOBTree',
    'catalog Catalog CategoryEventStartDateIndex OOBTree IOIndex Length',
    'catalog Catalog CategoryEventStartDateIndex OOBTree IOIndex OOBTree',
    'categories OOBTree Category',                  # how many events are in it
    'categories OOBTree Category OOTreeSet',
    'conferences OOBTree',
    'counters OOBTree Counter',
    'displayRegistery OOBTree',
    'indexes OOBTree CalendarIndex IOBTree',
    'indexes OOBTree CategoryDayIndex OOBTree',
    'indexes OOBTree CategoryDayIndex OOBTree CalendarDayIndex IOBTree',
    'indexes OOBTree CategoryIndex OOBTree',
    'indexes OOBTree TextIndex',                    # conferenceTitle
    'indexes OOBTree TextIndex TextIndex Lexicon IOBTree',
    'indexes OOBTree TextIndex TextIndex Lexicon Length',
    'indexes OOBTree TextIndex TextIndex Lexicon OIBTree',
    'indexes OOBTree TextIndex TextIndex OkapiIndex IFBTree',
    'indexes OOBTree TextIndex TextIndex OkapiIndex IOBTree',
    'indexes OOBTree TextIndex TextIndex OkapiIndex Length',
    'internalPagesRegistery OOBTree',
    'rootCategory Category',
]
NEW = [
    'catalog Catalog CategoryEventStartDateIndex OOBTree IOIndex IOBTree OOTreeSet',
    'catalog Catalog CategoryEventStartDateIndex OOBTree IOIndex OOBTree IOTreeSet',
    'indexes OOBTree CategoryDayIndex OOBTree CalendarDayIndex IOBTree OOSet',
]
PARAMETERS = {'conferences': 6, 'contributions': 0, 'categories': 1, 'rooms': 4, 'seed': 5}


def outside(home, **others):
    result = home.script('outside.py', json.dumps(dict(PARAMETERS, **others)))
    assert 0 == result.code, result.text
    return result.json


@pytest.mark.parametrize('kind, further', [
    ('conference', []), ('meeting', ['webfactoryregistry OOBTree']),
    pytest.param('lecture', ['webfactoryregistry OOBTree'], marks=pytest.mark.exhaustive)])
def test_indico_changes_nothing_else_when_it_makes_an_event(home, kind, further):
    found = outside(home, events=kind)
    assert (CHANGED + further, NEW) == (found['changed'], found['new'])


def test_what_is_in_an_event_changes_nothing_more(home):
    found = outside(home, contributions=3, sessions=1, materials=2)
    assert (CHANGED, NEW) == (found['changed'], found['new'])


@pytest.fixture(scope='module')
def loaded(tmpdir_factory, empty_indico):
    with loaded_home(tmpdir_factory.mktemp('records'), empty_indico,
                     '--conferences 3 --contributions 0') as home:
        yield home


def test_sets_are_written_as_zodb_pickles_them(loaded):
    result = loaded.script('sets.py')
    assert (0, {'different': [], 'compared': 71}) == (result.code, result.json)


def test_events_that_indico_makes_afterwards_follow_in_all_counters(loaded):
    result = loaded.bulkload('--conferences 3 --contributions 1 --add --method model')
    assert 0 == result.code, result.text
    found = loaded.script('contents.py').json
    assert list('012345') == [each['id'] for each in found['conferences']]
    assert [] == found['verified']['problems']
    assert '' == loaded.maintenance_problems()
