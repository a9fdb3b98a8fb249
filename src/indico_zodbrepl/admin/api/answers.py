"""What the API answers with.  Each class is a schema of the OpenAPI description, too."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from indico_zodbrepl.failover.operation import Outcome, Progress
from indico_zodbrepl.failover.steps import Figures, Finding, Loss, Plan
from indico_zodbrepl.monitor.snapshot import State


@dataclasses.dataclass(frozen=True)
class Problem:
    """Why a request was not done (RFC 9457).

    Attributes:
        title: the status code's name.
        status: the status code.
        notice: what could not be done.
        detail: where and why; may be empty.
        hint: what to do about it; may be empty.
        exit_code: what bin/zodbrepl would have exited with; null where no command is behind it.
        findings: what was looked at before a plan was refused; else empty.
    """

    type: str
    title: str
    status: int
    notice: str
    detail: str
    hint: str
    exit_code: int | None = None
    findings: tuple[Finding, ...] = ()


@dataclasses.dataclass(frozen=True)
class Health:
    """The cluster's state in short.

    Attributes:
        code: what bin/zodbrepl status would exit with.
        sentence: the situation in one sentence.
        primary: the one node that takes writes; null when there is none, or more than one.
        taken_at: when the probes began, seconds since 1970; null when there was no look yet.
        age: seconds since the last look was complete; null when there was none.
    """

    state: State
    code: int
    sentence: str
    primary: str | None
    taken_at: float | None
    age: float | None


@dataclasses.dataclass(frozen=True)
class Serving:
    """Which nodes a load balancer may send clients to.

    Attributes:
        serves: whether any does; with 200, else 503.
        nodes: those that do.
        why: why nobody does; empty when somebody does.
        reasons: why each of the others doesn't, by the node's name.
        age: seconds since the last look was complete; null when there was none.
    """

    serves: bool
    nodes: tuple[str, ...]
    why: str
    reasons: Mapping[str, str]
    age: float | None


@dataclasses.dataclass(frozen=True)
class OperationStep:
    """A step of an operation, and what has become of it.

    Attributes:
        number: from 1.
        action: its name in the program.
        subject: the node or Indico instance it acts on; empty for the cluster.
        title: what it does, one line.
        command: what a person would type in its place; may be empty.
        limit_seconds: its time limit.
        after_no_return: whether nothing is taken back once it has begun.
        may_fail: whether the others go on without it.
        progress: what has become of it.
        began, ended: seconds since 1970; null before.
        figures: what it found or measured.
        error: why it failed; empty if it didn't.
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
class OperationInShort:
    """An operation of the journal.

    Attributes:
        id: as the journal has it.
        operation: switchover, failover, rejoin, seed, pack, restart and so on.
        target: the node or Indico instance it is about.
        source: the node that the target takes over from or gets its data from; may be empty.
        actor: who began it.
        began, ended: seconds since 1970; ended is null while it is open.
        outcome: running and stopped are open, and stopped is ended by resume, undo or abandon.
        lost_transactions: null when nobody knows.
        href: the whole operation.
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
    href: str


@dataclasses.dataclass(frozen=True)
class OperationWhole:
    """An operation with its plan, its steps and their times.

    Attributes:
        id, operation, target, source, actor, began, ended, outcome: as in OperationInShort.
        at_work: whether a process works on it now.
        epoch: the cluster's epoch once it is done.
        loss: what it takes away from Indico, as planned; null when nothing.
        findings: what was looked at before.
        steps: in the order in which they are done.
        figures: all figures, those of its steps too.
        remark: why it was abandoned, or what is left to do; may be empty.
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
    at_work: bool
    epoch: int
    loss: Loss | None
    findings: tuple[Finding, ...]
    steps: tuple[OperationStep, ...]
    figures: Figures
    remark: str


@dataclasses.dataclass(frozen=True)
class JobAnswer:
    """A command that was begun here, on the page or by the API.

    Attributes:
        id: as Location gives it.
        command: as a person would type it.
        actor: who began it.
        began, ended: seconds since 1970; ended is null while it runs.
        exit_code: null while it runs, or when its end was not seen.
        output: its last lines.
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
    """A job, the operation that it carries out, or both.

    Attributes:
        state: of the operation its outcome, but stopped when its process is gone; of a job without
            one: running, done, refused, failed, or unknown when its end was not seen.
        job: null when the operation was begun elsewhere, or so long ago that the job is gone.
        operation: null while the command has not begun one, or when it was refused.
    """

    state: str
    job: JobAnswer | None
    operation: OperationWhole | None


@dataclasses.dataclass(frozen=True)
class Operations:
    """A page of the journal.

    Attributes:
        operations: the newest first.
        running: jobs that run now, whatever the page and its filters.
        next: the page of older ones; null when there are none.
        notices: what of the journal could not be read.
    """

    operations: tuple[OperationInShort, ...]
    running: tuple[JobAnswer, ...]
    next: str | None
    notices: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class PlanAnswer:
    """What an operation would do now.

    Attributes:
        digest: the same for plans that would do the same and lose the same, until another operation
            begins; `expected` of a begin.
    """

    digest: str
    plan: Plan


@dataclasses.dataclass(frozen=True)
class Begun:
    """A job that has begun.

    Attributes:
        id: of the job.
        href: where its progress is; Location says the same.
    """

    id: str
    href: str
