"""Which of several commands holds the lock of operations, and when one gives up."""

from __future__ import annotations

import itertools

import pytest

from indico_zodbrepl.host import majority
from indico_zodbrepl.host.majority import Decision, HostLock, Standing, decide
from indico_zodbrepl.host.operation_lock import LOOK_SECONDS
from indico_zodbrepl.host.operations_interface import Holder

LESSER, GREATER = Holder(100, "h1", "x"), Holder(100, "h2", "y")
HELD, ASKED, AWAY = HostLock(Standing.HELD), HostLock(Standing.ASKED), HostLock(Standing.AWAY)
LATE = 1000.0


def busy(holder: Holder) -> HostLock:
    return HostLock(Standing.BUSY, holder)


def locks(*each: HostLock) -> dict[str, HostLock]:
    return {f"h{number}": lock for number, lock in enumerate(each, 1)}


@pytest.mark.parametrize(("hosts", "needed"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_two_majorities_have_a_host_in_common(hosts: int, needed: int) -> None:
    assert needed == majority.quorum(hosts)
    assert 2 * needed > hosts


def test_a_majority_is_enough_when_the_other_hosts_had_time_to_answer() -> None:
    assert Decision.WAIT is decide(LESSER, locks(HELD, HELD, ASKED), 0.0)
    assert Decision.TAKEN is decide(LESSER, locks(HELD, HELD, ASKED), majority.GRACE_SECONDS)
    assert Decision.TAKEN is decide(LESSER, locks(HELD, HELD, AWAY), 0.0)


def test_without_a_majority_of_answers_nothing_begins() -> None:
    assert Decision.WAIT is decide(LESSER, locks(HELD, AWAY, ASKED), 0.0)
    assert Decision.AWAY is decide(LESSER, locks(HELD, AWAY, AWAY), 0.0)
    assert Decision.AWAY is decide(LESSER, locks(HELD, AWAY, ASKED), LATE)


def test_of_two_commands_without_a_majority_one_gives_up_before_the_other() -> None:
    """Host three is away, and each has its own host."""
    one, other = locks(HELD, busy(GREATER), AWAY), locks(busy(LESSER), HELD, AWAY)
    assert Decision.BUSY is decide(GREATER, other, LOOK_SECONDS)
    assert Decision.WAIT is decide(LESSER, one, LOOK_SECONDS)
    assert Decision.BUSY is decide(LESSER, one, LATE), "the other one is no rival but runs"


def test_the_lock_of_a_dead_host_is_awaited() -> None:
    """The agents of the others notice after some seconds that it is gone."""
    found = locks(AWAY, HELD, busy(LESSER))
    assert Decision.WAIT is decide(GREATER, found, majority.RELEASE_SECONDS - 0.1)
    assert Decision.BUSY is decide(GREATER, found, majority.RELEASE_SECONDS)


@pytest.mark.parametrize("hosts", [2, 3, 4, 5])
def test_no_two_commands_have_the_lock_whatever_the_hosts_answer(hosts: int) -> None:
    """Each host has one holder or none: at most one command can have a majority."""
    for holders in itertools.product((LESSER, GREATER, None), repeat=hosts):
        taken = [
            own
            for own in (LESSER, GREATER)
            if decide(
                own,
                locks(*(HELD if each == own else busy(each) if each else AWAY for each in holders)),
                LATE,
            )
            is Decision.TAKEN
        ]
        assert len(taken) <= 1


def test_the_refusal_names_who_has_the_most_locks() -> None:
    found = locks(busy(GREATER), HELD, busy(LESSER), busy(LESSER))
    assert LESSER == majority.busy_holder(found)
    assert majority.missing(locks(HELD, busy(LESSER), HostLock(Standing.AWAY, why="refused"))) == (
        "host h2: process 100 on host h1 has it; host h3: refused"
    )
