"""Since when a leader key is free, on the clock of a host that may be frozen at any moment."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indico_zodbrepl.automation.observed import Observed, after
from indico_zodbrepl.automation.timing import COLD_SECONDS, Timing
from indico_zodbrepl.etcd.keys import Leader

TIMING = Timing(3.0)
LEADER = Leader("a", "h1", 4, 7)


def renewed(counter: int, *, released: bool = False) -> Leader:
    return dataclasses.replace(LEADER, counter=counter, released=released)


def moving(at: float) -> Observed:
    """A key that was seen to change at a moment."""
    first = after(None, renewed(1), 10, at - 1, at - 1)
    return after(first, renewed(2), 11, at, at)


def test_a_key_is_free_when_a_read_finds_it_unchanged_after_the_lease() -> None:
    seen = moving(100.0)
    assert not after(seen, renewed(2), 11, 102.99, 103.1).is_free(TIMING)
    assert after(seen, renewed(2), 11, 103.0, 103.1).is_free(TIMING)


def test_a_program_that_was_frozen_believes_nothing_before_it_has_read_the_key_again() -> None:
    seen = after(moving(100.0), renewed(2), 11, 101.0, 500.0)
    assert not seen.is_free(TIMING), "the read was sent before it was frozen"
    seen = after(seen, renewed(900), 1200, 500.1, 500.2)
    assert not seen.is_free(TIMING)


def test_a_role_that_was_given_away_is_free_at_once() -> None:
    assert after(moving(100.0), renewed(3, released=True), 12, 100.1, 100.1).is_free(TIMING)


def test_after_a_start_of_all_hosts_the_leader_has_time_to_come_back() -> None:
    first = after(None, LEADER, 10, 100.0, 100.0)
    assert not after(first, LEADER, 10, 100.0 + TIMING.lease, 103.1).is_free(TIMING)
    assert after(first, LEADER, 10, 100.0 + COLD_SECONDS, 115.1).is_free(TIMING)


def test_a_missing_key_is_never_free() -> None:
    seen = after(after(None, None, 0, 1.0, 1.0), None, 0, 900.0, 900.0)
    assert not seen.is_free(TIMING)


def test_an_answer_that_a_later_change_has_overtaken_is_ignored() -> None:
    seen = after(moving(100.0), renewed(3), 12, 101.0, 101.0)
    assert seen == after(seen, renewed(2), 11, 100.9, 101.2)


def test_a_snapshot_of_etcd_that_was_restored_is_a_change() -> None:
    """Its revisions and the counter go back; observers count from there."""
    seen = after(moving(100.0), renewed(1), 3, 102.0, 102.1)
    assert (seen.revision, seen.since) == (3, 102.1)
    assert not after(seen, renewed(1), 3, 104.0, 104.1).is_free(TIMING)


def test_the_key_is_read_at_the_moment_when_it_may_be_free() -> None:
    seen = moving(100.0)
    times = []
    while not seen.is_free(TIMING):
        times.append(seen.next_read(TIMING))
        assert len(times) < 30
        seen = after(seen, renewed(2), 11, times[-1], times[-1] + 0.001)
    assert times[-1] == 103.0
    assert times[0] >= 100.0 + TIMING.renewal, "changes arrive by themselves"


@given(
    st.lists(
        st.tuples(st.floats(0.0, 5.0), st.floats(0.0, 5.0), st.booleans()), min_size=1, max_size=40
    )
)
def test_a_key_that_is_free_was_unchanged_in_etcd_for_the_length_of_a_lease(
    steps: list[tuple[float, float, bool]],
) -> None:
    """Whatever the delays before a read is sent and until it is answered."""
    now, changed_at, counter = 100.0, 100.0, 1
    seen = moving(now)
    for pause, delay, changes in steps:
        now += pause
        if changes:
            counter += 1
            changed_at = now
        sent, value = now, renewed(counter)
        now += delay
        seen = after(seen, value, counter, sent, now)
        if seen.is_free(TIMING):
            assert sent - changed_at >= TIMING.lease


@pytest.mark.parametrize("lease", [2.0, 3.0, 60.0])
def test_a_lease_of_the_server_ends_before_others_may_take_over(lease: float) -> None:
    timing = Timing(lease)
    assert timing.until(100.0) == pytest.approx(100.0 + lease * 5 / 6)
    assert timing.renewal * 3 < timing.lease - timing.margin
