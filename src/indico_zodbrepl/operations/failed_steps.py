"""The error of an operation of which a step has failed.  Pure."""

from __future__ import annotations

from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.interface import HostAwayError
from indico_zodbrepl.operations import room
from indico_zodbrepl.operations.model import Step
from indico_zodbrepl.operations.operation import Operation, Progress

SETTLED = (Progress.DONE, Progress.FAILED)


def told(error: OperatorError) -> str:
    """Return an error's notice and detail as one text."""
    return f"{error.notice}: {error.detail}" if error.detail else error.notice


def resume(commands: Commands) -> str:
    """Return the command that continues an operation."""
    return commands.zodbrepl("resume")


def not_undone(
    running: Operation, step: Step, error: OperatorError, second: OperatorError, commands: Commands
) -> OperatorError:
    """Return the error of an operation whose steps could not be undone.

    Args:
        error: of the step.
        second: of undoing it.
    """
    return OperatorError(
        f"{running.plan.name} failed, and could not be undone",
        f"{step.title}: {told(error)}\nthen, undoing it: {told(second)}",
        f"{_when(error)}{resume(commands)} --undo",
        error.exit_code,
    )


def undone(
    running: Operation, step: Step, error: OperatorError, unsaved: str, commands: Commands
) -> OperatorError:
    """Return the error of an operation whose steps were undone.

    Args:
        unsaved: why its end could not be saved; empty if it could.
    """
    return OperatorError(
        f"{running.plan.name} was not done; everything is as before",
        f"{step.title}: {told(error)}" + (unsaved and f"\n{unsaved}"),
        f"free disk space, then: {resume(commands)} --undo" if unsaved else error.hint,
        error.exit_code,
    )


def stopped(
    running: Operation, step: Step, error: OperatorError, unsaved: str, commands: Commands
) -> OperatorError:
    """Return the error of an operation that stopped after its point of no return.

    Args:
        unsaved: as for ``undone``.
    """
    left = "; ".join(
        step.title
        for step, record in zip(running.plan.steps, running.records, strict=True)
        if record.progress not in SETTLED
    )
    when, command = _when(error), resume(commands)
    return OperatorError(
        f"{running.plan.name} stopped after its point of no return",
        f"{step.title}: {told(error)}\nnot done yet: {left or 'only this step'}"
        + (unsaved and f"\n{unsaved}"),
        (f"{error.hint}; then: {command}" if when and error.hint else when + command)
        + _without_it(running, error, commands),
        error.exit_code,
    )


def _when(error: OperatorError) -> str:
    return "" if error.exit_code is ExitCode.INTERRUPTED else "when that is repaired: "


def _without_it(running: Operation, error: OperatorError, commands: Commands) -> str:
    """Return the end of a hint: what to do if the reason of a failure can't be repaired."""
    abandon = f"{resume(commands)} --abandon --reason WHY"
    if room.is_full(error):
        return f"; to do without it: {abandon}"
    if isinstance(error, HostAwayError):
        hint = f"; if that host is lost: {abandon}"
        if running.plan.operation in ("failover", "switchover"):
            hint += f", then {commands.zodbrepl('failover', '--reason', 'WHY')}"
        return hint
    return ""
