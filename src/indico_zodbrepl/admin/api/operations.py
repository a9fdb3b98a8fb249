"""Operations and jobs as the API tells them.  Pure, but for ``whole``, which reads files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from indico_zodbrepl.admin.api.answers import (
    JobAnswer,
    OperationInShort,
    OperationStep,
    OperationWhole,
    Work,
)
from indico_zodbrepl.admin.jobs import Job
from indico_zodbrepl.admin.journal_filter import Wanted
from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.failover.operation import Operation, Outcome, StepRecord
from indico_zodbrepl.failover.steps import Step


def page(entries: Iterable[Operation], wanted: Wanted, before: str,
         limit: int) -> tuple[list[Operation], bool]:
    """The newest operations that fit, newest first, and whether there are older ones.

    Args:
        before: id; only operations that come earlier in the journal.  One that is not there,
            such as "", counts as later than all.
    """
    known = list(entries)
    names = [entry.identifier for entry in known]
    if before in names:
        known = known[:names.index(before)]
    fitting = [entry for entry in reversed(known) if wanted.fits(entry)]
    return fitting[:limit], len(fitting) > limit


def in_short(entry: Operation, href: str) -> OperationInShort:
    plan = entry.plan
    return OperationInShort(
        entry.identifier, plan.operation, plan.target, plan.source, plan.reason, entry.actor,
        entry.began, entry.ended, entry.outcome, _lost(entry), href)


def whole(entry: Operation, *, at_work: bool) -> OperationWhole:
    plan = entry.plan
    return OperationWhole(
        entry.identifier, plan.operation, plan.target, plan.source, plan.reason, entry.actor,
        entry.began, entry.ended, entry.outcome, at_work, plan.epoch, plan.loss, plan.findings,
        _steps(plan.steps, entry.records), entry.figures, entry.remark)


def job_answer(job: Job) -> JobAnswer:
    return JobAnswer(job.identifier, job.command, job.actor, job.began, job.ended, job.exit_code,
                     job.output)


def work(job: Job | None, operation: OperationWhole | None) -> Work:
    """A job with its operation; one of the two is there."""
    if operation is not None:
        gone = not operation.at_work and (job is None or job.ended is not None)
        killed = operation.outcome is Outcome.RUNNING and gone
        state = str(Outcome.STOPPED if killed else operation.outcome)
    elif job is not None:
        state = _state(job)
    else:
        raise ValueError("neither a job nor an operation")
    return Work(state, None if job is None else job_answer(job), operation)


def _state(job: Job) -> str:
    if job.exit_code is None:
        return "running" if job.ended is None else "unknown"
    ends = {int(ExitCode.OK): "done", int(ExitCode.REFUSED): "refused"}
    return ends.get(job.exit_code, "failed")


def _steps(steps: Sequence[Step], records: Sequence[StepRecord]) -> tuple[OperationStep, ...]:
    return tuple(
        OperationStep(number, step.action, step.subject, step.title, step.command, step.seconds,
                      step.after_no_return, step.may_fail, record.progress, record.began,
                      record.ended, record.figures, record.error)
        for number, (step, record) in enumerate(zip(steps, records, strict=True), 1))


def _lost(entry: Operation) -> int | None:
    unknown = entry.plan.loss is not None and not entry.plan.loss.exact
    lost = entry.figures.get("lost_transactions", None if unknown else 0)
    return lost if isinstance(lost, int) else None
