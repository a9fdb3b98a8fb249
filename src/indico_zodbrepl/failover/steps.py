"""What a plan is made of: steps, what was found before, what would be lost.  Pure, as JSON too."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]
Figures = Mapping[str, JsonValue]


class Verdict(enum.StrEnum):
    """What a finding says of the plan: go on, go on but know this, or don't."""

    FINE = "fine"
    WARNING = "warning"
    AGAINST = "against"


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that was looked at before.

    Attributes:
        subject: name of the node or Indico instance; empty for the cluster.
        text: what was found, one line.
        evidence: how that is known; may be empty.
    """

    verdict: Verdict
    subject: str
    text: str
    evidence: str = ""


@dataclasses.dataclass(frozen=True)
class Loss:
    """What a plan would take away from Indico.

    Attributes:
        node: who holds what the new primary lacks.
        transactions: how many; None when nobody knows.
        seconds: time between the last common transaction and the last lost one; None as above.
        exact: whether the data files were compared; else it is an estimate.
        after: the last common transaction, of an estimate the new primary's last one: what was
            saved up to there is not lost; 16 hex digits, None when it is not known.
        text: the same for people, one line.
    """

    node: str
    transactions: int | None
    seconds: float | None
    exact: bool
    after: str | None
    text: str


@dataclasses.dataclass(frozen=True)
class Step:
    """One step of a plan.

    Attributes:
        action: its name in ``actions.ACTIONS``.
        subject: the node or Indico instance it acts on; empty for the cluster.
        arguments: what else the action needs.
        title: what it does, one line, in the imperative.
        checks: what it makes sure of before, one line; may be empty.
        undoes: how it is taken back before the point of no return; empty: nothing to take back.
        command: what a person would type in its place; may be empty for a step that only looks.
        seconds: its time limit.
        after_no_return: the first step with this is the point of no return: once it has begun,
            nothing is taken back.
        may_fail: whether the others go on without it; the operation then ends ``incomplete``.
    """

    action: str
    subject: str
    arguments: Figures
    title: str
    checks: str
    undoes: str
    command: str
    seconds: float
    after_no_return: bool
    may_fail: bool = False


@dataclasses.dataclass(frozen=True)
class Plan:
    """An operation on the whole cluster, ready to be shown or executed.

    Attributes:
        operation: ``switchover``, ``failover``, ``rejoin`` or ``seed``.
        target: the node it is about; of a switchover or failover the new primary.
        source: the node that ``target`` takes over from, or gets its data from; empty if none.
        reason: why, in the operator's words; may be empty where it need not be given.
        epoch: the cluster's epoch once it is done.
        loss: None when nothing can be lost.
    """

    operation: str
    target: str
    source: str
    reason: str
    epoch: int
    steps: tuple[Step, ...]
    loss: Loss | None
    findings: tuple[Finding, ...]

    @property
    def name(self) -> str:
        """What it is, for sentences: ``switchover to b``, ``rejoin of b``.

        A failover from nobody replaces nobody: its target itself is restarted.
        """
        word = "to" if self.source and self.operation in ("switchover", "failover") else "of"
        return f"{self.operation} {word} {self.target}"

    def no_return(self) -> int:
        """Index of the point of no return; the number of steps when there is none."""
        return next((index for index, step in enumerate(self.steps) if step.after_no_return),
                    len(self.steps))

    def to_json(self) -> dict[str, Any]:
        """For ``json.dumps``; ``plan_from_json`` turns it back."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class Refusal:
    """Why there is no plan.

    Attributes:
        notice, hint: as in ``OperatorError``.
        findings: all that was looked at; at least one is AGAINST.
    """

    notice: str
    hint: str
    findings: tuple[Finding, ...]


def plan_from_json(values: Mapping[str, Any]) -> Plan:
    """The plan that ``Plan.to_json`` made this of.

    Raises KeyError, TypeError or ValueError when it is something else.
    """
    loss = values["loss"]
    return Plan(**{
        **values,
        "steps": tuple(Step(**step) for step in values["steps"]),
        "loss": None if loss is None else Loss(**loss),
        "findings": tuple(Finding(**{**finding, "verdict": Verdict(finding["verdict"])})
                          for finding in values["findings"])})
