"""Plans, operations and the journal as text of at most 96 columns, without colours when piped."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

import click
from rich.console import Console
from rich.table import Table

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.operations.execution import Observer
from indico_zodbrepl.operations.messages import (
    endings,
    figures_in_words,
    gap_text,
    headline,
    lost_text,
)
from indico_zodbrepl.operations.model import Finding, Plan, Step, Verdict
from indico_zodbrepl.operations.operation import Operation, Progress, StepRecord
from indico_zodbrepl.operations.outages import OUTAGE, Outage, by_operation
from indico_zodbrepl.operations.pack import REMOVED
from indico_zodbrepl.probing import times

Lines = Iterable[str]

WIDTH = 96
COLOURS = {Verdict.WARNING: "yellow", Verdict.AGAINST: "red"}


def plan_lines(plan: Plan, does: Sequence[str] | None = None) -> Iterator[str]:
    """Yield a plan: findings, data loss and steps.

    Args:
        does: what the only step of a command does in detail, one line each; None for an
            operation, of which the data loss is known.
    """
    yield from heading(plan)
    yield ""
    if plan.findings:
        yield from finding_lines(plan.findings)
        yield ""
    if does is None:
        yield from loss_lines(plan)
        yield ""
    if not plan.steps:
        yield "There is nothing to do."
        return
    yield "Steps"
    no_return = plan.no_return()
    for index, step in enumerate(plan.steps):
        if index == no_return:
            yield "      ---- point of no return: nothing is undone after this ----"
        yield from _step_lines(index + 1, step, does)


def heading(plan: Plan) -> Iterator[str]:
    """Yield the operation, its nodes and its reason."""
    source = f" from {plan.source}" if plan.source else ""
    what = plan.name.replace(plan.operation, plan.operation.upper(), 1)
    epoch = f", epoch {plan.epoch}" if plan.epoch else ""
    yield click.style(f"{what}{source}{epoch}", bold=True)
    if plan.reason:
        yield from _folded(f"reason: {plan.reason}", "  ")


def finding_lines(findings: tuple[Finding, ...]) -> Iterator[str]:
    """Yield each finding with its evidence."""
    yield "Found"
    for finding in findings:
        first, *more = _folded(_finding_text(finding), " " * 11, " " * 11)
        yield f"  {_mark(finding)} {first.strip()}"
        yield from more


def finding_line(finding: Finding) -> str:
    """Return a finding as one line, however long it is."""
    return f"{_mark(finding)} {_finding_text(finding)}"


def _mark(finding: Finding) -> str:
    mark = "ok" if finding.verdict is Verdict.FINE else str(finding.verdict).upper()
    return click.style(f"{mark:<8}", fg=COLOURS.get(finding.verdict))


def _finding_text(finding: Finding) -> str:
    subject = f"{finding.subject}: " if finding.subject else ""
    evidence = f" ({finding.evidence})" if finding.evidence else ""
    return f"{subject}{finding.text}{evidence}"


def loss_lines(plan: Plan) -> Iterator[str]:
    """Yield the data loss of a plan."""
    loss = plan.loss
    if plan.operation == "pack":
        yield from _folded(f"DATA REMOVED: {REMOVED}", "")
    elif loss is None:
        yield "Data loss: none"
    else:
        yield from _folded(click.style(f"DATA LOSS: {loss.text}", fg="red"), "")


def remaining_lines(operation: Operation, steps: Sequence[Step], *, undo: bool) -> Iterator[str]:
    """Yield the remaining steps of an operation, or the steps that an undo would take."""
    yield from heading(operation.plan)
    yield f"{operation.identifier}, by {operation.actor}: {operation.outcome}"
    yield ""
    yield "Would be undone" if undo else "Would be done; completed steps are skipped"
    for number, step in enumerate(steps, 1):
        if undo:
            yield from _folded(f"{number:>4}. {step.title}: {step.undoes}", "      ")
        else:
            yield from _step_lines(number, step)
    if not steps:
        yield "  nothing; the operation would be closed"


def _step_lines(number: int, step: Step, does: Sequence[str] | None = None) -> Iterator[str]:
    optional = "; a failure does not stop the operation" if step.may_fail else ""
    yield from _folded(click.style(f"{number:>4}. {step.title}", bold=True), "      ")
    rows = (
        ("checks", step.checks),
        *(("" if place else "does", text) for place, text in enumerate(does or ())),
        ("undo", step.undoes),
        ("limit", f"{step.seconds:.0f} s{optional}" if does is None else ""),
    )
    for name, text in rows:
        if text:
            yield from _folded(f"      {name:<8} {text}", " " * 15)
    if step.command:
        yield f"      by hand  {step.command}"  # never folded: it is copied


def _folded(text: str, later: str, first: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]


class Printer(Observer):
    """An observer that prints each step and its duration.

    A closed pipe or terminal does not stop the operation.
    """

    def __init__(self) -> None:
        self._open = False
        self._closed = False

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
        if self._closed:
            return
        try:
            click.echo(text, nl=line)
        except (BrokenPipeError, OSError):
            self._closed = True


def _fate(record: StepRecord) -> str:
    took = (record.ended or 0.0) - (record.began or 0.0)
    if record.progress is Progress.FAILED:
        indented = record.error.replace("\n", "\n         ")
        return click.style(f"FAILED after {took:.3f} s", fg="red") + f"\n         {indented}"
    if record.progress is Progress.UNDONE:
        return click.style("undone", fg="yellow")
    return f"{took:.3f} s"


def ending_lines(cluster: Cluster, ended: Operation) -> Iterator[str]:
    """Yield the result of an operation, and what is left to do."""
    yield click.style(headline(ended), bold=True)
    for ending in endings(Commands.here(cluster), ended):
        if ending.command:
            yield f"{ending.text}: {ending.command}"
        elif ending.items:
            yield f"{ending.text}:"
            yield from _folded(", ".join(ending.items), "    ", "  ")
        else:
            yield from _folded(ending.text, "")


def print_journal(entries: Sequence[Operation]) -> None:
    """Print a table of operations."""
    if not entries:
        click.echo("The journal is empty.")
        return
    outages = by_operation(entries)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for column in (
        "Started (UTC)",
        "Operation",
        "By",
        "Outcome",
        "Data loss",
        "No saves",
        "Downtime",
        "Reason",
    ):
        table.add_column(column, overflow="fold")
    for entry in entries:
        table.add_row(
            times.moment(entry.began).removesuffix(" UTC"),
            f"{entry.plan.operation} {entry.plan.target}",
            entry.actor,
            entry.outcome,
            lost_text(entry),
            outages[entry.identifier].short if entry.identifier in outages else "-",
            gap_text(entry),
            entry.plan.reason or "-",
        )
    console = Console(highlight=False, width=None if Console().is_terminal else 100)
    console.print(table)
    console.print(
        "\nNo saves: from the last save of a user to the first one after the outage. Downtime: the "
        "part that the operation itself measured.",
        style="dim",
    )
    console.print(f"One in full: journal ID, such as {entries[-1].identifier}", style="dim")


def entry_lines(entry: Operation, outage: Outage | None = None) -> Iterator[str]:
    """Yield one entry of the journal in full.

    Args:
        outage: its outage, or the one during which it ran; None without one.
    """
    yield from heading(entry.plan)
    yield f"  id       {entry.identifier}"
    yield f"  by       {entry.actor}"
    yield f"  started  {times.moment(entry.began)}"
    yield f"  ended    {'not yet' if entry.ended is None else times.moment(entry.ended)}"
    yield f"  outcome  {entry.outcome}" + (f": {entry.remark}" if entry.remark else "")
    if outage is not None:
        yield from _folded(f"  users could not save: {outage.text}", "    ")
    for what, value in figures_in_words(entry.figures):
        yield f"  {what}: {value}"
    if entry.plan.findings:
        yield ""
        yield from finding_lines(entry.plan.findings)
    if entry.plan.operation != OUTAGE:
        yield ""
        yield from loss_lines(entry.plan)
    if entry.plan.steps:
        yield ""
        yield "Steps"
    for number, (step, record) in enumerate(zip(entry.plan.steps, entry.records, strict=True), 1):
        took = (
            ""
            if record.began is None or record.ended is None
            else f"{record.ended - record.began:8.3f} s"
        )
        yield f"{number:>4}. {record.progress:<8} {took:>10}  {step.title}"
        if record.progress is Progress.FAILED:
            yield from (f"{'':>26}{line}" for line in record.error.splitlines())
