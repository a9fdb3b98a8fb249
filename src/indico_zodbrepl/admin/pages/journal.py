"""Every operation that there was."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from flask import Blueprint, Response, abort, render_template, request
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _

from indico_zodbrepl.admin import journal_cache, tails
from indico_zodbrepl.admin.access import Level
from indico_zodbrepl.admin.access.rules import person
from indico_zodbrepl.admin.filters import sentence
from indico_zodbrepl.admin.journal_filter import Selection, Wanted, choices, select
from indico_zodbrepl.admin.journal_form import FilterForm, name_of
from indico_zodbrepl.admin.opened import opened
from indico_zodbrepl.admin.progress import rows
from indico_zodbrepl.admin.site import here
from indico_zodbrepl.admin.timeline import bars
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.failover import journal, wording
from indico_zodbrepl.failover.endings import headline
from indico_zodbrepl.failover.operation import Operation

DOWNLOADS = 2
"""At once: each keeps one of the page's threads for as long as a slow reader takes."""
MOST_NOTICES = 20

blueprint = Blueprint("journal", __name__)
_downloads = threading.BoundedSemaphore(DOWNLOADS)


@blueprint.get("/journal")
def show() -> ResponseReturnValue:
    site = here()
    entries, notices = journal_cache.read(site.cluster)
    form = FilterForm(formdata=request.args)
    form.offer(choices(entries, [node.name for node in site.cluster.nodes]))
    valid = form.validate()
    found = select(entries, form.wanted(), form.page.data or 1) if valid else Selection(
        (), 1, 1, 0, {})
    asked = {name: value for name, value in request.args.items() if value and name != "page"}
    page = render_template(
        "journal.html", form=form, found=found, total=len(entries), notices=notices,
        most_notices=MOST_NOTICES, asked=asked, filtered=not valid or form.wanted() != Wanted(),
        wording=wording, name_of=name_of,
        command=Commands(site.cluster, site.home).zodbrepl("journal"))
    return page, 200 if valid else 400


@blueprint.get("/journal/<identifier>")
def entry(identifier: str) -> str:
    site = here()
    found, at_work = _present(_one(identifier))
    live: dict[str, Any] = {"layout": "base.html"}
    if found.outcome.is_open and site.watcher.latest() is not None:
        live = {"layout": "live.html", **site.context()}
    return render_template(
        "journal_entry.html", entry=found, at_work=at_work, headline=headline(found),
        name_of=name_of,
        rows=rows(found, at_work), bars=bars(found, time.time() if at_work else found.began),
        figures=list(wording.figures_in_words(found.figures)), wording=wording,
        tails=[(folder, tails.kept(site.cluster, folder)) for folder in tails.exported(found)],
        why_not_download=_why_not_download(),
        command=Commands(site.cluster, site.home).zodbrepl("journal", found.identifier), **live)


@blueprint.get("/journal/<identifier>/tail")
def tail(identifier: str) -> Response:
    """One of the operation's exported tails; the last one, unless ``name`` says which."""
    if _why_not_download():
        abort(403, _why_not_download())
    folder = _tail_of(_one(identifier), request.args.get("name"))
    if not _downloads.acquire(blocking=False):
        abort(503, _("Two tails are being downloaded already. Try again when one of them is done, "
                     "or copy the folder: %(folder)s", folder=folder))
    response = Response(tails.packed(folder), mimetype="application/zip")
    response.headers.set("Content-Disposition", "attachment", filename=f"{folder.name}.zip")
    response.call_on_close(_downloads.release)
    return response


def _one(identifier: str) -> Operation:
    entries, _notices = journal_cache.read(here().cluster)
    try:
        return journal.find(entries, identifier)
    except OperatorError as error:
        abort(404, f"{sentence(error.notice)}; {error.detail}.")


def _present(found: Operation) -> tuple[Operation, bool]:
    """An operation as it stands now, and whether it is at work; the journal has begin and end."""
    if not found.outcome.is_open:
        return found, False
    now = opened(here().cluster)
    if now.operation is None or now.operation.identifier != found.identifier:
        return found, False
    return now.operation, now.at_work


def _tail_of(found: Operation, name: str | None) -> Path:
    cluster = here().cluster
    folders = [folder for folder in tails.exported(found) if name in (None, folder.name)]
    if not folders:
        abort(404, _("Nothing of that name was exported by this operation."))
    if not tails.kept(cluster, folders[-1]):
        abort(404, _("What was exported is not there any more: %(folder)s", folder=folders[-1]))
    return folders[-1]


def _why_not_download() -> str:
    """Why the present request gets no tail, in one sentence; empty when it does.

    Not a matter of the read-only mode: a download changes nothing.  But a tail has what Indico
    protects, passwords among it.
    """
    found = person()
    if found is not None and found.level is Level.OPERATOR:
        return ""
    return _("Only operators download what was exported: it has everything that Indico protects.")
