"""The journal tells which transactions are lost, and whether somebody has dealt with them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import past
import pytest
import situations

from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.operations import journal, operation, recover
from indico_zodbrepl.operations.losses import DECIDED, losses
from indico_zodbrepl.operations.model import Loss, Plan
from indico_zodbrepl.operations.operation import Operation, Outcome, Progress, StepRecord

TIDS = ["0400000000000001", "0400000000000002", "0400000000000003"]


def of(kind: str, target: str, number: int, reason: str = "", **figures: Any) -> Operation:
    begun = operation.new(
        "test", Plan(kind, target, "", reason, 0, (), None, ()), "olga", past.BEGAN + 60 * number
    )
    return dataclasses.replace(begun, ended=begun.began + 1, outcome=Outcome.DONE, told=figures)


def unread(transactions: int | None = None, *, exact: bool = False, done: bool = True) -> Operation:
    """A failover that could not read what the old primary has."""
    made = past.failover(Path("/x"))
    records = [StepRecord(progress=each.progress) for each in made.records]
    if not done:
        records[2] = StepRecord(Progress.FAILED)
    lost = Loss("a", transactions, None, exact, None, "unknown: a is counted when it is back")
    return dataclasses.replace(
        made, plan=dataclasses.replace(made.plan, loss=lost), records=tuple(records)
    )


EXPORTED = past.failover(Path("/var/lost-tails") / past.TAIL)


def test_an_export_is_a_loss_until_all_of_it_is_recovered_or_somebody_decides() -> None:
    (found,) = losses([EXPORTED])
    assert (past.TAIL, "a", 3, True) == (
        found.name,
        found.node,
        found.transactions,
        found.exported,
    )
    assert found.is_open
    assert (EXPORTED.identifier, "failover to b", past.BEGAN) == (
        found.entry,
        found.operation,
        found.at,
    )


@pytest.mark.parametrize(
    ("recoveries", "recovered"),
    [
        ([of("recover", past.TAIL, 1, transactions=TIDS)], 3),
        ([of("recover", past.TAIL, 1, transactions=TIDS[:1], already_there=TIDS[1:])], 3),
        ([of("recover", past.TAIL, each, transactions=[TIDS[each]]) for each in range(3)], 3),
        ([of("recover", past.TAIL, 1, transactions=TIDS[:1])] * 3, 1),
        ([of("recover", past.TAIL, 1, f"picked: {TIDS[0]}:01", transactions=TIDS)], 2),
        ([of("recover", past.TAIL, 1)], 0),
        ([of("recover", "another", 1, transactions=TIDS)], 0),
    ],
)
def test_what_was_recovered_is_counted_once_and_only_whole_transactions(
    recoveries: list[Operation], recovered: int
) -> None:
    (found,) = losses([EXPORTED, *recoveries])
    assert (recovered, recovered < 3) == (found.recovered, found.is_open)


def test_a_recovery_journals_what_it_wrote_and_what_the_database_had_already(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = dataclasses.replace(situations.cluster(), var_directory=tmp_path)
    transactions = tuple(
        recover.LostTransaction(each, "", "", outcome, ())
        for each, outcome in zip(TIDS, ("applies", "has it", "has it"), strict=True)
    )
    answer = recover.Recovery(past.TAIL, "0400000000000000", "0400000000000009", 1, transactions)
    monkeypatch.setattr(recover, "_run", lambda *_arguments: answer)
    recover.apply(cluster, Installation(tmp_path), tmp_path / past.TAIL, [recover.ALL])
    (found,) = losses([EXPORTED, *journal.read(cluster)[0]])
    assert (3, False) == (found.recovered, found.is_open)


def test_the_last_decision_about_a_loss_counts() -> None:
    decided = [of(DECIDED, past.TAIL, 1, "later"), of(DECIDED, past.TAIL, 2, "users were told")]
    (found,) = losses([EXPORTED, *decided])
    assert found.decision is not None
    assert ("olga", "users were told", False) == (
        found.decision.by,
        found.decision.reason,
        found.is_open,
    )
    (other,) = losses([EXPORTED, of(DECIDED, "another", 1, "x")])
    assert other.is_open


def test_a_failover_that_could_not_read_the_old_primary_has_lost_an_unknown_number() -> None:
    failover = unread()
    (found,) = losses([failover])
    assert (failover.identifier, None, False, True) == (
        found.name,
        found.transactions,
        found.exported,
        found.is_open,
    )
    assert "counted when it is back" in found.text


def test_a_failover_knows_the_number_if_only_the_export_failed() -> None:
    (found,) = losses([unread(76, exact=True)])
    assert (76, False) == (found.transactions, found.exported)


def test_a_failover_that_promoted_nobody_or_lost_nothing_has_no_loss() -> None:
    assert () == losses([unread(done=False)])
    assert () == losses([unread(0, exact=True)])
    assert () == losses([dataclasses.replace(unread(), told={"lost_transactions": 0})])
    no_loss = unread()
    plan = dataclasses.replace(no_loss.plan, loss=None)
    assert () == losses([dataclasses.replace(no_loss, plan=plan)])


def test_once_the_old_primary_rejoins_its_export_is_the_loss() -> None:
    exported = of("rejoin", "a", 1, exported=4, exported_to="/var/lost-tails/a-3-x")
    (found,) = losses([unread(), exported])
    assert ("a-3-x", 4, True) == (found.name, found.transactions, found.exported)
    assert (unread().identifier,) == found.failovers
    assert () == losses([unread(), of("rejoin", "a", 1)]), "it had nothing of its own"


@pytest.mark.parametrize(
    "entry",
    [
        of("rejoin", "c", 1),
        dataclasses.replace(of("rejoin", "a", 1), outcome=Outcome.STOPPED),
        of("clone", "a", 1),
    ],
)
def test_what_is_not_counted_stays_unknown(entry: Operation) -> None:
    (found,) = losses([unread(), entry])
    assert (None, True) == (found.transactions, found.is_open)
    assert found.cloned == (entry.plan.operation == "clone")


def test_losses_are_listed_newest_first_and_each_export_once() -> None:
    again = of("rejoin", "a", 1, exported_to=f"/var/lost-tails/{past.TAIL}", exported=3)
    other = of("restore", "b", 2, exported_to="/var/lost-tails/b-4-x", exported=76)
    assert ["b-4-x", past.TAIL] == [each.name for each in losses([EXPORTED, again, other])]


def test_an_export_of_an_earlier_release_without_a_number_is_open() -> None:
    (found,) = losses([of("rejoin", "a", 1, exported_to="/x/a-1-y")])
    assert (None, True) == (found.transactions, found.is_open)
