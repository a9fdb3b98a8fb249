"""The commands that pause the automation and let it go on."""

from __future__ import annotations

import click

from indico_zodbrepl.cli.app import DRY_RUN, REASON, App, pass_app


@click.command()
@click.option("--reason", default="", help="Why; status, page and journal show it. Required.")
@DRY_RUN
@pass_app
def pause(app: App, *, reason: str, dry_run: bool) -> None:
    """Let the automation replace no primary and rejoin no node, until `resume-automation`.

    The primary keeps its role and takes writes; if it fails, only `failover` replaces it.
    """
    from indico_zodbrepl.cli.running import answer_single
    from indico_zodbrepl.operations.maintenance import PauseAutomation

    if not reason.strip() and not dry_run:
        raise click.UsageError("--reason TEXT is required: whoever finds it paused has to know why")
    step = PauseAutomation.named(app.cluster.name)
    answer_single(app, step, reason.strip(), dry_run=dry_run)


@click.command("resume-automation")
@REASON
@DRY_RUN
@pass_app
def resume_automation(app: App, *, reason: str, dry_run: bool) -> None:
    """Let the automation act again after `pause`.

    `resume` continues an interrupted operation instead.
    """
    from indico_zodbrepl.cli.running import answer_single
    from indico_zodbrepl.operations.maintenance import ResumeAutomation

    answer_single(app, ResumeAutomation.named(app.cluster.name), reason, dry_run=dry_run)
