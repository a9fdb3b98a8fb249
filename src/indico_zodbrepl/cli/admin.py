"""``zodbrepl admin``: serve the admin page, and manage its accounts and tokens."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import TYPE_CHECKING, TextIO

import click

from indico_zodbrepl.cli.app import DRY_RUN, REASON, UNCHANGED, App, pass_app
from indico_zodbrepl.errors import ExitCode, OperatorError

if TYPE_CHECKING:
    from indico_zodbrepl.admin.access.accounts import Account, Change, Token

NAME = click.argument("name")
LEVEL = click.option(
    "--level",
    type=click.Choice(["viewer", "operator"]),
    default="viewer",
    show_default=True,
    help="A viewer sees all but protected data; an operator also starts operations.",
)
PASSWORD_FILE = click.option(
    "--password-file",
    type=click.File(),
    metavar="FILE",
    help="Read the password from the first line of FILE; `-` is standard input.  "
    "[default: prompt for it]",
)
PLACEHOLDER = "placeholder of a dry run"


@click.group(invoke_without_command=True)
@click.pass_context
def admin(context: click.Context) -> None:
    """Serve the admin page until stopped; `up` runs this under supervisor.

    The page requires a login.  `admin user` and `admin token` manage its accounts.  The
    address /health is for monitoring and needs no login.  It answers 200 while the cluster is
    healthy or degraded, else 503.
    """
    if context.invoked_subcommand is None:
        context.invoke(_serve)


@pass_app
def _serve(app: App) -> None:
    import logging

    from indico_zodbrepl.admin.app import create_app, listen
    from indico_zodbrepl.host import releases
    from indico_zodbrepl.monitor.shared import Source
    from indico_zodbrepl.monitor.watcher import Watcher

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    cluster = app.cluster
    watcher = Watcher(Source(cluster).take)
    page = create_app(cluster, watcher, app.installation.home)
    try:
        server = listen(page, cluster.admin)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        raise OperatorError(
            f"cannot serve the admin page on {cluster.admin.address}",
            error.strerror or str(error),
            f"change the port at {cluster.where('admin', None, 'port')}" if taken else "",
            ExitCode.PORT_TAKEN if taken else ExitCode.FAILED,
        ) from error
    releases.note(cluster, cluster.admin.program)
    watcher.start()
    click.echo(f"admin page of cluster {cluster.name}: {cluster.admin.base_url}")
    server.run()


@admin.group()
def user() -> None:
    """Manage accounts.  Changes take effect immediately, without a restart."""


@admin.group()
def token() -> None:
    """Manage tokens for the page's API (Authorization: Bearer TOKEN)."""


@user.command("add")
@NAME
@LEVEL
@PASSWORD_FILE
@REASON
@DRY_RUN
@pass_app
def add_user(
    app: App, *, name: str, level: str, password_file: TextIO | None, reason: str, dry_run: bool
) -> None:
    """Add an account; prompt for its password."""
    from indico_zodbrepl.admin.access import accounts
    from indico_zodbrepl.admin.access.accounts import Level

    password = _password(app, password_file, dry_run)
    change = accounts.add_user(name, Level(level), password)
    step = f"add the {level} {name}"
    _apply(app, "admin-user-add", name, change, step, reason=reason, level=level, dry_run=dry_run)


@user.command("password")
@NAME
@PASSWORD_FILE
@REASON
@DRY_RUN
@pass_app
def password(
    app: App, *, name: str, password_file: TextIO | None, reason: str, dry_run: bool
) -> None:
    """Change the password of an account and end its sessions."""
    from indico_zodbrepl.admin.access import accounts

    change = accounts.set_password(name, _password(app, password_file, dry_run))
    step = f"change {name}'s password and end the sessions"
    _apply(app, "admin-user-password", name, change, step, reason=reason, dry_run=dry_run)


@user.command("remove")
@NAME
@REASON
@DRY_RUN
@pass_app
def remove_user(app: App, *, name: str, reason: str, dry_run: bool) -> None:
    """Remove an account and end its sessions."""
    from indico_zodbrepl.admin.access import accounts

    change = accounts.remove_user(name)
    step = f"remove {name} and end the sessions"
    _apply(app, "admin-user-remove", name, change, step, reason=reason, dry_run=dry_run)


@user.command("list")
@pass_app
def list_users(app: App) -> None:
    """List the accounts with their levels."""
    from indico_zodbrepl.admin.access import accounts
    from indico_zodbrepl.cluster.layout import Layout

    _refuse_elsewhere(app)
    found = accounts.read(Layout(app.cluster).accounts)
    _print(found.users.values(), "There are no accounts.")


@token.command("add")
@NAME
@LEVEL
@REASON
@DRY_RUN
@pass_app
def add_token(app: App, *, name: str, level: str, reason: str, dry_run: bool) -> None:
    """Create a token and print it.  It is stored as a digest only and cannot be shown again."""
    from indico_zodbrepl.admin.access import accounts
    from indico_zodbrepl.admin.access.accounts import Level

    text = accounts.new_token()
    change = accounts.add_token(name, Level(level), text)
    step = f"add the token {name} of a {level}"
    _apply(app, "admin-token-add", name, change, step, reason=reason, level=level, dry_run=dry_run)
    if not dry_run:
        click.echo(text)


@token.command("remove")
@NAME
@REASON
@DRY_RUN
@pass_app
def remove_token(app: App, *, name: str, reason: str, dry_run: bool) -> None:
    """Revoke a token immediately."""
    from indico_zodbrepl.admin.access import accounts

    change = accounts.remove_token(name)
    step = f"remove the token {name}"
    _apply(app, "admin-token-remove", name, change, step, reason=reason, dry_run=dry_run)


@token.command("list")
@pass_app
def list_tokens(app: App) -> None:
    """List the names of the tokens with their levels."""
    from indico_zodbrepl.admin.access import accounts
    from indico_zodbrepl.cluster.layout import Layout

    _refuse_elsewhere(app)
    found = accounts.read(Layout(app.cluster).accounts)
    _print(found.tokens.values(), "There are no tokens.")


def _apply(
    app: App,
    operation: str,
    name: str,
    change: Change,
    step: str,
    *,
    reason: str,
    dry_run: bool,
    level: str = "",
) -> None:
    """Change the accounts file and record it in the journal, or print the step."""
    from indico_zodbrepl.admin.access import accounts
    from indico_zodbrepl.admin.access.accounts import Level
    from indico_zodbrepl.cluster.layout import Layout
    from indico_zodbrepl.operations import journal

    _refuse_elsewhere(app)
    path = Layout(app.cluster).accounts
    after = change(accounts.read(path))
    if dry_run:
        click.echo(f"   1. in {path}: {step}\n{UNCHANGED}")
        return
    with journal.journaled(app.cluster, operation, accounts.normal(name), reason) as told:
        if level:
            told.figures["level"] = level
        accounts.make(path, change)
    click.echo(f"done: {step}", err=True)
    if not any(each.level is Level.OPERATOR for each in after.users.values()):
        click.echo(
            "NOTICE: no account has the level operator; operations cannot be started on the page",
            err=True,
        )


def _refuse_elsewhere(app: App) -> None:
    """Raise OperatorError (exit 8) unless the admin page, and so its accounts, are on this host."""
    cluster = app.cluster
    if not cluster.is_here(cluster.admin):
        raise OperatorError(
            "the accounts of the admin page are on another host",
            f"the admin page is on host {cluster.admin.on}",
            f"type the command on host {cluster.admin.on}",
            ExitCode.REFUSED,
        )


def _password(app: App, file: TextIO | None, dry_run: bool) -> str:
    from indico_zodbrepl.admin.access import passwords

    _refuse_elsewhere(app)
    if file is not None:
        return file.readline().rstrip("\r\n")
    if dry_run:
        return PLACEHOLDER
    typed: str = click.prompt(
        f"Password ({passwords.SHORTEST} characters or more)",
        hide_input=True,
        confirmation_prompt=True,
        err=True,
    )
    return typed


def _print(found: Iterable[Account | Token], none: str) -> None:
    lines = [f"{each.name:<32}  {each.level}" for each in found]
    click.echo("\n".join(lines) if lines else none)
