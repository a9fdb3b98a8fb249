"""What the commands that carry out a plan have in common: show it, or do it and tell."""

from __future__ import annotations

import click

from ..cluster.commands import Commands
from ..errors import ExitCode, OperatorError
from ..failover import executor
from ..failover.operation import Operation, Outcome
from ..failover.steps import Plan, Refusal
from . import operation_view as view
from .app import App


def show_or_execute(app: App, found: Plan | Refusal, *, dry_run: bool) -> None:
    """Print a plan, or carry it out; a refusal is told with all that was found.

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
    conclude(app, executor.execute, found)


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
