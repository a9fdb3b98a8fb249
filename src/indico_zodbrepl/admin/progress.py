"""Steps of a plan or an operation as rows of a page.  Pure."""

from __future__ import annotations

import dataclasses
import time

from flask_babel import gettext as _

from indico_zodbrepl.failover.operation import Operation, Progress
from indico_zodbrepl.failover.steps import Plan, Step
from indico_zodbrepl.failover.wording import figures_in_words


@dataclasses.dataclass(frozen=True)
class Row:
    """One step.

    Attributes:
        number: from 1.
        state: a ``Progress``; of a plan that was not begun ``pending``.
        word: the same for people.
        shape: which of the page's shapes stands for it.
        took: how long it took, or for how long it has been at work; empty before.
        error: why it failed.
        figures: what it told: what, and its value.
        is_no_return: whether the point of no return is just before it.
    """

    number: int
    step: Step
    state: Progress
    word: str
    shape: str
    took: str
    error: str
    figures: tuple[tuple[str, str], ...]
    is_no_return: bool


SHAPES = {Progress.PENDING: "pending", Progress.BEGUN: "begun", Progress.DONE: "healthy",
          Progress.FAILED: "down", Progress.UNDONE: "degraded"}


def planned(plan: Plan) -> list[Row]:
    """The rows of a plan of which nothing is done."""
    return [Row(index + 1, step, Progress.PENDING, "", "pending", "", "", (),
                index == plan.no_return()) for index, step in enumerate(plan.steps)]


def rows(operation: Operation, at_work: bool, now: float | None = None) -> list[Row]:
    """How far an operation has come.

    Args:
        at_work: whether a process works on it; if not, a step that has begun was cut short.
        now: seconds since 1970.
    """
    words = {Progress.PENDING: _("waits") if operation.outcome.is_open else _("not begun"),
             Progress.BEGUN: _("at work") if at_work else _("cut short"),
             Progress.DONE: _("done"), Progress.FAILED: _("failed"),
             Progress.UNDONE: _("taken back")}
    found = []
    for index, (step, record) in enumerate(
            zip(operation.plan.steps, operation.records, strict=True)):
        ended = record.ended
        if record.progress is Progress.BEGUN and at_work:
            ended = now or time.time()
        took = ("" if record.began is None or ended is None
                else f"{max(0.0, ended - record.began):.3f} s"
                if record.progress is not Progress.BEGUN
                else f"{max(0.0, ended - record.began):.0f} s")
        shape = SHAPES[record.progress]
        if record.progress is Progress.BEGUN and not at_work:
            shape = "degraded"
        found.append(Row(index + 1, step, record.progress, words[record.progress], shape, took,
                         record.error, tuple(figures_in_words(record.figures)),
                         index == operation.plan.no_return()))
    return found


def done_of(operation: Operation) -> int:
    """How many steps are settled."""
    return sum(record.progress in (Progress.DONE, Progress.FAILED)
               for record in operation.records)
