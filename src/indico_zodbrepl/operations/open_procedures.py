"""Procedures for an operation that runs or was interrupted."""

from __future__ import annotations

from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.monitor.snapshot import OpenOperation
from indico_zodbrepl.operations.procedures import Procedure, ProcedureStep, look


def wait_for(operation: OpenOperation, commands: Commands) -> Procedure:
    """Return the procedure while an operation runs."""
    what = f"{operation.operation} {operation.target}".strip()
    return Procedure(
        f"Wait until {what} has finished",
        (ProcedureStep("Follow its steps:", (commands.zodbrepl("journal"),)), look(commands)),
    )


def put_off(operation: OpenOperation, commands: Commands) -> Procedure:
    """Return the procedure for an operation that needs the primary, which does not serve."""
    return _abandon(
        operation,
        f"It needs the primary, which does not serve, and it blocks what brings the primary back. "
        f"Close it as it stands; begin the {operation.operation} again later:",
        "the primary does not serve",
        commands,
    )


def give_up(operation: OpenOperation, commands: Commands) -> Procedure:
    """Return the procedure for an operation whose node can't work with its data."""
    return _abandon(
        operation,
        f"The data of node {operation.target} can't be read, so it would fail. Close it as it "
        "stands:",
        f"the data of {operation.target} can't be read",
        commands,
    )


def _abandon(operation: OpenOperation, why: str, reason: str, commands: Commands) -> Procedure:
    command = commands.zodbrepl
    return Procedure(
        f"Abandon the {operation.operation} that was interrupted",
        (
            ProcedureStep("Show its steps:", (command("journal", operation.identifier),)),
            ProcedureStep(why, (command("resume", "--abandon", "--reason", reason),)),
            look(commands),
        ),
    )


def finish(operation: OpenOperation, commands: Commands) -> Procedure:
    """Return the procedure for an interrupted operation."""
    command = commands.zodbrepl
    if operation.damaged:
        return Procedure(
            f"Move the file of operation {operation.identifier} away",
            (
                ProcedureStep(
                    "The file can't be used. Show what is known of the operation:",
                    (command("journal", operation.identifier),),
                ),
                ProcedureStep(
                    "Close it as it stands; the file is kept under another name:",
                    (command("resume", "--abandon", "--reason", "its file was damaged"),),
                ),
                look(commands),
            ),
        )
    return Procedure(
        f"Resume the {operation.operation} that was interrupted",
        (
            ProcedureStep("Show its steps:", (command("journal", operation.identifier),)),
            ProcedureStep("Do the remaining steps:", (command("resume"),)),
            look(commands),
        ),
    )
