# -*- coding: utf-8 -*-
"""What a run makes follows from its parameters alone."""
from __future__ import unicode_literals

import datetime
import os
import subprocess
import sys

from pytz import timezone, utc

from bulkloader.specification import (
    EVENTS_PER_CATEGORY, GENERATOR, MAX_CONTRIBUTIONS, PEOPLE, Parameters, Specification,
    default_categories, rank)
from bulkloader.vocabulary import PLACES
from homes import ROOT

DIGEST = """
import hashlib
from bulkloader.specification import Parameters, Specification
specification = Specification(Parameters(
    400, 'mean:7,max:30', 30, 20, 5, '0-4', '0-3', 'mean:1.5,max:6',
    'conference:7,meeting:2,lecture', 5))
digest = hashlib.sha256()

def feed(value):
    if isinstance(value, tuple):
        for part in value:
            feed(part)
    else:
        digest.update(('%s|' % (value,)).encode('utf-8') if not hasattr(value, 'encode')
                      else (value + '|').encode('utf-8'))

feed(specification.category_tree())
feed(specification.layouts)
for index in range(400):
    feed(specification.conference(index))
print(digest.hexdigest())
"""


# Of the data that DIGEST describes: a change of it needs another GENERATOR.
DATA = {2: 'cb9ed961ac146a9211aece5fd2523a76e1be0e2d9623b22a55570f15295a2355'}


def digest_by(python):
    home = os.environ.get('ZODBREPL_HOME', str(ROOT))
    own = os.path.join(home, 'bin', python)
    env = dict(os.environ, PYTHONPATH=str(ROOT), PYTHONDONTWRITEBYTECODE='yes')
    return subprocess.check_output(
        [own if os.path.exists(own) else python, '-c', DIGEST], env=env).strip().decode('ascii')


def specification(conferences=40, contributions=5, categories=1, rooms=10, seed=1):
    return Specification(Parameters(conferences, contributions, categories, rooms, seed))


def all_of(specification):
    return [specification.conference(index)
            for index in range(specification.parameters.conferences)]


def test_python_2_and_3_make_the_same_data_of_the_same_seed():
    assert digest_by('python3') == digest_by(sys.executable)


def test_this_generator_still_makes_the_same_data():
    """A run that was interrupted before an upgrade is finished after it."""
    assert DATA[GENERATOR] == digest_by(sys.executable)


def test_each_conference_can_be_had_without_the_others():
    assert all_of(specification())[17] == specification().conference(17)


def test_another_seed_makes_other_data():
    assert all_of(specification(seed=1)) != all_of(specification(seed=2))


def test_conferences_are_in_the_past_and_end_after_they_start():
    for conference in all_of(specification(200)):
        assert datetime.datetime(2003, 1, 1) < conference.start < conference.end
        assert conference.end < datetime.datetime(2014, 1, 1)


def test_short_conferences_stay_within_a_working_week():
    for conference in all_of(specification(200)):
        assert conference.start.weekday() <= conference.end.weekday() <= 4


def test_no_clock_is_changed_during_an_event():
    """So all times of an event of a layout lie as far apart, in UTC too."""
    for conferences, contributions in (1500, 0), (100, 300):
        for conference in all_of(specification(conferences, contributions)):
            zone = timezone(conference.timezone)
            assert zone.utcoffset(conference.start) == zone.utcoffset(conference.end), conference


def test_no_clock_of_any_place_is_changed_on_a_working_day():
    for _, _, name in PLACES:
        zone = timezone(name)
        for moment in getattr(zone, '_utc_transition_times', ()):
            if 2003 <= moment.year <= 2013:
                assert 6 == zone.normalize(utc.localize(moment)).weekday(), (name, moment)


def test_contributions_lie_within_the_conference_and_do_not_overlap():
    for count in (1, 5, 20, 73, MAX_CONTRIBUTIONS):
        conference = specification(contributions=count).conference(0)
        assert count == len(conference.contributions)
        free_from = conference.start
        for contribution in conference.contributions:
            assert free_from <= contribution.start
            free_from = contribution.start + datetime.timedelta(minutes=contribution.duration)
            assert free_from <= conference.end


def test_titles_differ_from_each_other():
    """A few of 2000 may coincide, as they do among real conferences."""
    titles = [conference.title for conference in all_of(specification(2000, 0, 10))]
    assert len(set(titles)) > 1900


def test_people_within_one_contribution_are_different():
    for conference in all_of(specification()):
        for contribution in conference.contributions:
            people = contribution.authors + contribution.co_authors
            assert len(set(people)) == len(people)


def everybody():
    of_one = specification()
    return [of_one.person(number) for number in range(PEOPLE)]


def test_nobody_shares_a_name_with_somebody_else():
    """Indico's index of authors would take the two for one."""
    people = everybody()
    assert PEOPLE == len({(person.family_name, person.first_name) for person in people})


def test_people_are_ranked_in_the_order_of_indicos_index_of_authors():
    people = everybody()
    assert sorted(people, key=rank) == sorted(people, key=lambda person: ' '.join(
        (person.family_name, person.first_name, person.email)).encode('utf-8').lower())


def test_some_names_are_not_ascii_and_all_addresses_lead_nowhere():
    people = everybody()
    assert any(ord(letter) > 127 for person in people for letter in person.family_name)
    assert ['conference.invalid'] * PEOPLE == [person.email.split('@')[1] for person in people]


def test_no_more_rooms_are_used_than_asked_for():
    rooms = set(conference.room for conference in all_of(specification(200, rooms=7)))
    assert set(specification(rooms=7).room(number) for number in range(7)) == rooms


def test_rooms_have_different_names():
    of_one = specification()
    assert 50 == len(set(of_one.room(number).name for number in range(50)))


def test_conferences_are_spread_evenly_over_the_categories():
    assert [13, 13, 14] == sorted(specification(40, categories=3).category_sizes())


def test_up_to_twelve_categories_lie_directly_below_the_root():
    tree = specification(40, categories=12).category_tree()
    assert [()] * 12 == [category.children for category in tree]
    assert 12 == len(set(category.name for category in tree))


def test_more_categories_are_grouped_by_topic():
    tree = specification(1000, categories=30).category_tree()
    assert [12, 12, 6] == [len(category.children) for category in tree]


def test_no_category_has_more_than_the_fan_out():
    """1000 leaves are in 84 topics, these in 7 fields."""
    tree = specification(10000, categories=1000).category_tree()
    assert 7 == len(tree)
    assert [12] * 6 + [12] == [len(category.children) for category in tree]
    assert 1000 == len(leaves_of(tree))


def test_the_fan_out_can_be_chosen():
    parameters = Parameters(100, 0, 9, 10, 1, fan_out=2)
    tree = Specification(parameters).category_tree()
    depth = 0
    level = tree
    while level:
        assert all(len(category.children) <= 2 for category in level)
        level = [child for category in level for child in category.children]
        depth += 1
    assert (2, 4) == (len(tree), depth)
    assert 9 == len(leaves_of(tree))


def test_there_are_names_for_any_number_of_categories():
    tree = specification(10000, categories=5000).category_tree()
    while tree:
        assert len(tree) == len(set(category.name for category in tree))
        tree = tree[0].children


def leaves_of(tree):
    leaves = []
    for category in tree:
        leaves.extend(leaves_of(category.children) if category.children else [category])
    return leaves


def test_by_default_a_category_holds_at_most_a_few_hundred_events():
    for conferences in (1, 199, 200, 201, 85000):
        categories = default_categories(conferences)
        sizes = specification(conferences, categories=categories).category_sizes()
        assert conferences == sum(sizes)
        assert max(sizes) <= EVENTS_PER_CATEGORY
