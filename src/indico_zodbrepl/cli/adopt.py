"""The command that moves an existing Indico onto a cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from indico_zodbrepl.cli.app import DRY_RUN, REASON, UNCHANGED, App, pass_app, step_printer
from indico_zodbrepl.cli.data import FILE
from indico_zodbrepl.probing import times

if TYPE_CHECKING:
    from indico_zodbrepl.adopt.record import Adoption
    from indico_zodbrepl.adopt.survey import Survey
    from indico_zodbrepl.cluster import Cluster

DOWNGRADE = "bin/indico-python -m indico_zodbrepl.dataplane.programs.downgrade"


@click.command()
@click.option(
    "--from",
    "file",
    metavar="DATA.fs",
    type=FILE,
    required=True,
    help="The Data.fs of the old site, whose servers are stopped.",
)
@REASON
@DRY_RUN
@pass_app
def adopt(app: App, file: Path, reason: str, dry_run: bool) -> None:
    """Adopt an existing Indico (1.0 to 1.2.2): copy its Data.fs, start the cluster, verify.

    The old site's indico.conf is site-conf of the cluster file.  The Data.fs, the settings and
    the folder of uploaded files are examined first; --dry-run stops there.  The original is only
    read, and its checksum is compared at the end.  The cluster must hold no data.

    Data of Indico 1.0 and 1.1 are migrated by Indico's own program, in a copy, before they are
    served.

    The command may be interrupted or killed, and rerun: it continues after the last finished
    stage.  After the end it only says what was done.

    Exit code: 0 adopted, or adopted before; 8 refused: the Data.fs is damaged, open or no Indico
    1.0 to 1.2, or the cluster holds other data.
    """
    from indico_zodbrepl.adopt import record, run, survey
    from indico_zodbrepl.cli import data_view
    from indico_zodbrepl.cli.operation_view import finding_lines

    cluster, file = app.cluster, Path(os.path.abspath(file))
    before = record.read(cluster)
    if before is not None and before.ended is not None and before.source == str(file):
        survey.refuse_emptied(cluster, before)
        _echo(_adopted_lines(cluster, before))
        return
    say = step_printer()
    found = survey.survey(cluster, app.installation, file, say)
    _echo(finding_lines(found.findings))
    survey.refuse(found)
    _echo(_plan_lines(cluster, found))
    if dry_run:
        click.echo(f"\n{UNCHANGED}")
        return
    done, prepared = run.carry_out(
        found,
        cluster,
        app.installation,
        reason.strip(),
        say=say,
        on_progress=data_view.conversion_progress(say),
    )
    for each in prepared.damaged:
        click.echo(f"left as it is, because it cannot be read: {each}")
    click.echo("")
    _echo(_adopted_lines(cluster, done))


def _plan_lines(cluster: Cluster, found: Survey) -> Iterator[str]:
    from indico_zodbrepl.adopt import findings, run

    if found.begun is not None:
        stage = "copied" if found.begun.copied else "migrated" if found.begun.migrated else "begun"
        yield f"\nContinue the adoption of {times.moment(found.begun.began)}, which is {stage}."
    steps = (
        () if found.begun and found.begun.copied else run.conversion_of(cluster, found.file).steps
    )
    yield "\nSteps"
    for number, each in enumerate(findings.steps(cluster, found.examined, found.file, steps), 1):
        yield f"{number:3}. {each}"


def _adopted_lines(cluster: Cluster, done: Adoption) -> Iterator[str]:
    from indico_zodbrepl.cluster.commands import Commands
    from indico_zodbrepl.cluster.layout import data_fs
    from indico_zodbrepl.cluster.model import FileStore
    from indico_zodbrepl.convert.sources import is_filled_directly, writable_node

    commands = Commands.here(cluster)
    at = times.moment(done.ended or 0)
    yield f"Adopted {done.source} at {at}: {done.counts}, as in the original."
    yield f"The original was only read; its SHA-256 is {done.digest}"
    yield "\nNext"
    yield f"  {commands.zodbrepl('status')}"
    for each in cluster.indico:
        yield f"  look at some pages on {each.base_url}, then point the web server there"
    yield "\nWay back"
    yield f"  before users are let in: {commands.zodbrepl('down')}, then start the old site"
    if done.is_older:
        yield (
            f"  afterwards: the data are Indico 1.2's now. Indico {done.release} can only continue "
            f"with {done.source}, without what was written since; stock Indico 1.2.2 continues "
            "with all of it:"
        )
    else:
        yield "  afterwards, with what was written since, on the stock software:"
    if cluster.files is FileStore.BLOBS:
        yield "    set `files archive`, restart the instances, then move uploaded files back:"
        yield f"    {commands.zodbrepl('files', 'export')}"
        yield f"    {commands.zodbrepl('pack', '--days', '0')}"
    if is_filled_directly(cluster):
        path = commands.path(data_fs(writable_node(cluster)))
        yield f"    {commands.zodbrepl('down')} && {DOWNGRADE} {path} NEW.fs"
    else:
        yield (
            f"    {commands.zodbrepl('convert', '--to', 'CLUSTER.conf')} into a cluster of backend "
            f"filestorage, then {DOWNGRADE} DATA.fs NEW.fs"
        )


def _echo(lines: Iterator[str]) -> None:
    for line in lines:
        click.echo(line)
