"""How long nothing was saved in a run."""

from __future__ import annotations

from histories import Transaction
from pauses import Pauses, measured
from registers import Access
from traffic import Outcome
from web_writes import CREATED, WebWrite


def append(ended: float, outcome: Outcome = Outcome.ACKNOWLEDGED) -> Transaction:
    return Transaction("one", int(ended), outcome, ended - 0.1, ended, appended=("list",))


def test_only_acknowledged_writes_end_a_pause() -> None:
    history: list[Transaction | Access | WebWrite] = [
        append(100.0),
        Transaction("one", 2, Outcome.ACKNOWLEDGED, 105.0, 105.1, read={"list": (1,)}),
        append(110.0, Outcome.REFUSED),
        Access(3, "object", False, 0, Outcome.ACKNOWLEDGED, 111.0, 111.1),
        append(130.0),
    ]
    assert Pauses(30.0, 30.0) == measured(history)


def test_short_pauses_are_not_added_up() -> None:
    history: list[Transaction | Access | WebWrite] = [
        append(100.0),
        append(105.0),
        Access(3, "object", True, 0, Outcome.ACKNOWLEDGED, 119.0, 120.0),
        WebWrite(4, "h1", CREATED, "", "a", Outcome.ACKNOWLEDGED, 131.0, 132.0, 200),
    ]
    assert Pauses(15.0, 27.0) == measured(history)


def test_without_writes_there_is_no_pause() -> None:
    assert Pauses(0.0, 0.0) == measured([])
