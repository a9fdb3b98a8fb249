"""Where the history of the primary left a node's, by the promotions in the journal."""

from __future__ import annotations

import dataclasses

import pytest

from indico_zodbrepl.operations import operation
from indico_zodbrepl.operations.divergence import from_journal
from indico_zodbrepl.operations.model import Figures, Loss, Plan
from indico_zodbrepl.operations.operation import Operation, Progress, StepRecord
from indico_zodbrepl.operations.roles import Promote
from indico_zodbrepl.operations.takeover import Lead

EARLY, LATE = "0400000000000005", "0400000000000009"


def promotion(
    source: str, target: str, epoch: int, after: str | None, progress: Progress = Progress.DONE
) -> Operation:
    step = Promote(target, {}, title="Promote it", seconds=1.0, after_no_return=True)
    plan = Plan("failover", target, source, "", epoch, (step,), None, ())
    figures: Figures = {} if after is None else {"promoted_after": after}
    made = operation.new("demo", plan, "somebody", float(epoch))
    return dataclasses.replace(made, records=(StepRecord(progress, figures=figures),))


A_TO_B = promotion("a", "b", 2, LATE)


def test_a_failover_tells_what_the_new_primary_got() -> None:
    assert LATE == from_journal([A_TO_B], "a", 2)


def test_an_automatic_failover_tells_it_too() -> None:
    step = Lead("b", {"epoch": 2}, title="Promote it", seconds=1.0, after_no_return=True)
    loss = Loss("a", None, None, False, EARLY, "unknown")
    plan = Plan("failover", "b", "a", "", 2, (step,), loss, ())
    made = operation.new("demo", plan, "automation", 2.0)
    entry = dataclasses.replace(made, records=(StepRecord(Progress.DONE, figures={}),))
    assert EARLY == from_journal([entry], "a", 2)


def test_of_several_promotions_since_the_oldest_transaction_counts() -> None:
    """The third node may have had less than the second one."""
    assert EARLY == from_journal([A_TO_B, promotion("b", "c", 3, EARLY)], "a", 3)
    assert LATE == from_journal([promotion("c", "a", 1, EARLY), A_TO_B], "a", 2)


def test_an_estimate_of_the_loss_will_do() -> None:
    bare = promotion("a", "b", 2, None)
    loss = Loss("a", None, None, False, EARLY, "possibly some transactions")
    entry = dataclasses.replace(bare, plan=dataclasses.replace(bare.plan, loss=loss))
    assert EARLY == from_journal([entry], "a", 2)


@pytest.mark.parametrize(
    ("entries", "epoch"),
    [
        ([], 2),
        ([A_TO_B], 3),
        ([A_TO_B, promotion("b", "c", 3, None)], 3),
        ([A_TO_B, promotion("b", "a", 3, LATE)], 3),
        ([promotion("a", "b", 2, LATE, Progress.UNDONE)], 2),
        ([promotion("c", "b", 2, LATE)], 2),
    ],
)
def test_where_a_promotion_is_missing_nothing_is_known(
    entries: list[Operation], epoch: int
) -> None:
    assert from_journal(entries, "a", epoch) is None
