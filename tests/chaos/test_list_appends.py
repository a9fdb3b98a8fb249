"""Transactions on lists: the checker finds each kind of anomaly, and nothing in a good history."""

from __future__ import annotations

import dataclasses
import math

import pytest
from histories import Kind, Transaction
from list_appends import judge
from traffic import Outcome

ACKNOWLEDGED, REFUSED, UNKNOWN = Outcome


def did(
    number: int,
    session: str = "h1",
    *,
    at: float | None = None,
    ended: float | None = None,
    outcome: Outcome = ACKNOWLEDGED,
    append: str = "",
    **read: list[int],
) -> Transaction:
    """Return a transaction; ``append="xy"`` appends to x and y, ``x=[1]`` is what it read."""
    began = float(number) if at is None else at
    return Transaction(
        session,
        number,
        outcome,
        began,
        began + 0.5 if ended is None else ended,
        {key: tuple(seen) for key, seen in read.items()},
        tuple(append),
    )


def kinds(
    history: list[Transaction], exported: tuple[int, ...] = (), **final: list[int]
) -> set[Kind]:
    found = judge(
        history, {key: tuple(values) for key, values in final.items()}, frozenset(exported)
    )
    return {each.kind for each in found.anomalies}


GOOD = [
    did(1, append="x", x=[]),
    did(2, "h2", append="xy", x=[1], y=[]),
    did(3, "h3", append="y", y=[2], x=[1, 2]),
    did(4, "h1", x=[1, 2], y=[2, 3]),
]


def test_a_good_history_has_no_anomaly() -> None:
    assert set() == kinds(GOOD, x=[1, 2], y=[2, 3])


def test_another_session_may_see_an_older_state() -> None:
    assert set() == kinds([*GOOD, did(5, "h4", x=[1], y=[])], x=[1, 2], y=[2, 3])


def test_writers_of_different_lists_need_not_see_each_other() -> None:
    skew = [did(1, append="x", x=[], y=[]), did(2, "h2", at=1.0, append="y", x=[], y=[])]
    assert set() == kinds(skew, x=[1], y=[2]), "snapshot isolation allows write skew"


def test_an_acknowledged_append_that_is_missing_is_lost() -> None:
    assert {Kind.LOST} == kinds([did(1, append="x", x=[]), did(2, "h2", append="x", x=[])], x=[2])


def test_an_exported_append_is_no_loss_of_an_asynchronous_cluster() -> None:
    history = [
        did(1, append="x", x=[]),
        did(2, append="x", x=[1]),
        did(3, "h2", x=[1, 2]),
        did(4, "h2.1", append="x", x=[1]),
    ]
    assert set() == kinds(history, (2,), x=[1, 4])
    assert {Kind.LOST, Kind.DIRTY_READ} == kinds(history, x=[1, 4])


def test_an_unknown_outcome_may_be_kept_or_gone() -> None:
    history = [did(1, outcome=UNKNOWN, ended=math.inf, append="x", x=[])]
    assert set() == kinds(history, x=[1])
    assert set() == kinds(history, x=[])
    found = judge(history, {"x": (1,)})
    assert (0, 1, 0) == (found.acknowledged, found.unknown_kept, found.unknown_gone)


def test_an_unknown_commit_may_take_effect_after_the_session_s_next_read() -> None:
    history = [did(1, outcome=UNKNOWN, append="x", x=[]), did(2, x=[])]
    assert set() == kinds(history, x=[1])


def test_an_unknown_append_that_was_read_must_not_be_gone() -> None:
    history = [did(1, outcome=UNKNOWN, append="x", x=[]), did(2, "h2", x=[1])]
    assert {Kind.DIRTY_READ} == kinds(history, x=[])


def test_a_refused_append_must_not_be_kept() -> None:
    assert {Kind.KEPT} == kinds([did(1, outcome=REFUSED, append="x", x=[])], x=[1])


def test_a_refused_append_must_not_be_read() -> None:
    history = [did(1, outcome=REFUSED, append="x", x=[]), did(2, "h2", x=[1])]
    assert {Kind.ABORTED_READ} == kinds(history, x=[])


def test_a_value_that_nobody_wrote_is_found() -> None:
    assert {Kind.PHANTOM} == kinds([did(1, x=[7])], x=[])
    assert {Kind.PHANTOM} == kinds([], x=[7])
    assert {Kind.PHANTOM} == kinds([did(7, append="y", y=[])], x=[7], y=[7])


def test_an_append_is_there_once() -> None:
    assert Kind.TWICE in kinds([did(1, append="x", x=[])], x=[1, 1])


def test_a_transaction_is_there_as_a_whole_or_not_at_all() -> None:
    history = [did(1, outcome=UNKNOWN, append="xy", x=[], y=[])]
    assert {Kind.PARTLY} == kinds(history, x=[1], y=[])


def test_an_append_to_an_older_state_has_overwritten_another() -> None:
    history = [did(1, append="x", x=[]), did(2, "h2", append="x", x=[])]
    assert {Kind.OVERWRITTEN} == kinds(history, x=[1, 2])


def test_a_read_of_another_order_is_wrong() -> None:
    history = [did(1, append="x", x=[]), did(2, append="x", x=[1]), did(3, "h2", x=[2, 1])]
    assert {Kind.WRONG_READ} == kinds(history, x=[1, 2])
    assert {Kind.WRONG_READ} == kinds([*history[:2], did(3, "h2", x=[2])], x=[1, 2])


def test_a_session_does_not_go_back() -> None:
    history = [*GOOD, did(5, "h4", x=[1, 2]), did(6, "h4", x=[1])]
    assert {Kind.WENT_BACK} == kinds(history, x=[1, 2], y=[2, 3])


def test_a_session_sees_its_own_writes() -> None:
    history = [did(1, append="x", x=[]), did(2, x=[])]
    assert {Kind.OWN_WRITE} == kinds(history, x=[1])


def test_half_of_a_transaction_is_not_seen() -> None:
    history = [did(1, append="xy", x=[], y=[]), did(2, "h2", x=[1], y=[])]
    assert {Kind.CYCLE} == kinds(history, x=[1], y=[1])


def test_readers_do_not_see_two_writers_in_different_orders() -> None:
    history = [
        did(1, append="x", x=[]),
        did(2, "h2", at=1.0, append="y", y=[]),
        did(3, "h3", x=[1], y=[]),
        did(4, "h4", x=[], y=[2]),
    ]
    assert {Kind.CYCLE} == kinds(history, x=[1], y=[2])
    assert set() == kinds(history[:3], x=[1], y=[2])


def test_a_session_does_not_go_back_by_what_it_read_of_another_list() -> None:
    history = [
        did(1, append="x", x=[]),
        did(2, append="y", x=[1], y=[]),
        did(3, "h2", y=[2]),
        did(4, "h2", x=[]),
    ]
    assert {Kind.CYCLE} == kinds(history, x=[1], y=[2])


def test_commits_follow_the_times_in_which_they_were_acknowledged() -> None:
    # 3 saw the write of 2 but not that of 1, which was acknowledged before 2 began.
    history = [
        did(1, append="x", x=[]),
        did(2, "h2", append="y", y=[]),
        did(3, "h3", y=[2], x=[]),
    ]
    assert {Kind.CYCLE} == kinds(history, x=[1], y=[2])
    history[0] = did(1, ended=2.2, append="x", x=[])
    assert set() == kinds(history, x=[1], y=[2]), "2 may have been first"


def test_an_anomaly_names_the_transactions_of_the_shortest_cycle() -> None:
    before = [did(number, append="z", z=list(range(10, number))) for number in range(10, 40)]
    history = [*before, did(50, append="xy", x=[], y=[]), did(51, "h2", x=[50], y=[])]
    found = judge(history, {"x": (50,), "y": (50,), "z": tuple(range(10, 40))})
    assert [{50, 51}] == [set(each.numbers) for each in found.anomalies]
    assert "it saw y without 50" in found.anomalies[0].text


@pytest.mark.parametrize("sessions", [3, 12])
def test_a_long_good_history_is_judged_good(sessions: int) -> None:
    final: dict[str, list[int]] = {"x": [], "y": [], "z": []}
    history = []
    for number in range(2000):
        chosen = "xyz"[number % 3] + "xyz"[number // 7 % 3]
        append = "".join(sorted(set(chosen)))
        x, y, z = (list(final[key]) for key in "xyz")
        history.append(did(number, f"s{number % sessions}", append=append, x=x, y=y, z=z))
        for key in append:
            final[key].append(number)
    assert set() == kinds(history, x=final["x"], y=final["y"], z=final["z"])


LOST_AND_REPLACED = [
    did(1, append="x", x=[]),
    did(2, append="x", x=[1]),
    did(3, "h2", append="y", y=[]),
]


def test_a_session_must_not_outlive_a_lost_transaction_that_it_has_seen() -> None:
    """Otherwise its cache may go on to show what is lost."""
    final = {"x": [1], "y": [3]}
    assert set() == kinds(LOST_AND_REPLACED, exported=(2,), **final)
    for later in (did(4, x=[1], y=[3]), did(4, append="y", y=[3])):
        shown = {**final, "y": [3, 4]} if later.appended else final
        assert {Kind.WENT_BACK} == kinds([*LOST_AND_REPLACED, later], exported=(2,), **shown)
        dropped = dataclasses.replace(later, session="h1.1")
        assert set() == kinds([*LOST_AND_REPLACED, dropped], exported=(2,), **shown)


def test_a_session_may_go_on_if_what_is_lost_was_acknowledged_to_nobody_or_not_seen() -> None:
    unknown = [
        LOST_AND_REPLACED[0],
        dataclasses.replace(LOST_AND_REPLACED[1], outcome=UNKNOWN, ended=math.inf),
        *LOST_AND_REPLACED[2:],
        did(4, x=[1], y=[3]),
    ]
    assert set() == kinds(unknown, exported=(2,), x=[1], y=[3])
    other = [*LOST_AND_REPLACED, did(4, "h2", x=[1], y=[3])]
    assert set() == kinds(other, exported=(2,), x=[1], y=[3])
