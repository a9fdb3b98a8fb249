"""Storages take turns at each case, and every case is measured in every round."""

from __future__ import annotations

import itertools
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from indico_zodbrepl.bench import runner
from indico_zodbrepl.bench.runner import Step
from indico_zodbrepl.bench.suite import Case

CASES = [Case("read", {"caches": "cold"}), Case("read", {"caches": "hot"}), Case("write")]
PLANS = st.dictionaries(
    st.sampled_from("abcd"),
    st.lists(st.sampled_from(CASES), unique_by=str).map(lambda some: sorted(some, key=str)),
    max_size=4,
)


@given(PLANS, st.integers(1, 5))
def test_each_case_of_a_storage_is_measured_once_a_round(
    cases: dict[str, list[Case]], rounds: int
) -> None:
    steps = list(runner.plan(cases, rounds))
    wanted = {
        (number, name, str(case)): 1
        for number in range(1, rounds + 1)
        for name, found in cases.items()
        for case in found
    }
    assert wanted == Counter((step.round, step.storage, str(step.case)) for step in steps)
    assert [step.round for step in steps] == sorted(step.round for step in steps)


@given(PLANS, st.integers(1, 5))
def test_storages_are_side_by_side_in_each_case(cases: dict[str, list[Case]], rounds: int) -> None:
    steps = list(runner.plan(cases, rounds))
    groups = [
        key for key, _ in itertools.groupby(steps, key=lambda step: (step.round, str(step.case)))
    ]
    assert len(groups) == len(set(groups))


def test_each_storage_is_first_in_turn() -> None:
    steps = list(runner.plan({"a": CASES[:1], "b": CASES[:1], "c": CASES[:1]}, 4))
    assert ["abc", "bca", "cab", "abc"] == [
        "".join(step.storage for step in steps if step.round == number) for number in range(1, 5)
    ]


def test_cases_that_are_compared_take_turns_at_being_first_and_others_keep_their_order() -> None:
    compared = [
        Case(test, {"directory": name, "seconds": seconds}, "directory")
        for seconds in (5, 60)
        for test in ("write", "read")
        for name in "xyz"
    ]
    steps = list(runner.plan({"a": [CASES[0], *compared, CASES[1]]}, 3))
    for number, order in ((1, "xyz"), (2, "yzx"), (3, "zxy")):
        found = [step.case for step in steps if step.round == number]
        assert (CASES[0], CASES[1]) == (found[0], found[-1])
        assert [
            (test, seconds, name)
            for seconds in (5, 60)
            for test in ("write", "read")
            for name in order
        ] == [
            (each.test, each.parameters["seconds"], each.parameters["directory"])
            for each in found[1:-1]
        ]


def test_without_storages_there_is_nothing_to_do() -> None:
    assert list(runner.plan({}, 3)) == []
    assert str(Step(2, CASES[0], "zeo")) == "zeo: read caches cold, round 2"
