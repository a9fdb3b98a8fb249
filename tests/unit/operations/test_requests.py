"""Requests become plans; two plans that would do the same have the same digest."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from planning import COMMANDS, cluster_of, situation

from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.operations.model import Finding, Loss, Plan, Verdict
from indico_zodbrepl.operations.planning import (
    Request,
    digest,
    history_of,
    prepare,
    refuse_changed,
    sealed,
)
from indico_zodbrepl.operations.start_steps import Start
from indico_zodbrepl.operations.switchover import plan_switchover


def switchover(reason: str = "") -> Plan:
    pair = cluster_of()
    found = plan_switchover(pair, situation(pair), None, reason, COMMANDS(pair))
    assert isinstance(found, Plan)
    return found


def with_step(plan: Plan, **arguments: str | int) -> Plan:
    first = plan.steps[0]
    changed = dataclasses.replace(first, arguments={**first.arguments, **arguments})
    return dataclasses.replace(plan, steps=(changed, *plan.steps[1:]))


SAME: dict[str, Callable[[Plan], Plan]] = {
    "another reason": lambda _plan: switchover("a new disk"),
    "another finding": lambda plan: dataclasses.replace(
        plan, findings=(Finding(Verdict.WARNING, "one", "is not connected now"),)
    ),
    "another time limit": lambda plan: dataclasses.replace(
        plan, steps=(dataclasses.replace(plan.steps[0], seconds=99.0), *plan.steps[1:])
    ),
    "a folder named by the time": lambda plan: with_step(plan, folder="tail-20261121T000000Z"),
}
OTHER: dict[str, Callable[[Plan], Plan]] = {
    "another target": lambda plan: dataclasses.replace(plan, target="c"),
    "another epoch": lambda plan: dataclasses.replace(plan, epoch=7),
    "a step less": lambda plan: dataclasses.replace(plan, steps=plan.steps[1:]),
    "steps in another order": lambda plan: dataclasses.replace(plan, steps=plan.steps[::-1]),
    "something else to be cut off": lambda plan: with_step(plan, after="0" * 16),
    "something is lost": lambda plan: dataclasses.replace(
        plan, loss=Loss("a", 3, 1.0, exact=True, after=None, text="3 transactions")
    ),
}


@pytest.mark.parametrize("change", SAME)
def test_what_does_the_same_has_the_same_digest(change: str) -> None:
    assert digest(
        with_step(switchover(), folder="x") if "folder" in change else switchover()
    ) == digest(SAME[change](switchover()))


@pytest.mark.parametrize("change", OTHER)
def test_what_does_or_loses_something_else_has_another_digest(change: str) -> None:
    assert digest(switchover()) != digest(OTHER[change](switchover()))


def test_losing_more_than_was_shown_is_another_plan() -> None:
    def losing(count: int) -> Plan:
        return dataclasses.replace(
            switchover(), loss=Loss("a", count, 1.0, exact=True, after="0" * 16, text="")
        )

    assert digest(losing(3)) == digest(losing(3))
    assert digest(losing(3)) != digest(losing(4))


def test_a_plan_that_was_not_shown_is_refused() -> None:
    refuse_changed(switchover(), "")
    refuse_changed(switchover(), digest(switchover("why")))
    with pytest.raises(OperatorError, match="the situation has changed") as raised:
        refuse_changed(switchover(), "0" * 32)
    assert ExitCode.REFUSED == raised.value.exit_code


def test_a_sealed_digest_tells_the_plan_and_what_had_begun_before() -> None:
    seal = sealed(switchover(), "5ea1")
    refuse_changed(switchover("why"), seal)
    assert ("5ea1", "") == (history_of(seal), history_of(digest(switchover())))
    with pytest.raises(OperatorError, match="the situation has changed"):
        refuse_changed(with_step(switchover(), after="0" * 16), seal)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (Request("format-disk"), "no operation 'format-disk'"),
        (Request("rejoin"), "rejoin needs a name"),
        (Request("restart"), "restart needs a name"),
        (Request("pack", options={"days": "many"}), "invalid number of days: 'many'"),
        (Request("pack", options={"days": "-1"}), "invalid number of days: '-1'"),
        (Request("pack", options={"days": "nan"}), "invalid number of days: 'nan'"),
        (Request("pack", options={"source": "b"}), "pack has no option 'source'"),
        (Request("restart", "b", options={"days": "1"}), "restart has no option 'days'"),
    ],
)
def test_what_can_not_be_asked_for_is_refused(request_: Request, expected: str) -> None:
    pair = cluster_of()
    with pytest.raises(OperatorError, match=expected) as raised:
        prepare(pair, Installation(pair.source.parent), request_)
    assert ExitCode.BAD_CONFIG == raised.value.exit_code


def test_a_step_is_distinguished_from_another_by_what_it_acts_on() -> None:
    def of(subject: str) -> Plan:
        step = Start(subject, {}, title="", seconds=1.0, after_no_return=True)
        return Plan("restart", "a", "", "", 1, (step,), None, ())

    assert digest(of("a")) != digest(of("b"))


def test_a_request_may_give_the_former_name_of_an_operation() -> None:
    assert Request("seed", "b") == Request("clone", "b")
