"""What the record ``sync`` may say, so that no take-over relies on what was never confirmed."""

from __future__ import annotations

import dataclasses

import pytest

from indico_zodbrepl.automation.candidates import Verdict, judge
from indico_zodbrepl.automation.promises import (
    confirmations,
    first_record,
    next_record,
    voters,
)
from indico_zodbrepl.cluster.model import Synchronous, SyncLevel
from indico_zodbrepl.etcd.keys import Sync
from indico_zodbrepl.host.candidacy import Candidacy
from indico_zodbrepl.probing.answers import Acknowledging, AckState

EPOCH = 5


def record(count: int, epoch: int = EPOCH, *, alone: bool = False, level: str = "fsync") -> Sync:
    return Sync(epoch, count, level, alone, members=("b", "c"))


@pytest.mark.parametrize(
    ("sync", "configured", "count"),
    [
        (record(2), 1, 2),
        (record(0), 2, 0),
        # Which of them the leader of the present epoch has asked for is unknown.
        (record(1, EPOCH - 1), 2, 1),
        (record(2, EPOCH - 1), 1, 1),
        (record(0, EPOCH - 1), 2, 1),
        (record(2, EPOCH - 1), 0, 1),
        (record(0, EPOCH - 1), 0, 0),
        # It was lost with etcd's data.
        (None, 2, 1),
        (None, 0, 0),
    ],
)
def test_no_more_confirmations_are_assumed_than_there_certainly_were(
    sync: Sync | None, configured: int, count: int
) -> None:
    assert confirmations(sync, configured, EPOCH) == count


def test_a_stronger_promise_is_recorded_only_when_secondaries_have_the_earlier_commits() -> None:
    """Else one of two secondaries would count as proof for a commit that only the other one has."""
    weak, strong = record(1), record(2)
    assert next_record(weak, strong, "waiting") == weak
    assert next_record(weak, strong, "starting") == weak
    assert next_record(weak, strong, "synchronous") == strong
    assert next_record(strong, weak, "synchronous") == weak


@pytest.mark.parametrize(
    ("started", "configured", "count", "level"),
    [
        # It is promoted with the cluster file's number, and acknowledges by that at once.
        ((2, "fsync"), (1, SyncLevel.FSYNC), 1, "fsync"),
        ((1, "fsync"), (1, SyncLevel.RECEIVE), 1, "receive"),
        ((2, "fsync"), (0, SyncLevel.FSYNC), 0, "fsync"),
        # One of an earlier release keeps its own.
        ((1, "write"), (2, SyncLevel.FSYNC), 1, "write"),
    ],
)
def test_the_first_record_of_a_leader_says_no_more_than_its_server_asks_for(
    started: tuple[int, str], configured: tuple[int, SyncLevel], count: int, level: str
) -> None:
    found = Acknowledging(AckState.OFF, *started, 10.0, "refuse")
    record = first_record(EPOCH, Synchronous(*configured), found, ("b",))
    assert (record.count, record.level) == (count, level)
    alone = first_record(EPOCH, Synchronous(*configured), None, ("b",))
    assert (alone.count, alone.level) == (configured[0], str(configured[1]))


def test_a_node_that_may_have_the_only_copy_stays_recorded_until_others_have_it() -> None:
    """It was added while the automation ran, confirmed commits, and is away."""
    added = dataclasses.replace(record(1), members=("b", "c", "d"))
    assert set(next_record(added, record(1), "waiting").members) == {"b", "c", "d"}
    assert next_record(added, record(1), "synchronous") == record(1)
    again = next_record(next_record(added, record(1), "waiting"), record(1), "refusing")
    assert again == next_record(added, record(1), "waiting")


def test_a_promise_of_the_former_epoch_holds_until_secondaries_have_its_commits() -> None:
    new = record(2, EPOCH + 1)
    assert next_record(record(1), new, "off") == record(1, EPOCH + 1)
    assert next_record(record(1, EPOCH + 1), new, "synchronous") == new


def test_a_primary_that_is_alone_is_recorded_as_such_also_after_a_loss_of_the_record() -> None:
    """So after etcd was restored, and when a primary that was alone restarts in its epoch."""
    assert next_record(None, record(1), "alone").alone
    assert next_record(record(1), record(1), "alone").alone
    assert next_record(record(1, alone=True), record(1), "waiting").alone
    assert not next_record(record(1, alone=True), record(1), "synchronous").alone
    assert not next_record(record(1, alone=True), record(1, EPOCH + 1), "waiting").alone


def test_what_a_leader_acknowledged_alone_is_on_one_node_besides_its_successor() -> None:
    """That is the former leader: enough for one acknowledgement, and too few for two."""
    known = record(2, alone=True)
    assert next_record(known, record(2, EPOCH + 1), "waiting").alone
    assert next_record(known, record(2, EPOCH + 1), "refusing").alone
    assert not next_record(known, record(2, EPOCH + 1), "synchronous").alone


def test_a_node_that_another_host_still_counts_is_asked_for_too() -> None:
    """A host with a newer cluster file does not conclude from fewer nodes."""
    answer = Candidacy(
        "b",
        runs=True,
        detached=True,
        role="secondary",
        epoch=EPOCH,
        last_tid=100,
        state_epoch=EPOCH,
        condition="",
        was_writable=False,
    )
    nodes = voters(["a", "b"], record(1))
    assert set(nodes) == {"a", "b", "c"}
    found = judge("b", {"b": answer}, nodes, count=1, epoch=EPOCH, waited=0)
    assert found.verdict is Verdict.CANNOT
    assert "c: no answer" in found.why
