"""Amounts: a number, a range, or a mean with a maximum."""
from __future__ import division

import pytest

from bulkloader.specification import Amount, Mix

DRAWN = 20000


def drawn(text, most=100):
    """Returns what an even sample of all fractions gives, in order."""
    amount = Amount(text, most)
    return [amount.at((number + 0.5) / DRAWN) for number in range(DRAWN)]


def test_a_number_is_always_the_same():
    assert {12} == set(drawn('12')) == set(drawn(12))


def test_zero_is_a_number():
    assert {0} == set(drawn('0'))


def test_numbers_of_a_range_are_equally_frequent():
    assert [DRAWN // 4] * 4 == [drawn('2-5').count(number) for number in (2, 3, 4, 5)]


@pytest.mark.parametrize('text, mean', [
    ('12', 12), ('0-40', 20), ('3-3', 3), ('mean:12,max:60', 12), ('mean:0.5,max:60', 0.5),
    ('mean:2,max:4', 2)])
def test_the_mean_is_what_was_asked_for(text, mean):
    assert abs(mean - sum(drawn(text)) / DRAWN) < 0.01
    assert abs(mean - Amount(text, 100).mean) < 1e-6


def test_few_are_more_frequent_than_many():
    numbers = drawn('mean:3,max:10')
    counts = [numbers.count(number) for number in range(11)]
    assert sorted(counts, reverse=True) == counts
    assert min(counts) > 0


def test_all_fractions_up_to_one_give_a_number():
    assert [40, 40] == [Amount('0-40', 40).at(fraction) for fraction in (0.9999999999999999, 1.0)]


@pytest.mark.parametrize('text', ['', '-', '1-', '-1', '1.5', '1-2-3', 'mean:1', 'max:1,mean:1',
                                  'mean:0,max:4', 'mean:3,max:5', 'mean:-1,max:4', '5-4', '101',
                                  '0-101', 'mean:1,max:101', 'ten'])
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError):
        Amount(text, 100)


def test_shares_of_a_mix_are_its_weights():
    assert [('conference', 0.7), ('meeting', 0.2), ('lecture', 0.1)] == Mix(
        'lecture:10,conference:70,meeting:20').shares


def test_a_kind_without_a_weight_has_one():
    assert [('conference', 0.75), ('lecture', 0.25)] == Mix('conference:3,lecture').shares


@pytest.mark.parametrize('text', ['', 'meeting:', 'meeting:0', 'meeting:-1', 'meeting:1.5',
                                  'party', 'meeting,meeting', 'meeting,'])
def test_any_other_mix_is_refused(text):
    with pytest.raises(ValueError):
        Mix(text)
