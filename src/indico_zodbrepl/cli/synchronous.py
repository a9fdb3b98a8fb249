"""The command that shows and changes how commits are acknowledged."""

from __future__ import annotations

import click

from indico_zodbrepl.cli.app import DRY_RUN, REASON, App, pass_app

CONFIGURED = "configured"


def _number(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | str | None:
    """Return a number of secondaries, or the word for the values of the cluster file."""
    if value is None or value == CONFIGURED:
        return value
    if not value.isdecimal():
        raise click.BadParameter(f"{value!r} is neither a number nor {CONFIGURED}")
    return int(value)


@click.command()
@click.argument("count", required=False, callback=_number, metavar="[COUNT|configured]")
@click.option(
    "--level",
    type=click.Choice(["receive", "write", "fsync"]),
    help="What a secondary must have done with a transaction.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="How long commits wait for missing secondaries.",
)
@click.option(
    "--alone",
    type=click.Choice(["refuse", "degrade"]),
    help="What happens to commits after that.",
)
@REASON
@DRY_RUN
@pass_app
def synchronous(
    app: App,
    *,
    count: int | str | None,
    level: str | None,
    timeout: float | None,
    alone: str | None,
    reason: str,
    dry_run: bool,
) -> None:
    """Show how commits are acknowledged, or let them wait for COUNT secondaries.

    With COUNT 0 replication is asynchronous: the loss of the primary may then lose acknowledged
    commits.  `configured` takes the values of the cluster file.  A change lasts until the
    primary's restart or change of role; with several hosts, PostgreSQL and MariaDB keep one that
    asks for more until the change of role.  Their servers have to be restarted for it if they were
    started with `synchronous 0`.
    """
    from indico_zodbrepl.cli.running import answer_single
    from indico_zodbrepl.cluster.shapes import SHAPES
    from indico_zodbrepl.errors import ExitCode, OperatorError
    from indico_zodbrepl.host.acknowledging import describe
    from indico_zodbrepl.operations.facts import current_primary
    from indico_zodbrepl.operations.single import ChangeSynchronous

    if SHAPES[app.cluster.backend].most_acknowledgements == 0:
        raise OperatorError(
            "acknowledged commits are not for this cluster",
            f"the backend {app.cluster.backend} has none",
            exit_code=ExitCode.REFUSED,
        )
    primary, _epoch = current_primary(app.cluster)
    values: dict[str, int | float | str | None] = {
        "count": count,
        "level": level,
        "timeout": timeout,
        "alone": alone,
    }
    if count == CONFIGURED:
        wanted = app.cluster.synchronous
        values = {
            "count": wanted.count,
            "level": level or str(wanted.level),
            "timeout": timeout or wanted.timeout,
            "alone": alone or str(wanted.alone),
        }
    given = {key: value for key, value in values.items() if value is not None}
    if not given:
        click.echo(f"node {primary.name}: {describe(app.host.synchronous(primary.name))}")
        return
    answer_single(app, ChangeSynchronous.named(primary.name, **given), reason, dry_run=dry_run)
