"""The command that acknowledges alerts, so that they are not sent for a while."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from indico_zodbrepl.cli.app import DRY_RUN, REASON, UNCHANGED, App, pass_app

if TYPE_CHECKING:
    from indico_zodbrepl.monitor.snapshot import Snapshot
    from indico_zodbrepl.operations.silences import Key, Silence


@click.command()
@click.argument("alert", required=False)
@click.option("--hours", type=float, help="For how long, up to 72.")
@click.option("--end", "ended", is_flag=True, help="End the silence of ALERT instead.")
@REASON
@DRY_RUN
@pass_app
def silence(
    app: App, *, alert: str | None, hours: float | None, ended: bool, reason: str, dry_run: bool
) -> None:
    """Acknowledge ALERT: send it to nobody for some hours.  Without ALERT, list the alerts.

    ALERT is the name in the list.  The monitor sends no mail and no webhook about it.  `status` and
    the admin page go on showing it, and the state does not change.  If it still holds when the time
    is over, it is sent.  A silence also ends when its alert has been gone for 5 minutes.
    """
    from indico_zodbrepl.monitor import take_snapshot
    from indico_zodbrepl.operations import operation, silences

    now = time.time()
    if alert is None:
        snapshot = take_snapshot(app.cluster)
        _list(snapshot, silences.active(silences.read(app.cluster), now), now)
        return
    if ended == (hours is not None):
        raise click.UsageError("give one of --hours and --end")
    if not reason.strip() and not dry_run:
        raise click.UsageError("--reason TEXT is required. Other operators need the reason.")
    if ended:
        active = silences.active(silences.read(app.cluster), now)
        over = silences.silenced(active, alert)
        click.echo(f"End the silence of: {over.level.upper()}: {over.alert_text}")
        if not dry_run:
            silences.end(app.cluster, [over], reason.strip(), operation.actor())
    else:
        found, hours = silences.named(take_snapshot(app.cluster).warnings, alert), hours or 0.0
        silences.check_hours(hours)
        click.echo(f"Silence for {hours:g} hours: {found.level.upper()}: {found.text}")
        if not dry_run:
            silences.silence(app.cluster, found, hours, reason.strip(), operation.actor(), now=now)
    if dry_run:
        click.echo(UNCHANGED)


def _list(snapshot: Snapshot, active: dict[Key, Silence], now: float) -> None:
    from indico_zodbrepl.operations.silences import key_of, name_of, without_alert

    for each in snapshot.warnings:
        key = key_of(each)
        click.echo(f"{name_of(key)}  {each.level.upper()}: {each.text}")
        if key in active:
            click.echo(f"          {active[key].text(now)}")
    if not snapshot.warnings:
        click.echo("There is no alert.")
    gone = without_alert(active, snapshot.warnings)
    if gone:
        click.echo("Silences of alerts that are gone:")
    for silence in gone:
        click.echo(f"{name_of(silence.key)}  {silence.level.upper()}: {silence.alert_text}")
        click.echo(f"          {silence.text(now)}")
