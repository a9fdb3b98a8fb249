"""Commands that change the cluster by a plan, and the journal of what they did."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from indico_zodbrepl.cli.app import DRY_RUN, EXPECT, REASON, App, pass_app
from indico_zodbrepl.errors import ExitCode, OperatorError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from indico_zodbrepl.operations.operation import Operation


@click.command()
@click.argument("target", required=False)
@REASON
@DRY_RUN
@EXPECT
@pass_app
def switchover(app: App, *, target: str | None, reason: str, dry_run: bool, expect: str) -> None:
    """Make TARGET primary in place of the running primary, which follows it afterwards.

    By default TARGET is the follower with the newest transaction.  Writes wait for about one
    second with ZRS, 5 to 9 s with PostgreSQL and MariaDB.  No transaction is lost.

    A failure before the point of no return undoes every step.  After an interruption run
    `bin/zodbrepl resume`.
    """
    _answer(app, "switchover", target, reason, dry_run=dry_run, expect=expect)


@click.command()
@click.argument("target", required=False)
@click.option(
    "--reason", default="", help="Why; recorded in the journal. Required except for a dry run."
)
@DRY_RUN
@EXPECT
@pass_app
def failover(app: App, *, target: str | None, reason: str, dry_run: bool, expect: str) -> None:
    """Make TARGET primary in place of a primary that failed.

    By default TARGET is the node with the newest transaction.  The command is refused while
    any observer reports the primary alive.

    The failed primary is fenced first.  Transactions that only it has are exported and listed,
    and Indico restarts if its caches may hold any of them.

    NEO elects a master automatically.  There TARGET is a node that hangs, by default the most
    important one.  It is killed once several observers report that it hangs, and restarted.
    """
    app.require("failover")
    if not reason.strip() and not dry_run:
        raise click.UsageError("--reason TEXT is required: it is recorded in the journal")
    _answer(app, "failover", target, reason, dry_run=dry_run, expect=expect)


@click.command()
@click.argument("node")
@REASON
@DRY_RUN
@EXPECT
@pass_app
def rejoin(app: App, *, node: str, reason: str, dry_run: bool, expect: str) -> None:
    """Let NODE follow the primary again; export the transactions that only NODE has.

    NODE's data file is compared with the primary's, transaction by transaction.  Divergent
    transactions are exported to a folder in var/lost-tails; then NODE's file is truncated, and
    a copy of the removed part is kept.  `recover` shows the export and writes its transactions
    again.

    PostgreSQL and MariaDB: divergent transactions are exported likewise.  If there are any,
    NODE's data are kept under another name, and NODE copies the primary's.

    NEO: NODE is a storage node that lost its disk, was dropped, or does not run.  It is started
    and filled from the others, if these hold all data.

    Exit code: 0 NODE follows; 8 it cannot, and its history is marked needs-seeding (run `clone`)
    or quarantined.
    """
    from indico_zodbrepl.cli.running import prepare, show_or_execute
    from indico_zodbrepl.cluster.commands import Commands
    from indico_zodbrepl.operations.model import Refusal, Verdict
    from indico_zodbrepl.operations.planning import Request

    found, history = prepare(app, Request("rejoin", node, reason), expect)
    if isinstance(found, Refusal) and all(each.verdict is Verdict.FINE for each in found.findings):
        click.echo(f"{found.notice}: {found.findings[0].text}, {found.findings[0].evidence}")
        return
    show_or_execute(app, found, dry_run=dry_run, history=history)
    if isinstance(found, Refusal) or dry_run:
        return
    for step in found.steps:
        if step.action == "rejoin-mark" and step.arguments["condition"] != "ok":
            clone = Commands.here(app.cluster).zodbrepl("clone", node)
            raise OperatorError(
                f"node {node} cannot follow: {step.arguments['condition']}",
                str(step.arguments["detail"]),
                f"copy another node's data to it: {clone}",
                ExitCode.REFUSED,
            )


@click.command()
@click.argument("node")
@click.option(
    "--from",
    "source",
    metavar="NODE",
    default=None,
    help="The node to copy from.  [default: the primary]",
)
@REASON
@DRY_RUN
@EXPECT
@pass_app
def clone(
    app: App, *, node: str, source: str | None, reason: str, dry_run: bool, expect: str
) -> None:
    """Copy a running node's data to NODE, and let NODE follow the primary.

    The source's server keeps running.  Replication adds what is committed during the copy.
    NODE's present data are kept in a folder beside its data directory.  Rerun the command to
    continue an interrupted copy.
    """
    options = {"source": source} if source else {}
    _answer(app, "clone", node, reason, options, dry_run=dry_run, expect=expect)


@click.command()
@click.argument("name")
@REASON
@DRY_RUN
@EXPECT
@pass_app
def restart(app: App, *, name: str, reason: str, dry_run: bool, expect: str) -> None:
    """Restart node NAME's server, or Indico instance NAME.

    A server is shut down cleanly and passes the start-up check again; its role stays.  The
    command waits until the server, its followers and the Indico instances work.  A working
    Indico instance hands over to a new worker, so that no request waits.

    Refused if the server could not start again, or if it alone holds the newest transactions.
    """
    _answer(app, "restart", name, reason, dry_run=dry_run, expect=expect)


@click.command()
@click.option(
    "--days",
    type=click.FloatRange(0),
    default=7.0,
    show_default=True,
    metavar="N",
    help="Keep every revision that was current in the last N days.",
)
@REASON
@DRY_RUN
@EXPECT
@pass_app
def pack(app: App, *, days: float, reason: str, dry_run: bool, expect: str) -> None:
    """Remove old revisions and unreferenced objects from the database.

    Servers and Indico keep running.  Where the storage does not replicate a pack, each node is
    packed, the primary last.  Refused while a node is down or unhealthy.  Transactions older
    than the pack can no longer be undone.
    """
    _answer(app, "pack", None, reason, {"days": str(days)}, dry_run=dry_run, expect=expect)


@click.command()
@click.option("--undo", is_flag=True, help="Undo it; before its point of no return only.")
@click.option(
    "--abandon",
    is_flag=True,
    help="Close it as it stands, when it cannot be finished. Needs --reason.",
)
@click.option("--reason", default="", help="Why it is abandoned; recorded in the journal.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print the remaining steps, or what --abandon would close; change nothing.",
)
@EXPECT
@pass_app
def resume(app: App, *, undo: bool, abandon: bool, reason: str, dry_run: bool, expect: str) -> None:
    """Continue the interrupted operation.

    Before its point of no return the operation starts over and skips completed steps.  After
    it, the operation continues at the step where it stopped.
    """
    from indico_zodbrepl.cli import running

    if undo and abandon:
        raise click.UsageError("--undo and --abandon exclude each other")
    if abandon and not reason.strip():
        raise click.UsageError("--abandon needs --reason TEXT")
    if abandon:
        running.abandon(app, reason.strip(), expect, dry_run=dry_run)
    else:
        running.resume(app, undo=undo, expect=expect, dry_run=dry_run)


@click.command()
@click.argument("identifier", required=False, metavar="[ID]")
@click.option("--json", "as_json", is_flag=True, help="Print one entry, or the list, as JSON.")
@pass_app
def journal(app: App, identifier: str | None, as_json: bool) -> None:
    """Show a table of past operations, or the operation ID in full.

    The first characters of an ID are enough if they are unique.
    """
    from indico_zodbrepl.cli.operation_view import entry_lines, print_journal
    from indico_zodbrepl.operations.journal import find, read
    from indico_zodbrepl.operations.outages import by_operation

    entries, notices = read(app.cluster)
    for notice in notices:
        click.echo(f"NOTICE: {notice}", err=True)
    shown = entries if identifier is None else find(entries, identifier)
    outages = by_operation(entries)

    def as_values(entry: Operation) -> dict[str, Any]:
        outage = outages.get(entry.identifier)
        return {**entry.to_json(), "outage": None if outage is None else outage.to_json()}

    if as_json:
        values = list(map(as_values, shown)) if isinstance(shown, list) else as_values(shown)
        click.echo(json.dumps(values, indent=2))
    elif isinstance(shown, list):
        print_journal(shown)
    else:
        for line in entry_lines(shown, outages.get(shown.identifier)):
            click.echo(line)


def _answer(
    app: App,
    operation: str,
    target: str | None,
    reason: str,
    options: Mapping[str, str] | None = None,
    *,
    dry_run: bool,
    expect: str,
) -> None:
    from indico_zodbrepl.cli.running import answer
    from indico_zodbrepl.operations.planning import Request

    request = Request(operation, target, reason, options or {})
    answer(app, request, dry_run=dry_run, expect=expect)
