"""What the commands that carry out a plan have in common: show it, or do it and tell."""

from __future__ import annotations

import click

from ..cluster.commands import Commands
from ..errors import ExitCode, OperatorError
from ..failover import executor, requests, store
from ..failover.operation import Operation, Outcome
from ..failover.requests import Request
from ..failover.steps import Plan, Refusal
from . import operation_view as view
from .app import App

REASON = click.option("--reason", default="", help="Why, for the journal.")
DRY_RUN = click.option("--dry-run", is_flag=True,
                       help="Print what was found and each step; change nothing.")
EXPECT = click.option("--expect", default="", hidden=True)
"""The digest of the plan that a person was shown, for who shows it elsewhere."""


def answer(app: App, request: Request, *, dry_run: bool, expect: str = "") -> Plan | Refusal:
    """Prepare an operation and show it, or carry it out; what was prepared.

    Args:
        expect: the digest of the plan that was shown; empty if it is shown here.

    Raises as ``requests.prepare`` and ``show_or_execute``; OperatorError (exit 8) as well when
    the plan is not the one that is expected.
    """
    found, history = prepare(app, request, expect)
    show_or_execute(app, found, dry_run=dry_run, history=history)
    return found


def prepare(app: App, request: Request, expect: str = "") -> tuple[Plan | Refusal, str]:
    """What was prepared, and the history that it is good for.  Arguments and errors as ``answer``.
    """
    history = requests.history_of(expect) or store.history(app.cluster)
    found = requests.prepare(app.cluster, app.installation, request)
    if isinstance(found, Plan):
        requests.refuse_changed(found, expect)
        store.refuse_since(app.cluster, history)
    return found, history


def show_or_execute(app: App, found: Plan | Refusal, *, dry_run: bool,
                    history: str = "") -> None:
    """Print a plan, or carry it out; a refusal is told with all that was found.

    Args:
        history: as of ``executor.execute``.

    Raises OperatorError as ``executor.execute``; exit 8 for a refusal; click's Exit (1)
    for an operation that ended incomplete.
    """
    if isinstance(found, Refusal):
        for line in view.refusal_lines(found):
            click.echo(line)
        raise OperatorError(found.notice, "; ".join(
            f"{each.subject + ': ' if each.subject else ''}{each.text}"
            for each in found.findings if each.verdict == "against"), found.hint,
            ExitCode.REFUSED)
    if dry_run:
        for line in view.plan_lines(found):
            click.echo(line)
        click.echo("\nThis was a dry run: nothing was changed.")
        return
    for line in view.heading(found):
        click.echo(line)
    warnings = tuple(each for each in found.findings if each.verdict != "fine")
    if warnings:
        click.echo("\n".join(view.finding_lines(warnings)))
    conclude(app, executor.execute, found, history=history)


def conclude(app: App, work: object, *arguments: object, **options: object) -> None:
    """Run ``executor.execute`` or ``executor.resume`` and tell what came of it."""
    try:
        ended: Operation = work(  # type: ignore[operator]
            app.cluster, app.installation, *arguments, view.Printer(), **options)
    except KeyboardInterrupt:
        raise OperatorError(
            "interrupted between two steps", "the operation is open",
            Commands.here(app.cluster).zodbrepl("resume"), ExitCode.INTERRUPTED) from None
    for line in view.ending_lines(app.cluster, ended):
        click.echo(line)
    if ended.outcome is Outcome.INCOMPLETE:
        raise click.exceptions.Exit(int(ExitCode.FAILED))
