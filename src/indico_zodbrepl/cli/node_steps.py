"""The commands of ``zodbrepl node`` that change a node: the steps of all operations, by hand."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from indico_zodbrepl.cli.app import DRY_RUN, REASON, App, pass_app
from indico_zodbrepl.cli.running import answer_single, with_open_operation
from indico_zodbrepl.cluster import Role
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.operations import single
from indico_zodbrepl.operations.single import Single


def step(make: Callable[..., Single]) -> Callable[..., None]:
    """Return a command with --reason and --dry-run that takes the step which ``make`` returns."""

    def command(app: App, /, *, reason: str, dry_run: bool, **arguments: Any) -> None:
        answer_single(app, make(**arguments), reason, dry_run=dry_run)

    functools.update_wrapper(command, make)
    return REASON(DRY_RUN(pass_app(command)))


@click.command()
@click.argument("name")
@click.option(
    "--force",
    is_flag=True,
    help="Make it the primary of a new epoch although no source confirms it.",
)
@REASON
@DRY_RUN
@pass_app
def start(app: App, *, name: str, force: bool, reason: str, dry_run: bool) -> None:
    """Start node NAME in the role of its state file, and wait until its server listens.

    With --force (and --reason) it becomes the primary of a new epoch: only when you are
    certain that no other node is, because one that can't be seen would go on taking
    writes.  Refused when another server is seen to take writes.
    """
    if force:
        app.require("promote")
        if not (reason or dry_run):
            raise click.UsageError("--force needs --reason: who finds this later has to know why")
        answer_single(app, single.ForceStart.named(name), reason, dry_run=dry_run)
        return
    try:
        answer_single(app, single.StartNode.named(name), reason, dry_run=dry_run)
    except OperatorError as error:
        raise with_open_operation(app.cluster, error) from error


@click.command()
@click.argument("name")
@step
def stop(name: str) -> Single:
    """End node NAME in order: its followers get what they lack first."""
    return single.StopNode.named(name)


@click.command()
@click.argument("name")
@step
def fence(name: str) -> Single:
    """Kill node NAME's server at once, frozen or not, and prove that it is gone.

    Its followers may miss its last transactions; they stay in its data file.
    """
    return single.FenceNode.named(name)


@click.command()
@click.argument("name")
@click.option("--role", type=click.Choice([str(each) for each in Role]), required=True)
@click.option("--upstream", metavar="NODE", help="Whom it follows; a primary has none.")
@click.option("--epoch", type=click.IntRange(1), required=True)
@step
def assign(name: str, role: str, upstream: str | None, epoch: int) -> Single:
    """Write the state file of node NAME: what it is to be when it starts the next time."""
    return single.AssignNode.named(name, role=role, upstream=upstream, epoch=epoch)


@click.command("pause-writes")
@click.argument("name")
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    default=20.0,
    show_default=True,
    help="Writes resume automatically after that.",
)
@step
def pause_writes(name: str, seconds: float) -> Single:
    """Let clients of primary NAME wait with their commits; those under way finish."""
    return single.PauseNode.named(name, seconds=seconds)


@click.command("resume-writes")
@click.argument("name")
@step
def resume_writes(name: str) -> Single:
    """End a hold on node NAME."""
    return single.ResumeNode.named(name)


@click.command()
@click.argument("name")
@click.option("--epoch", type=click.IntRange(1), required=True, help="Above every epoch there was.")
@step
def promote(name: str, epoch: int) -> Single:
    """Make node NAME the primary of a new epoch, in place if it runs.

    Refused when anybody who can be asked objects.  It looks at nothing else: `bin/zodbrepl
    switchover` and `failover` do.
    """
    return single.PromoteNode.named(name, epoch=epoch)


@click.command()
@click.argument("name")
@click.option("--upstream", metavar="NODE", required=True, help="Whom it follows from now on.")
@click.option("--epoch", type=click.IntRange(1), required=True)
@step
def follow(name: str, upstream: str, epoch: int) -> Single:
    """Let node NAME follow another node, in place if it runs.

    Refused, and the server ended, when its history is not that of the other node.
    """
    return single.FollowNode.named(name, upstream=upstream, epoch=epoch)


@click.command("restart-client")
@click.argument("instance")
@step
def restart_client(instance: str) -> Single:
    """Restart Indico INSTANCE, which drops everything it has cached of the storage."""
    return single.RestartInstance.named(instance)
