"""Reads that are no prefix of a history, that can't be judged, and that went back are found."""

from __future__ import annotations

import pytest
from ledger import Attempt, Declared, Ranges, Record, Sight
from prefixes import Export, Prefixes, histories, judge

# Both writers write in turn: v 1, w 1, v 2, w 2, v 3, w 3. The history was abandoned after w 2.
PRESENT = {("v", 1): "11", ("w", 1): "12", ("v", 2): "13", ("w", 2): "14", ("v", 5): "19"}
TAIL = {("v", 3): "15", ("w", 3): "16"}
EXPORT = Export("14", frozenset(TAIL.values()), TAIL)
LOSS = Declared("14", until=20.0)
ATTEMPTS = [
    Attempt((writer, number), True, float(tid) - 10.5, float(tid) - 10, writer, tid)
    for (writer, number), tid in {**PRESENT, **TAIL}.items()
]


def spans(v: int, w: int) -> Ranges:
    return {"v": [[1, v]], "w": [[1, w]]}


def sight(seen: Ranges, at: float = 0.0, client: str = "7", **more: str) -> Sight:
    return Sight(seen, at, at + 0.1, client, more.pop("server", ""), more)


def judged(
    *sights: Sight,
    present: dict[Record, str] = PRESENT,
    exports: tuple[Export, ...] = (),
    losses: tuple[Declared, ...] = (),
    attempts: list[Attempt] = ATTEMPTS,
) -> Prefixes:
    return judge(sights, histories(present, exports, losses, attempts, sights))


def refused(record: Record, began: float) -> Attempt:
    return Attempt(record, False, began, began + 0.5, record[0])


def test_each_prefix_of_the_present_history_is_one() -> None:
    reads: list[Ranges] = [{}, {"v": [[1, 1]]}, spans(1, 1), spans(2, 1), spans(2, 2)]
    reads.append({"v": [[1, 2], [5, 5]], "w": [[1, 2]]})
    assert Prefixes(checked=6) == judged(*(sight(seen, at) for at, seen in enumerate(reads)))


def test_an_earlier_record_that_was_not_seen_is_a_violation() -> None:
    found = judged(sight(spans(2, 2), 1.0), sight({"v": [[1, 2]]}, 2.0, client="8"))
    [bad] = found.violations
    assert ("8", 2.1, ("v", 2), (("w", 1),), ()) == (
        bad.client,
        bad.moment,
        bad.newest,
        bad.missing,
        bad.foreign,
    )
    text = "process 8 at 2.10 saw up to v 2 of the present history, with 1 missing (w 1)"
    assert text == str(bad)


def test_a_record_of_no_history_is_a_violation() -> None:
    [bad] = judged(sight(spans(2, 3))).violations
    assert (("w", 3),) == bad.foreign


def test_an_abandoned_history_may_be_read_up_to_each_record() -> None:
    found = judged(sight(spans(3, 2)), sight(spans(3, 3), 1.0), exports=(EXPORT,))
    assert Prefixes(checked=2) == found


def test_two_histories_in_one_read_are_a_violation() -> None:
    mixed = {"v": [[1, 3], [5, 5]], "w": [[1, 2]]}
    [bad] = judged(sight(mixed), exports=(EXPORT,)).violations
    assert (("v", 3),) == bad.foreign
    assert judged(sight({"v": [[1, 2]], "w": [[1, 3]]}), exports=(EXPORT,)).violations


def test_an_export_may_continue_another_one() -> None:
    later = Export("15", frozenset({"17"}), {("w", 4): "17"})
    seen = {"v": [[1, 3]], "w": [[1, 2], [4, 4]]}
    assert Prefixes(checked=1) == judged(sight(seen), exports=(later, EXPORT))
    assert judged(sight(seen), exports=(later,)).violations


def test_a_commit_that_was_refused_and_is_in_a_file_has_its_place() -> None:
    attempts = [refused(("w", 2), 3.5), *ATTEMPTS]
    assert not judged(sight(spans(2, 2)), attempts=attempts).violations
    seen = {"v": [[1, 2], [5, 5]], "w": [[1, 1]]}
    assert judged(sight(seen), attempts=attempts).violations


def test_the_acknowledged_records_of_a_declared_loss_have_their_place() -> None:
    assert Prefixes(checked=1) == judged(sight(spans(3, 3)), losses=(LOSS,))
    [bad] = judged(sight({"v": [[1, 2]], "w": [[1, 3]]}), losses=(LOSS,)).violations
    assert (("v", 3),) == bad.missing
    assert judged(sight({"v": [[1, 3], [5, 5]], "w": [[1, 2]]}), losses=(LOSS,)).violations


def test_a_refused_record_of_a_declared_loss_is_unjudged_without_its_transaction() -> None:
    attempts = [*ATTEMPTS, refused(("w", 4), 6.2)]
    read = spans(3, 4)
    assert Prefixes(checked=1, unjudged=1) == judged(sight(read), losses=(LOSS,), attempts=attempts)
    assert Prefixes(checked=1) == judged(sight(read, w="17"), losses=(LOSS,), attempts=attempts)


def test_what_was_acknowledged_before_a_refused_record_began_comes_first() -> None:
    attempts = [*ATTEMPTS, refused(("w", 4), 6.2)]
    read = {"v": [[1, 2]], "w": [[1, 2], [4, 4]]}
    assert judged(sight(read), losses=(LOSS,), attempts=attempts).violations


def test_a_refused_record_that_was_not_seen_leaves_later_ones_unjudged() -> None:
    attempts = [*ATTEMPTS, refused(("u", 1), 5.2)]
    found = judged(
        sight(spans(3, 2), 1.0), sight(spans(3, 3), 2.0), losses=(LOSS,), attempts=attempts
    )
    assert Prefixes(checked=2, unjudged=1) == found


def test_an_older_read_of_the_same_history_went_back() -> None:
    [once] = judged(
        sight(spans(2, 2), 1.0, server="a"),
        sight(spans(1, 1), 2.0, server="b"),
        sight(spans(2, 1), 3.0, server="b"),
        sight(spans(1, 1), 3.0, client="8"),
        sight(spans(2, 2), 4.0, server="b"),
    ).setbacks
    assert ("7", 2.1, ("a", "b"), 2, True) == (
        once.client,
        once.moment,
        once.servers,
        once.sights,
        once.same_history,
    )
    assert 3.0 == pytest.approx(once.seconds)


def test_reads_before_and_after_a_change_of_history_are_counted_by_themselves() -> None:
    found = judged(sight(spans(3, 2), 1.0), sight(spans(2, 2), 2.0), exports=(EXPORT,))
    assert (0, 1) == (found.back, found.back_after_change)
