# -*- coding: utf-8 -*-
"""What a run makes follows from its parameters alone."""
from __future__ import unicode_literals

import datetime
import os
import subprocess
import sys

from bulkloader.specification import (
    EVENTS_PER_CATEGORY, MAX_CONTRIBUTIONS, Parameters, Specification, default_categories)
from homes import ROOT

DIGEST = """
import hashlib
from bulkloader.specification import Parameters, Specification
specification = Specification(Parameters(400, 7, 30, 20, 5))
digest = hashlib.sha256()

def feed(value):
    if isinstance(value, tuple):
        for part in value:
            feed(part)
    else:
        digest.update(('%s|' % (value,)).encode('utf-8') if not hasattr(value, 'encode')
                      else (value + '|').encode('utf-8'))

feed(specification.category_tree())
for index in range(400):
    feed(specification.conference(index))
print(digest.hexdigest())
"""


def digest_by(python):
    home = os.environ.get('ZODBREPL_HOME', str(ROOT))
    own = os.path.join(home, 'bin', python)
    env = dict(os.environ, PYTHONPATH=str(ROOT), PYTHONDONTWRITEBYTECODE='yes')
    return subprocess.check_output(
        [own if os.path.exists(own) else python, '-c', DIGEST], env=env).strip()


def specification(conferences=40, contributions=5, categories=1, rooms=10, seed=1):
    return Specification(Parameters(conferences, contributions, categories, rooms, seed))


def all_of(specification):
    return [specification.conference(index)
            for index in range(specification.parameters.conferences)]


def test_python_2_and_3_make_the_same_data_of_the_same_seed():
    assert digest_by('python3') == digest_by(sys.executable)


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


def test_some_names_are_not_ascii_and_all_addresses_lead_nowhere():
    people = [specification().person(number) for number in range(100)]
    assert any(ord(letter) > 127 for person in people for letter in person.family_name)
    assert ['conference.invalid'] * 100 == [person.email.split('@')[1] for person in people]


def test_no_more_rooms_are_used_than_asked_for():
    rooms = set(conference.room for conference in all_of(specification(200, rooms=7)))
    assert set(specification(rooms=7).room(number) for number in range(7)) == rooms


def test_rooms_have_different_names():
    assert 50 == len(set(specification().room(number).name for number in range(50)))


def test_conferences_are_spread_evenly_over_the_categories():
    assert [13, 13, 14] == sorted(specification(40, categories=3).category_sizes())


def test_up_to_twelve_categories_lie_directly_below_the_root():
    tree = specification(40, categories=12).category_tree()
    assert [()] * 12 == [category.children for category in tree]
    assert 12 == len(set(category.name for category in tree))


def test_more_categories_are_grouped_by_topic():
    tree = specification(1000, categories=30).category_tree()
    assert [12, 12, 6] == [len(category.children) for category in tree]


def test_there_are_names_for_any_number_of_categories():
    tree = specification(10000, categories=1000).category_tree()
    assert len(tree) == len(set(category.name for category in tree))


def test_by_default_a_category_holds_at_most_a_few_hundred_events():
    for conferences in (1, 199, 200, 201, 85000):
        categories = default_categories(conferences)
        sizes = specification(conferences, categories=categories).category_sizes()
        assert conferences == sum(sizes)
        assert max(sizes) <= EVENTS_PER_CATEGORY
