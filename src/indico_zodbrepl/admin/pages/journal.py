"""Views of all operations of the journal."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from typing import Any

from flask import Blueprint, Response, abort, render_template, request
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _

from indico_zodbrepl.admin import exports, visibility
from indico_zodbrepl.admin.access.gate import actor, why_not_see_contents
from indico_zodbrepl.admin.filters import sentence
from indico_zodbrepl.admin.journal_view import (
    FilterForm,
    Selection,
    Wanted,
    choices,
    name_of,
    select,
)
from indico_zodbrepl.admin.operation_view import bars, opened, rows
from indico_zodbrepl.admin.site import here
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.exports_interface import RecoveryExport
from indico_zodbrepl.host.interface import host_of
from indico_zodbrepl.operations import journal, messages, recover
from indico_zodbrepl.operations.messages import headline
from indico_zodbrepl.operations.operation import Operation
from indico_zodbrepl.operations.outages import by_operation

DOWNLOADS = 2
"""Simultaneous downloads; each occupies one of the page's threads."""
MOST_NOTICES = 20

blueprint = Blueprint("journal", __name__)
_downloads = threading.BoundedSemaphore(DOWNLOADS)


@blueprint.get("/journal")
def show() -> ResponseReturnValue:
    site = here()
    entries, notices = visibility.journal(site.cluster)
    form = FilterForm(formdata=request.args)
    form.offer(choices(entries, [node.name for node in site.cluster.nodes]))
    valid = form.validate()
    found = (
        select(entries, form.wanted(), form.page.data or 1) if valid else Selection((), 1, 1, 0, {})
    )
    asked = {name: value for name, value in request.args.items() if value and name != "page"}
    page = render_template(
        "journal.html",
        form=form,
        found=found,
        total=len(entries),
        notices=notices,
        most_notices=MOST_NOTICES,
        asked=asked,
        filtered=not valid or form.wanted() != Wanted(),
        outages=by_operation(entries),
        wording=messages,
        name_of=name_of,
        command=Commands(site.cluster, site.home).zodbrepl("journal"),
    )
    return page, 200 if valid else 400


@blueprint.get("/journal/<identifier>")
def entry(identifier: str) -> str:
    site = here()
    entries, _notices = visibility.journal(site.cluster)
    found, at_work = _present(_one(entries, identifier))
    live: dict[str, Any] = {"layout": "base.html"}
    if found.outcome.is_open and site.watcher.latest() is not None:
        live = {"layout": "live.html", **site.context()}
    return render_template(
        "journal_entry.html",
        entry=found,
        outage=by_operation(entries).get(found.identifier),
        at_work=at_work,
        headline=headline(found),
        name_of=name_of,
        rows=rows(found, at_work),
        bars=bars(found, time.time() if at_work else found.began),
        figures=list(messages.figures_in_words(found.figures)),
        wording=messages,
        exports=exports.of_operation(site.cluster, found),
        command=Commands(site.cluster, site.home).zodbrepl("journal", found.identifier),
        **live,
    )


@blueprint.post("/journal/<identifier>/tail")
def tail(identifier: str) -> Response:
    """Download a recovery export of the operation, once the journal says so.

    The export is ``name``, or the last one.  Read-only mode does not matter.
    """
    if why_not_see_contents():
        abort(403, why_not_see_contents())
    entries, _notices = visibility.journal(here().cluster)
    export = _export_of(_one(entries, identifier), request.args.get("name"))
    if not _downloads.acquire(blocking=False):
        abort(
            503,
            _(
                "Two exports are being downloaded. Retry when one of them has ended, or copy the "
                "folder: %(folder)s",
                folder=export.folder,
            ),
        )
    with contextlib.ExitStack() as failed:
        failed.callback(_downloads.release)
        packed = host_of(here().cluster).packed_export(export)
        journal.note(here().cluster, recover.DOWNLOADED, export.name, "", actor())
        response = Response(packed, mimetype="application/zip")
        response.headers.set("Content-Disposition", "attachment", filename=f"{export.name}.zip")
        response.call_on_close(failed.pop_all().close)
        return response


def _one(entries: Sequence[Operation], identifier: str) -> Operation:
    try:
        return journal.find(entries, identifier)
    except OperatorError as error:
        abort(404, f"{sentence(error.notice)}; {error.detail}.")


def _present(found: Operation) -> tuple[Operation, bool]:
    """Return the present state of an operation, and True if it is running."""
    if not found.outcome.is_open:
        return found, False
    now = opened(here().cluster)
    if now.operation is None or now.operation.identifier != found.identifier:
        return found, False
    return visibility.operation(now.operation), now.at_work


def _export_of(found: Operation, name: str | None) -> RecoveryExport:
    made = exports.of_operation(here().cluster, found)
    named = [each for each in made if name in (None, each[0].name)]
    if not named:
        abort(404, _("This operation made no export of that name."))
    folder, export = named[-1]
    if export is None:
        abort(404, _("The export has been removed: %(folder)s", folder=folder))
    return export
