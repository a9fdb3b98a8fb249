"""``zodbrepl journal``: who changed what, when, why and with what result."""

from __future__ import annotations

import json
from collections.abc import Iterator

import click
from rich.console import Console
from rich.table import Table

from ..failover import journal as journal_file
from ..failover.operation import Operation, Progress
from ..failover.wording import figures_in_words, gap_text, lost_text, seconds_text
from .app import App, pass_app
from .operation_view import finding_lines, heading, loss_lines


@click.command()
@click.argument("identifier", required=False, metavar="[ID]")
@click.option("--json", "as_json", is_flag=True, help="Print entries as JSON: one, or a list.")
@pass_app
def journal(app: App, identifier: str | None, as_json: bool) -> None:
    """Show all operations in a table, or one whole.

    The beginning of an ID is enough if no other one begins so.
    """
    entries, notices = journal_file.read(app.cluster)
    for notice in notices:
        click.echo(f"NOTICE: {notice}", err=True)
    if identifier is None:
        if as_json:
            click.echo(json.dumps([entry.to_json() for entry in entries], indent=2))
        else:
            _print_table(entries)
        return
    entry = journal_file.find(entries, identifier)
    if as_json:
        click.echo(json.dumps(entry.to_json(), indent=2))
        return
    for line in _whole(entry):
        click.echo(line)


def _print_table(entries: list[Operation]) -> None:
    if not entries:
        click.echo("The journal is empty.")
        return
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for column in ("Begun (UTC)", "Operation", "By", "Outcome", "Lost", "Gap", "Reason"):
        table.add_column(column, overflow="fold")
    for entry in entries:
        table.add_row(
            seconds_text(entry.began), f"{entry.plan.operation} {entry.plan.target}", entry.actor,
            entry.outcome, lost_text(entry), gap_text(entry),
            entry.plan.reason or "-")
    console = Console(highlight=False, width=None if Console().is_terminal else 100)
    console.print(table)
    console.print(f"\nOne of them whole: journal ID, such as {entries[-1].identifier}", style="dim")


def _whole(entry: Operation) -> Iterator[str]:
    yield from heading(entry.plan)
    yield f"  id       {entry.identifier}"
    yield f"  by       {entry.actor}"
    yield f"  begun    {seconds_text(entry.began)} UTC"
    yield f"  ended    {seconds_text(entry.ended)} UTC"
    yield f"  outcome  {entry.outcome}" + (f": {entry.remark}" if entry.remark else "")
    for what, value in figures_in_words(entry.figures):
        yield f"  {what}: {value}"
    if entry.plan.findings:
        yield ""
        yield from finding_lines(entry.plan.findings)
    yield ""
    yield from loss_lines(entry.plan.loss)
    if entry.plan.steps:
        yield ""
        yield "Steps"
    for number, (step, record) in enumerate(
            zip(entry.plan.steps, entry.records, strict=True), 1):
        took = ("" if record.began is None or record.ended is None
                else f"{record.ended - record.began:8.3f} s")
        yield f"{number:>4}. {record.progress:<8} {took:>10}  {step.title}"
        if record.progress is Progress.FAILED:
            yield from (f"{'':>26}{line}" for line in record.error.splitlines())
