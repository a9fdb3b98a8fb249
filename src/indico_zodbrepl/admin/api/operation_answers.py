"""The objects that the API answers with about plans, operations of the journal, and jobs."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

from indico_zodbrepl.admin.jobs import Job
from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.operations.model import Finding, Loss, Plan
from indico_zodbrepl.operations.operation import Operation, Outcome, Progress
from indico_zodbrepl.operations.outages import Outage
from indico_zodbrepl.probing import typed_json

Figures = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class PlannedStep:
    """A step of a plan.

    Attributes:
        action: name of the step's kind.
        subject: the node or Indico instance that it acts on; empty for the cluster.
        arguments: parameters of the action.
        title: what it does, one line.
        checks: what it verifies first, one line; may be empty.
        undoes: how it is undone before the point of no return; empty: nothing to undo.
        command: the same as a command to type; may be empty.
        seconds: time limit.
        after_no_return: the first step with true is the point of no return.
        may_fail: true if the operation continues without it; the outcome is then `incomplete`.
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
    may_fail: bool


@dataclasses.dataclass(frozen=True)
class PlannedOperation:
    """A plan: what an operation would do.

    Attributes:
        operation: switchover, failover, rejoin, clone, pack, restart and so on.
        target: the node or Indico instance that it is about; the new primary of a switchover or
            failover.
        source: the node that target replaces or copies from; may be empty.
        reason: why, in the operator's words; may be empty.
        epoch: the cluster's epoch afterwards.
        steps: in order.
        loss: the data that would be lost; null if none.
        findings: facts that the plan is based on.
    """

    operation: str
    target: str
    source: str
    reason: str
    epoch: int
    steps: tuple[PlannedStep, ...]
    loss: Loss | None
    findings: tuple[Finding, ...]


@dataclasses.dataclass(frozen=True)
class PlanAnswer:
    """The plan of an operation as of now.

    Attributes:
        digest: identifies what the plan would do and lose, until another operation begins; send it
            as `expected` to begin the operation.
    """

    digest: str
    plan: PlannedOperation


@dataclasses.dataclass(frozen=True)
class OperationStep:
    """A step of an operation and its progress.

    Attributes:
        number: from 1.
        action: name of the step's kind.
        subject: the node or Indico instance that it acts on; empty for the cluster.
        title: what it does, one line.
        command: the same as a command to type; may be empty.
        limit_seconds: time limit.
        after_no_return: true if nothing is undone once it has begun.
        may_fail: true if the operation continues without it.
        began, ended: seconds since 1970; null before.
        figures: what it found or measured.
        error: why it failed; empty if it did not.
    """

    number: int
    action: str
    subject: str
    title: str
    command: str
    limit_seconds: float
    after_no_return: bool
    may_fail: bool
    progress: Progress
    began: float | None
    ended: float | None
    figures: Figures
    error: str


@dataclasses.dataclass(frozen=True)
class OutageAnswer:
    """A time in which nobody could save, as users saw it; moments are seconds since 1970.

    Attributes:
        began, ended: when saving was last seen to be possible, and the first save afterwards.
        no_save_seconds: from the last save before it to the first one afterwards; null without one.
        last_save_at, first_save_at: when these two were committed.
        impossible_seconds: for how long the monitor saw that nobody could save, 0 if that was
            shorter than the time between two checks; null if it did not run all the time.
        exact: true if the primary listed its transactions; else they were seen once a second.
        longest_seconds: for how long a user can have waited at most.
        noticed: true if the saves show that somebody waited that long.
        text: the same in words.
    """

    began: float
    ended: float
    no_save_seconds: float | None
    last_save_at: float | None
    first_save_at: float | None
    impossible_seconds: float | None
    exact: bool
    longest_seconds: float
    noticed: bool
    text: str


@dataclasses.dataclass(frozen=True)
class OperationInShort:
    """Summary of an operation of the journal.

    Attributes:
        id: identifier in the journal.
        operation: switchover, failover, rejoin, clone, pack, restart and so on.
        target: the node or Indico instance that it is about.
        source: the node that target replaces or copies from; may be empty.
        actor: who began it.
        began, ended: seconds since 1970; ended is null while it is open.
        outcome: running and stopped operations are open. End a stopped one by resume, undo or
            abandon.
        lost_transactions: null if unknown.
        outage: of the operation, or during which it ran; null without one.
        href: path of the whole operation.
    """

    id: str
    operation: str
    target: str
    source: str
    reason: str
    actor: str
    began: float
    ended: float | None
    outcome: Outcome
    lost_transactions: int | None
    outage: OutageAnswer | None
    href: str


@dataclasses.dataclass(frozen=True)
class OperationWhole:
    """An operation with its plan, its steps and their times.

    Attributes:
        id, operation, target, source, actor, began, ended, outcome, outage: as in
            OperationInShort.
        at_work: true while a process executes it.
        epoch: the cluster's epoch afterwards.
        loss: the data that it loses, as planned; null if none.
        findings: facts that the plan is based on.
        steps: in order.
        figures: what it found or measured, including its steps; for viewers without names of lost
            objects.
        remark: why it was abandoned, or what remains to be done; may be empty.
    """

    id: str
    operation: str
    target: str
    source: str
    reason: str
    actor: str
    began: float
    ended: float | None
    outcome: Outcome
    outage: OutageAnswer | None
    at_work: bool
    epoch: int
    loss: Loss | None
    findings: tuple[Finding, ...]
    steps: tuple[OperationStep, ...]
    figures: Figures
    remark: str


@dataclasses.dataclass(frozen=True)
class JobAnswer:
    """A command that the admin page or its API started.

    Attributes:
        id: last part of the path in Location.
        command: the command as typed in a shell.
        actor: who started it.
        began, ended: seconds since 1970; ended is null while it runs.
        exit_code: null while it runs, or if the page was restarted before it ended.
        output: its last lines; empty for viewers, as they may name protected data.
    """

    id: str
    command: str
    actor: str
    began: float
    ended: float | None
    exit_code: int | None
    output: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Work:
    """A job, the operation that it executes, or both.

    Attributes:
        state: outcome of the operation, but stopped if its process is gone. Of a job without an
            operation: running, done, refused, failed, or unknown if its exit code was not seen.
        job: null if the operation was begun elsewhere, or the job was removed.
        operation: null before the command begins one, or if it was refused.
    """

    state: str
    job: JobAnswer | None
    operation: OperationWhole | None


@dataclasses.dataclass(frozen=True)
class Operations:
    """A page of the journal.

    Attributes:
        operations: newest first.
        running: all jobs that run now, regardless of page and filters.
        next: path of the next page with older operations; null if there is none.
        notices: lines of the journal that could not be read.
    """

    operations: tuple[OperationInShort, ...]
    running: tuple[JobAnswer, ...]
    next: str | None
    notices: tuple[str, ...]


Kind = TypeVar("Kind")


def _like(kind: type[Kind], like: object, /, **more: Any) -> Kind:
    """Return an answer whose fields are attributes of the same name, or given as keywords."""
    return kind(
        **{
            field.name: more[field.name] if field.name in more else getattr(like, field.name)
            for field in dataclasses.fields(kind)  # type: ignore[arg-type]
        }
    )


def planned(plan: Plan, digest: str) -> PlanAnswer:
    return PlanAnswer(digest, typed_json.convert(plan.to_json(), PlannedOperation))


def in_short(entry: Operation, href: str, outage: Outage | None) -> OperationInShort:
    return _like(
        OperationInShort,
        entry,
        **_of_plan(entry),
        lost_transactions=_lost(entry),
        outage=None if outage is None else of_outage(outage),
        href=href,
    )


def of_outage(outage: Outage) -> OutageAnswer:
    return typed_json.convert(outage.to_json(), OutageAnswer)


def whole(entry: Operation, outage: Outage | None, *, at_work: bool) -> OperationWhole:
    plan = entry.plan
    return _like(
        OperationWhole,
        entry,
        **_of_plan(entry),
        outage=None if outage is None else of_outage(outage),
        at_work=at_work,
        epoch=plan.epoch,
        loss=plan.loss,
        findings=plan.findings,
        steps=tuple(
            OperationStep(
                number,
                step.action,
                step.subject,
                step.title,
                step.command,
                step.seconds,
                step.after_no_return,
                step.may_fail,
                record.progress,
                record.began,
                record.ended,
                dict(record.figures),
                record.error,
            )
            for number, (step, record) in enumerate(zip(plan.steps, entry.records, strict=True), 1)
        ),
    )


def job_answer(job: Job) -> JobAnswer:
    return _like(JobAnswer, job, id=job.identifier)


def work(job: Job | None, operation: OperationWhole | None) -> Work:
    """Combine a job with its operation; at least one of them is not None."""
    if operation is not None:
        gone = not operation.at_work and (job is None or job.ended is not None)
        killed = operation.outcome is Outcome.RUNNING and gone
        state = str(Outcome.STOPPED if killed else operation.outcome)
    elif job is not None:
        state = _state(job)
    else:
        raise ValueError("neither a job nor an operation")
    return Work(state, None if job is None else job_answer(job), operation)


def _of_plan(entry: Operation) -> dict[str, str]:
    plan = entry.plan
    return {
        "id": entry.identifier,
        "operation": plan.operation,
        "target": plan.target,
        "source": plan.source,
        "reason": plan.reason,
    }


def _state(job: Job) -> str:
    if job.exit_code is None:
        return "running" if job.ended is None else "unknown"
    ends = {int(ExitCode.OK): "done", int(ExitCode.REFUSED): "refused"}
    return ends.get(job.exit_code, "failed")


def _lost(entry: Operation) -> int | None:
    unknown = entry.plan.loss is not None and not entry.plan.loss.exact
    lost = entry.figures.get("lost_transactions", None if unknown else 0)
    return lost if isinstance(lost, int) else None
