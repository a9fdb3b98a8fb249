"""``--dry-run`` of the single steps: the step's checks are made, and what it would do is told."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from indico_zodbrepl.cli.app import App, pass_app
from indico_zodbrepl.host.rehearsal import Rehearsal

Command = Callable[..., None]

REASON = click.option("--reason", default="", help="Why, for the journal.")
DRY_RUN = click.option(
    "--dry-run", is_flag=True, help="Make the checks, print each step and change nothing."
)


def rehearsed(
    rehearse: Callable[..., Rehearsal], operation: str | None = None
) -> Callable[[Command], Command]:
    """Give a command ``--reason`` and ``--dry-run``.

    Args:
        operation: the key of ``backends.interfaces.OPERATIONS`` that the backend has to be able
            to do; None when every backend can.
        rehearse: called for a dry run in the place of the command, with the cluster, the
            installation and the command's arguments other than those two.
    """

    def decorate(command: Command) -> Command:
        def either(app: App, /, *, reason: str, dry_run: bool, **arguments: Any) -> None:
            if operation is not None:
                app.require(operation)
            if dry_run:
                show(rehearse(app.cluster, app.installation, **arguments))
            else:
                command(app, reason=reason, **arguments)

        functools.update_wrapper(either, command)
        return REASON(DRY_RUN(pass_app(either)))

    return decorate


def show(found: Rehearsal) -> None:
    """Print what was found fine and what would be done."""
    for line in found.found:
        click.echo(f"ok    {line}")
    for number, line in enumerate(found.steps, 1):
        click.echo(f"{number:>4}. {line}")
    if not found.steps:
        click.echo("There is nothing to do.")
    click.echo("This was a dry run: nothing was changed.")
