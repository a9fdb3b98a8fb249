"""An operation: a plan and its progress.  Each has one file and one entry of the journal."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import getpass
import os
from collections.abc import Mapping
from typing import Any

from indico_zodbrepl.cluster import formats
from indico_zodbrepl.operations.model import Figures, Plan, plan_from_json

FORMAT = formats.OPERATION.known
ACTOR_VARIABLE = "ZODBREPL_ACTOR"


class Progress(enum.StrEnum):
    """Progress of a step."""

    PENDING = "pending"
    BEGUN = "begun"
    DONE = "done"
    FAILED = "failed"
    UNDONE = "undone"


NODES = frozenset({"diverged", "starts_later"})
"""Figures that name nodes."""
LOST = "lost_transactions"


class Outcome(enum.StrEnum):
    """Outcome of an operation.

    running: its process executes it, or was killed.  stopped: it could neither continue nor be
    undone.  These two are open: ``resume`` ends them.  incomplete: done, but optional steps
    failed.
    """

    RUNNING = "running"
    STOPPED = "stopped"
    DONE = "done"
    INCOMPLETE = "incomplete"
    UNDONE = "undone"
    ABANDONED = "abandoned"

    @property
    def is_open(self) -> bool:
        return self in (Outcome.RUNNING, Outcome.STOPPED)


@dataclasses.dataclass(frozen=True)
class StepRecord:
    """Record of one step.

    Attributes:
        began, ended: seconds since 1970; None before.
        figures: what the step returned.
        error: why it failed, as shown to the operator; empty if it did not.
    """

    progress: Progress = Progress.PENDING
    began: float | None = None
    ended: float | None = None
    figures: Figures = dataclasses.field(default_factory=dict)
    error: str = ""


@dataclasses.dataclass(frozen=True)
class Operation:
    """One operation.

    Attributes:
        identifier: UTC time of its beginning, in microseconds, and its kind; unique.
        actor: who gave the command.
        pid: of the process that executes or executed it.
        began, ended: seconds since 1970.
        records: one for each step of the plan.
        remark: why it was abandoned, or what is left to do; may be empty.
        told: figures of no particular step.
        host: the host of its process; empty without host sections.
        version: grows with each save where several hosts keep a copy; else 0.
    """

    identifier: str
    cluster: str
    actor: str
    pid: int
    began: float
    ended: float | None
    outcome: Outcome
    plan: Plan
    records: tuple[StepRecord, ...]
    remark: str = ""
    told: Figures = dataclasses.field(default_factory=dict)
    host: str = ""
    version: int = 0

    @property
    def figures(self) -> dict[str, Any]:
        """Return all figures; a later step's replaces an earlier one's of the same name.

        Steps about several nodes add their names.  Of several that diverged from one primary, what
        is lost is what the one with the most has: the others got a part of the same.
        """
        merged: dict[str, Any] = {**self.told}
        for record in self.records:
            before, merged = merged, {**merged, **record.figures}
            both = before.keys() & record.figures.keys()
            for name in both & NODES:
                merged[name] = [*dict.fromkeys([*before[name], *merged[name]])]
            if LOST in both:
                merged[LOST] = max(before[LOST], merged[LOST])
        return merged

    def no_undo(self) -> str:
        """Return why it can't be undone, as far as its records say; empty if it can."""
        index = self.plan.no_return()
        records = self.records[index:]
        past = records and (
            records[0].progress is Progress.DONE
            or any(record.progress is not Progress.PENDING for record in records[1:])
        )
        if not past:
            return ""
        title = self.plan.steps[index].title
        return f"It is past its point of no return: step {index + 1}, {title}."

    def changed(self, index: int, record: StepRecord) -> Operation:
        """Return the same operation with another record of one step."""
        return self.later(records=(*self.records[:index], record, *self.records[index + 1 :]))

    def later(self, **changes: Any) -> Operation:
        """Return the same operation with other values, as its next version."""
        changed = dataclasses.replace(self, **changes)
        if not changed.host:
            return changed
        return dataclasses.replace(changed, version=changed.version + 1)

    def was_begun_by(self, pid: int, host: str | None) -> bool:
        """Return True if it is of a process of a host; ``host`` is None without host sections."""
        return self.pid == pid and self.host in ("", host)

    @property
    def process(self) -> str:
        """Return its process for messages: ``process 4711``, or with its host."""
        return f"process {self.pid} on host {self.host}" if self.host else f"process {self.pid}"

    def to_json(self) -> dict[str, Any]:
        """Return it for ``json.dumps``; ``operation_from_json`` reads it."""
        values = dataclasses.asdict(self)
        if not self.version:
            del values["host"], values["version"]
        return {
            "format": FORMAT,
            "id": values.pop("identifier"),
            "operation": self.plan.operation,
            "reason": self.plan.reason,
            "figures": self.figures,
            "steps": values.pop("records"),
            **values,
        }


def operation_from_json(values: Mapping[str, Any]) -> Operation:
    """Return an operation; raise KeyError, TypeError or ValueError if it is invalid."""
    if values["format"] != FORMAT:
        raise ValueError(f"its format is {values['format']!r}, this program knows {FORMAT}")
    read = Operation(
        identifier=values["id"],
        cluster=values["cluster"],
        actor=values["actor"],
        pid=values["pid"],
        began=values["began"],
        ended=values["ended"],
        outcome=Outcome(values["outcome"]),
        plan=plan_from_json(values["plan"]),
        records=tuple(
            StepRecord(**{**record, "progress": Progress(record["progress"])})
            for record in values["steps"]
        ),
        remark=values["remark"],
        told=values["told"],
        host=values.get("host", ""),
        version=values.get("version", 0),
    )
    _require_kinds(read)
    return read


def _require_kinds(read: Operation) -> None:
    """Raise TypeError or ValueError for a value of a type that cannot be shown."""
    plan, loss = read.plan, read.plan.loss
    texts = [
        read.identifier,
        read.cluster,
        read.actor,
        read.remark,
        read.host,
        plan.operation,
        plan.target,
        plan.source,
        plan.reason,
        *(record.error for record in read.records),
        *(
            text
            for finding in plan.findings
            for text in (finding.subject, finding.text, finding.evidence)
        ),
        *(
            text
            for step in plan.steps
            for text in (
                step.action,
                step.subject,
                step.title,
                step.checks,
                step.undoes,
                step.command,
            )
        ),
        *([] if loss is None else [loss.node, loss.text]),
    ]
    pairs = [(read.began, read.ended), *((each.began, each.ended) for each in read.records)]
    moments = [
        read.began,
        *(step.seconds for step in plan.steps),
        *(moment for pair in pairs for moment in pair if moment is not None),
    ]
    figures = [read.told, *(record.figures for record in read.records)]
    lists = [
        each[name]
        for each in figures
        if isinstance(each, dict)
        for name in (*sorted(NODES), "exported_objects")
        if name in each
    ]
    texts += [name for each in lists if isinstance(each, list) for name in each]
    numbers = [read.version] + [
        each[name]
        for each in figures
        if isinstance(each, dict)
        for name in ("write_gap_seconds", "writable_after_seconds")
        if name in each
    ]
    for values, kind in (
        (texts, str),
        (moments, int | float),
        (numbers, int | float),
        (lists, list),
        (figures, dict),
    ):
        for value in values:
            if not isinstance(value, kind):
                raise TypeError(f"a value is {value!r}")
    if not all(0 <= moment < 1e11 for moment in moments):
        raise ValueError("a moment is out of bounds")
    if len(plan.steps) != len(read.records):
        raise ValueError(f"{len(plan.steps)} steps, and records of {len(read.records)}")


def new(cluster: str, plan: Plan, actor: str, now: float, host: str | None = None) -> Operation:
    """Return an operation that has done nothing yet.

    Args:
        now: seconds since 1970.
        host: the name of this host; None without host sections.
    """
    return Operation(
        f"{stamp(now)}Z-{plan.operation}",
        cluster,
        actor,
        os.getpid(),
        now,
        None,
        Outcome.RUNNING,
        plan,
        tuple(StepRecord() for _step in plan.steps),
        host=host or "",
        version=1 if host else 0,
    )


def stamp(now: float) -> str:
    """Return a time (seconds since 1970) as at the start of identifiers: UTC, in microseconds."""
    return datetime.datetime.fromtimestamp(now, datetime.UTC).strftime("%Y%m%dT%H%M%S.%f")


def actor() -> str:
    """Return the user: $ZODBREPL_ACTOR (set by the admin page), $SUDO_USER or the login name."""
    return os.environ.get(ACTOR_VARIABLE) or os.environ.get("SUDO_USER") or getpass.getuser()
