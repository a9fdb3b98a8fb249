"""The commands of ``zodbrepl node`` that change a node: the steps of all operations, by hand."""

from __future__ import annotations

from collections.abc import Iterable

import click

from indico_zodbrepl.backends import require
from indico_zodbrepl.cli.app import App, step_printer
from indico_zodbrepl.cli.dry_run import rehearsed
from indico_zodbrepl.cli.running import with_open_operation
from indico_zodbrepl.cluster import Cluster, Role
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import rehearsal, verbs
from indico_zodbrepl.host.fencing import Fenced
from indico_zodbrepl.host.rehearsal import Rehearsal
from indico_zodbrepl.operations import journal, operation, store


def rehearse_start(
    cluster: Cluster, installation: Installation, name: str, *, force: bool
) -> Rehearsal:
    if force:
        require(cluster, "promote")
    return (rehearsal.force if force else rehearsal.start)(cluster, installation, name)


def rehearse_assign(
    cluster: Cluster,
    installation: Installation,
    name: str,
    *,
    role: str,
    upstream: str | None,
    epoch: int,
) -> Rehearsal:
    return rehearsal.assign(
        cluster, installation, name, role=Role(role), upstream=upstream, epoch=epoch
    )


@click.command()
@click.argument("name")
@click.option(
    "--force",
    is_flag=True,
    help="Make it the primary of a new epoch although no source confirms it.",
)
@rehearsed(rehearse_start)
def start(app: App, name: str, force: bool, reason: str) -> None:
    """Start node NAME in the role of its state file, and wait until it serves.

    With --force (and --reason) it becomes the primary of a new epoch: only when you are
    certain that no other node is, because one that can't be seen would go on taking
    writes.  Refused when another server is seen to take writes.
    """
    if not force:
        try:
            with journal.journaled(app.cluster, "node-start", name, reason) as told:
                if not verbs.start_node(
                    app.cluster, app.installation, name, progress=step_printer()
                ):
                    told.remark = f"node {name} runs already"
                    click.echo(told.remark)
        except OperatorError as error:
            raise with_open_operation(app.cluster, error) from error
        return
    app.require("promote")
    if not reason:
        raise click.UsageError("--force needs --reason: who finds this later has to know why")
    with store.alone(app.cluster), journal.journaled(app.cluster, "force", name, reason) as told:
        forced = verbs.force_start(
            app.cluster,
            app.installation,
            name,
            reason=reason,
            actor=operation.actor(),
            progress=step_printer(),
        )
        told.epoch = forced.epoch
        told.figures = {
            "seen": forced.seen,
            "raised": list(forced.raised.written),
            "not_raised": list(forced.raised.failed),
        }
    rejoin = Commands.here(app.cluster).zodbrepl("rejoin", "NODE")
    click.echo(
        f"node {name} is the primary of epoch {forced.epoch}, by force; others follow it "
        f"after: {rejoin}"
    )
    _tell(
        f"{keeper} has no record of it: {problem}"
        for keeper, problem in forced.raised.failed.items()
    )


@click.command()
@click.argument("name")
@rehearsed(rehearsal.stop)
def stop(app: App, name: str, reason: str) -> None:
    """End node NAME in order: its followers get what they lack first."""
    with journal.journaled(app.cluster, "node-stop", name, reason) as told:
        if not verbs.stop_node(app.cluster, name, progress=step_printer()):
            told.remark = f"node {name} does not run"
            click.echo(told.remark)


@click.command()
@click.argument("name")
@rehearsed(rehearsal.fence)
def fence(app: App, name: str, reason: str) -> None:
    """Kill node NAME's server at once, frozen or not, and prove that it is gone.

    Its followers may miss its last transactions; they stay in its data file.
    """
    with journal.journaled(app.cluster, "node-fence", name, reason) as told:
        fenced = verbs.fence(app.cluster, name)
        told.figures, told.remark = {"killed": list(fenced.killed)}, fenced.remark
    click.echo(f"node {name} is fenced: {_killed(fenced)}")
    _tell(filter(None, [fenced.remark]))


@click.command()
@click.argument("name")
@click.option("--role", type=click.Choice([str(each) for each in Role]), required=True)
@click.option("--upstream", metavar="NODE", help="Whom it follows; a primary has none.")
@click.option("--epoch", type=click.IntRange(1), required=True)
@rehearsed(rehearse_assign, "assign")
def assign(
    app: App, /, name: str, *, role: str, upstream: str | None, epoch: int, reason: str
) -> None:
    """Write the state file of node NAME: what it is to be when it starts the next time."""
    with (
        store.alone(app.cluster),
        journal.journaled(app.cluster, "node-assign", name, reason) as told,
    ):
        told.figures = {"role": role, "upstream": upstream, "epoch": epoch}
        assigned = verbs.assign(app.cluster, name, role=Role(role), upstream=upstream, epoch=epoch)
    click.echo(
        f"node {name} is to be {assigned.role} in epoch {assigned.epoch}"
        + (f", following {assigned.upstream}" if assigned.upstream else "")
    )


@click.command("pause-writes")
@click.argument("name")
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    default=20.0,
    show_default=True,
    help="It ends by itself after that.",
)
@rehearsed(rehearsal.hold, "hold")
def pause_writes(app: App, name: str, seconds: float, reason: str) -> None:
    """Let clients of primary NAME wait with their commits; those under way finish."""
    with journal.journaled(app.cluster, "node-pause-writes", name, reason) as told:
        last = verbs.pause_writes(app.cluster, name, seconds)
        told.figures = {"seconds": seconds, "last_tid": last}
    click.echo(f"commits on node {name} wait for {seconds:g} s; its last transaction is {last}")


@click.command("resume-writes")
@click.argument("name")
@rehearsed(rehearsal.release, "hold")
def resume_writes(app: App, name: str, reason: str) -> None:
    """End a hold on node NAME."""
    with journal.journaled(app.cluster, "node-resume-writes", name, reason):
        verbs.resume_writes(app.cluster, name)
    click.echo(f"node {name} takes commits again")


@click.command()
@click.argument("name")
@click.option("--epoch", type=click.IntRange(1), required=True, help="Above every epoch there was.")
@rehearsed(rehearsal.promote, "promote")
def promote(app: App, name: str, epoch: int, reason: str) -> None:
    """Make node NAME the primary of a new epoch, in place if it runs.

    Refused when anybody who can be asked objects.  It looks at nothing else: `bin/zodbrepl
    switchover` and `failover` do.
    """
    with (
        store.alone(app.cluster),
        journal.journaled(app.cluster, "node-promote", name, reason, epoch) as told,
    ):
        changed = verbs.promote(
            app.cluster, app.installation, name, epoch=epoch, reason=reason, progress=step_printer()
        )
        told.figures, told.remark = {"in_place": changed.in_place}, "; ".join(changed.remarks)
    _tell_change(f"node {name} is the primary of epoch {epoch}", changed.in_place, changed.remarks)


@click.command()
@click.argument("name")
@click.option("--upstream", metavar="NODE", required=True, help="Whom it follows from now on.")
@click.option("--epoch", type=click.IntRange(1), required=True)
@rehearsed(rehearsal.follow, "follow")
def follow(app: App, name: str, *, upstream: str, epoch: int, reason: str) -> None:
    """Let node NAME follow another node, in place if it runs.

    Refused, and the server ended, when its history is not that of the other node.
    """
    with (
        store.alone(app.cluster),
        journal.journaled(app.cluster, "node-follow", name, reason) as told,
    ):
        told.figures = {"upstream": upstream, "epoch": epoch}
        changed = verbs.follow(
            app.cluster,
            app.installation,
            name,
            upstream=upstream,
            epoch=epoch,
            progress=step_printer(),
        )
        told.figures["in_place"] = changed.in_place
        told.remark = "; ".join(changed.remarks)
    _tell_change(
        f"node {name} follows {upstream} in epoch {epoch}", changed.in_place, changed.remarks
    )


@click.command("restart-client")
@click.argument("instance")
@rehearsed(rehearsal.restart_client)
def restart_client(app: App, instance: str, reason: str) -> None:
    """Restart Indico INSTANCE, which drops everything it has cached of the storage."""
    with journal.journaled(app.cluster, "restart-client", instance, reason):
        verbs.restart_instance(app.cluster, instance, progress=step_printer())


def _killed(fenced: Fenced) -> str:
    if fenced.killed:
        return f"killed {', '.join(map(str, fenced.killed))}"
    return (
        "it has ended, as supervisor was told not to run it"
        if fenced.was_wanted
        else "it did not run"
    )


def _tell_change(what: str, in_place: bool, remarks: Iterable[str]) -> None:
    click.echo(what + ("" if in_place else "; its server was started for it"))
    _tell(remarks)


def _tell(remarks: Iterable[str]) -> None:
    for remark in remarks:
        click.echo(remark, err=True)
