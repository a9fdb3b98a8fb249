"""What each host does about the leader key, in every situation that the design names."""

from __future__ import annotations

import dataclasses

import pytest

from indico_zodbrepl.automation.backoff import FIRST_SECONDS, LONGEST_SECONDS, Backoff
from indico_zodbrepl.automation.decisions import (
    Act,
    Circumstances,
    Health,
    Own,
    Signs,
    decide,
    examine,
)
from indico_zodbrepl.automation.observed import Observed
from indico_zodbrepl.automation.timing import (
    COLD_SECONDS,
    SILENT_ATTEMPTS,
    STOPPED_SECONDS,
    Timing,
)
from indico_zodbrepl.etcd.keys import Leader

TIMING = Timing(3.0)
NOW = 1000.0
EPOCH = 4
A = Own("a", "primary", EPOCH, EPOCH)
B = Own("b", "secondary", EPOCH)


def key(age: float, *, released: bool = False, epoch: int = EPOCH, moved: bool = True) -> Observed:
    """Return a key that names node a and did not change for some seconds."""
    leader = Leader("a", "h1", epoch, 7, released=released)
    return Observed(leader, 10, NOW - age, NOW, moved)


def act(seen: Observed, *nodes: Own, now: float = NOW, **around: object) -> Act:
    return decide(seen, nodes, Circumstances(**around), TIMING, now).act  # type: ignore[arg-type]


NO_KEY = Observed(None, 0, NOW - 900, NOW)


def test_a_follower_waits_while_the_leader_renews() -> None:
    assert act(key(2.9), B) is Act.WAIT


def test_a_follower_campaigns_once_the_key_is_free() -> None:
    assert act(key(3.0), B) is Act.CAMPAIGN
    assert act(key(0.1, released=True), B) is Act.CAMPAIGN


def test_nobody_takes_over_while_automation_is_paused() -> None:
    assert act(key(900.0), B, paused="maintenance") is Act.WAIT


def test_nobody_takes_over_from_a_leader_that_went_on_alone() -> None:
    assert act(key(900.0), B, alone=True) is Act.WAIT


def test_a_host_without_a_running_server_does_not_campaign() -> None:
    assert act(key(900.0), Own("b")) is Act.WAIT
    assert act(key(900.0)) is Act.WAIT


def test_a_host_that_has_just_failed_leaves_the_role_to_others() -> None:
    assert act(key(900.0), B, unfit_until=NOW + 1) is Act.WAIT
    assert act(key(900.0), B, unfit_until=NOW) is Act.CAMPAIGN


def test_the_primary_of_the_records_creates_the_first_key() -> None:
    assert act(NO_KEY, A) is Act.CREATE
    assert act(NO_KEY, B) is Act.WAIT
    assert act(NO_KEY, dataclasses.replace(A, recorded=0)) is Act.WAIT, "no majority confirms it"
    assert act(NO_KEY, Own("a", recorded=EPOCH)) is Act.WAIT, "its server does not run"


def test_a_key_of_an_older_epoch_than_the_records_is_corrected_by_their_primary() -> None:
    """So after etcd was restored from a snapshot, and after a failover by hand without it."""
    older = key(900.0, epoch=EPOCH - 1)
    c = Own("c", "primary", EPOCH, EPOCH)
    assert act(older, c) is Act.CREATE
    assert act(older, B, Own("d", "primary", EPOCH, 0)) is Act.CAMPAIGN


@pytest.mark.parametrize("released", [False, True])
def test_a_key_of_an_older_epoch_than_the_records_proves_no_end_of_a_lease(
    released: bool,
) -> None:
    """The key of a restored snapshot may be released: its cluster has another leader by now."""
    older = key(3.0, released=released, epoch=EPOCH - 1)
    assert act(older, B, outdated=True) is Act.WAIT
    lost = key(COLD_SECONDS, released=released, epoch=EPOCH - 1)
    assert act(lost, B, outdated=True) is Act.CAMPAIGN


def test_a_restarted_program_takes_its_own_role_again() -> None:
    assert act(key(0.5), A) is Act.RESUME
    assert act(key(900.0), A) is Act.RESUME
    assert act(key(900.0), A, paused="maintenance") is Act.RESUME


def test_a_role_that_was_given_away_is_taken_again_only_if_nobody_else_wants_it() -> None:
    assert act(key(2.9, released=True), A) is Act.WAIT
    assert act(key(3.0, released=True), A) is Act.RESUME


def test_a_leader_whose_server_restarts_is_waited_for_until_the_key_is_free() -> None:
    assert act(key(0.5), Own("a")) is Act.WAIT
    assert act(key(3.0), Own("a"), B) is Act.CAMPAIGN


@pytest.mark.parametrize(
    "own",
    [
        Own("a", "secondary", EPOCH),  # its data were cloned from another node
        Own("a", "primary", EPOCH - 1, EPOCH - 1),  # its data folder was restored
        Own("a", "primary", EPOCH + 1),  # a record that no majority confirms
    ],
)
def test_a_role_that_the_node_can_not_fill_is_given_away(own: Own) -> None:
    assert act(key(0.5), own) is Act.RELEASE
    assert act(key(0.5), own, operation=True) is Act.KEEP


def test_a_promotion_that_was_interrupted_is_given_up_once_the_former_lease_has_ended() -> None:
    """A command that was frozen may write the key when the former leader commits again."""
    own = Own("a", "secondary", EPOCH - 1)
    assert act(key(0.5), own) is Act.WAIT
    assert act(key(3.0), own) is Act.RELEASE
    assert act(key(0.5), own, operation=True) is Act.KEEP


def test_a_key_that_was_given_away_is_not_given_away_again() -> None:
    assert act(key(0.5, released=True), Own("a", "secondary", EPOCH)) is Act.CAMPAIGN


def test_an_operation_that_hangs_keeps_the_role_only_while_it_is_renewed() -> None:
    assert act(key(3.0), Own("a", "secondary", EPOCH), operation=True) is Act.RELEASE


ANSWERED = Signs(answered=NOW)


def health(signs: Signs, *, paused: bool = False) -> Health:
    return examine(signs, TIMING, NOW, paused=paused)[0]


def test_a_server_that_answers_keeps_its_lease() -> None:
    assert health(ANSWERED) is Health.RENEW


def test_a_dead_server_hands_the_role_over_at_once() -> None:
    assert health(dataclasses.replace(ANSWERED, gone=True)) is Health.HAND_OVER


def test_a_stopped_server_is_killed_before_its_role_is_given_away() -> None:
    assert health(dataclasses.replace(ANSWERED, stopped_since=NOW - 0.1)) is Health.RENEW
    stopped = dataclasses.replace(ANSWERED, stopped_since=NOW - STOPPED_SECONDS)
    assert health(stopped) is Health.KILL


def test_a_server_that_hangs_for_a_lease_is_killed() -> None:
    hung = Signs(answered=NOW - 3.1, failures=SILENT_ATTEMPTS, failed=NOW - 0.1)
    assert health(hung) is Health.KILL
    assert health(dataclasses.replace(hung, failed=NOW - 0.2)) is Health.RENEW


def test_a_program_that_was_frozen_does_not_blame_the_server() -> None:
    """Its first order after that may fail on a busy host."""
    assert health(Signs(answered=NOW - 900, failures=1, failed=NOW)) is Health.RENEW


def test_while_paused_no_server_is_killed_and_no_role_given_away() -> None:
    assert health(Signs(gone=True), paused=True) is Health.RENEW
    assert health(Signs(stopped_since=NOW - 900), paused=True) is Health.RENEW


def test_each_failure_doubles_the_time_for_others() -> None:
    found = Backoff()
    times = []
    for _ in range(8):
        found = found.failed(NOW)
        times.append(found.until - NOW)
    assert times[:3] == [FIRST_SECONDS, 2 * FIRST_SECONDS, 4 * FIRST_SECONDS]
    assert times[-1] == LONGEST_SECONDS
