"""Views of the database's backups: those of the journal, a new one, a preview of a restore."""

from __future__ import annotations

import time

from flask import Blueprint, render_template
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _
from flask_wtf import FlaskForm

from indico_zodbrepl.admin import visibility
from indico_zodbrepl.admin.access.gate import operator, why_not_operate
from indico_zodbrepl.admin.api import answers
from indico_zodbrepl.admin.api.exchange import of_operation, reply
from indico_zodbrepl.admin.api.openapi import describe
from indico_zodbrepl.admin.backup_view import Backups, backups
from indico_zodbrepl.admin.forms import BackupForm, RestoreForm
from indico_zodbrepl.admin.pages.data import begun
from indico_zodbrepl.admin.site import here
from indico_zodbrepl.admin.surveys import PATIENCE
from indico_zodbrepl.backends import limit
from indico_zodbrepl.cluster import backup_schedule
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.backup import BackupFolder
from indico_zodbrepl.host.interface import host_of
from indico_zodbrepl.operations.backup import folder_of
from indico_zodbrepl.probing.race import NoAnswer, within

MOST = 20
"""Backups that the page lists."""

blueprint = Blueprint("backups", __name__)


@blueprint.get("/data/backups")
def show() -> ResponseReturnValue:
    return _page(*_forms())


@blueprint.post("/data/backups")
@operator
def make() -> ResponseReturnValue:
    """Start a backup."""
    backup, restore = _forms()
    if not backup.validate_on_submit():
        return _page(backup, restore, backup), 400
    return begun("backup", backup.arguments())


@blueprint.post("/data/backups/preview")
@operator
def preview() -> ResponseReturnValue:
    """Start a restore that changes nothing: its job shows the findings and each step."""
    backup, restore = _forms()
    if not restore.validate_on_submit():
        return _page(backup, restore, restore), 400
    return begun("restore", restore.arguments())


@blueprint.get("/api/backups")
@describe(
    {200: (answers.BackupList, "The backups of the journal, newest first.")},
    {
        503: "The journal or the folder of backups cannot be read, or the folder does not answer "
        f"within {PATIENCE:g} seconds."
    },
)
def list_backups() -> ResponseReturnValue:
    """List the backups that this cluster made."""
    cluster = here().cluster
    try:
        found = _found(cluster, _folder(cluster))
    except OperatorError as error:
        return of_operation(error)
    schedule, due = _schedule(cluster)
    return reply(
        answers.BackupList(found.made, found.pause, limit(cluster, "backup") or "", schedule, due)
    )


def _schedule(cluster: Cluster) -> tuple[str, float | None]:
    """Return when a backup starts each day, and when the next one does; empty and None without."""
    at = cluster.backup_time
    if at is None:
        return "", None
    return backup_schedule.shown(at), backup_schedule.due_after(at, time.time())


def _page(backup: BackupForm, restore: RestoreForm, wrong: FlaskForm | None = None) -> str:
    site = here()
    folder = _folder(site.cluster)
    problem, found = None, None
    try:
        found = _found(site.cluster, folder)
    except OperatorError as error:
        problem = error
    commands = Commands(site.cluster, site.home)
    schedule, due = _schedule(site.cluster)
    return render_template(
        "data_backups.html",
        form=wrong,
        backup=backup,
        restore=restore,
        found=found,
        problem=problem,
        folder=folder,
        limit=limit(site.cluster, "backup"),
        why_not=why_not_operate(),
        age=None if found is None or found.last is None else time.time() - found.last.at,
        running=site.jobs.running("backup") or site.jobs.running("restore"),
        most=MOST,
        schedule=schedule,
        due=due,
        late=bool(schedule)
        and found is not None
        and found.last is not None
        and backup_schedule.is_late(found.last.at, time.time()),
        host=site.cluster.backup_host,
        timer=backup_schedule.unit(site.cluster, "timer"),
        command=commands.zodbrepl("backup"),
        restoring=commands.zodbrepl("restore"),
        source=site.cluster.source,
    )


def _forms() -> tuple[BackupForm, RestoreForm]:
    forms = BackupForm(), RestoreForm(prefix="restore-")
    for form in forms:
        form.offer([node.name for node in here().cluster.nodes])
    return forms


def _folder(cluster: Cluster) -> BackupFolder | None:
    return None if cluster.backup_directory is None else folder_of(cluster, None)


def _found(cluster: Cluster, folder: BackupFolder | None) -> Backups:
    """Return the backups.  Raises OperatorError.

    A folder of another host is not looked into: that could take long.
    """
    names = None
    if folder is not None and folder.host in ("", cluster.here) and not limit(cluster, "backup"):
        names = _names(cluster, folder)
    entries, _notices = visibility.journal(cluster)
    return backups(entries, str(folder), names)


def _names(cluster: Cluster, folder: BackupFolder) -> set[str]:
    """Return the names of the backups in a folder of this host.

    Raises OperatorError: it cannot be read, or does not answer, as on a dead mount.
    """
    try:
        series = within(
            PATIENCE, "backups", str(folder), lambda: host_of(cluster).backups().series(folder)
        )
    except NoAnswer:
        raise OperatorError(
            _("the folder of backups does not answer"),
            _(
                "%(folder)s: nothing within %(seconds)s seconds; its file server may hang",
                folder=folder,
                seconds=f"{PATIENCE:g}",
            ),
            _("check its mount, then reload the page: `ls %(path)s`", path=folder.path),
        ) from None
    return {name for each in series for name in each.names}
