"""Events that are stamped out are, byte for byte, what Indico makes of the same values."""
from __future__ import unicode_literals

import json
from contextlib import closing

import pytest

from homes import Home


@pytest.fixture(scope='module')
def compare(tmpdir_factory, empty_indico):
    """Runs the comparison in an Indico that it does not change."""
    with closing(Home(tmpdir_factory.mktemp('stamping'))) as home:
        empty_indico.copy(home.data)

        def run(change='nothing', **others):
            result = home.script('stamping.py', json.dumps(dict({
                'conferences': 12, 'contributions': 0, 'categories': 2, 'rooms': 4, 'seed': 5},
                **others)), change)
            assert 0 == result.code, result.text
            return result.json
        yield run


@pytest.fixture(scope='module')
def plain(compare):
    """Four layouts, of which two differ from others in days and people alone."""
    return compare(conferences=30, seed=6)


def assert_as_indico_makes_them(result, count):
    assert [] == result['refused'] + result['different']
    assert count == len(result['equal'])
    assert min(result['equal']) > 100


def test_an_event_without_contributions_is_as_indico_makes_it(plain):
    assert_as_indico_makes_them(plain, 30)


@pytest.mark.parametrize('parameters', [
    pytest.param({'contributions': '0-12', 'sessions': '0-5'}, marks=pytest.mark.exhaustive),
    {'contributions': '0-6', 'sessions': '0-2', 'speakers': '0-3', 'materials': '0-6',
     'events': 'conference,meeting,lecture', 'conferences': 20},
])
def test_whatever_an_event_holds_is_as_indico_makes_it(compare, parameters):
    assert_as_indico_makes_them(compare(**parameters), parameters.get('conferences', 12))


def test_a_stencil_is_made_once_for_all_events_of_a_form(plain):
    assert 2 == plain['stencils']


def test_sample_events_are_not_kept(plain):
    assert (False, True, 0) == (
        plain['committed'], plain['same_connection'], plain['registered'])


@pytest.mark.parametrize('change, where', [
    ('number', 'Conference.letters'), ('colour', 'Conference.colour')])
def test_what_follows_from_values_in_a_way_nobody_knows_is_refused(compare, change, where):
    """One is a difference of any two events, the other shows in some events only."""
    result = compare(change)
    assert {where} == {each.split(':')[0] for each in result['refused']}


def test_an_indico_that_the_bulk_way_does_not_know_is_loaded_by_the_model_instead(home):
    """One message says so; what was begun the bulk way is finished by the model."""
    command = '--conferences 3 --contributions 0'.split()
    refused = home.script('peculiar.py', *command)
    assert (10, 'NOTICE: this Indico makes events in a way that the bulk way does not know') == (
        refused.code, refused.text.splitlines()[-3])
    assert 'DETAIL: Conference.letters: ' in refused.text
    assert '--method model' in refused.text.splitlines()[-1]
    assert 0 == home.script('peculiar.py', *command + ['--method', 'model']).code
    assert (3, True) == tuple(home.bulkload('verify --json').json[key] for key in (
        'conferences', 'complete'))
