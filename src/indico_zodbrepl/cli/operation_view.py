"""Plans and operations as text of at most 96 columns, plain when piped."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

import click

from ..cluster import Cluster
from ..cluster.commands import Commands
from ..failover.endings import endings, headline
from ..failover.executor import Observer
from ..failover.operation import Operation, Progress, StepRecord
from ..failover.steps import Finding, Loss, Plan, Refusal, Step, Verdict

WIDTH = 96
COLOURS = {Verdict.WARNING: "yellow", Verdict.AGAINST: "red"}


def plan_lines(plan: Plan) -> Iterator[str]:
    """A plan: what was found, what is lost, and each step with all that is known of it."""
    yield from heading(plan)
    yield ""
    yield from finding_lines(plan.findings)
    yield ""
    yield from loss_lines(plan.loss)
    yield ""
    yield "Steps"
    no_return = plan.no_return()
    for index, step in enumerate(plan.steps):
        if index == no_return:
            yield "      ---- point of no return: from here on nothing is taken back ----"
        yield from _step_lines(index + 1, step)


def heading(plan: Plan) -> Iterator[str]:
    """What, from whom to whom, and why."""
    source = f" from {plan.source}" if plan.source else ""
    what = plan.name.replace(plan.operation, plan.operation.upper(), 1)
    epoch = f", epoch {plan.epoch}" if plan.epoch else ""
    yield click.style(f"{what}{source}{epoch}", bold=True)
    if plan.reason:
        yield from _folded(f"reason: {plan.reason}", "  ")


def finding_lines(findings: tuple[Finding, ...]) -> Iterator[str]:
    """What was looked at, a line each, with how it is known."""
    yield "Found"
    for finding in findings:
        mark = "ok" if finding.verdict is Verdict.FINE else str(finding.verdict).upper()
        coloured = click.style(f"{mark:<8}", fg=COLOURS.get(finding.verdict))
        subject = f"{finding.subject}: " if finding.subject else ""
        evidence = f" ({finding.evidence})" if finding.evidence else ""
        first, *more = _folded(f"{subject}{finding.text}{evidence}", " " * 11, " " * 11)
        yield f"  {coloured} {first.strip()}"
        yield from more


def loss_lines(loss: Loss | None) -> Iterator[str]:
    """What Indico loses by a plan."""
    if loss is None:
        yield "Lost: nothing"
    else:
        yield from _folded(click.style(f"LOST: {loss.text}", fg="red"), "")


def refusal_lines(refusal: Refusal) -> Iterator[str]:
    """Why there is no plan; the error itself is told apart."""
    yield from finding_lines(refusal.findings)


def remaining_lines(operation: Operation, steps: Sequence[Step], *, undo: bool) -> Iterator[str]:
    """What is left of an operation, for a dry run."""
    yield from heading(operation.plan)
    yield f"{operation.identifier}, by {operation.actor}: {operation.outcome}"
    yield ""
    yield ("Would be taken back" if undo
           else "Would be done; a step whose effect is there already is skipped")
    for number, step in enumerate(steps, 1):
        if undo:
            yield from _folded(f"{number:>4}. {step.title}: {step.undoes}", "      ")
        else:
            yield from _step_lines(number, step)
    if not steps:
        yield "  nothing; the operation would be closed"
    yield ""
    yield "This was a dry run: nothing was changed."


def _step_lines(number: int, step: Step) -> Iterator[str]:
    optional = "; the others go on without it" if step.may_fail else ""
    yield from _folded(click.style(f"{number:>4}. {step.title}", bold=True), "      ")
    rows = (("checks", step.checks), ("undo", step.undoes),
            ("limit", f"{step.seconds:.0f} s{optional}"))
    for name, text in rows:
        if text:
            yield from _folded(f"      {name:<8} {text}", " " * 15)
    if step.command:
        yield f"      by hand  {step.command}"  # never folded: it is copied


def _folded(text: str, later: str, first: str = "") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=later,
                         break_long_words=False, break_on_hyphens=False) or [""]


class Printer(Observer):
    """Shows each step with its time as it happens.

    Who no longer listens (a closed pipe or terminal) does not stop the operation.
    """

    def __init__(self) -> None:
        self._open = False
        self._deaf = False

    def step(self, running: Operation, index: int) -> None:
        record, step = running.records[index], running.plan.steps[index]
        prefix = f"{index + 1:>3}/{len(running.plan.steps)}  {step.title}"
        if record.progress is Progress.BEGUN:
            self._echo(f"{prefix} ... ", line=False)
            self._open = True
            return
        self._echo(f"{'' if self._open else prefix + ' ... '}{_fate(record)}")
        self._open = False

    def say(self, text: str) -> None:
        self._echo(f"{chr(10) if self._open else ''}         {text}")
        self._open = False

    def _echo(self, text: str, *, line: bool = True) -> None:
        if self._deaf:
            return
        try:
            click.echo(text, nl=line)
        except (BrokenPipeError, OSError):
            self._deaf = True


def _fate(record: StepRecord) -> str:
    took = (record.ended or 0.0) - (record.began or 0.0)
    if record.progress is Progress.FAILED:
        indented = record.error.replace("\n", "\n         ")
        return click.style(f"FAILED after {took:.3f} s", fg="red") + f"\n         {indented}"
    if record.progress is Progress.UNDONE:
        return click.style("taken back", fg="yellow")
    return f"{took:.3f} s"


def ending_lines(cluster: Cluster, ended: Operation) -> Iterator[str]:
    """What an operation came to, in some sentences, and what is left to do."""
    yield click.style(headline(ended), bold=True)
    for ending in endings(Commands.here(cluster), ended):
        if ending.command:
            yield f"{ending.text}: {ending.command}"
        elif ending.items:
            yield f"{ending.text}:"
            yield from _folded(", ".join(ending.items), "    ", "  ")
        else:
            yield from _folded(ending.text, "")
