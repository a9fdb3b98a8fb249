"""Who may start as the primary: the decision alone."""

from __future__ import annotations

import pytest

from indico_zodbrepl.cluster import Forced, NodeState, Role
from indico_zodbrepl.host import reports
from indico_zodbrepl.host.reports import highest, judge, objection_to

FORCED = Forced("ann", "host b burnt down", "2026-02-03T04:05:06Z")
SILENT = reports.Report("the running server of node c", problem="no answer in time", node="c")


def claim(epoch: int = 2, forced: Forced | None = None) -> NodeState:
    return NodeState("demo", "a", Role.PRIMARY, None, epoch, forced)


def record(epoch: int, primary: str, keeper: str = "the control host") -> reports.Report:
    return reports.Report(f"the record of {keeper}", epoch, primary)


def server(node: str, epoch: int, primary: str | None, *, writable: bool = False) -> reports.Report:
    return reports.Report(f"the running server of node {node}", epoch, primary, writable, node=node)


@pytest.mark.parametrize(
    "source",
    [
        record(2, "a"),
        record(2, "a", "Indico instance one"),
        server("b", 2, "a"),
        reports.Report("the state file of node b", 2, "a", node="b"),
    ],
)
def test_one_source_of_this_epoch_is_enough(source: reports.Report) -> None:
    verdict = judge(claim(), [SILENT, source])
    assert verdict.allowed
    assert (source.source,) == verdict.sources
    assert not verdict.forced


@pytest.mark.parametrize(
    "reported",
    [
        [],
        [SILENT],
        [record(1, "a")],
        [server("b", 2, None)],
        [reports.Report("the record of the control host", problem="is no JSON")],
    ],
)
def test_a_node_that_no_source_confirms_in_its_epoch_is_refused(
    reported: list[reports.Report],
) -> None:
    verdict = judge(claim(), reported)
    assert not verdict.allowed
    assert "no source confirms that it is the primary of epoch 2" == verdict.reason


def test_one_who_knows_a_later_epoch_outweighs_all_who_confirm() -> None:
    verdict = judge(claim(), [record(2, "a"), server("b", 3, "b"), server("c", 2, "a")])
    assert "the running server of node b reports epoch 3 with primary b, not epoch 2" == (
        verdict.reason
    )
    assert 3 == verdict.seen


def test_a_follower_that_knows_a_later_epoch_is_enough_although_its_primary_is_not_seen() -> None:
    assert not judge(claim(), [record(2, "a"), server("c", 3, None)]).allowed


def test_another_primary_of_the_same_epoch_keeps_both_from_starting() -> None:
    reported = [record(2, "a"), reports.Report("the state file of node b", 2, "b", node="b")]
    assert "the state file of node b reports b as the primary of epoch 2" == (
        judge(claim(), reported).reason
    )


def test_nobody_starts_beside_a_server_that_takes_writes_even_in_an_older_epoch() -> None:
    verdict = judge(claim(), [record(2, "a"), server("b", 1, "b", writable=True)])
    assert "the running server of node b accepts writes: a second primary is a split brain" == (
        verdict.reason
    )


def test_a_primary_of_an_older_epoch_that_takes_no_writes_hinders_nobody() -> None:
    assert judge(claim(), [record(2, "a"), server("b", 1, "b")]).allowed


def test_an_operators_word_stands_in_for_sources() -> None:
    verdict = judge(claim(forced=FORCED), [SILENT, record(1, "b")])
    assert (True, True) == (verdict.allowed, verdict.forced)


def test_a_forced_node_with_a_source_needs_the_operators_word_no_more() -> None:
    assert not judge(claim(forced=FORCED), [record(2, "a")]).forced


@pytest.mark.parametrize(
    "against", [record(3, "b"), record(2, "b"), server("b", 1, "b", writable=True)]
)
def test_an_operators_word_outweighs_nobody(against: reports.Report) -> None:
    assert not judge(claim(forced=FORCED), [against]).allowed


def test_a_node_does_not_object_to_itself_when_it_is_promoted_again() -> None:
    assert not objection_to("b", 3, [server("b", 3, "b", writable=True), record(3, "b")])


def test_a_promotion_is_objected_to_as_long_as_the_old_primary_takes_writes() -> None:
    assert objection_to("b", 3, [server("a", 2, "a", writable=True)])


def test_the_highest_epoch_counts_the_silent_for_nothing() -> None:
    assert 5 == highest(2, [SILENT, record(5, "b"), record(3, "a")])


def test_with_several_hosts_a_majority_of_the_records_has_to_be_readable() -> None:
    """An isolated former primary reads its own host's record alone, which missed the promotion."""
    alone = [record(2, "a", "host h1"), SILENT, server("b", 2, "a")]
    verdict = judge(claim(), alone, quorum=2)
    assert not verdict.allowed
    assert verdict.reason.startswith("1 hosts report a record of the epoch, and 2 are a majority")
    assert judge(claim(), [*alone, record(2, "a", "host h2")], quorum=2).allowed


def test_an_older_record_counts_for_the_majority_as_it_hides_no_promotion() -> None:
    reported = [record(2, "a", "host h1"), record(1, "c", "host h2")]
    assert judge(claim(), reported, quorum=2).allowed


def test_a_forced_start_needs_no_majority() -> None:
    verdict = judge(claim(forced=FORCED), [record(1, "a", "host h1")], quorum=2)
    assert verdict.allowed
    assert verdict.forced
