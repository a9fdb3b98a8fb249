"""``zodbrepl admin user`` and ``zodbrepl admin token``: who may use the admin page."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import TextIO

import click

from indico_zodbrepl.admin.access import accounts, changes, names, passwords
from indico_zodbrepl.admin.access.accounts import Account, Token
from indico_zodbrepl.admin.access.changes import Change
from indico_zodbrepl.admin.access.levels import Level
from indico_zodbrepl.cli.app import App, pass_app
from indico_zodbrepl.cli.rehearsing import DRY_RUN, REASON, show
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.failover import journal
from indico_zodbrepl.node.rehearsal import Rehearsal

NAME = click.argument("name")
LEVEL = click.option("--level", type=click.Choice([str(each) for each in Level]),
                     default=str(Level.VIEWER), show_default=True,
                     help="A viewer sees everything; an operator also begins operations.")
PASSWORD_FILE = click.option("--password-file", type=click.File(), metavar="FILE",
                             help="Its first line is the password; `-` is standard input.  "
                                  "[default: you are asked for it]")
REHEARSED = "words that are not known"


@click.group()
def user() -> None:
    """Accounts of people.  Changes count at once; the admin page need not be restarted."""


@click.group()
def token() -> None:
    """Tokens of programs that ask the page's API (Authorization: Bearer TOKEN)."""


@user.command("add")
@NAME
@LEVEL
@PASSWORD_FILE
@REASON
@DRY_RUN
@pass_app
def add_user(app: App, *, name: str, level: str, password_file: TextIO | None, reason: str,
             dry_run: bool) -> None:
    """Make an account; you are asked for its password."""
    _carry_out(app, _Wanted("admin-user-add", name, f"write the {level} {name}"),
               lambda: changes.add_user(name, Level(level), _password(password_file, dry_run)),
               reason, dry_run=dry_run, figures={"level": level})


@user.command("password")
@NAME
@PASSWORD_FILE
@REASON
@DRY_RUN
@pass_app
def password(app: App, *, name: str, password_file: TextIO | None, reason: str,
             dry_run: bool) -> None:
    """Give an account another password; its sessions end."""
    _carry_out(app, _Wanted("admin-user-password", name, f"write {name}'s new password, which "
                            "ends the sessions"),
               lambda: changes.set_password(name, _password(password_file, dry_run)),
               reason, dry_run=dry_run)


@user.command("remove")
@NAME
@REASON
@DRY_RUN
@pass_app
def remove_user(app: App, *, name: str, reason: str, dry_run: bool) -> None:
    """Remove an account; its sessions end."""
    _carry_out(app, _Wanted("admin-user-remove", name, f"remove {name}, which ends the sessions"),
               lambda: changes.remove_user(name), reason, dry_run=dry_run)


@user.command("list")
@pass_app
def list_users(app: App) -> None:
    """Show the accounts, a line each."""
    _show(accounts.read(Layout(app.cluster).accounts).users.values(), "Nobody has an account.")


@token.command("add")
@NAME
@LEVEL
@REASON
@DRY_RUN
@pass_app
def add_token(app: App, *, name: str, level: str, reason: str, dry_run: bool) -> None:
    """Make a token and print it.  It is not kept: whoever lost it makes another one."""
    text = changes.new_token()
    _carry_out(app, _Wanted("admin-token-add", name, f"write the token {name}, of a {level}"),
               lambda: changes.add_token(name, Level(level), text), reason, dry_run=dry_run,
               figures={"level": level})
    if not dry_run:
        click.echo(text)


@token.command("remove")
@NAME
@REASON
@DRY_RUN
@pass_app
def remove_token(app: App, *, name: str, reason: str, dry_run: bool) -> None:
    """Remove a token; it is refused from then on."""
    _carry_out(app, _Wanted("admin-token-remove", name, f"remove the token {name}"),
               lambda: changes.remove_token(name), reason, dry_run=dry_run)


@token.command("list")
@pass_app
def list_tokens(app: App) -> None:
    """Show the names of the tokens, a line each."""
    _show(accounts.read(Layout(app.cluster).accounts).tokens.values(), "There is no token.")


@dataclasses.dataclass(frozen=True)
class _Wanted:
    """A change: its word in the journal, what it is about, and its one step."""

    what: str
    subject: str
    step: str


def _carry_out(app: App, wanted: _Wanted, prepare: Callable[[], Change], reason: str, *,
               dry_run: bool, figures: dict[str, str] | None = None) -> None:
    path = Layout(app.cluster).accounts
    change = prepare()
    after = change(accounts.read(path))
    if dry_run:
        show(Rehearsal((), (f"in {path}: {wanted.step}",)))
        return
    subject = names.normal(wanted.subject)
    with journal.journaled(app.cluster, wanted.what, subject, reason) as told:
        told.figures.update(figures or {})
        changes.make(path, change)
    click.echo(f"done: {wanted.step}", err=True)
    if not any(each.level is Level.OPERATOR for each in after.users.values()):
        click.echo("NOTICE: no account is an operator's, so nobody begins operations on the page",
                   err=True)


def _password(file: TextIO | None, dry_run: bool) -> str:
    if file is not None:
        return file.readline().rstrip("\r\n")
    if dry_run:
        return REHEARSED
    typed: str = click.prompt(f"Password ({passwords.SHORTEST} characters or more)",
                              hide_input=True, confirmation_prompt=True, err=True)
    return typed


def _show(found: Iterable[Account | Token], none: str) -> None:
    lines = [f"{each.name:<32}  {each.level}" for each in found]
    click.echo("\n".join(lines) if lines else none)
