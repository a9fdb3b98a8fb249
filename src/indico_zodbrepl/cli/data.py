"""Commands about the data: recovery, conversion, statistics, history."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from indico_zodbrepl.cli.app import DRY_RUN, REASON, UNCHANGED, App, pass_app, step_printer
from indico_zodbrepl.cluster.lookup import node_named
from indico_zodbrepl.errors import ExitCode, OperatorError

if TYPE_CHECKING:
    from indico_zodbrepl.host.datafs_answers import Comparison

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("export", type=click.Path(path_type=Path))
@click.option(
    "--transactions", metavar="TID[,TID...]", default="", help="Recover these transactions."
)
@click.option(
    "--apply",
    "objects",
    metavar="TID:OID",
    multiple=True,
    help="Recover the change of one object and the new objects that it refers to; may be repeated.",
)
@click.option(
    "--all", "everything", is_flag=True, help="Recover all transactions without conflict."
)
@click.option(
    "--event",
    metavar="OID",
    help="Recover one event under a new number, with all that belongs to it. For an event whose "
    "number has been reused.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be written; write nothing.")
@pass_app
def recover(
    app: App,
    *,
    export: Path,
    transactions: str,
    objects: tuple[str, ...],
    everything: bool,
    event: str | None,
    dry_run: bool,
) -> None:
    """Compare a recovery EXPORT with the database, and write selected transactions again.

    EXPORT is a folder in var/lost-tails, or the file tail.fs in it.  In a cluster of several hosts
    its name is enough: the host that has it recovers it.  Without a selection nothing is written.

    Each transaction is written as a whole.  It is left out if one of its objects conflicts with
    a later change.  Changes of both sides to a BTree, set or counter are merged.  The selection
    becomes one transaction on the primary.

    Exit code: 0 shown or written; 8 every selected transaction conflicts.
    """
    from indico_zodbrepl.cli import data_view as view
    from indico_zodbrepl.cluster.commands import Commands
    from indico_zodbrepl.operations import recover as recovery

    app.require("recover")
    if not app.cluster.hosts and not export.exists():
        raise click.BadParameter(f"Path {str(export)!r} does not exist.", param_hint="'EXPORT'")
    picks = [*filter(None, transactions.split(",")), *objects]
    if everything and picks:
        raise click.UsageError("--all excludes --transactions and --apply")
    if event is not None:
        if everything or picks:
            raise click.UsageError("--event excludes --all, --transactions and --apply")
        if re.fullmatch("[0-9a-f]{16}", event) is None:
            raise click.UsageError("--event takes the 16 hexadecimal digits that recover shows")
        found_event = recovery.recover_event(
            app.cluster, app.installation, export, event, dry_run=dry_run
        )
        click.echo(view.recovered_event(found_event))
        return
    if everything:
        picks = [recovery.ALL]
    if picks:
        found = recovery.apply(app.cluster, app.installation, export, picks, dry_run=dry_run)
    else:
        found = recovery.show(app.cluster, app.installation, export)
    for transaction in found.transactions:
        click.echo("\n".join(view.transaction_lines(transaction)))
    commands = Commands.here(app.cluster)
    click.echo(view.recovery_summary(found, picks, export, commands, dry_run=dry_run))
    if picks and not found.objects_written and found.count(recovery.CONFLICTS):
        raise click.exceptions.Exit(ExitCode.REFUSED)


@click.command()
@click.option(
    "--to",
    "target",
    metavar="CLUSTER.conf",
    required=True,
    type=FILE,
    help="The cluster file of the target, which must hold no other data.",
)
@click.option(
    "--from",
    "file",
    metavar="DATA.fs",
    type=FILE,
    help="Convert this Data.fs instead of the data of the cluster of -c.",
)
@REASON
@DRY_RUN
@pass_app
def convert(app: App, target: Path, file: Path | None, reason: str, dry_run: bool) -> None:
    """Copy all data of the cluster to another cluster of any backend, and verify the copy.

    The history is copied under the same transaction ids, as far as the target keeps history.
    Both clusters must be down; the command starts their storage while it needs it.  The source is
    only read.  In a cluster of several hosts, type the command on the host of the primary.

    The command may be interrupted or killed, and rerun.  It compares what the target holds with
    the source, then continues.  Indico cannot start on the target before the copy is complete.

    Exit code: 0 copied and verified; 8 refused: a cluster is running, or the target holds other
    data or has too little space.
    """
    from indico_zodbrepl.cli import data_view as view
    from indico_zodbrepl.cluster import load
    from indico_zodbrepl.cluster.commands import Commands
    from indico_zodbrepl.convert import carry_out, plan, source_of_cluster, source_of_file

    there = load(Path(os.path.abspath(target)), app.installation.home)
    source = source_of_file(file) if file is not None else source_of_cluster(app.cluster)
    commands = Commands.here(there if file is not None else app.cluster)
    conversion = plan(source, there, commands)
    click.echo("\n".join(view.conversion_lines(conversion)))
    if dry_run:
        click.echo(f"\n{UNCHANGED}")
        return
    step = step_printer()
    done = carry_out(
        conversion, app.installation, reason.strip(), step, view.conversion_progress(step)
    )
    click.echo("\n".join(view.converted_lines(conversion, done)))


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
@click.option(
    "--top",
    type=click.IntRange(0),
    default=15,
    show_default=True,
    metavar="N",
    help="How many classes, modules and largest objects to show.",
)
@click.option(
    "--node",
    "name",
    metavar="NODE",
    help="Read this node's copy of the database.  [default: the one that Indico uses]",
)
@click.option(
    "--no-history",
    is_flag=True,
    help="Read only the current revision of each object; faster where no Data.fs can be read.",
)
@pass_app
def stats(app: App, *, as_json: bool, top: int, name: str | None, no_history: bool) -> None:
    """Sum up the database's objects by class and module, and list the largest objects.

    The command reads the whole database and writes nothing to it.  Servers may run, and Ctrl-C
    is safe.  A Data.fs is read directly on its host, even while its server is stopped.  Any other
    storage is read as Indico reads it.  Sizes are those of the objects' data, without
    overhead of the storage.  The result is kept in var/statistics.json for the admin page.
    """
    from indico_zodbrepl.cli import data_view as view
    from indico_zodbrepl.host import statistics

    where = app.host.database(name)
    with view.statistics_progress(where) as tell:
        found = app.host.statistics(where, top, history=not no_history, on_progress=tell)
    try:
        app.host.keep_statistics(statistics.Kept(time.time(), where, found))
    except OperatorError as error:
        click.echo(f"NOTICE: {error.notice}: {error.detail}", err=True)
    if as_json:
        values = dataclasses.asdict(where) | {"path": str(where.path)}
        click.echo(json.dumps({"cluster": app.cluster.name} | values | found, indent=2))
    else:
        view.print_statistics(where, found, top)


@click.command()
@click.argument("node", required=False)
@click.argument("upstream", required=False)
@click.option(
    "--full", is_flag=True, help="Read both files in full, not only after the last comparison."
)
@pass_app
def history(app: App, node: str | None, upstream: str | None, full: bool) -> None:
    """Compare the history of NODE, or of every node, with that of UPSTREAM or the primary.

    Transactions are compared by id and content, with the files of their blobs.  Servers may run.
    Nothing is changed.

    Exit code: 0 no node diverged; 8 a node has transactions that the other lacks, or files of
    blobs differ.
    """
    from indico_zodbrepl.cli.data_view import print_histories
    from indico_zodbrepl.cluster.commands import Commands
    from indico_zodbrepl.host.datafs_answers import Relation

    app.require("lineage")
    cluster = app.cluster
    against = node_named(cluster, upstream).name if upstream else _primary(app)
    if node == against:
        raise OperatorError(
            f"node {node} cannot be compared with itself",
            "it is the primary" if upstream is None else "",
            Commands.here(cluster).zodbrepl("history", str(node), "NODE"),
            ExitCode.BAD_CONFIG,
        )
    names = [node_named(cluster, node).name] if node else [each.name for each in cluster.nodes]
    found: dict[str, Comparison | None] = {}
    problems = []
    for name in names:
        if name != against:
            try:
                found[name] = app.host.compare_new(name, against, full=full)
            except OperatorError as error:
                found[name] = None
                problems.append(f"node {name}: {error.notice}: {error.detail}")
    print_histories(found, against)
    for problem in problems:
        click.echo(problem, err=True)
    in_step = (Relation.EMPTY, Relation.EQUAL, Relation.BEHIND)
    if any(each and each.relation not in in_step for each in found.values()):
        raise click.exceptions.Exit(int(ExitCode.REFUSED))
    if problems:
        raise click.exceptions.Exit(int(ExitCode.FAILED))


def _primary(app: App) -> str:
    """Return the primary of the highest epoch, according to the readable state files."""
    from indico_zodbrepl.cluster import Role
    from indico_zodbrepl.cluster.commands import Commands

    states = []
    for node in app.cluster.nodes:
        try:
            states.append(app.host.state(node.name))
        except OperatorError as error:
            click.echo(f"{error.notice}: {error.detail}", err=True)
    primaries = [each for each in states if each.role is Role.PRIMARY]
    if not primaries:
        raise OperatorError(
            "no node is the primary",
            "name the node to compare with",
            Commands.here(app.cluster).zodbrepl("history", "NODE", "UPSTREAM"),
        )
    return max(primaries, key=lambda each: each.epoch).node
