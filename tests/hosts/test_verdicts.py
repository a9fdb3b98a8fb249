"""The account of a fault: what was told to writers and readers against what is there."""

from __future__ import annotations

from traffic import Commit, Outcome, Read
from verdicts import Verdict, judge, longest

OLD, NEW = "127.0.0.1:8201", "127.0.0.1:8203"


def commit(number: int, ended: float, outcome: str = "acknowledged", server: str = OLD) -> Commit:
    return Commit("h1", number, Outcome(outcome), ended - 0.01, ended, server)


def read(ended: float, *seen: int) -> Read:
    return Read("h1", True, seen, ended - 0.01, ended, OLD)


def judged(commits: list[Commit], reads: list[Read], held: set[int], exported: set[int]) -> Verdict:
    return judge(
        commits, reads, held, exported, at=10.0, until=20.0, unaffected={"h1"}, former=":8201"
    )


def test_lost_commits_are_counted_with_and_without_an_export() -> None:
    commits = [
        commit(1, 9.0),
        commit(2, 11.0),
        commit(3, 12.0),
        commit(4, 14.0, server=NEW),
        commit(5, 14.5),
        commit(6, 15.0, "unknown"),
        commit(7, 16.0, "unknown"),
        commit(8, 17.0, "refused"),
    ]
    found = judged(commits, [read(11.5, 2), read(15.0, 4)], {1, 4, 6, 8}, {2, 5})
    assert (5, 3, 1) == (found.acknowledged, found.missing, found.unaccounted)
    assert (1, 1, 1) == (found.unknown_kept, found.unknown_gone, found.refused_kept)
    assert (1, 1) == (found.seen_and_gone, found.by_no_leader)
    assert 4.0 == found.first
    assert 5.5 == found.pause, "from the last commit to the end of the fault"
    assert 5.0 == found.read_gap


def test_without_a_successor_there_is_no_first_commit() -> None:
    found = judged([commit(1, 9.0), commit(2, 11.0)], [], {1, 2}, set())
    assert found.first is None
    assert 0 == found.missing == found.by_no_leader


def test_a_gap_before_the_fault_does_not_count() -> None:
    assert 1.0 == longest([1.0, 9.0, 10.0, 10.5], 9.5, 11.0)
