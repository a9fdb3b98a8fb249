"""Print a plan, or carry it out and report its progress and its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import click

from indico_zodbrepl.cli import operation_view as view
from indico_zodbrepl.cli.app import UNCHANGED, App, step_printer
from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.operations import executor, planning, single, store
from indico_zodbrepl.operations.journal import Told
from indico_zodbrepl.operations.model import Plan, Refusal, Verdict
from indico_zodbrepl.operations.operation import Operation, Outcome
from indico_zodbrepl.operations.planning import Request
from indico_zodbrepl.operations.single import Single


def answer(app: App, request: Request, *, dry_run: bool, expect: str = "") -> None:
    """Plan an operation, then print or execute the plan.

    Args:
        expect: the digest of the plan that the operator has seen; empty without one.

    Raises as ``prepare`` and ``show_or_execute``.
    """
    found, history = prepare(app, request, expect)
    show_or_execute(app, found, dry_run=dry_run, history=history)


def prepare(app: App, request: Request, expect: str = "") -> tuple[Plan | Refusal, str]:
    """Return the plan or the refusal, and the history of operations that it is valid for.

    Raises OperatorError as ``planning.prepare``; exit 8 if the plan differs from ``expect``.
    """
    history = planning.history_of(expect) or store.history(app.cluster)
    found = planning.prepare(app.cluster, app.installation, request)
    if isinstance(found, Plan):
        planning.refuse_changed(found, expect)
        store.refuse_since(app.cluster, history)
    return found, history


def show_or_execute(app: App, found: Plan | Refusal, *, dry_run: bool, history: str = "") -> None:
    """Print a plan for a dry run, or execute it; print the findings of a refusal.

    Args:
        history: as of ``executor.execute``.

    Raises OperatorError as ``executor.execute``; exit 8 for a refusal; click's Exit (1)
    for an operation that ends incomplete.
    """
    if isinstance(found, Refusal):
        _echo(view.finding_lines(found.findings))
        against = [each for each in found.findings if each.verdict is Verdict.AGAINST]
        raise OperatorError(
            found.notice,
            "; ".join(
                f"{each.subject}: {each.text}" if each.subject else each.text for each in against
            ),
            found.hint,
            ExitCode.REFUSED,
        )
    if dry_run:
        show_plan(found)
        return
    _echo(view.heading(found))
    warnings = tuple(each for each in found.findings if each.verdict is not Verdict.FINE)
    if warnings:
        _echo(view.finding_lines(warnings))
    _conclude(
        app,
        lambda printer: executor.execute(
            app.cluster, app.installation, found, printer, history=history
        ),
    )


def show_plan(plan: Plan, does: Sequence[str] | None = None) -> None:
    """Print a plan for a dry run; ``does`` as of ``operation_view.plan_lines``."""
    _echo([*view.plan_lines(plan, does), "", UNCHANGED])


def answer_single(
    app: App,
    step: Single,
    reason: str,
    *,
    dry_run: bool,
    entry: AbstractContextManager[Told] | None = None,
) -> None:
    """Print the plan of a command of one step, or take the step.

    Args:
        entry: as of ``single.take``.

    Raises as ``single.take``; OperatorError (exit 8) if the backend can't do it.
    """
    if step.needs:
        app.require(step.needs)
    if dry_run:
        show_plan(*single.plan(app.cluster, app.installation, step, reason))
        return
    cluster, say = app.cluster, step_printer()
    done, notes = single.take(cluster, app.installation, step, reason, say=say, entry=entry)
    if done:
        click.echo(done)
    for note in notes:
        click.echo(note, err=bool(done))


def resume(app: App, *, undo: bool, expect: str, dry_run: bool) -> None:
    """Continue or undo the open operation.  Raises as ``executor.resume`` and ``foresee``."""
    if dry_run:
        found, steps = executor.foresee(app.cluster, app.installation, undo=undo)
        _echo([*view.remaining_lines(found, steps, undo=undo), "", UNCHANGED])
        return
    _conclude(
        app,
        lambda printer: executor.resume(
            app.cluster, app.installation, printer, undo=undo, expected=expect
        ),
    )


def abandon(app: App, reason: str, expect: str, *, dry_run: bool) -> None:
    """Close the open operation as it stands.  Raises OperatorError as ``store.abandon``."""
    if dry_run:
        identifier, damaged = store.to_abandon(app.cluster)
        click.echo(f"would be closed as it stands: {identifier}")
        if damaged:
            click.echo(f"would be kept under another name: {damaged}")
        click.echo(UNCHANGED)
        return
    left = store.abandon(app.cluster, reason, expect)
    _echo([left.remark, *view.ending_lines(app.cluster, left)])


def open_operation(cluster: Cluster) -> list[str]:
    """Return two lines about an interrupted operation; none if there is none or it runs."""
    try:
        store.refuse_at_work(cluster)
        found = store.unfinished(cluster)
    except OperatorError:
        return []  # The next operation reports it.
    if found is None:
        return []
    return [
        f"{found.plan.name} was interrupted ({found.identifier})",
        f"finish it first: {Commands.here(cluster).zodbrepl('resume')}",
    ]


def with_open_operation(cluster: Cluster, error: OperatorError) -> OperatorError:
    """Return an error that names the interrupted operation, which may have caused it."""
    lines = open_operation(cluster)
    if not lines:
        return error
    return OperatorError(
        error.notice, "\n".join(filter(None, [error.detail, lines[0]])), lines[1], error.exit_code
    )


def _conclude(app: App, work: Callable[[view.Printer], Operation]) -> None:
    try:
        ended = work(view.Printer())
    except KeyboardInterrupt:
        raise OperatorError(
            "interrupted between two steps",
            "the operation is open",
            Commands.here(app.cluster).zodbrepl("resume"),
            ExitCode.INTERRUPTED,
        ) from None
    _echo(view.ending_lines(app.cluster, ended))
    if ended.outcome is Outcome.INCOMPLETE:
        raise click.exceptions.Exit(int(ExitCode.FAILED))


def _echo(lines: view.Lines) -> None:
    for line in lines:
        click.echo(line)
