"""``zodbrepl salvage``: what a lost tail holds, and making it again."""

from __future__ import annotations

import re
from pathlib import Path

import click

from ..cluster.commands import Commands
from ..errors import ExitCode
from ..failover import salvage as salvaging
from ..failover.salvage import (
    APPLIES,
    CONFLICTS,
    HAS_IT,
    LostTransaction,
    Salvage,
    SalvagedEvent,
)
from .app import App, pass_app

SHOWN_FIELDS = 12


@click.command()
@click.argument("tail", type=click.Path(exists=True, path_type=Path))
@click.option("--transactions", metavar="TID[,TID...]", default="",
              help="Make these lost transactions again.")
@click.option("--apply", "objects", metavar="TID:OID", multiple=True,
              help="Make the change of one object again, with the new objects that it refers to; "
                   "may be repeated.")
@click.option("--all", "everything", is_flag=True, help="Make all again that don't conflict.")
@click.option("--event", metavar="OID",
              help="Bring back one lost event under a new number, with all that belongs to it: "
                   "for one that conflicts because others were made since.")
@click.option("--dry-run", is_flag=True, help="Show what would be written; write nothing.")
@pass_app
def salvage(app: App, *, tail: Path, transactions: str, objects: tuple[str, ...],
            everything: bool, event: str | None, dry_run: bool) -> None:
    """Show a lost TAIL beside the database, and make what you pick of it again.

    TAIL is a folder of var/lost-tails, or the tail.fs in it.  Each lost transaction is made
    again as a whole, or left as a whole when one of its objects conflicts with what was done
    since; what both sides added to a BTree, set or counter of one is merged.  All that is
    picked becomes one transaction on the primary.  Without a pick nothing is written.

    Exit code: 0 shown or written, 8 nothing that was picked can be made again.
    """
    app.require("salvage")
    picks = [*filter(None, transactions.split(",")), *objects]
    if everything and picks:
        raise click.UsageError("--all excludes --transactions and --apply")
    if event is not None:
        if everything or picks:
            raise click.UsageError("--event excludes --all, --transactions and --apply")
        if re.fullmatch("[0-9a-f]{16}", event) is None:
            raise click.UsageError("--event takes the 16 hexadecimal digits that salvage shows")
        click.echo(_event(salvaging.salvage_event(app.cluster, app.installation, tail, event,
                                                  dry_run=dry_run)))
        return
    if everything:
        picks = [salvaging.ALL]
    if picks:
        found = salvaging.apply(app.cluster, app.installation, tail, picks, dry_run=dry_run)
    else:
        found = salvaging.show(app.cluster, app.installation, tail)
    for transaction in found.transactions:
        click.echo("\n".join(_transaction(transaction)))
    click.echo(_summary(found, picks, tail, Commands.here(app.cluster), dry_run=dry_run))
    if picks and not found.objects_written and found.count(CONFLICTS):
        raise click.exceptions.Exit(ExitCode.REFUSED)


def _event(found: SalvagedEvent) -> str:
    if found.written is None:
        return f"would be brought back: {found.title}, {_count(found.objects, 'object')}"
    return (f"{found.title!r} is event {found.event} now, in category {found.category!r}: "
            f"{_count(found.objects, 'object')}, transaction {found.written}")


def _transaction(transaction: LostTransaction) -> list[str]:
    texts = " ".join(filter(None, (transaction.user.strip(), transaction.description.strip())))
    verdict = {APPLIES: "can be made again", CONFLICTS: "CONFLICTS",
               HAS_IT: "the database has it"}[transaction.outcome]
    lines = [f"transaction {transaction.tid}  {texts}".rstrip() + f": {verdict}"]
    new = [each for each in transaction.objects if each.relation == "new"]
    told = [each.what for each in new if " " in each.what][:SHOWN_FIELDS]
    events = [each for each in new if each.what.startswith("Conference ")]
    if new:
        lines.append(f"  {_count(len(new), 'new object')}"
                     + (f": {', '.join(told)}" if told else ""))
    if transaction.outcome == CONFLICTS:
        lines += [f"  {each.what} can come back under a new number: --event {each.oid}"
                  for each in events]
    there = sum(each.relation == "there" for each in transaction.objects)
    if there:
        lines.append(f"  {_count(there, 'object')} of which the database has it")
    for each in transaction.objects:
        if each.relation in ("new", "there") and not each.why:
            continue
        outcome = f"{each.outcome}: {each.why}" if each.why else each.outcome
        lines.append(f"  {each.oid}  {each.what}, {each.relation}; {outcome}")
        lines += [f"      {change.field}: {_side(change.old)} -> {_side(change.new)}"
                  for change in each.differences[:SHOWN_FIELDS]]
        if len(each.differences) > SHOWN_FIELDS:
            lines.append(f"      and {len(each.differences) - SHOWN_FIELDS} more fields")
    return lines


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _side(value: str | None) -> str:
    return "(nothing)" if value is None else repr(value)


def _summary(found: Salvage, picks: list[str], tail: Path, commands: Commands, *,
             dry_run: bool) -> str:
    counts = (f"{found.count(APPLIES)} can be made again, {found.count(CONFLICTS)} conflict, "
              f"{found.count(HAS_IT)} the database has")
    if not picks:
        hint = commands.zodbrepl("salvage", str(tail), "--all")
        lost = _count(len(found.transactions), "lost transaction")
        return (f"{lost} after {found.after}: {counts}"
                + (f"\nto make again all that can be: {hint}" if found.count(APPLIES) else ""))
    if found.written is not None:
        left = found.count(CONFLICTS)
        return (f"written in transaction {found.written}: "
                f"{_count(found.count(APPLIES), 'lost transaction')}, "
                f"{_count(found.objects_written, 'object')}"
                + (f"; {left} conflict and were left" if left else ""))
    if dry_run:
        return f"would be written: {_count(found.objects_written, 'object')}; {counts}"
    return f"nothing was written: {counts}"
